// All attention kernels of this build, the preferred ones first.
#include "kernels/cuda/variants.hpp"

#include <vector>

#include "kernels/cuda/attend_general.hpp"
#include "kernels/cuda/attend_mma.hpp"

namespace cplab::kernels::cuda {
namespace {

template <class Variant>
std::vector<Variant> joined(std::span<const Variant> preferred, std::span<const Variant> general) {
  std::vector<Variant> all(preferred.begin(), preferred.end());
  all.insert(all.end(), general.begin(), general.end());
  return all;
}

}  // namespace

std::span<const AttendVariant> attend_variants() {
  static const std::vector<AttendVariant> variants = joined(attend_mma_variants(), attend_general_variants());
  return variants;
}

std::span<const AttendBackwardVariant> attend_backward_variants() {
  static const std::vector<AttendBackwardVariant> variants =
      joined(attend_backward_mma_variants(), attend_backward_general_variants());
  return variants;
}

}  // namespace cplab::kernels::cuda
