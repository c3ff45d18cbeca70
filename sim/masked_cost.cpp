// Cells and bytes of dynamic mask attention; see masked_cost.hpp.
#include "sim/masked_cost.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <variant>

#include "kernels/families/masked/variants.hpp"
#include "plan/live_pairs.hpp"
#include "plan/plan.hpp"

namespace cplab {
namespace {

constexpr double cell_keys = kernels::cuda::cell_rows, cell_queries = kernels::cuda::cell_rows;

// P(Binomial(n, p) > n / 2).
double more_than_half(std::int64_t n, double p) {
  if (p <= 0 || p >= 1) return p;
  double sum = 0;
  for (std::int64_t k = n / 2 + 1; k <= n; ++k) {
    const auto of = static_cast<double>(n), kept = static_cast<double>(k);
    sum += std::exp(std::lgamma(of + 1) - std::lgamma(kept + 1) - std::lgamma(of - kept + 1) +
                    kept * std::log(p) + (of - kept) * std::log1p(-p));
  }
  return std::min(sum, 1.0);
}

double bytes_of(const std::optional<kernels::View>& view) {
  return view ? static_cast<double>(kernels::bytes_of(view->dtype)) : 0;
}

// Pairs that the segments show, of all query heads.
template <class Call>
double pairs_of(const Call& call) {
  double pairs = 0;
  for (const kernels::Segment& s : call.tile.segments)
    pairs += live_pairs(Segment{s.q_begin, s.q_count, s.k_begin, s.k_count, s.offset, s.left, s.right});
  return pairs * static_cast<double>(call.tile.q.heads);
}

template <class Call>
double scan_bytes(const Call& call) {
  return static_cast<double>(kernels::cuda::scanned_numbers(call)) * bytes_of(call.mask.keep);
}

struct Bytes {
  double kept_cells;

  double operator()(const kernels::MaskedAttend& call) const {
    const double scan = scan_bytes(call);
    if (call.mask.columns.empty()) return scan;
    return scan + kept_cells * pairs_of(call) * (bytes_of(call.mask.bias) + bytes_of(call.mask.keep));
  }
  double operator()(const kernels::MaskedAttendBackward& call) const {
    const double scan = scan_bytes(call);
    if (call.mask.columns.empty()) return scan;
    const double read = 2 * (bytes_of(call.mask.bias) + bytes_of(call.mask.keep));
    const double number = bytes_of(call.dbias);
    const bool adds = call.write_dbias == kernels::Write::add;
    double filled = 0;
    if (call.dbias && !adds)
      filled = static_cast<double>(call.dbias->rows * call.dbias->heads * call.dbias->width) * number;
    return scan + filled + kept_cells * pairs_of(call) * (read + (adds ? 2 : 1) * number);
  }
  template <class Other>
  double operator()(const Other&) const {
    return 0;
  }
};

}  // namespace

double expected_kept_cells(const Problem& p) {
  if (p.keep == Keep::none) return 1;
  const std::int64_t n = p.lengths.empty() ? 0 : *std::max_element(p.lengths.begin(), p.lengths.end());
  if (p.keep == Keep::top_k && p.top_k >= n) return 1;
  double share = p.keep == Keep::top_k ? static_cast<double>(p.top_k) / static_cast<double>(n) : 0.5;
  const auto group = static_cast<double>(std::max<std::int64_t>(p.block, 1));
  if (p.block > 1) share = more_than_half(p.block, share);
  const double rows = p.bias == BiasForm::full ? cell_queries : 1;
  return -std::expm1(rows * std::max(cell_keys / group, 1.0) * std::log1p(-std::min(share, 1 - 1e-16)));
}

double masked_bytes(const KernelCall& call, double kept_cells) {
  return std::visit(Bytes{kept_cells}, call);
}

void add_mask(const Problem& problem, const KernelCall& call, double copy_bytes_s, KernelCost& cost) {
  const double kept = expected_kept_cells(problem);
  cost.seconds = cost.seconds * kept + masked_bytes(call, kept) / copy_bytes_s;
  cost.persistent = false;
  constexpr std::int64_t measured_head_size = 128;
  // Positions were never timed.
  const bool like_record =
      problem.keep == Keep::none && !problem.places_bias() && problem.head_size == measured_head_size;
  cost.origin = worst(cost.origin, like_record ? Origin::extrapolated : Origin::assumed);
}

}  // namespace cplab
