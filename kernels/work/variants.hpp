// Which attention kernel takes a call, and the tiles it is cut into: plain host code, for launching and for
// predicting. A variant is described here by name; its code is in kernels/cuda (kernel_table.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/kernels.hpp"
#include "kernels/work/chains.hpp"
#include "kernels/work/fits.hpp"
#include "kernels/work/kernel_choice.hpp"
#include "kernels/work/measured_constants.hpp"
#include "kernels/work/mma_tiles.hpp"
#include "kernels/work/row_space.hpp"
#include "kernels/work/tile_cuts.hpp"

namespace cplab::kernels::cuda {

// Tile rows of the families whose kernels have one height only.
constexpr std::int32_t general_tile_rows = 32;
constexpr auto hopper_backward_tile_rows = static_cast<std::int32_t>(measured("hopper_backward_rows"));
// The fused backward for Hopper has these too, at head size 128, for calls with few tiles.
constexpr std::int32_t hopper_backward_small_tile_rows = 64;

// The forward kernels for Hopper have tiles of 64 rows for each consumer warpgroup: this many warpgroups, or
// fewer.
constexpr int hopper_forward_warpgroups(int head_size) {
  return static_cast<int>(head_size == 64 ? measured("hopper_forward_64_rows")
                                          : measured("hopper_forward_128_rows")) /
         64;
}
// How many of their thread blocks a multiprocessor holds: two of one warpgroup where shared memory has room
// for both. Then the products of one tile run beside the loads, the softmax and the stores of another.
constexpr int hopper_forward_blocks_together(int head_size, int warpgroups) {
  return head_size == 64 && warpgroups == 1 ? 2 : 1;
}
// Which tiles have a second kernel, whose warpgroups do not take turns: see WorkTables::out_of_turn.
constexpr bool hopper_forward_goes_out_of_turn(int head_size, int warpgroups) {
  return head_size == 64 && warpgroups == 3 && measured("ping_pong") != 0;
}
// Whole blocks of keys, K and V, that their shared memory holds. A block comes late now and then, because the
// L2 cache is busy; the tiles that most calls take have more blocks on the way.
constexpr int hopper_forward_stages(int head_size, int warpgroups) {
  return head_size == 64 && warpgroups == 3 ? static_cast<int>(measured("hopper_forward_64_stages")) : 2;
}

// Names of variants: what kernels/cuda and results know them by.
std::string general_forward_name(DType accumulator);  // fp32 or fp64
std::string general_backward_name(DType accumulator);
std::string mma_forward_name(DType dtype, const HeadSizes& sizes);
std::string mma_backward_name(DType dtype, const HeadSizes& sizes, bool small_tiles);
std::string hopper_forward_name(DType dtype, int head_size, int warpgroups);
std::string hopper_backward_fused_name(DType dtype, int head_size,
                                       std::int32_t tile_rows = hopper_backward_tile_rows);
std::string hopper_backward_ordered_name(DType dtype, int head_size);
std::string hopper_backward_chains_name(DType dtype, int head_size);
std::string hopper_backward_deterministic_name(DType dtype, int head_size);

struct AttendVariant {
  enum class Family : std::uint8_t { hopper, mma, general };

  std::string name;  // "attend mma bf16 128"
  Family family;
  DType dtype;             // of q, k and v; general: of the accumulators, fp32 or fp64
  int head_size = 0;       // of keys; 0: any
  int sm_major = 0;        // the only architecture that it has code for (9: Hopper); 0: every one
  std::int32_t tile_rows;  // of query rows, at most
  // Of several variants that fit a call and have costs, in a unit of their own, the one that is done first is
  // taken (cheapest_tiles()). All 0: taken if it is the first that fits, its rows cut every tile_rows.
  TileCosts tile_costs = {};
  bool counts_tiles = false;  // fetches uneven tiles by AttendParams::tile_counter
  int value_size = head_size;
  int blocks_together = 1;        // of a persistent kernel: thread blocks that a multiprocessor has at once
  double slower_together = 1;     // by how much a tile takes longer while they share it
  double least_of_tile = 0;       // on the average of a launch, in the unit of tile_costs
  bool goes_out_of_turn = false;  // has a kernel for WorkTables::out_of_turn

  // Of a launch of so many tiles on so many multiprocessors: thread blocks that run at once; by how much
  // tiles take longer than tile_costs, 1 where multiprocessors have one each; and what the launch takes at
  // least.
  std::int64_t places(int sms) const { return std::int64_t{sms} * blocks_together; }
  double slower(std::int64_t tiles, int sms) const { return tiles > sms ? slower_together : 1; }
  double least_time(std::int64_t tiles, int sms) const {
    return least_of_tile * static_cast<double>(tiles) / static_cast<double>(places(sms));
  }

  Unmet unmet(const Attend& call) const;  // nothing: it takes the call
  bool fits(const Attend& call) const { return !unmet(call); }
};

struct AttendBackwardVariant {
  enum class Family : std::uint8_t {
    hopper_fused,
    hopper_ordered,
    hopper_chains,
    hopper_deterministic,
    mma,
    general
  };

  std::string name;
  Family family;
  DType dtype;
  int head_size = 0;  // of keys; 0: any
  int sm_major = 0;
  std::int32_t tile_rows;     // of query rows (dq) and of key rows (dk, dv), at most
  bool deterministic = true;  // the same bits in every run
  bool counts_tiles = false;  // fetches tiles by AttendBackwardParams::tile_counter
  bool takes_turns = false;   // adds to dq in the order of AttendBackwardParams::turns
  bool in_chains = false;     // its thread blocks take ChosenBackward::chains
  bool small_tiles = false;   // mma: fits thread blocks of 99 KiB where the preferred one does not
  int value_size = head_size;

  Unmet unmet(const AttendBackward& call) const;  // of rounded dk and dv: as they are stored
  bool fits(const AttendBackward& call) const { return !unmet(call); }
};

// What a build of kernels/cuda contains.
struct KernelBuild {
  bool hopper = true;  // CPLAB_HOPPER
  bool full = false;   // CPLAB_KERNELS=full
};

// All variants of a build, the preferred ones first. The spans stay valid.
std::span<const AttendVariant> attend_variants(const KernelBuild& build);
std::span<const AttendBackwardVariant> attend_backward_variants(const KernelBuild& build);

class MeasuredChoices;  // measured_choices.hpp

struct VariantOptions {
  KernelChoice choice = KernelChoice::best;
  int sm_major = 0;  // major compute capability of the device
  int sms = 1;       // multiprocessors to be used
  KernelBuild build;
  int sm_minor = 0;
  ChoiceWay way = ChoiceWay::table;
  const MeasuredChoices* choices = nullptr;  // of autotune and hybrid; outlives the options
  std::string_view only = {};                // the one attention variant that may be taken; empty: any
  // Multiprocessors beside `sms` that are left to others. Kernels with several thread blocks a multiprocessor
  // would spread over them, and are not taken unless `only` asks for one.
  int reserved_sms = 0;
  bool shared_gpu = false;            // CallOptions::shared_gpu
  std::optional<bool> sums_dkv = {};  // CallOptions::sums_dkv
};

// The variants that are allowed, that the architecture has room for (Claim), and that take the call: the
// preferred ones first. Views need no memory, only shapes, strides and alignment.
std::vector<const AttendVariant*> variants_for(const Attend& call, const VariantOptions& options);
std::vector<const AttendBackwardVariant*> variants_for(const AttendBackward& call,
                                                       const VariantOptions& options);

struct ChosenForward {
  const AttendVariant* variant = nullptr;
  WorkTables work;                       // tiles of query rows
  std::optional<RowSpaces> spaces = {};  // what `work` counts; none: compact rows
};

struct ChosenBackward {
  const AttendBackwardVariant* variant = nullptr;
  WorkTables by_q, by_k;  // tiles of query rows (for dq) and of key rows (for dk, dv)
  std::optional<RowSpaces> spaces = {};
  TileChains chains = {};  // of by_k, if the variant wants them
  // Of a call that rounds dk and dv: the query heads of a key head go to different thread blocks, which sum
  // them, and launches behind the variant's own round the sums. Else a thread block has all of these heads
  // and stores the rounded ones.
  bool sums_dkv = false;
};

// What a variant's own launch does of a call: if it stores dq once, it stores the rounded one; and dk and dv
// as ChosenBackward::sums_dkv says.
AttendBackward as_launched(const AttendBackward& call, const ChosenBackward& chosen);
// The call with rounded dk and dv stored as they come out, and with those sums alone.
AttendBackward with_stored_dkv(const AttendBackward& call);
AttendBackward with_summed_dkv(const AttendBackward& call);
// Whether kernels that sum dq may give query heads that share a key head to several thread blocks, which add
// to dk and dv by TMA (hopper::splits_query_heads()).
bool can_split(const AttendBackward& summed);
// Whether many tiles of keys add to a row of dq.
bool sums_dq(const AttendBackwardVariant& variant);

// How often a launch takes each tile of keys: for every key head, or, where kernels that sum dq give the
// query heads of a key head to different thread blocks (hopper::splits_query_heads()), for every query head.
// call: as launched.
std::int64_t key_tile_heads(const AttendBackward& call, const AttendBackwardVariant& variant);

// Of kernels that sum dq, tile by tile: how many heads the launch has side by side if tiles of keys are
// listed by sequences, 0 without heads; and whether in turn the first piece of dq is stored, so that nobody
// sets dq to 0 before (hopper::fused_heads_per_group(), heads_that_take_turns(), hopper::stores_first_dq()).
int fused_heads_together(const ChosenBackward& chosen, const AttendBackward& call, int sms);
bool stores_first_dq(const ChosenBackward& chosen, const AttendBackward& call);
// Whether the variant's own launch rounds the dq that it sums, which chains do. Whether another launch does,
// behind it; and whether others do of dk and dv. The answers are the same for a call and for what
// as_launched() makes of it.
bool rounds_dq(const ChosenBackward& chosen, const AttendBackward& call);
bool casts_dq(const ChosenBackward& chosen, const AttendBackward& call);
bool casts_dkv(const ChosenBackward& chosen, const AttendBackward& call);

// The variant that takes the call, chosen among variants_for() as options.way says, and its tiles.
// Throws std::invalid_argument if no variant fits, or if the call is too large for a GPU kernel.
ChosenForward choose_variant(const Attend& call, const VariantOptions& options);
ChosenBackward choose_variant(const AttendBackward& call, const VariantOptions& options);

// Why a call is not carried out by the kernels that are preferred on that device for its dtype and head size:
// they do not take it, and choose_variant() gives it to a slower family (then which they are, and the first
// of their conditions that it does not meet); or no kernel on tensor cores has its head size or dtype, and a
// general one takes it.
struct FallBack {
  std::string_view preferred;  // a variant's name, valid for good
  Misfit reason = {};
  // What no kernel on tensor cores does ("has head size 256", "takes fp32"; empty: `reason` says it), and
  // which head sizes they have ("64, 128").
  std::string missing = {}, sizes = {};
  // How many times as long for a FLOP as `preferred` at its own head size, with all multiprocessors busy; 0:
  // not much longer.
  double times_slower = 0;
  // Of a prediction: why `run` refuses the call in the build that is asked about, where another one has the
  // kernel.
  std::string refused = {};

  // "not attend hopper bf16 128: k has rows in 4 runs"; "not attend hopper bf16 128: no kernel on tensor
  // cores has head size 256 (this build has head sizes 64, 128); about 260 times slower for a FLOP"
  std::string text() const;
};
std::optional<FallBack> fall_back(const Attend& call, const VariantOptions& options);
std::optional<FallBack> fall_back(const AttendBackward& call, const VariantOptions& options);

// Throws std::invalid_argument if a view has more rows or heads than a launch can have.
void require_launchable(const View& view);

}  // namespace cplab::kernels::cuda
