// Attention kernels as plain host code knows them: variants, each with a name and what it is made for, and
// what was chosen for a call. Everything that one family of kernels knows of itself is in its folder, behind
// AttendFamily and AttendBackwardFamily (family.hpp); the choice among variants is in kernels/choice.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/choice/kernel_choice.hpp"
#include "kernels/families/fits.hpp"
#include "kernels/families/head_sizes.hpp"
#include "kernels/families/hopper_backward/chains.hpp"
#include "kernels/families/rates.hpp"
#include "kernels/kernels.hpp"
#include "kernels/tiles/row_space.hpp"
#include "kernels/tiles/tile_cuts.hpp"

namespace cplab::kernels::cuda {

class AttendFamily;
class AttendBackwardFamily;

// Variants of one rank compete by their predicted time; those of a lower rank are asked only where none of a
// higher one takes the call.
enum class Rank : std::uint8_t {
  general,      // takes every call
  fallback,     // on tensor cores of every architecture, where the preferred ones have no room
  portable,     // on tensor cores of every architecture
  architecture  // of one architecture alone
};

struct AttendVariant {
  std::string name;  // "attend mma bf16 128": what kernels/cuda and results know it by
  const AttendFamily* family = nullptr;
  Rank rank = Rank::general;
  DType dtype = DType::fp32;   // of q, k and v; general: of the accumulators, fp32 or fp64
  int head_size = 0;           // of keys; 0: any
  int value_size = head_size;  // of values
  int sm_major = 0;            // the only architecture that it has code for (9: Hopper); 0: every one
  std::int32_t tile_rows = 0;  // of query rows, at most
  bool counts_tiles = false;   // fetches uneven tiles by AttendParams::tile_counter
  bool pads = false;           // takes smaller heads too (are_padded_to())

  Unmet unmet(const Attend& call) const;  // nothing: it takes the call
  bool fits(const Attend& call) const { return !unmet(call); }
  HeadSizes sizes() const { return {head_size, value_size}; }
  bool has_code_for(const HeadSizes& heads) const {
    return heads == sizes() || (pads && are_padded_to(sizes(), heads));
  }
};

// How a backward kernel comes to dq.
enum class DqSum : std::uint8_t {
  stored,     // a tile of queries has all keys, and stores it
  any_order,  // tiles of keys add to the dQ accumulator as they come
  ordered,    // tiles of keys add to it in a fixed order: the same bits in every run (turns.hpp)
  in_chains   // one thread block has all tiles of keys that add to a row (chains.hpp)
};

struct AttendBackwardVariant {
  std::string name;
  const AttendBackwardFamily* family = nullptr;
  Rank rank = Rank::general;
  DType dtype = DType::fp32;
  int head_size = 0;  // of keys; 0: any
  int value_size = head_size;
  int sm_major = 0;
  std::int32_t tile_rows = 0;  // of query rows (dq) and of key rows (dk, dv), at most
  DqSum dq = DqSum::stored;
  bool counts_tiles = false;  // fetches tiles by AttendBackwardParams::tile_counter
  bool small_tiles = false;   // mma: fits thread blocks of 99 KiB where the preferred one does not
  bool pads = false;          // takes smaller heads too

  bool deterministic() const { return dq != DqSum::any_order; }  // the same bits in every run
  bool sums_dq() const { return dq != DqSum::stored; }           // many tiles of keys add to a row of dq
  Unmet unmet(const AttendBackward& call) const;                 // of rounded dk and dv: as they are stored
  bool fits(const AttendBackward& call) const { return !unmet(call); }
  HeadSizes sizes() const { return {head_size, value_size}; }
  bool has_code_for(const HeadSizes& heads) const {
    return heads == sizes() || (pads && are_padded_to(sizes(), heads));
  }
};

// What a build of kernels/cuda contains.
struct KernelBuild {
  bool hopper = true;  // CPLAB_HOPPER
  bool full = false;   // CPLAB_KERNELS=full
};

// All variants of a build, family after family in the order of kernels/CMakeLists.txt. The spans stay valid.
std::span<const AttendVariant> attend_variants(const KernelBuild& build);
std::span<const AttendBackwardVariant> attend_backward_variants(const KernelBuild& build);

class MeasuredChoices;  // kernels/choice/measured_choices.hpp

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
  const Rates* rates = nullptr;       // of the machine; outlives the options. Null: of the compute capability

  const Rates& speeds() const { return rates != nullptr ? *rates : shipped_rates(sm_major, sm_minor); }
};

struct ChosenForward {
  const AttendVariant* variant = nullptr;
  WorkTables work;                       // tiles of query rows
  std::optional<RowSpaces> spaces = {};  // what `work` counts; none: compact rows
  bool even_cuts = true;                 // TilePlan::is_first
};

struct ChosenBackward {
  const AttendBackwardVariant* variant = nullptr;
  WorkTables by_q, by_k;  // tiles of query rows (for dq) and of key rows (for dk, dv)
  std::optional<RowSpaces> spaces = {};
  TileChains chains = {};  // of by_k, if the variant sums dq in chains
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

// How often a launch takes each tile of keys: for every key head, or, where kernels that sum dq give the
// query heads of a key head to different thread blocks (hopper::splits_query_heads()), for every query head.
// call: as launched.
std::int64_t key_tile_heads(const AttendBackward& call, const AttendBackwardVariant& variant);

// Whether the variant's own launch rounds the dq that it sums, which chains do. Whether another launch does,
// behind it; and whether others do of dk and dv. The answers are the same for a call and for what
// as_launched() makes of it.
bool rounds_dq(const ChosenBackward& chosen, const AttendBackward& call);
bool casts_dq(const ChosenBackward& chosen, const AttendBackward& call);
bool casts_dkv(const ChosenBackward& chosen, const AttendBackward& call);

// Throws std::invalid_argument if a view has more rows or heads than a launch can have.
void require_launchable(const View& view);

}  // namespace cplab::kernels::cuda
