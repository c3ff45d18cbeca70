// Gathers the kernels of all families; see kernel_table.hpp.
#include "kernels/cuda/kernel_table.hpp"

#include <cstddef>
#include <iterator>
#include <span>
#include <utility>

#include "kernels/cuda/general/general.hpp"
#include "kernels/cuda/hopper/hopper.hpp"
#include "kernels/cuda/kernels_by_name.hpp"
#include "kernels/cuda/mma/mma.hpp"

namespace cplab::kernels::cuda {
namespace {

template <int... head_sizes>
void add_mma(Table<AttendKernel>& table, std::integer_sequence<int, head_sizes...>) {
  (add(table, mma_forward_kernels<head_sizes, head_sizes>()), ...);
}
template <int... head_sizes>
void add_mma(Table<AttendBackwardKernel>& table, std::integer_sequence<int, head_sizes...>) {
  (add(table, mma_backward_kernels<head_sizes, head_sizes>()), ...);
}

#ifdef CPLAB_FULL_KERNELS
constexpr auto full_head_pairs = head_pairs<CPLAB_FULL_HEAD_PAIRS>();

template <std::size_t... n>
void add_mma_pairs(Table<AttendKernel>& table, std::index_sequence<n...>) {
  (add(table, mma_forward_kernels<full_head_pairs[n].key, full_head_pairs[n].value>()), ...);
}
template <std::size_t... n>
void add_mma_pairs(Table<AttendBackwardKernel>& table, std::index_sequence<n...>) {
  (add(table, mma_backward_kernels<full_head_pairs[n].key, full_head_pairs[n].value>()), ...);
}
#endif

#ifdef CPLAB_HOPPER_KERNELS
template <int... head_sizes>
void add_hopper(Table<AttendKernel>& table, std::integer_sequence<int, head_sizes...>) {
  (add(table, hopper::forward_kernels<head_sizes>()), ...);
}
template <int... head_sizes>
void add_hopper(Table<AttendBackwardKernel>& table, std::integer_sequence<int, head_sizes...>) {
  (add(table, hopper::backward_fused_kernels<head_sizes>()), ...);
  (add(table, hopper::backward_deterministic_kernels<head_sizes>()), ...);
  add(table, hopper::backward_fused_64_keys_kernels<128>());
  add(table, hopper::backward_chains_kernels<64>());
}
#endif

void add_general(Table<AttendKernel>& table) {
  add(table, general_forward_kernels());
}
void add_general(Table<AttendBackwardKernel>& table) {
  add(table, general_backward_kernels());
}

template <class Kernel, class Variant>
Table<Kernel> make_table(std::span<const Variant> variants) {
  Table<Kernel> table;
  add_mma(table, std::integer_sequence<int, CPLAB_MMA_HEAD_SIZES>{});
#ifdef CPLAB_FULL_KERNELS
  add_mma(table, std::integer_sequence<int, CPLAB_FULL_HEAD_SIZES>{});
  add_mma_pairs(table, std::make_index_sequence<std::size(full_head_pairs)>{});
#endif
#ifdef CPLAB_HOPPER_KERNELS
  add_hopper(table, std::integer_sequence<int, CPLAB_HOPPER_HEAD_SIZES>{});
#endif
  add_general(table);
  require_same_names(table, variants);
  return table;
}

}  // namespace

KernelBuild built_kernels() {
  KernelBuild build{.hopper = false, .full = false};
#ifdef CPLAB_HOPPER_KERNELS
  build.hopper = true;
#endif
#ifdef CPLAB_FULL_KERNELS
  build.full = true;
#endif
  return build;
}

const AttendKernel& kernel_of(const AttendVariant& variant) {
  static const Table<AttendKernel> table = make_table<AttendKernel>(attend_variants(built_kernels()));
  return table.at(variant.name);
}

const AttendBackwardKernel& kernel_of(const AttendBackwardVariant& variant) {
  static const Table<AttendBackwardKernel> table =
      make_table<AttendBackwardKernel>(attend_backward_variants(built_kernels()));
  return table.at(variant.name);
}

}  // namespace cplab::kernels::cuda
