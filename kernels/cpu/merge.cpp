// Softmax merges of partial results: merge, merge_lse and rescale.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "kernels/call_checks.hpp"
#include "kernels/cpu/cpu_tiles.hpp"
#include "kernels/cpu/merge_rule.hpp"
#include "kernels/cpu/view_rows.hpp"
#include "kernels/kernels.hpp"

namespace cplab::kernels {
namespace {

template <class T>
constexpr T minus_infinity = -std::numeric_limits<T>::infinity();

// Comparisons are written so that a NaN on either side comes out as NaN: a poisoned LSE must show.
template <class T>
T careful_lse(T a, T b) {
  const T high = a < b ? b : a;
  const T low = a < b ? a : b;
  return high + std::log1p(std::exp(low - high));
}

template <class T>
void merge_rows(const MergeRule& rule, const Merge& operation) {
  const ViewRows part_out(operation.part_out);
  const ViewRows part_lse(operation.part_lse);
  const ViewRows into_out(operation.into_out);
  const ViewRows into_lse(operation.into_lse);
  std::vector<T> row_out(static_cast<std::size_t>(into_out.width()));
  std::vector<T> scratch(row_out.size());
  for (std::int64_t row = 0; row < operation.into_out.rows; ++row) {
    for (std::int64_t head = 0; head < operation.into_out.heads; ++head) {
      const T part = part_lse.load_first<T>(row, head);
      if (part != minus_infinity<T>) {
        part_out.load(row, head, row_out.data());
        merge_row(rule, operation.part_out.dtype, row_out.data(), part, into_out, into_lse, row, head,
                  scratch.data());
      } else if (into_lse.load_first<T>(row, head) == minus_infinity<T>) {
        // No key was seen on either side: what out holds is not a result yet.
        std::fill(row_out.begin(), row_out.end(), T{0});
        into_out.store(row, head, row_out.data());
      }
    }
  }
}

template <class T>
void merge_lse_rows(const MergeRule& rule, const MergeLse& operation) {
  const ViewRows part_lse(operation.part_lse);
  const ViewRows into_lse(operation.into_lse);
  for (std::int64_t row = 0; row < operation.into_lse.rows; ++row) {
    for (std::int64_t head = 0; head < operation.into_lse.heads; ++head) {
      const T part = part_lse.load_first<T>(row, head);
      if (part == minus_infinity<T>) continue;
      const T held = into_lse.load_first<T>(row, head);
      into_lse.store_first(row, head, held == minus_infinity<T> ? part : rule.lse(held, part));
    }
  }
}

template <class T>
void rescale_rows(const Rescale& operation) {
  const ViewRows part_out(operation.part_out);
  const ViewRows part_lse(operation.part_lse);
  const ViewRows final_lse(operation.final_lse);
  const ViewRows into(operation.into_out);
  const bool add = operation.write == Write::add;
  std::vector<T> sum(static_cast<std::size_t>(into.width()));
  std::vector<T> part(sum.size());
  for (std::int64_t row = 0; row < operation.into_out.rows; ++row) {
    for (std::int64_t head = 0; head < operation.into_out.heads; ++head) {
      const T lse = part_lse.load_first<T>(row, head);
      const bool empty = lse == minus_infinity<T>;
      if (empty && add) continue;
      std::fill(sum.begin(), sum.end(), T{0});
      if (add) into.load(row, head, sum.data());
      if (!empty) {
        const T weight = std::exp(lse - final_lse.load_first<T>(row, head));
        part_out.load(row, head, part.data());
        for (std::size_t x = 0; x < sum.size(); ++x) sum[x] += part[x] * weight;
      }
      into.store(row, head, sum.data());
    }
  }
}

}  // namespace

const MergeRule& careful_merge() {
  static const MergeRule rule = {.lse_fp32 = careful_lse<float>, .lse_fp64 = careful_lse<double>};
  return rule;
}

template <class T>
void merge_row(const MergeRule& rule, DType nominal, T* row_out, T part_lse, const ViewRows& into_out,
               const ViewRows& into_lse, std::int64_t row, std::int64_t head, T* scratch) {
  const T held = into_lse.load_first<T>(row, head);
  T merged = part_lse;
  if (held != minus_infinity<T>) {
    merged = rule.lse(held, part_lse);
    const T held_weight = std::exp(held - merged);
    const T part_weight = std::exp(part_lse - merged);
    into_out.load(row, head, scratch);
    for (std::int64_t x = 0; x < into_out.width(); ++x)
      row_out[x] = scratch[x] * held_weight + row_out[x] * part_weight;
  }
  if (rule.round_to_nominal) round_elements(row_out, into_out.width(), nominal);
  into_out.store(row, head, row_out);
  into_lse.store_first(row, head, merged);
}

template void merge_row(const MergeRule&, DType, float*, float, const ViewRows&, const ViewRows&,
                        std::int64_t, std::int64_t, float*);
template void merge_row(const MergeRule&, DType, double*, double, const ViewRows&, const ViewRows&,
                        std::int64_t, std::int64_t, double*);

void merge_with(const MergeRule& rule, const Merge& operation) {
  check_call(operation);
  const bool wide = is_fp64(operation.part_out) || is_fp64(operation.part_lse) ||
                    is_fp64(operation.into_out) || is_fp64(operation.into_lse);
  wide ? merge_rows<double>(rule, operation) : merge_rows<float>(rule, operation);
}

void merge_lse_with(const MergeRule& rule, const MergeLse& operation) {
  check_call(operation);
  const bool wide = is_fp64(operation.part_lse) || is_fp64(operation.into_lse);
  wide ? merge_lse_rows<double>(rule, operation) : merge_lse_rows<float>(rule, operation);
}

void rescale_cpu(const Rescale& operation) {
  check_call(operation);
  const bool wide = is_fp64(operation.part_out) || is_fp64(operation.part_lse) ||
                    is_fp64(operation.final_lse) || is_fp64(operation.into_out);
  wide ? rescale_rows<double>(operation) : rescale_rows<float>(operation);
}

}  // namespace cplab::kernels
