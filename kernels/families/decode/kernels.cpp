// The compiled kernels of this family; see kernels/cuda/kernel_table.hpp.
#include <cstddef>
#include <iterator>
#include <utility>

#include "kernels/cuda/kernel_table.hpp"
#include "kernels/families/compiled_head_sizes.hpp"
#include "kernels/families/decode/decode.hpp"

namespace cplab::kernels::cuda {
namespace {

template <std::size_t... n>
void add_decode_pairs(KernelTables& tables, std::index_sequence<n...>) {
  (add(tables.attend, decode_kernels<decode_head_pairs[n].key, decode_head_pairs[n].value>()), ...);
}

}  // namespace

void add_kernels_of_decode(KernelTables& tables) {
  add_decode_pairs(tables, std::make_index_sequence<std::size(decode_head_pairs)>{});
}

}  // namespace cplab::kernels::cuda
