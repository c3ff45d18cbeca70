// All attention kernels of this build, the preferred ones first.
#include "kernels/cuda/variants.hpp"

#include <initializer_list>
#include <vector>

#include "kernels/cuda/attend_general.hpp"
#include "kernels/cuda/attend_mma.hpp"
#include "kernels/cuda/hopper/attend_hopper.hpp"

namespace cplab::kernels::cuda {
namespace {

template <class Variant>
std::vector<Variant> joined(std::initializer_list<std::span<const Variant>> lists) {
  std::vector<Variant> all;
  for (const std::span<const Variant> list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

}  // namespace

std::span<const AttendVariant> attend_variants() {
  static const std::vector<AttendVariant> variants =
      joined<AttendVariant>({attend_hopper_variants(), attend_mma_variants(), attend_general_variants()});
  return variants;
}

std::span<const AttendBackwardVariant> attend_backward_variants() {
  static const std::vector<AttendBackwardVariant> variants =
      joined<AttendBackwardVariant>({attend_backward_hopper_variants(), attend_backward_mma_variants(),
                                     attend_backward_general_variants()});
  return variants;
}

}  // namespace cplab::kernels::cuda
