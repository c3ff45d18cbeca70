// Bugs that really shipped, as mutations of a right plan or as substitute CPU tiles. The checker and the
// comparison never learn that one was injected.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plan/finding.hpp"
#include "plan/plan.hpp"

namespace cplab {

enum class FaultForm : std::uint8_t { mutation, substitute, identity };
std::string_view name(FaultForm);

struct Fault {
  std::string_view name;
  FaultForm form = FaultForm::mutation;
  std::string_view help;                    // one line with the source
  std::string_view scenario;                // relative to scenarios/
  std::vector<std::string_view> devices;    // where it can be injected: "cpu", "gpu"
  std::optional<ExpectedFinding> expected;  // none: results stay right (identity, blocking-shift)
  // mutation: changes the plan in place. Throws ScenarioError if the plan has no place for this fault.
  void (*mutate)(Plan&) = nullptr;
  // substitute: the name to ask kernels::faulty_cpu_tiles or faulty_cpu_linear_tiles for is `name`.
};

std::span<const Fault> faults();
const Fault* find_fault(std::string_view name);

}  // namespace cplab
