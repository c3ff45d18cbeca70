// The lists of attention variants that a build has; see variants.hpp.
#include <array>
#include <cstddef>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "kernels/work/head_sizes.hpp"
#include "kernels/work/kernel_entries.hpp"
#include "kernels/work/variants.hpp"

namespace cplab::kernels::cuda {
namespace {

// From kernels/CMakeLists.txt, which also compiles the kernels of these head sizes.
constexpr auto full_head_pairs = head_pairs<CPLAB_FULL_HEAD_PAIRS>();

constexpr DType dtypes_16_bit[] = {DType::bf16, DType::fp16};

constexpr TileCosts hopper_costs_64 = {measured("hopper_forward_64_cost_of_64_rows"),
                                       measured("hopper_forward_64_cost_of_128_rows"),
                                       measured("hopper_forward_64_cost_of_192_rows")};
constexpr double slower_together_64 =
    measured("hopper_forward_64_cost_of_64_rows_together") / measured("hopper_forward_64_cost_of_64_rows");
constexpr TileCosts hopper_costs_128 = {measured("hopper_forward_128_cost_of_64_rows"),
                                        measured("hopper_forward_128_cost_of_128_rows"), 0};

// Of the mma kernels of a build.
std::vector<HeadSizes> mma_sizes(const KernelBuild& build) {
  std::vector<HeadSizes> all;
  for (const int D : mma_head_sizes) all.push_back({D, D});
  if (!build.full) return all;
  for (const int D : full_head_sizes) all.push_back({D, D});
  all.insert(all.end(), std::begin(full_head_pairs), std::end(full_head_pairs));
  return all;
}

// The kernels of all architectures: tensor cores first, then those that take everything.
void add_mma(std::vector<AttendVariant>& all, DType dtype, const HeadSizes& sizes) {
  all.push_back({.name = mma_forward_name(dtype, sizes),
                 .family = AttendVariant::Family::mma,
                 .dtype = dtype,
                 .head_size = sizes.key,
                 .tile_rows = mma_forward_rows(sizes.value),
                 .value_size = sizes.value});
}

void add_mma(std::vector<AttendBackwardVariant>& all, DType dtype, const HeadSizes& sizes) {
  for (const bool small_tiles : {false, true})
    if (!small_tiles || has_small_tiles(sizes))
      all.push_back({.name = mma_backward_name(dtype, sizes, small_tiles),
                     .family = AttendBackwardVariant::Family::mma,
                     .dtype = dtype,
                     .head_size = sizes.key,
                     .tile_rows = mma_backward_rows(sizes, small_tiles),
                     .small_tiles = small_tiles,
                     .value_size = sizes.value});
}

template <class Variant>
void add_portable(std::vector<Variant>& all, const KernelBuild& build, std::string (*general_name)(DType)) {
  for (const DType dtype : dtypes_16_bit)
    for (const HeadSizes& sizes : mma_sizes(build)) add_mma(all, dtype, sizes);
  for (const DType accumulator : {DType::fp32, DType::fp64})
    if (accumulator == DType::fp32 || build.full)
      all.push_back({.name = general_name(accumulator),
                     .family = Variant::Family::general,
                     .dtype = accumulator,
                     .tile_rows = general_tile_rows});
}

std::vector<AttendVariant> list_forward(const KernelBuild& build) {
  using Family = AttendVariant::Family;
  std::vector<AttendVariant> all;
  if (build.hopper)
    for (const DType dtype : dtypes_16_bit)
      for (const int D : hopper_head_sizes)
        for (int warpgroups = hopper_forward_warpgroups(D); warpgroups > 0; --warpgroups) {
          const int together = hopper_forward_blocks_together(D, warpgroups);
          all.push_back({.name = hopper_forward_name(dtype, D, warpgroups),
                         .family = Family::hopper,
                         .dtype = dtype,
                         .head_size = D,
                         .sm_major = 9,
                         .tile_rows = 64 * warpgroups,
                         .tile_costs = D == 64 ? hopper_costs_64 : hopper_costs_128,
                         .counts_tiles = true,
                         .blocks_together = together,
                         .slower_together = together > 1 ? slower_together_64 : 1,
                         .least_of_tile = D == 64 ? measured("hopper_forward_64_tile") : 0,
                         .goes_out_of_turn = hopper_forward_goes_out_of_turn(D, warpgroups)});
        }
  add_portable(all, build, general_forward_name);
  return all;
}

std::string hopper_backward_name(AttendBackwardVariant::Family family, DType dtype, int head_size,
                                 std::int32_t tile_rows) {
  using Family = AttendBackwardVariant::Family;
  if (family == Family::hopper_fused) return hopper_backward_fused_name(dtype, head_size, tile_rows);
  if (family == Family::hopper_chains) return hopper_backward_chains_name(dtype, head_size);
  return family == Family::hopper_ordered ? hopper_backward_ordered_name(dtype, head_size)
                                          : hopper_backward_deterministic_name(dtype, head_size);
}

// Small tiles at head size 128, chains at 64.
bool has_backward(AttendBackwardVariant::Family family, int head_size, std::int32_t tile_rows) {
  using Family = AttendBackwardVariant::Family;
  if (family == Family::hopper_chains && head_size != 64) return false;
  return tile_rows == hopper_backward_tile_rows || (family == Family::hopper_fused && head_size == 128);
}

std::vector<AttendBackwardVariant> list_backward(const KernelBuild& build) {
  using Family = AttendBackwardVariant::Family;
  std::vector<AttendBackwardVariant> all;
  if (build.hopper)
    for (const Family family :
         {Family::hopper_fused, Family::hopper_ordered, Family::hopper_chains, Family::hopper_deterministic})
      for (const DType dtype : dtypes_16_bit)
        for (const int D : hopper_head_sizes)
          for (const std::int32_t rows : {hopper_backward_tile_rows, hopper_backward_small_tile_rows})
            if (has_backward(family, D, rows))
              all.push_back({.name = hopper_backward_name(family, dtype, D, rows),
                             .family = family,
                             .dtype = dtype,
                             .head_size = D,
                             .sm_major = 9,
                             .tile_rows = rows,
                             .deterministic = family != Family::hopper_fused,
                             .counts_tiles = true,
                             .takes_turns = family == Family::hopper_ordered,
                             .in_chains = family == Family::hopper_chains});
  add_portable(all, build, general_backward_name);
  return all;
}

// The lists of the four builds, each made once.
template <class Variant>
using Lists = std::array<std::vector<Variant>, 4>;

std::size_t number_of(const KernelBuild& build) {
  return (build.hopper ? 1U : 0U) + (build.full ? 2U : 0U);
}

template <class Variant, class List>
Lists<Variant> lists_of(List list) {
  return {list(KernelBuild{false, false}), list(KernelBuild{true, false}), list(KernelBuild{false, true}),
          list(KernelBuild{true, true})};
}

}  // namespace

std::span<const AttendVariant> attend_variants(const KernelBuild& build) {
  static const Lists<AttendVariant> lists = lists_of<AttendVariant>(list_forward);
  return lists[number_of(build)];
}

std::span<const AttendBackwardVariant> attend_backward_variants(const KernelBuild& build) {
  static const Lists<AttendBackwardVariant> lists = lists_of<AttendBackwardVariant>(list_backward);
  return lists[number_of(build)];
}

}  // namespace cplab::kernels::cuda
