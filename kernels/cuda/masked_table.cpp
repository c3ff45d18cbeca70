// Gathers the kernels of dynamic mask attention; see masked/masked.hpp.
#include <span>
#include <utility>

#include "kernels/cuda/kernel_table.hpp"
#include "kernels/cuda/kernels_by_name.hpp"
#include "kernels/families/masked/masked.hpp"

namespace cplab::kernels::cuda {
namespace {

template <int... head_sizes>
void add_mma(Table<MaskedKernel>& table, std::integer_sequence<int, head_sizes...>) {
  (add(table, masked_forward_kernels<head_sizes>()), ...);
}
template <int... head_sizes>
void add_mma(Table<MaskedBackwardKernel>& table, std::integer_sequence<int, head_sizes...>) {
  (add(table, masked_backward_kernels<head_sizes>()), ...);
}
void add_general(Table<MaskedKernel>& table) {
  add(table, general_masked_forward_kernels());
}
void add_general(Table<MaskedBackwardKernel>& table) {
  add(table, general_masked_backward_kernels());
}

#ifdef CPLAB_HOPPER_KERNELS
template <int... head_sizes>
void add_hopper(Table<MaskedKernel>& table, std::integer_sequence<int, head_sizes...>) {
  (add(table, changed_forward_kernels<head_sizes>()), ...);
}
template <int... head_sizes>
void add_hopper(Table<MaskedBackwardKernel>& table, std::integer_sequence<int, head_sizes...>) {
  (add(table, changed_backward_kernels<head_sizes>()), ...);
}
#endif

template <class Kernel, class Variant>
Table<Kernel> make_masked_table(std::span<const Variant> variants) {
  Table<Kernel> table;
#ifdef CPLAB_HOPPER_KERNELS
  add_hopper(table, std::integer_sequence<int, CPLAB_HOPPER_HEAD_SIZES>{});
#endif
  add_mma(table, std::integer_sequence<int, CPLAB_MMA_HEAD_SIZES>{});
#ifdef CPLAB_FULL_KERNELS
  add_mma(table, std::integer_sequence<int, CPLAB_FULL_HEAD_SIZES>{});
#endif
  add_general(table);
  require_same_names(table, variants);
  return table;
}

}  // namespace

const MaskedKernel& kernel_of(const MaskedVariant& variant) {
  static const auto table = make_masked_table<MaskedKernel>(masked_variants(built_kernels()));
  return table.at(variant.name);
}

const MaskedBackwardKernel& kernel_of(const MaskedBackwardVariant& variant) {
  static const auto table =
      make_masked_table<MaskedBackwardKernel>(masked_backward_variants(built_kernels()));
  return table.at(variant.name);
}

}  // namespace cplab::kernels::cuda
