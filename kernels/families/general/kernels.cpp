// The compiled kernels of this family; see kernels/cuda/kernel_table.hpp.
#include "kernels/cuda/kernel_table.hpp"
#include "kernels/families/general/general.hpp"

namespace cplab::kernels::cuda {

void add_kernels_of_general(KernelTables& tables) {
  add(tables.attend, general_forward_kernels());
  add(tables.attend_backward, general_backward_kernels());
}

}  // namespace cplab::kernels::cuda
