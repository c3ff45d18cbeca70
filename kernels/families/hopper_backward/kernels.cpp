// The compiled kernels of this family; see kernels/cuda/kernel_table.hpp.
#include <utility>

#include "kernels/families/parts/hopper/kernels.hpp"

namespace cplab::kernels::cuda {
namespace {

#ifdef CPLAB_HOPPER_KERNELS
template <int... head_sizes>
void add_fused(KernelTables& tables, std::integer_sequence<int, head_sizes...>) {
  (add(tables.attend_backward, hopper::backward_fused_kernels<head_sizes>()), ...);
}
#endif

}  // namespace

void add_kernels_of_hopper_backward([[maybe_unused]] KernelTables& tables) {
#ifdef CPLAB_HOPPER_KERNELS
  add_fused(tables, std::integer_sequence<int, CPLAB_HOPPER_HEAD_SIZES>{});
  add(tables.attend_backward, hopper::backward_fused_64_keys_kernels<128>());
  add(tables.attend_backward, hopper::backward_chains_kernels<64>());
#endif
}

}  // namespace cplab::kernels::cuda
