// See kernel_notes.hpp.
#include "cli/kernel_notes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "cli/files/hardware_file.hpp"
#include "cli/files/toml_table.hpp"
#include "cli/prediction.hpp"
#include "kernels/choice/fall_back.hpp"
#include "report/variants.hpp"
#include "sim/kernel_variants.hpp"

namespace cplab {
namespace {

namespace cuda = kernels::cuda;

// So many that it takes no longer than the proof.
constexpr std::size_t most_ranks_asked = 16;

Hardware some_hopper() {
  Hardware hardware;
  hardware.gpu.sms = 132;
  hardware.gpu.sm_major = 9;
  return hardware;
}

Hardware machine_asked(const ScenarioFile& file) {
  if (file.hardware.empty()) return some_hopper();
  try {
    return machine_of(file);
  } catch (const InputError&) {  // simulate says what is wrong with it
    return some_hopper();
  }
}

// From the call that loses least to the one that loses most: "about 130 to 480 times slower for a FLOP".
std::string slower_text(bool forward, const cuda::KernelBuild& build) {
  double least = 0, most = 0;
  for (const std::int64_t size : {std::int64_t{32}, std::int64_t{96}, std::int64_t{256}, std::int64_t{512}}) {
    const double times_slower = cuda::on_tensor_cores(forward, build, size).times_slower;
    if (times_slower == 0) return {};
    least = least == 0 ? times_slower : std::min(least, times_slower);
    most = std::max(most, times_slower);
  }
  const auto tens = [](double number) { return static_cast<int>(number / 10 + 0.5) * 10; };
  return fmt::format("about {} to {} times slower for a FLOP", tens(least), tens(most));
}

std::string sizes_note(const char* kind, bool forward, const cuda::KernelBuild& build) {
  const cuda::OnTensorCores found = cuda::on_tensor_cores(forward, build, 32);
  return fmt::format(
      "{}: kernels on tensor cores have head sizes {}, in bf16 and fp16; all others, and fp32, take the "
      "general kernel, {}",
      kind, cuda::sizes_text(found.sizes, found.padded_up_to), slower_text(forward, build));
}

}  // namespace

std::vector<std::string> kernel_notes(const ScenarioFile& file, const Plan& plan) {
  Hardware hardware = machine_asked(file);
  hardware.choice = choice_of_run(file);
  Plan first;
  first.scenario = plan.scenario;
  first.groups = plan.groups;
  const std::size_t ranks = std::min(plan.ranks.size(), most_ranks_asked);
  first.ranks.assign(plan.ranks.begin(), plan.ranks.begin() + static_cast<std::ptrdiff_t>(ranks));
  Timeline timeline;
  for (const RankPlan& rank : first.ranks) timeline.ranks.emplace_back(rank.operations.size());
  const std::string where =
      fmt::format("run on a GPU of compute capability {}.{}", hardware.gpu.sm_major, hardware.gpu.sm_minor);
  try {
    name_kernel_variants(first, hardware, timeline);
  } catch (const HardwareError& error) {
    return {where + ": " + error.what()};
  }
  std::vector<std::string> notes = fall_back_notes(first, timeline);
  for (std::string& note : notes) {
    note.insert(0, where + ": ");
    if (ranks < plan.ranks.size()) note += fmt::format(" (of ranks 0 to {})", ranks - 1);
  }
  return notes;
}

std::vector<std::string> head_size_notes(const cuda::KernelBuild& build) {
  std::vector<std::string> notes{sizes_note("attend", true, build),
                                 sizes_note("attend_backward", false, build)};
  notes.emplace_back(build.full
                         ? "fp64: the general kernels alone"
                         : "fp64: no kernel in this build, which -D CPLAB_KERNELS=full adds; run refuses it");
  return notes;
}

}  // namespace cplab
