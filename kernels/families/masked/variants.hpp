// Which kernel of dynamic mask attention takes a call, and the tiles it is cut into: plain host code, for
// launching and for predicting, as variants.hpp.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "kernels/families/fits.hpp"
#include "kernels/families/masked/hopper/changed_call.hpp"
#include "kernels/families/variants.hpp"
#include "kernels/masked.hpp"
#include "kernels/tiles/masked_params.hpp"

namespace cplab::kernels::cuda {

std::string masked_forward_name(DType dtype, int head_size);
std::string masked_backward_name(DType dtype, int head_size);
std::string general_masked_forward_name(DType accumulator);  // fp32 or fp64
std::string general_masked_backward_name(DType accumulator);

// Both directions have the same kernels: Hopper's for softcaps and alibi, in instances of the kernels of
// softmax attention (hopper/changed_call.hpp); mma for 16 bits and the head sizes of the mma kernels, with
// bias and keep mask of that dtype, which need a bias gradient of pairs for each query head, of keys for each
// key head; general for the rest. All but Hopper's backward give the same bits in every run.
template <class Call>
struct MaskedVariantOf {
  using Plain = std::conditional_t<std::is_same_v<Call, MaskedAttend>, AttendVariant, AttendBackwardVariant>;
  std::string name;  // "attend masked mma bf16 128"
  Rank rank = Rank::general;
  DType dtype = DType::fp32;   // of q, k and v; general: of the accumulators
  int head_size = 0;           // of keys and values; 0: any
  int sm_major = 0;            // as of AttendVariant
  std::int32_t tile_rows = 0;  // of query rows, and of key rows in the backward
  // Of Hopper's: the variant of softmax attention whose kernel and tiles it has, valid for good.
  const Plain* plain = nullptr;

  bool on_tensor_cores() const { return rank != Rank::general; }
  std::string_view family_name() const {
    return plain != nullptr ? "hopper" : on_tensor_cores() ? "mma" : "general";
  }
  HeadSizes sizes() const { return {head_size, head_size}; }

  Unmet unmet(const Call& call) const;  // nothing: it takes the call
};
using MaskedVariant = MaskedVariantOf<MaskedAttend>;
using MaskedBackwardVariant = MaskedVariantOf<MaskedAttendBackward>;

std::span<const MaskedVariant> masked_variants(const KernelBuild& build);
std::span<const MaskedBackwardVariant> masked_backward_variants(const KernelBuild& build);

// changed: of Hopper's kernels, whose tables are in rows of its spaces, and whose segments may be cut.
template <class Plain>
struct ChangedTiles {
  Plain chosen;  // what the variant of softmax attention would launch
  ScoreTables scores;
};
// Whether options allow it, where it is of an architecture of its own: as they do the plain variant, whatever
// options.only says.
template <class Variant>
bool allows_changed(const Variant&, const VariantOptions&);

struct ChosenMasked {
  const MaskedVariant* variant = nullptr;
  WorkTables work;
  std::optional<ChangedTiles<ChosenForward>> changed = {};
};
struct ChosenMaskedBackward {
  const MaskedBackwardVariant* variant = nullptr;
  WorkTables by_q, by_k;
  std::optional<ChangedTiles<ChosenBackward>> changed = {};
};

// As choose_variant() of kernels/choice/choose.hpp: the first that fits and that the options allow.
ChosenMasked choose_variant(const MaskedAttend& call, const VariantOptions& options);
ChosenMaskedBackward choose_variant(const MaskedAttendBackward& call, const VariantOptions& options);

// Of each cell of queries, the keys from the first that one of them sees to the last.
// Of a bias of positions: those of the rows of k, then of q; and of each distance up to the first of the last
// bucket its bucket. Throw std::invalid_argument for what a GPU kernel cannot count.
std::vector<std::int32_t> positions_of(const PairMask& mask);
std::vector<std::int32_t> buckets_of_distances(const PairMask& mask);

std::vector<KeyReach> key_reaches(std::span<const Segment> segments, std::int64_t q_rows);

// What the kernel of a selection takes, with these views of bias and keep. Throws std::invalid_argument if
// the call is too large.
SelectParams select_params(const SelectKeys& call, const DeviceView& bias, const DeviceView& keep);

// Numbers of the keep mask that the scan of a call reads, all heads: 0 without one.
std::int64_t scanned_numbers(const MaskedAttend& call);
std::int64_t scanned_numbers(const MaskedAttendBackward& call);

}  // namespace cplab::kernels::cuda
