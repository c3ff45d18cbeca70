// CPU tiles with bugs that shipped elsewhere, for `verify --inject`. Each table is the correct one with the
// entries that merge replaced; everything around the merge, guards for -inf included, stays right, so that a
// finding has exactly one cause.
#include <cmath>
#include <string_view>

#include "kernels/cpu/merge_rule.hpp"
#include "kernels/kernels.hpp"

namespace cplab::kernels {
namespace {

// exp(b - a) is infinite for b - a > 88.7 in fp32 (709.8 in fp64), and so is the result; both weights
// exp(x - lse) are then 0 and the row is lost.
template <class T>
T naive_lse(T a, T b) {
  return a + std::log(T{1} + std::exp(b - a));
}

const MergeRule& naive_merge() {
  static const MergeRule rule = {.lse_fp32 = naive_lse<float>, .lse_fp64 = naive_lse<double>};
  return rule;
}

const MergeRule& nominal_accumulator() {
  static const MergeRule rule = [] {
    MergeRule changed = careful_merge();
    changed.round_to_nominal = true;
    return changed;
  }();
  return rule;
}

// The correct table with its merging entries under another rule.
template <const MergeRule& (*rule)()>
const Tiles& tiles_with() {
  static const Tiles tiles = [] {
    Tiles changed = cpu_tiles();
    changed.attend = [](const Attend& operation) { attend_with(rule(), operation); };
    changed.merge = [](const Merge& operation) { merge_with(rule(), operation); };
    changed.merge_lse = [](const MergeLse& operation) { merge_lse_with(rule(), operation); };
    return changed;
  }();
  return tiles;
}

}  // namespace

const Tiles* faulty_cpu_tiles(const char* name) {
  const std::string_view fault = name == nullptr ? "" : name;
  if (fault == "naive-merge") return &tiles_with<naive_merge>();
  if (fault == "nominal-accumulator") return &tiles_with<nominal_accumulator>();
  return nullptr;
}

}  // namespace cplab::kernels
