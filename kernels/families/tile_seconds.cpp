// Times of tiles; see tile_seconds.hpp.
#include "kernels/families/tile_seconds.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <utility>

#include "kernels/tiles/tile_order.hpp"

namespace cplab::kernels::cuda {
namespace {

double bytes_of_views(std::initializer_list<const View*> views) {
  double bytes = 0;
  for (const View* view : views)
    bytes += static_cast<double>(view->rows * view->heads * view->width) *
             static_cast<double>(bytes_of(view->dtype));
  return bytes;
}

// Of a tile of keys: how many of its segments it walks over in blocks of which the last is partial.
int partial_walks(const WorkTables& work, const WorkTile& tile, std::int64_t block) {
  int count = 0;
  for (std::int32_t at = tile.first; at < tile.first + tile.count; ++at) {
    const RowRange rows = queries_of(tile, work.segments[static_cast<std::size_t>(at)]);
    count += (rows.end - rows.begin) % block != 0;
  }
  return count;
}

template <class Call>
void set_rows(CallRows& rows, const Call& call, bool in_spaces) {
  rows.q = call.q.rows;
  rows.k = call.k.rows;
  rows.live = live_segments(call.segments);
  if (!in_spaces) return;
  rows.spaces = row_spaces(call);
  const RowSpaces& in = rows.spaces.value();  // a variant that fits the call has them
  rows.q = in.q.rows;
  rows.k = in.k.rows;
  rows.q_ranges = in.q.ranges();
  rows.k_ranges = in.k.ranges();
  rows.live = in_space(rows.live, in.q, in.k);
}

}  // namespace

double at_head_size(double head_size, double at_64, double at_128) {
  return std::max(at_64 + (at_128 - at_64) * (head_size - 64) / 64, at_64 / 4);
}

double hopper_backward_flop_us(const HeadSizes& sizes, const Rates& rates) {
  return under_load *
         at_head_size((sizes.key + sizes.value) / 2.0, rates[Rate::hopper_backward_d64_us],
                      rates[Rate::hopper_backward_d128_us]) /
         (128 * 128) / backward_flops(sizes);
}

TileCosts same_costs(const Rates& rates, double of_128_keys) {
  return {
      {of_128_keys, of_128_keys, of_128_keys}, rates[Rate::tile_beyond_keys], rates[Rate::tile_masked_block]};
}

namespace {

// The part of a side's rows that some segment names.
double share_of_rows(std::span<const Segment> segments, std::int64_t Segment::*begin,
                     std::int64_t Segment::*count, std::int64_t all) {
  std::vector<std::pair<std::int64_t, std::int64_t>> runs;
  for (const Segment& segment : segments) runs.emplace_back(segment.*begin, segment.*begin + segment.*count);
  std::sort(runs.begin(), runs.end());
  std::int64_t rows = 0, end = 0;
  for (const auto& [first, last] : runs) {
    rows += std::max<std::int64_t>(0, last - std::max(first, end));
    end = std::max(end, last);
  }
  return all > 0 ? static_cast<double>(rows) / static_cast<double>(all) : 0;
}

template <class Call>
double moved_us(const Call& call, std::initializer_list<const View*> of_queries,
                std::initializer_list<const View*> of_keys, const Rates& rates) {
  const double queries = share_of_rows(call.segments, &Segment::q_begin, &Segment::q_count, call.q.rows),
               keys = share_of_rows(call.segments, &Segment::k_begin, &Segment::k_count, call.k.rows);
  return (queries * bytes_of_views(of_queries) + keys * bytes_of_views(of_keys)) /
         rates[Rate::memory_bytes_s] / us;
}

}  // namespace

double memory_us(const Attend& call, const Rates& rates) {
  return moved_us(call, {&call.q, &call.out}, {&call.k, &call.v}, rates);
}

double memory_us(const AttendBackward& call, const Rates& rates) {
  return moved_us(call, {&call.q, &call.dout, &call.dq}, {&call.k, &call.v, &call.dk, &call.dv}, rates);
}

double inputs_us(const AttendBackward& call, const Rates& rates) {
  return moved_us(call, {&call.q, &call.dout}, {&call.k, &call.v}, rates);
}

double rowwise_us(std::initializer_list<const View*> views, const Rates& rates) {
  return bytes_of_views(views) / rates[Rate::rowwise_bytes_s] / us;
}

std::vector<double> tiles_us(const WorkTables& work, const TileCosts& costs, bool by_key,
                             const TileExtras& extras) {
  std::vector<double> times = tile_times(work, costs, by_key, extras.block);
  if (by_key) times.resize(static_cast<std::size_t>(live_tiles(work)));  // what no query sees is only zeroed
  const double once = extras.beyond.value_or(costs.beyond_keys) * costs.of_rows[0];
  for (std::size_t n = 0; n < times.size(); ++n) {
    double& time = times[n];
    if (extras.partial_us > 0) time += extras.partial_us * partial_walks(work, work.tiles[n], extras.block);
    time += once - costs.beyond_keys * costs.of_rows[0];
    if (extras.heads_walked > 1) time = once + (time - once) * extras.heads_walked;
    time += extras.dkv_turns_us * extras.dkv_hidden_us / (extras.dkv_hidden_us + time);
    time = std::max(time + extras.rows_us, extras.least_us);
  }
  return times;
}

double makespan_us(const WorkTables& work, const TileCosts& costs, const TileWalk& walk, bool by_key,
                   const TileExtras& extras) {
  if (work.tiles.empty() || walk.heads == 0) return 0;
  TileWalk own = walk;
  own.fixed_share = walk.fixed_share && work.even;
  std::vector<double> times = tiles_us(work, costs, by_key, extras);
  if (extras.longest_first) std::sort(times.begin(), times.end(), std::greater<>());
  return makespan(times, own);
}

// At the end of its own launch a cast takes as long as in a launch behind it, of short calls 1 to 4 us less:
// a model that took those off chose worse (tests/kernels/choice_record_test.cpp).
double casts_us(const ChosenBackward& chosen, const AttendBackward& asked, const AttendBackward& launched,
                const Rates& rates) {
  double time = 0;
  if (casts_dq(chosen, asked))
    time += rates[Rate::launch_us] + rowwise_us({&launched.dq, &*asked.rounded_dq}, rates);
  if (casts_dkv(chosen, asked))
    time += rates[Rate::launch_us] +
            rowwise_us({&launched.dk, &launched.dv, &*asked.rounded_dk, &*asked.rounded_dv}, rates);
  return time;
}

CallRows::CallRows(const Attend& call, bool in_spaces) {
  set_rows(*this, call, in_spaces);
}

CallRows::CallRows(const AttendBackward& call, bool in_spaces) {
  set_rows(*this, call, in_spaces);
}

TileProblem query_problem(const CallRows& rows, const AttendBackward& call) {
  return {.live = rows.live,
          .rows = rows.q,
          .keep_empty = call.write_dq == Write::store,
          .ranges = rows.q_ranges};
}

TileProblem key_problem(const CallRows& rows, const AttendBackward& call) {
  return {.live = rows.live,
          .rows = rows.k,
          .by_key = true,
          .keep_empty = call.write_dk == Write::store,
          .ranges = rows.k_ranges};
}

namespace {

// A list of tiles and all that it was made from.
struct KnownTiles {
  std::vector<DeviceSegment> live;
  TileProblem problem;  // but for live
  TileCosts costs;
  TileWalk walk;
  std::int64_t height = 0;
  WorkTables work;

  bool are_of(const TileProblem& of, const TileCosts& tile, const TileWalk& by, std::int64_t rows) const {
    const auto same = [](const DeviceSegment& a, const DeviceSegment& b) {
      return a.q_begin == b.q_begin && a.q_end == b.q_end && a.k_begin == b.k_begin && a.k_end == b.k_end &&
             a.low == b.low && a.high == b.high;
    };
    const auto same_range = [](const RowRange& a, const RowRange& b) {
      return a.begin == b.begin && a.end == b.end;
    };
    return height == rows && problem.rows == of.rows && problem.by_key == of.by_key &&
           problem.keep_empty == of.keep_empty && problem.pieces == of.pieces &&
           problem.in_turn == of.in_turn && problem.may_go_out_of_turn == of.may_go_out_of_turn &&
           walk.heads == by.heads && walk.sms == by.sms && costs.beyond_keys == tile.beyond_keys &&
           costs.masked_block == tile.masked_block &&
           std::ranges::equal(problem.ranges, of.ranges, same_range) &&
           std::ranges::equal(live, of.live, same);
  }
};

}  // namespace

// Variants that compete for a call cut it alike, one after the other: the last few lists are kept.
WorkTables backward_tiles(const TileProblem& problem, std::int64_t heads, std::int64_t height,
                          const VariantOptions& options) {
  constexpr std::size_t kept = 4;
  thread_local std::vector<KnownTiles> known;
  thread_local std::size_t next = 0;
  const TileWalk walk{
      .heads = heads, .heads_per_group = std::max<std::int64_t>(heads, 1), .sms = options.sms};
  const TileCosts equal = same_costs(options.speeds(), 1);
  for (const KnownTiles& each : known)
    if (each.are_of(problem, equal, walk, height)) return each.work;
  WorkTables work = cheapest_tiles(problem, height, equal, walk).work;
  work.alike = are_alike(work, tile_times(work, equal, problem.by_key));
  KnownTiles made{{problem.live.begin(), problem.live.end()}, problem, equal, walk, height, work};
  made.problem.live = {};
  if (known.size() < kept)
    known.push_back(std::move(made));
  else
    known[next++ % kept] = std::move(made);
  return work;
}

ChosenBackward backward_cut(const AttendBackwardVariant& variant, const CallRows& rows,
                            const TileProblem& by_k, const AttendBackward& call,
                            const VariantOptions& options) {
  return {.variant = &variant,
          .by_q = backward_tiles(query_problem(rows, call), call.q.heads, variant.tile_rows, options),
          .by_k = backward_tiles(by_k, call.k.heads, variant.tile_rows, options),
          .spaces = rows.spaces};
}

ChosenForward even_tiles(const AttendVariant& variant, const Attend& call) {
  const CallRows rows(call, false);
  return {&variant,
          query_tiles(rows.live, row_cuts(range_borders(rows.q_ranges, rows.q), variant.tile_rows),
                      call.write == Write::store, rows.q_ranges),
          rows.spaces};
}

}  // namespace cplab::kernels::cuda
