// The model of tiles, waves and memory; see predicted_time.hpp.
#include "kernels/work/predicted_time.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <numeric>
#include <vector>

#include "kernels/work/fits.hpp"
#include "kernels/work/general_time.hpp"
#include "kernels/work/tile_order.hpp"
#include "kernels/work/turns.hpp"

namespace cplab::kernels::cuda {
namespace {

constexpr double us = 1e-6;
constexpr double launch_us = measured("launch");

// Of the fastest product (A100 80GB, RTX 3090, RTX 4090, H200), bytes/s, from their data sheets.
double memory_bytes_s(int sm_major, int sm_minor) {
  if (sm_major == 9) return 4.8e12;
  if (sm_major == 8) return sm_minor == 0 ? 2.04e12 : sm_minor == 6 ? 0.94e12 : 1.01e12;
  return 1e13;  // not known: no limit
}

// Of row-wise kernels, as measured on that product.
double rowwise_bytes_s(int sm_major, int sm_minor) {
  return sm_major == 9 ? measured("rowwise_memory") : memory_bytes_s(sm_major, sm_minor);
}

// Of a head size, on the line through the costs at 64 and 128.
double at(double head_size, double at_64, double at_128) {
  return std::max(at_64 + (at_128 - at_64) * (head_size - 64) / 64, at_64 / 4);
}

// Tiles of every height cost the same.
TileCosts same(double cost) {
  return {cost, cost, cost};
}

double of_memory_us(std::initializer_list<const View*> views, const VariantOptions& options) {
  double bytes = 0;
  for (const View* view : views)
    bytes += static_cast<double>(view->rows * view->heads * view->width) *
             static_cast<double>(bytes_of(view->dtype));
  return bytes / memory_bytes_s(options.sm_major, options.sm_minor) / us;
}

double of_rowwise_us(std::initializer_list<const View*> views, const VariantOptions& options) {
  return of_memory_us(views, options) * memory_bytes_s(options.sm_major, options.sm_minor) /
         rowwise_bytes_s(options.sm_major, options.sm_minor);
}

// Beside the list of tiles and their costs. rows_us: what every tile takes for its results, where they go
// row by row; block: tile_times(); in_turn: how many query heads a tile of keys walks over, one after the
// other, with one epilogue for all.
struct TileExtras {
  double rows_us = 0;
  std::int64_t block = 128;
  double in_turn = 1;
  double beyond = measured("tile_cost_beyond_keys");  // what a tile takes beside its keys or queries
  double least = 0;                                   // and whatever they are
  double partial_us = 0;    // what the last block of a tile's queries takes longer if it is partial
  double dkv_turns_us = 0;  // what a short tile waits for its turns to add to dk and dv
};

// Of a tile of keys: how many of its segments it walks over in blocks of which the last is partial.
int partial_walks(const WorkTables& work, const WorkTile& tile, std::int64_t block) {
  int count = 0;
  for (std::int32_t at = tile.first; at < tile.first + tile.count; ++at) {
    const RowRange rows = queries_of(tile, work.segments[static_cast<std::size_t>(at)]);
    count += (rows.end - rows.begin) % block != 0;
  }
  return count;
}

std::vector<double> times_us(const WorkTables& work, const TileCosts& costs, bool by_key,
                             const TileExtras& extras) {
  std::vector<double> times = tile_times(work, costs, by_key, extras.block);
  if (by_key) times.resize(static_cast<std::size_t>(live_tiles(work)));  // what no query sees is only zeroed
  const double once = extras.beyond * costs[0];
  for (std::size_t n = 0; n < times.size(); ++n) {
    double& time = times[n];
    if (extras.partial_us > 0) time += extras.partial_us * partial_walks(work, work.tiles[n], extras.block);
    time += once - measured("tile_cost_beyond_keys") * costs[0];
    if (extras.in_turn > 1) time = once + (time - once) * extras.in_turn;
    constexpr double hidden = measured("hopper_ordered_dkv_hidden");
    time += extras.dkv_turns_us * hidden / (hidden + time);
    time = std::max(time + extras.rows_us, extras.least);
  }
  return times;
}

double of_tiles_us(const WorkTables& work, const TileCosts& costs, const TileWalk& walk, bool by_key,
                   const TileExtras& extras = {}) {
  if (work.tiles.empty() || walk.heads == 0) return 0;
  TileWalk own = walk;
  own.fixed_share = walk.fixed_share && work.even;
  return makespan(times_us(work, costs, by_key, extras), own);
}

// A warp of a kernel for Hopper has 16 rows of a tile's results. What has the dtype of q, and sums of
// gradients in fp32, leave through TMA, which first loads what they are merged with or added to. Else the
// warp takes its rows one after the other, with the products at rest: one that is merged or added to is read
// first, and the next waits for it.
double forward_rows_us(const Attend& call) {
  if (call.write == Write::merge)
    return call.out.dtype == call.q.dtype ? measured("hopper_merged_tile") : measured("hopper_merged_rows");
  return call.out.dtype == call.q.dtype ? 0 : measured("hopper_stored_rows");
}

double backward_rows_us(const AttendBackward& call) {
  if (call.dk.dtype == DType::fp32) return 0;
  if (call.write_dk == Write::add)
    return call.dk.dtype == call.k.dtype ? measured("hopper_added_tile") : measured("hopper_added_rows");
  return call.dk.dtype == call.k.dtype ? 0 : measured("hopper_stored_rows");
}

double rows_apart_us(Write write, bool by_tma) {
  if (write == Write::add) return measured("hopper_added_rows");
  return by_tma ? 0 : measured("hopper_stored_rows");
}

// With full masks the tiles of keys of a head all begin at the same queries and queue for their turn to add
// to dq; with others they begin in step (docs/lab/hopper-attention.md). How many queue behind the first: of
// those of a head that begin together.
double tiles_that_queue(const ChosenBackward& chosen, const AttendBackward& call, int sms) {
  std::int64_t keys = 0;
  for (const DeviceSegment& segment : chosen.by_k.segments)
    if (is_full(segment)) keys = std::max<std::int64_t>(keys, segment.k_end - segment.k_begin);
  if (keys == 0 || call.q.heads == 0) return 0;
  const int together = fused_heads_together(chosen, call, sms);
  const double tiles = std::ceil(static_cast<double>(keys) / chosen.variant->tile_rows);
  return std::min(tiles, std::ceil(static_cast<double>(sms) / std::max(together, 1))) - 1;
}

// With masks tiles of a head have unequal lengths. If each walks over several query heads, one after the
// other, they are soon at several of them, and rows of all of these are in use at once: q and dout, and dq in
// fp32. What the L2 cache does not hold comes from memory again and again; in turn whoever comes next waits
// for it.
double slower_beyond_cache(const ChosenBackward& chosen, const AttendBackward& call, std::int64_t key_heads,
                           int sms) {
  if (key_heads == 0 || key_heads >= call.q.heads || all_full(chosen.by_k)) return 1;
  const std::int64_t rows = std::min(call.q.rows * key_heads, std::int64_t{sms} * chosen.variant->tile_rows);
  const auto row_bytes = static_cast<double>(call.q.width * (2 + 2 + 4));
  const double in_use = static_cast<double>(call.q.heads / key_heads * rows) * row_bytes;
  constexpr double cache = 1.5 * measured("heads_per_group_cache");  // nearly all of it
  const double held = !chosen.variant->takes_turns
                          ? 1
                          : at(static_cast<double>(call.q.width), measured("hopper_ordered_64_held"),
                               measured("hopper_ordered_128_held"));
  // Of a long sequence the tiles that run at once differ less in length, and are in step for longer. In turn
  // it is twice as long before that helps, since one that is late keeps others.
  const double rows_out_of_step =
      measured("hopper_beyond_cache_rows") * (chosen.variant->takes_turns ? 2 : 1);
  const double walked = walked_groups(chosen.by_k.segments, true).most_rows;
  const double out_of_step = rows_out_of_step / std::max(walked, rows_out_of_step);
  return 1 + measured("hopper_beyond_cache") * out_of_step * std::max(in_use / cache - held, 0.0);
}

struct BackwardCosts {
  double keys = 0, queries = 0;  // of a tile of keys, of a tile of queries, us for 128 rows
};

// What the function that owns keys takes of both, where there are two: 4 of 7 products.
BackwardCosts two_functions(double cost) {
  return {cost * 4 / 7, cost * 3 / 7};
}

// Not measured but at head sizes 64 and 128: others on the line through these, as their products need, which
// for keys and values of two sizes are (for dk, dv) two of each, for dq two of keys and one of values. Where
// two warps have the same keys (docs/14-kernels.md) one product is done twice. Half a tile costs half.
BackwardCosts mma_costs(const AttendBackwardVariant& variant) {
  const double D = variant.head_size, E = variant.value_size;
  const auto cost = [](double head_size) {
    return at(head_size, measured("mma_backward_64_cost"), measured("mma_backward_128_cost"));
  };
  const double share = static_cast<double>(variant.tile_rows) / mma_tile_rows;
  const double again = mma_shares_keys({variant.head_size, variant.value_size}) ? 1.25 : 1;
  return {share * again * two_functions(cost((D + E) / 2)).keys,
          share * two_functions(cost((2 * D + E) / 3)).queries};
}

BackwardCosts costs_of(const ChosenBackward& chosen, const AttendBackward& call) {
  const auto head_size = static_cast<int>(call.q.width);
  using Family = AttendBackwardVariant::Family;
  switch (chosen.variant->family) {
    case Family::hopper_chains: return {measured("hopper_chains_64_cost"), 0};
    case Family::hopper_fused:
      if (chosen.variant->tile_rows == hopper_backward_small_tile_rows)
        return {measured("hopper_fused_128_cost_of_64_keys"), 0};
      return {at(head_size, measured("hopper_fused_64_cost"), measured("hopper_fused_128_cost")), 0};
    case Family::hopper_ordered:
      return {all_full(chosen.by_k) ? at(head_size, measured("hopper_ordered_64_full_cost"),
                                         measured("hopper_ordered_128_full_cost"))
                                    : at(head_size, measured("hopper_ordered_64_masked_cost"),
                                         measured("hopper_ordered_128_masked_cost")),
              0};
    case Family::hopper_deterministic:
      return two_functions(
          at(head_size, measured("hopper_apart_64_cost"), measured("hopper_apart_128_cost")));
    case Family::mma: return mma_costs(*chosen.variant);
    case Family::general: break;
  }
  return {};  // general_us()
}

// Every tile reads the rows of Q, dO and dq that it walks over, and writes dq.
double memory_of_chains_us(const ChosenBackward& chosen, const AttendBackward& call) {
  double rows = 0;
  for (const std::int32_t pieces : chosen.chains.pieces) rows += pieces * dq_cell_rows(call.q.width);
  const auto element = static_cast<double>(2 * bytes_of(call.q.dtype) + 2 * bytes_of(call.dq.dtype));
  return rows * static_cast<double>(call.q.heads * call.q.width) * element /
         measured("hopper_chains_memory") / us;
}

}  // namespace

double predicted_seconds(const ChosenForward& chosen, const Attend& call, const VariantOptions& options) {
  using Family = AttendVariant::Family;
  const AttendVariant& variant = *chosen.variant;
  const auto tile_count = static_cast<std::int64_t>(chosen.work.tiles.size()) * call.q.heads;
  TileCosts costs = variant.tile_costs;
  for (double& cost : costs) cost *= variant.slower(tile_count, options.sms);
  if (variant.family == Family::mma)
    costs = same(at((variant.head_size + variant.value_size) / 2.0, measured("mma_forward_64_cost"),
                    measured("mma_forward_128_cost")) *
                 variant.tile_rows / mma_tile_rows);
  const std::int64_t heads = call.q.heads;
  const std::int64_t together =
      variant.family == Family::hopper && heads > 0
          ? hopper::heads_per_group(static_cast<int>(heads), static_cast<int>(call.k.heads),
                                    device_view(call.k, {}))
          : heads;
  const TileWalk walk{.heads = heads,
                      .heads_per_group = std::max<std::int64_t>(together, 1),
                      .sms = variant.places(options.sms),
                      .fixed_share = variant.counts_tiles};
  const double rows_us = variant.family == Family::hopper ? forward_rows_us(call) : 0;
  const double tiles = variant.family == Family::general
                           ? general_us(chosen, call, options.sms)
                           : std::max(of_tiles_us(chosen.work, costs, walk, false, {.rows_us = rows_us}),
                                      variant.least_time(tile_count, options.sms));
  return us * (launch_us + std::max(tiles, of_memory_us({&call.q, &call.k, &call.v, &call.out}, options)));
}

double predicted_seconds(const ChosenBackward& chosen, const AttendBackward& asked,
                         const VariantOptions& options) {
  using Family = AttendBackwardVariant::Family;
  const AttendBackwardVariant& variant = *chosen.variant;
  const AttendBackward call = as_launched(asked, chosen);
  BackwardCosts costs = costs_of(chosen, call);
  const std::int64_t groups = std::max<std::int64_t>(call.k.heads, 1);
  const bool fused = sums_dq(variant);
  const std::int64_t key_heads = key_tile_heads(call, variant);
  const bool splits = key_heads > call.k.heads;
  if (fused && !variant.in_chains) costs.keys *= slower_beyond_cache(chosen, call, key_heads, options.sms);
  const TileWalk by_k{
      .heads = key_heads, .heads_per_group = std::max<std::int64_t>(key_heads, 1), .sms = options.sms};
  const TileWalk by_q{
      .heads = call.q.heads, .heads_per_group = std::max<std::int64_t>(call.q.heads, 1), .sms = options.sms};
  const double in_turn = splits ? 1 : static_cast<double>(call.q.heads) / static_cast<double>(groups);
  TileExtras extras{.in_turn = in_turn};
  if (fused) {
    extras.rows_us = backward_rows_us(call);
    extras.block = dq_cell_rows(call.q.width);
    if (!variant.in_chains) extras.beyond = measured("hopper_fused_beyond");
    extras.partial_us = measured("hopper_fused_partial");
    if (variant.takes_turns && splits)
      extras.dkv_turns_us = measured("hopper_ordered_dkv_turn") * static_cast<double>(call.q.width) / 128 *
                            static_cast<double>(call.q.heads / groups - 1);
  }
  double tiles = 0;
  if (variant.family == Family::hopper_deterministic) {
    // One launch of tiles of keys and then of queries, here for each key head.
    extras.beyond = measured("hopper_apart_beyond");
    if (call.q.width == 64) extras.least = measured("hopper_apart_64_tile");
    extras.rows_us = rows_apart_us(call.write_dk, call.dk.dtype == call.k.dtype);
    std::vector<double> times = times_us(chosen.by_k, same(costs.keys), true, extras);
    extras.in_turn = 1;
    extras.rows_us = rows_apart_us(call.write_dq, call.dq.dtype == call.q.dtype || call.q.width == 128);
    const std::vector<double> for_dq = times_us(chosen.by_q, same(costs.queries), false, extras);
    for (std::int64_t head = 0; head < call.q.heads / groups; ++head)
      times.insert(times.end(), for_dq.begin(), for_dq.end());
    if (!times.empty() && by_k.heads > 0) tiles = makespan(times, by_k);
  } else if (variant.in_chains) {
    const std::vector<double> of_tiles = times_us(chosen.by_k, same(costs.keys), true, extras);
    std::vector<double> times;
    for (const TileChain& chain : chosen.chains.chains)
      times.push_back(
          std::accumulate(of_tiles.begin() + chain.first_tile, of_tiles.begin() + chain.stop_tile, 0.0));
    tiles =
        std::max(makespan(times, by_k), memory_of_chains_us(chosen, call)) + measured("hopper_chains_end");
  } else if (variant.family == Family::general) {
    tiles = launch_us + general_us(chosen, call, options.sms);
  } else {
    tiles = of_tiles_us(chosen.by_k, same(costs.keys), by_k, true, extras);
    if (costs.queries > 0) tiles += launch_us + of_tiles_us(chosen.by_q, same(costs.queries), by_q, false);
  }
  if (variant.family == Family::hopper_ordered)
    tiles += measured("hopper_ordered_queue") * tiles_that_queue(chosen, call, options.sms);
  // The fused kernels add to zeros that another launch writes: to dq, unless in turn the first piece can be
  // stored, and to dk and dv where several thread blocks add to a tile or some tiles have none. Where the
  // call computes delta it is that launch, and a kernel loads its first blocks meanwhile.
  double zeros_us = 0;
  int fills = 0;
  const auto fill = [&](std::initializer_list<const View*> views) {
    zeros_us += of_rowwise_us(views, options);
    ++fills;
  };
  if (fused && !variant.in_chains && !stores_first_dq(chosen, call) && call.write_dq == Write::store)
    fill({&call.dq});
  const bool some_dead = static_cast<std::size_t>(live_tiles(chosen.by_k)) < chosen.by_k.tiles.size();
  // dk and dv are planes of one buffer in plans: one launch for both, if whole.
  if (fused && call.write_dk == Write::store && (splits || some_dead)) fill({&call.dk, &call.dv});
  tiles += call.out ? std::max(0.0, zeros_us - measured("hopper_zeros_beside_delta"))
                    : zeros_us + fills * measured("hopper_fill");
  if (call.out && variant.family == Family::hopper_fused)
    tiles -= call.q.width == 64 ? measured("hopper_loads_beside_delta_64")
                                : measured("hopper_loads_beside_delta_128");
  // At the end of its own launch it takes as long as in a launch behind it, of short calls 1 to 4 us less: a
  // model that took those off chose worse (choice_record_test.cpp).
  if (casts_dq(chosen, call)) tiles += launch_us + of_rowwise_us({&call.dq, &*call.rounded_dq}, options);
  if (casts_dkv(chosen, call))
    tiles += launch_us + of_rowwise_us({&call.dk, &call.dv, &*call.rounded_dk, &*call.rounded_dv}, options);
  double memory =
      of_memory_us({&call.q, &call.k, &call.v, &call.dout, &call.dq, &call.dk, &call.dv}, options);
  if (variant.family == Family::hopper_deterministic)  // both kinds of tiles read them
    memory += of_memory_us({&call.q, &call.k, &call.v, &call.dout}, options);
  return us * (launch_us + std::max(tiles, memory));
}

}  // namespace cplab::kernels::cuda
