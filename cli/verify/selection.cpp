// Selection of keys by their biases; see selection.hpp. The reference selects on its own.
#include "cli/verify/selection.hpp"

#include <cmath>
#include <cstddef>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "calls/selection.hpp"
#include "kernels/masked.hpp"

namespace cplab {
namespace {

kernels::View view_of(std::vector<double>& values, std::int64_t first, std::int64_t rows, std::int64_t heads,
                      std::int64_t width) {
  return kernels::rows_first(values.data() + first * heads * width, kernels::DType::fp64, rows, heads, width);
}

}  // namespace

void add_selection(const Problem& p, Inputs& inputs) {
  if (p.keep == Keep::none) return;
  Tensor& bias = inputs["bias"];
  Tensor keep{bias.shape, std::vector<double>(bias.values.size(), 0)};
  kernels::SelectKeys call = selection_call(p);
  const std::int64_t heads = call.full ? p.heads : p.kv_heads, columns = call.full ? p.pair_columns() : 1;
  std::int64_t first = 0;
  for (std::size_t b = 0; b < p.lengths.size(); first += p.padded_lengths[b++]) {
    call.keys = p.lengths[b];
    if (call.keys == 0) continue;
    call.bias = view_of(bias.values, first, call.keys, heads, columns);
    call.keep = view_of(keep.values, first, call.keys, heads, columns);
    kernels::select_keys_cpu(call);
  }
  inputs.add("keep", std::move(keep));
}

void select_keys_on_gpus(const Plan& plan, const Inputs* inputs, std::uint64_t seed, GpuExecutor& executor) {
  const Problem& p = plan.scenario.problem;
  if (p.keep == Keep::none) return;
  KeySelection selection;
  for (const RankPlan& rank : plan.ranks) {
    std::vector<KeySelection::Row>& rows = selection.rows.emplace_back();
    for (const LocalRow& row : local_rows(plan.scenario, rank.replica, rank.position))
      rows.push_back({row.valid ? row.sequence : -1, row.token});
  }
  if (p.bias == BiasForm::keys && inputs != nullptr) selection.biases = (*inputs)["bias"].values;
  const bool random = p.bias == BiasForm::keys && inputs == nullptr;
  const std::int64_t tokens =
      std::accumulate(p.padded_lengths.begin(), p.padded_lengths.end(), std::int64_t{0});
  std::mt19937_64 generator(seed);
  for (std::int64_t n = 0; random && n < tokens * p.kv_heads; ++n)
    selection.biases.push_back(std::ldexp(static_cast<double>(generator() >> 11), -52) - 1);
  executor.select_keys(selection);
}

}  // namespace cplab
