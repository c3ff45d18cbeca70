// Which kernel `run` takes for an operation of attention on the GPU of a hardware file, and which tables of
// the file say what that one costs.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "calls/converter.hpp"
#include "kernels/choice/fall_back.hpp"
#include "kernels/families/variants.hpp"
#include "plan/plan.hpp"
#include "sim/digest.hpp"
#include "sim/hardware.hpp"

namespace cplab {

// Kernels of one speed. foreign: a table's `variant` is none of ours ("cuDNN", or nothing).
enum class KernelFamily : std::uint8_t { foreign, hopper, decode, mma, general };

// Of a table of attend or attend_backward, by the name of its variant.
KernelFamily family_of(const KernelTable&);

// Whether attention of that kind on this machine is a library's, whatever `run` would launch: its file is of
// a data sheet and times none of our kernels; or its GPU is of an architecture behind Hopper, for which ours
// are not made, and the file has no table of the portable ones as measured on it. `run` launches the portable
// ones there, at half the rate of a library or less.
bool takes_library(const Hardware&, OpKind);

// How fast kernels of a family are beside those of the fastest on a GPU, both long and dense with heads of
// 128: 0.49 for the mma forward. What is taken where a file has tables of another family only; assumed.
double relative_speed(OpKind, KernelFamily, const kernels::cuda::Rates&);

struct AttentionVariant {
  std::string_view name;  // as in results, valid for good
  KernelFamily family = KernelFamily::general;
  bool by_other_tiles = false;  // its family's tables are of a kernel whose tiles cost otherwise
  bool adds_by_tma = false;     // in the L2 cache, as in its family's tables; else row by row
  bool casts_dq = false;        // dq is rounded behind all tiles, which takes as long as a cast
  bool casts_dkv = false;       // another rounds dk and dv
  bool computes_delta = false;  // by a launch before its own
  std::optional<kernels::cuda::FallBack> fall_back;
  // Of the tiles that the launch cuts (0: no model of them): how long their family
  // says that they take, without a cast, on all multiprocessors, and how many
  // there are, all heads together.
  double tiles_s = 0, tiles = 0;
  // No table is of such kernels, and tiles_s is all that is known (decode, general, masked).
  bool by_model = false;
  // How many times as long as that, and as tables say: Hopper's own kernels that change scores, which are
  // priced as those that do not.
  double longer = 1;
  bool changes_scores = false;  // it is such a kernel
};

// The same of a point of a table of ours, on `sms` multiprocessors: the call that `cplab calibrate` makes.
struct PointTiles {
  double tiles_s = 0, tiles = 0;
};
PointTiles point_tiles(const KernelTable&, const KernelPoint&, const Hardware&, int sms);

// Of a call of attention, softmax or dynamic mask; all 0 of others.
struct AttentionExtents {
  std::int64_t heads = 0, head_size = 0, value_size = 0;
  bool operator==(const AttentionExtents&) const = default;
};
AttentionExtents extents_of(const KernelCall&);
// Of the kernel for Hopper that pads the heads.
inline AttentionExtents padded_extents(const AttentionExtents& of) {
  const auto kernel =
      kernels::cuda::padded({static_cast<int>(of.head_size), static_cast<int>(of.value_size)});
  return {of.heads, kernel.key, kernel.value};
}

// What AttentionVariants have found, for others of the same machine: ranks repeat few calls; of many
// sequences, hundreds, in no order. By everything that the choice depends on.
class KnownVariants;

class AttentionVariants {
 public:
  // Where all tables of a class of ours are of kernels that every architecture has, the file is of a build
  // without Hopper's (-D CPLAB_HOPPER=OFF), as the files that were measured before there were any.
  // `times`: fills in tiles_s and tiles of variants whose family has tables in the file, and of general ones.
  // Uses and adds to Hardware::known_variants, where that is of the same machine and of times as well.
  explicit AttentionVariants(const Hardware&, bool times = false);

  // `op` is attend or attend_backward, of softmax or of dynamic mask attention. `reserved_sms`:
  // schedule.reserved_sms. Throws HardwareError where no kernel takes the call. Remembers calls: one thread
  // at a time; what it returns stays valid.
  const AttentionVariant& of(const CallConverter&, const Operation& op, std::int64_t reserved_sms);

 private:
  const AttentionVariant& find(const CallConverter&, const Operation& op, std::int64_t reserved_sms);
  kernels::cuda::VariantOptions options(OpKind, std::int64_t reserved_sms, bool fp64) const;

  const GpuSpec& gpu_;
  const VariantChoice& choice_;
  const kernels::cuda::Rates& rates_;
  bool times_;
  std::shared_ptr<KnownVariants> remembered_;
  std::unordered_map<Digest, const AttentionVariant*, Digest::Hash> known_;  // of operations
};

// For Hardware::known_variants: what is found about calls from now on is found once.
std::shared_ptr<KnownVariants> make_known_variants(const Hardware&);

}  // namespace cplab
