// Which keys dynamic mask attention keeps, on the CPU; see masked.hpp.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/cpu/view_rows.hpp"
#include "kernels/masked.hpp"

namespace cplab::kernels {
namespace {

constexpr double bias_of_masked = -std::numeric_limits<double>::infinity();

// 1 or 0, by key.
std::vector<double> selected(const SelectKeys& call, const std::vector<double>& biases) {
  const auto n = std::ssize(biases);
  std::vector<double> kept(biases.size());
  if (call.rule == SelectKeys::Rule::relu) {
    std::transform(biases.begin(), biases.end(), kept.begin(), [](double bias) { return bias > 0 ? 1 : 0; });
  } else if (call.top_k >= n) {
    return std::vector<double>(biases.size(), 1);
  } else {
    const auto before = [&](std::size_t a, std::size_t b) {
      const bool nan_a = std::isnan(biases[a]), nan_b = std::isnan(biases[b]);
      if (nan_a != nan_b) return nan_a;
      return nan_a || biases[a] == biases[b] ? a < b : biases[a] > biases[b];
    };
    std::vector<std::size_t> order(biases.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::nth_element(order.begin(), order.begin() + call.top_k, order.end(), before);
    for (auto key = order.begin(); key != order.begin() + call.top_k; ++key)
      kept[*key] = biases[*key] == bias_of_masked ? 0 : 1;
  }
  for (std::int64_t first = 0; call.block > 1 && first < n; first += call.block) {
    const std::int64_t count = std::min(n - first, call.block);
    const auto begin = kept.begin() + first;
    std::fill_n(begin, count, 2 * std::count(begin, begin + count, 1.0) > count ? 1 : 0);
  }
  return kept;
}

}  // namespace

void select_keys_cpu(const SelectKeys& call) {
  check_call(call);
  const ViewRows bias(call.bias), keep(call.keep);
  std::vector<double> row(static_cast<std::size_t>(call.full ? call.bias.width : call.keys));
  for (std::int64_t h = 0; h < call.bias.heads; ++h) {
    if (!call.full) {
      for (std::int64_t j = 0; j < call.keys; ++j)
        row[static_cast<std::size_t>(j)] = bias.load_first<double>(j, h);
      const std::vector<double> kept = selected(call, row);
      for (std::int64_t j = 0; j < call.keys; ++j) keep.store_first(j, h, kept[static_cast<std::size_t>(j)]);
      continue;
    }
    for (std::int64_t i = 0; i < call.bias.rows; ++i) {
      row.resize(static_cast<std::size_t>(call.bias.width));
      bias.load(i, h, row.data());
      row.resize(static_cast<std::size_t>(call.keys));
      std::vector<double> kept = selected(call, row);
      kept.resize(static_cast<std::size_t>(call.bias.width), 0);
      keep.store(i, h, kept.data());
    }
  }
}

}  // namespace cplab::kernels
