// Gathers the kernels of linear attention; see linear_table.hpp.
#include "kernels/cuda/linear_table.hpp"

#include <utility>

#include "kernels/cuda/kernels_by_name.hpp"
#include "kernels/families/linear/gated/gated.hpp"
#include "kernels/families/linear/linear.hpp"
#include "kernels/families/parts/hopper/kernels.hpp"

namespace cplab::kernels::cuda {
namespace {

#ifdef CPLAB_HOPPER_KERNELS
template <int D, int... value_sizes>
void add_hopper_of(Table<LinearKernel>& table, std::integer_sequence<int, value_sizes...>) {
  (add(table, hopper::linear_kernels<D, value_sizes>()), ...);
}
template <int... head_sizes>
void add_hopper(Table<LinearKernel>& table, std::integer_sequence<int, head_sizes...> value_sizes) {
  (add_hopper_of<head_sizes>(table, value_sizes), ...);
}
#endif

// A family for one machine adds its kernels here, as in kernel_table.cpp.
Table<LinearKernel> make_linear_table() {
  Table<LinearKernel> table;
#ifdef CPLAB_HOPPER_KERNELS
  add_hopper(table, std::integer_sequence<int, CPLAB_HOPPER_HEAD_SIZES>{});
#endif
  add(table, linear_mma_kernels());
#ifdef CPLAB_HOPPER_KERNELS
  add(table, gated_bf16_kernels());
  add(table, gated_fp16_kernels());
  add(table, gated_fp32_kernels());
#endif
  add(table, gated_combine_kernels());
  add(table, linear_walk_kernels());
  add(table, linear_state_kernels());
  add(table, linear_scan_kernels());
  require_same_names(table, linear_variants(built_kernels()));
  return table;
}

}  // namespace

const LinearKernel& kernel_of(const LinearVariant& variant) {
  static const Table<LinearKernel> table = make_linear_table();
  return table.at(variant.name);
}

}  // namespace cplab::kernels::cuda
