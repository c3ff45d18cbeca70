// The compiled kernels of this family; see kernels/cuda/kernel_table.hpp.
#include <utility>

#include "kernels/families/parts/hopper/kernels.hpp"

namespace cplab::kernels::cuda {
namespace {

#ifdef CPLAB_HOPPER_KERNELS
template <int... head_sizes>
void add_all(KernelTables& tables, std::integer_sequence<int, head_sizes...>) {
  (add(tables.attend, hopper::forward_kernels<head_sizes>()), ...);
}
#endif

}  // namespace

void add_kernels_of_hopper_forward([[maybe_unused]] KernelTables& tables) {
#ifdef CPLAB_HOPPER_KERNELS
  add_all(tables, std::integer_sequence<int, CPLAB_HOPPER_HEAD_SIZES>{});
  add_all(tables, std::integer_sequence<int, CPLAB_HOPPER_WIDE_HEAD_SIZES>{});
#endif
}

}  // namespace cplab::kernels::cuda
