// The compiled kernels of this family; see kernels/cuda/kernel_table.hpp.
#include <cstddef>
#include <iterator>
#include <utility>

#include "kernels/cuda/kernel_table.hpp"
#include "kernels/families/compiled_head_sizes.hpp"
#include "kernels/families/mma/mma.hpp"

namespace cplab::kernels::cuda {
namespace {

template <int... head_sizes>
void add_mma_sizes(KernelTables& tables, std::integer_sequence<int, head_sizes...>) {
  (add(tables.attend, mma_forward_kernels<head_sizes, head_sizes>()), ...);
  (add(tables.attend_backward, mma_backward_kernels<head_sizes, head_sizes>()), ...);
}

#ifdef CPLAB_FULL_KERNELS
template <std::size_t... n>
void add_mma_pairs(KernelTables& tables, std::index_sequence<n...>) {
  (add(tables.attend, mma_forward_kernels<full_head_pairs[n].key, full_head_pairs[n].value>()), ...);
  (add(tables.attend_backward, mma_backward_kernels<full_head_pairs[n].key, full_head_pairs[n].value>()),
   ...);
}
#endif

}  // namespace

void add_kernels_of_mma(KernelTables& tables) {
  add_mma_sizes(tables, std::integer_sequence<int, CPLAB_MMA_HEAD_SIZES>{});
#ifdef CPLAB_FULL_KERNELS
  add_mma_sizes(tables, std::integer_sequence<int, CPLAB_FULL_HEAD_SIZES>{});
  add_mma_pairs(tables, std::make_index_sequence<std::size(full_head_pairs)>{});
#endif
}

}  // namespace cplab::kernels::cuda
