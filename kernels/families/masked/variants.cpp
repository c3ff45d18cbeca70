// The variants of dynamic mask attention; see masked_variants.hpp.
#include "kernels/families/masked/variants.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "kernels/call_checks.hpp"
#include "kernels/choice/choose.hpp"
#include "kernels/families/compiled_head_sizes.hpp"
#include "kernels/families/family.hpp"
#include "kernels/families/general/costs.hpp"
#include "kernels/families/hopper_backward/shape.hpp"
#include "kernels/families/hopper_forward/shape.hpp"
#include "kernels/families/names.hpp"

namespace cplab::kernels::cuda {
namespace {

const AttendVariant* plain_of(const KernelBuild& build, const MaskedVariant& of) {
  const std::string name =
      hopper_forward_name(of.dtype, of.head_size, hopper_forward_warpgroups(of.head_size));
  for (const AttendVariant& variant : attend_variants(build))
    if (variant.name == name) return &variant;
  return nullptr;
}
const AttendBackwardVariant* plain_of(const KernelBuild& build, const MaskedBackwardVariant& of) {
  const std::string name = hopper_backward_fused_name(of.dtype, of.head_size);
  for (const AttendBackwardVariant& variant : attend_backward_variants(build))
    if (variant.name == name) return &variant;
  return nullptr;
}

template <class Variant>
void add_hopper(std::vector<Variant>& all, const KernelBuild& build, std::string (*name)(DType, int)) {
  if (!build.hopper) return;
  for (const DType dtype : {DType::bf16, DType::fp16})
    for (const int D : hopper_head_sizes) {
      Variant variant{
          .name = name(dtype, D), .rank = Rank::architecture, .dtype = dtype, .head_size = D, .sm_major = 9};
      variant.plain = plain_of(build, variant);
      if (variant.plain == nullptr) throw std::logic_error(variant.name + " has no plain variant");
      variant.tile_rows = variant.plain->tile_rows;
      all.push_back(std::move(variant));
    }
}

struct MaskedNames {
  std::string (*hopper)(DType, int);
  std::string (*mma)(DType, int);
  std::string (*general)(DType);
};

template <class Variant>
std::vector<Variant> list_of(const KernelBuild& build, const MaskedNames& names) {
  std::vector<Variant> all;
  add_hopper(all, build, names.hopper);
  const auto add_mma = [&](std::span<const int> head_sizes) {
    for (const DType dtype : {DType::bf16, DType::fp16})
      for (const int D : head_sizes)
        all.push_back({.name = names.mma(dtype, D),
                       .rank = Rank::portable,
                       .dtype = dtype,
                       .head_size = D,
                       .tile_rows = cell_rows});
  };
  add_mma(mma_head_sizes);
  if (build.full) add_mma(full_head_sizes);
  for (const DType accumulator : {DType::fp32, DType::fp64})
    if (accumulator == DType::fp32 || build.full)
      all.push_back({.name = names.general(accumulator),
                     .rank = Rank::general,
                     .dtype = accumulator,
                     .tile_rows = general_tile_rows});
  return all;
}

Unmet of_dtype(const char* name, const std::optional<View>& view, DType dtype) {
  if (!view || view->dtype == dtype) return {};
  return Misfit{name, dtype == DType::bf16 ? "is not bf16" : "is not fp16"};
}

Unmet unmet_mask(const PairMask& mask, DType dtype) {
  if (const Unmet unmet = of_dtype("bias", mask.bias, dtype)) return unmet;
  return of_dtype("keep", mask.keep, dtype);
}

// The kernels load rows of V at any distance: bias and keep mask of keys may lie behind them.
template <class TileCall>
TileCall without_distances_of_v(TileCall tile) {
  tile.v.data = nullptr;
  tile.v.row_stride = tile.v.head_stride = 0;
  return tile;
}

Unmet unmet_mma(const MaskedAttend& call, DType dtype, int head_size) {
  if (const Unmet unmet = unmet_forward_mma(without_distances_of_v(call.tile), dtype, head_size, head_size))
    return unmet;
  return unmet_mask(call.mask, dtype);
}

Unmet unmet_mma(const MaskedAttendBackward& call, DType dtype, int head_size) {
  if (const Unmet unmet = unmet_backward_mma(without_distances_of_v(call.tile), dtype, head_size, head_size))
    return unmet;
  if (const Unmet unmet = unmet_mask(call.mask, dtype)) return unmet;
  if (call.dtable) return Misfit{"dtable", "is asked for"};
  if (!call.dbias) return {};
  const bool full = !call.mask.columns.empty();
  const std::int64_t heads = full ? call.tile.q.heads : call.tile.k.heads;
  if (call.dbias->heads != heads) return Misfit{"dbias", "has # heads", call.dbias->heads};
  if (call.dbias->dtype != DType::fp32 && call.dbias->dtype != dtype)
    return Misfit{"dbias", "is neither fp32 nor of q's dtype"};
  return {};
}

template <class Call>
bool has_fp64_operand(const Call& call) {
  return any_fp64({&call.tile.q, &call.tile.k, &call.tile.v}) ||
         (call.mask.bias && any_fp64({&*call.mask.bias}));
}

template <class Variant, class Call>
const Variant& first_that_fits(std::span<const Variant> variants, const Call& call,
                               const VariantOptions& options) {
  require_launchable(call.tile.q);
  require_launchable(call.tile.k);
  for (const Variant& variant : variants)
    if (allows_changed(variant, options) && !variant.unmet(call)) return variant;
  throw std::invalid_argument(
      has_fp64_operand(call) ? "this build has no attention kernels for fp64 on a GPU (-D CPLAB_KERNELS=full)"
                             : "no kernel of this build that changes logits fits the call");
}

template <class Call>
std::int64_t scanned(const Call& call) {
  if (!call.mask.keep) return 0;
  const View& keep = *call.mask.keep;
  if (call.mask.columns.empty()) return keep.rows * keep.heads;
  std::int64_t numbers = 0, first = 0;
  for (const KeyReach& reach : key_reaches(call.tile.segments, call.tile.q.rows)) {
    numbers += (reach.end - reach.begin) * std::min<std::int64_t>(cell_rows, call.tile.q.rows - first);
    first += cell_rows;
  }
  return numbers * keep.heads;
}

}  // namespace

std::string masked_forward_name(DType dtype, int head_size) {
  return "attend masked mma" + of_sizes(dtype, head_size);
}
std::string masked_backward_name(DType dtype, int head_size) {
  return "attend_backward masked mma" + of_sizes(dtype, head_size);
}
std::string general_masked_forward_name(DType accumulator) {
  return accumulator == DType::fp64 ? "attend masked general fp64" : "attend masked general";
}
std::string general_masked_backward_name(DType accumulator) {
  return accumulator == DType::fp64 ? "attend_backward masked general fp64"
                                    : "attend_backward masked general";
}

template <class Variant>
bool allows_changed(const Variant& variant, const VariantOptions& options) {
  if (variant.plain == nullptr) return true;
  VariantOptions any = options;
  any.only = {};  // names variants of softmax attention
  return allows(any, *variant.plain);
}
template bool allows_changed(const MaskedVariant&, const VariantOptions&);
template bool allows_changed(const MaskedBackwardVariant&, const VariantOptions&);

template <class Call>
Unmet MaskedVariantOf<Call>::unmet(const Call& call) const {
  if (plain != nullptr) {
    if (const Unmet unmet = unmet_changes(call.mask, call.tile)) return unmet;
    return plain->unmet(call.tile);
  }
  if (on_tensor_cores()) return unmet_mma(call, dtype, head_size);
  if (has_fp64_operand(call) == (dtype == DType::fp64)) return {};
  return Misfit{"", dtype == DType::fp64 ? "nothing is fp64" : "an operand is fp64"};
}
template struct MaskedVariantOf<MaskedAttend>;
template struct MaskedVariantOf<MaskedAttendBackward>;

namespace {

// The lists of the four builds, each made once.
template <class Variant>
std::span<const Variant> list_of_build(const KernelBuild& build, const MaskedNames& names) {
  static const std::vector<Variant> lists[] = {list_of<Variant>({.hopper = false, .full = false}, names),
                                               list_of<Variant>({.hopper = true, .full = false}, names),
                                               list_of<Variant>({.hopper = false, .full = true}, names),
                                               list_of<Variant>({.hopper = true, .full = true}, names)};
  return lists[(build.hopper ? 1 : 0) + (build.full ? 2 : 0)];
}

}  // namespace

std::span<const MaskedVariant> masked_variants(const KernelBuild& build) {
  return list_of_build<MaskedVariant>(
      build, {hopper_masked_forward_name, masked_forward_name, general_masked_forward_name});
}

std::span<const MaskedBackwardVariant> masked_backward_variants(const KernelBuild& build) {
  return list_of_build<MaskedBackwardVariant>(
      build, {hopper_masked_backward_name, masked_backward_name, general_masked_backward_name});
}

namespace {

// The tiles that softmax attention has of the call, with segments cut for Hopper's kernels.
template <class Call, class Plain>
auto changed_tiles(const Call& call, const Plain& plain, const VariantOptions& options) {
  const PlacedSegments placed =
      placed_segments(call.mask, call.tile.segments, call.tile.k.rows).value();  // the call fits
  auto tile = call.tile;
  tile.segments = placed.segments;
  auto chosen = plain.family->tiles(plain, tile, options);
  const WorkTables* work = nullptr;
  if constexpr (std::is_same_v<Plain, AttendBackwardVariant>) {
    plain.family->order(chosen, tile, options);
    work = &chosen.by_k;
  } else {
    work = &chosen.work;
  }
  ScoreTables scores =
      score_tables(call.mask, tile.scale, placed.step, chosen.spaces.value(), tile.k.rows, *work);
  return ChangedTiles<decltype(chosen)>{std::move(chosen), std::move(scores)};
}

}  // namespace

ChosenMasked choose_variant(const MaskedAttend& call, const VariantOptions& options) {
  const MaskedVariant& variant = first_that_fits(masked_variants(options.build), call, options);
  if (variant.plain != nullptr) return {&variant, {}, changed_tiles(call, *variant.plain, options)};
  // Every multiple of the height, so that a tile lies in one cell.
  return {&variant,
          query_tiles(live_segments(call.tile.segments), even_cuts(call.tile.q.rows, variant.tile_rows),
                      call.tile.write == Write::store)};
}

ChosenMaskedBackward choose_variant(const MaskedAttendBackward& call, const VariantOptions& options) {
  const MaskedBackwardVariant& variant =
      first_that_fits(masked_backward_variants(options.build), call, options);
  if (variant.plain != nullptr) return {&variant, {}, {}, changed_tiles(call, *variant.plain, options)};
  const std::vector<DeviceSegment> live = live_segments(call.tile.segments);
  const bool stores_keys_bias = call.dbias && call.mask.columns.empty() && call.write_dbias == Write::store;
  return {
      &variant,
      query_tiles(live, even_cuts(call.tile.q.rows, variant.tile_rows), call.tile.write_dq == Write::store),
      key_tiles(live, even_cuts(call.tile.k.rows, variant.tile_rows),
                call.tile.write_dk == Write::store || stores_keys_bias)};
}

std::vector<std::int32_t> positions_of(const PairMask& mask) {
  std::vector<std::int32_t> positions;
  for (const RowRun& run : mask.columns) {
    require(run.count == 0 || run.begin + (run.count - 1) * run.step < unbounded,
            "a position is 2^30 or more, too far for a GPU kernel");
    for (std::int64_t i = 0; i < run.count; ++i)
      positions.push_back(static_cast<std::int32_t>(run.begin + i * run.step));
  }
  return positions;
}

std::vector<std::int32_t> buckets_of_distances(const PairMask& mask) {
  require(mask.starts.empty() || mask.starts.back() < unbounded,
          "a bucket begins at a distance of 2^30 or more, too far for a GPU kernel");
  std::vector<std::int32_t> buckets;
  const std::int64_t last = mask.starts.empty() ? 0 : mask.starts.back();
  std::int32_t bucket = 0;
  for (std::int64_t distance = 0; distance <= last; ++distance) {
    while (static_cast<std::size_t>(bucket) < mask.starts.size() &&
           mask.starts[static_cast<std::size_t>(bucket)] <= distance)
      ++bucket;
    buckets.push_back(bucket);
  }
  return buckets;
}

std::vector<KeyReach> key_reaches(std::span<const Segment> segments, std::int64_t q_rows) {
  std::vector<KeyReach> reaches(static_cast<std::size_t>((q_rows + cell_rows - 1) / cell_rows),
                                KeyReach{0, 0});
  for (const DeviceSegment& s : live_segments(segments)) {
    const RowRange rows = live_rows(s);
    for (std::int64_t cell = rows.begin / cell_rows; cell * cell_rows < rows.end; ++cell) {
      const std::int64_t first = std::max(rows.begin, cell * cell_rows);
      const std::int64_t last = std::min<std::int64_t>(rows.end, (cell + 1) * cell_rows) - 1;
      const auto begin = static_cast<std::int32_t>(std::max<std::int64_t>(s.k_begin, first + s.low));
      const auto end = static_cast<std::int32_t>(std::min<std::int64_t>(s.k_end, last + s.high + 1));
      KeyReach& reach = reaches[static_cast<std::size_t>(cell)];
      if (reach.begin == reach.end)
        reach = {begin, end};
      else
        reach = {std::min(reach.begin, begin), std::max(reach.end, end)};
    }
  }
  return reaches;
}

SelectParams select_params(const SelectKeys& call, const DeviceView& bias, const DeviceView& keep) {
  require(call.keys <= std::numeric_limits<std::int32_t>::max() / 2,
          "a selection has 2^30 keys or more, too many for a GPU kernel");
  SelectParams params{.bias = bias, .keep = keep, .full = call.full};
  params.relu = call.rule == SelectKeys::Rule::relu;
  params.keys = static_cast<std::int32_t>(call.keys);
  params.top_k = static_cast<std::int32_t>(std::min(call.top_k, call.keys));
  params.block = static_cast<std::int32_t>(std::min(call.block, call.keys));
  // Biases as fp32 (of fp64: as they are) can differ in so many digits of 8 bits, from the top.
  const DType dtype = call.bias.dtype;
  params.digits = dtype == DType::bf16 ? 2 : dtype == DType::fp16 ? 3 : dtype == DType::fp32 ? 4 : 8;
  return params;
}

std::int64_t scanned_numbers(const MaskedAttend& call) {
  return scanned(call);
}
std::int64_t scanned_numbers(const MaskedAttendBackward& call) {
  return scanned(call);
}

}  // namespace cplab::kernels::cuda
