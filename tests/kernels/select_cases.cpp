// Selections of keys for any device, against counting which keys come before each.
#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "tests/kernels/masked_cases.hpp"

namespace cplab::testing {
namespace {

using kernels::SelectKeys;

// Few different numbers, so that there are ties, or many; those of the first kind in both signs of 0, -inf
// and NaN too.
std::vector<double> random_biases(std::mt19937& g, std::int64_t count) {
  const double few[] = {-1, -0.0, 0.0, 0.5, -infinity, 2, nan};
  const std::int64_t kind = draw(g, 0, 3);
  std::uniform_real_distribution<double> many(-2, 2);
  std::vector<double> biases;
  for (std::int64_t n = 0; n < count; ++n)
    biases.push_back(kind == 0 ? few[draw(g, 0, 6)] : kind == 1 ? few[draw(g, 1, 2)] : many(g));
  return biases;
}

bool comes_before(const std::vector<double>& biases, std::size_t a, std::size_t b) {
  const double x = std::isnan(biases[a]) ? infinity : biases[a],
               y = std::isnan(biases[b]) ? infinity : biases[b];
  return x > y || (x == y && a < b);
}

std::vector<double> right_selection(const SelectKeys& call, const std::vector<double>& biases) {
  const std::size_t n = biases.size();
  std::vector<double> kept(n);
  const bool top_k = call.rule == SelectKeys::Rule::top_k;
  if (top_k && call.top_k >= static_cast<std::int64_t>(n)) return std::vector<double>(n, 1);
  for (std::size_t j = 0; j < n; ++j) {
    std::int64_t before = 0;
    for (std::size_t i = 0; i < n && top_k; ++i) before += comes_before(biases, i, j);
    kept[j] = top_k ? before < call.top_k && biases[j] != -infinity : biases[j] > 0;
  }
  const std::vector<double> single = kept;
  for (std::size_t j = 0; j < n && call.block > 1; ++j) {
    const auto block = static_cast<std::size_t>(call.block), first = j / block * block,
               size = std::min(block, n - first);
    double of_group = 0;
    for (std::size_t i = first; i < first + size; ++i) of_group += single[i];
    kept[j] = of_group > static_cast<double>(size) / 2;
  }
  return kept;
}

}  // namespace

void select_case(Report& report, const CaseName& name, const MaskedRunner& runner) {
  std::mt19937 g(static_cast<unsigned>(name.seed * 9176263 + static_cast<std::uint64_t>(name.number)));
  const DType dtype = all_dtypes[draw(g, 0, 3)];
  SelectKeys call;
  call.full = draw(g, 0, 1) == 0;
  call.keys = draw(g, 1, name.number % 4 == 0 ? 4 * runner.most_rows : runner.most_rows);
  call.rule = draw(g, 0, 3) == 0 ? SelectKeys::Rule::relu : SelectKeys::Rule::top_k;
  call.top_k = draw(g, 0, draw(g, 0, 3) == 0 ? call.keys + 1 : call.keys / 2);
  call.block = draw(g, 0, 1) == 0 ? 0 : draw(g, 1, 80);
  const std::int64_t heads = draw(g, 1, 3), rows = call.full ? draw(g, 1, 4) : call.keys,
                     width = call.full ? call.keys + draw(g, 0, 20) : 1;
  Tensor bias = random_tensor(g, dtype, rows, heads, width, random_biases(g, rows * heads * width));
  Tensor keep = random_tensor(g, draw(g, 0, 1) == 0 ? dtype : DType::bf16, rows, heads, width);
  call.bias = bias.view();
  call.keep = keep.view();
  const std::vector<std::byte> before = bias.memory();
  Tensor* const tensors[] = {&bias, &keep};
  const TileRun run = runner.select(tensors, draw(g, 0, 7), call);

  bool right = true;
  for (std::int64_t h = 0; h < heads; ++h)
    for (std::int64_t r = 0; r < (call.full ? rows : 1); ++r) {
      std::vector<double> biases;
      for (std::int64_t j = 0; j < call.keys; ++j)
        biases.push_back(call.full ? bias.at(r, h, j) : bias.at(j, h));
      std::vector<double> kept = right_selection(call, biases);
      if (call.full) kept.resize(static_cast<std::size_t>(width), 0);
      for (std::int64_t j = 0; j < std::ssize(kept); ++j)
        right = right && (call.full ? keep.at(r, h, j) : keep.at(j, h)) == kept[static_cast<std::size_t>(j)];
    }
  const std::string where = "--seed " + std::to_string(name.seed) + " --case " + std::to_string(name.number) +
                            ", " + name_of(dtype) + (call.full ? ", full, " : ", keys, ") +
                            std::to_string(call.keys) + " keys, top " + std::to_string(call.top_k) +
                            ", block " + std::to_string(call.block) +
                            (call.rule == SelectKeys::Rule::relu ? ", relu" : "");
  report.holds(run.variant, where, "other keys were selected", right);
  report.holds(run.variant, where, "two runs differ", run.repeatable);
  report.holds(run.variant, where, "the biases were changed", bias.memory() == before);
  report.holds(run.variant, where, "memory between the rows was touched", keep.touched_gap().empty());
}

}  // namespace cplab::testing
