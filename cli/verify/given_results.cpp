// See given_results.hpp.
#include "cli/verify/given_results.hpp"

#include <algorithm>
#include <stdexcept>

namespace cplab {

bool GivenResults::has(int, std::string_view buffer) const {
  return std::ranges::any_of(tensors_of(plan_.scenario.problem, Category::output),
                             [&](const ProblemTensor& tensor) { return tensor.buffer == buffer; });
}

void GivenResults::write(int, std::string_view, std::span<const double>) {
  throw std::logic_error("given results are read alone");
}

std::vector<double> GivenResults::read(int rank, std::string_view buffer) const {
  const RankPlan& of = plan_.ranks.at(static_cast<std::size_t>(rank));
  return local_values(plan_.scenario, of, buffer, Category::output, outputs_);
}

ExecutionResult GivenResults::run() {
  throw std::logic_error("given results are read alone");
}

}  // namespace cplab
