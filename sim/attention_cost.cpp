// What attention kernels cost: measured tables, and between their points the tiles that a launch cuts.
#include "sim/attention_cost.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>

#include "plan/live_pairs.hpp"
#include "sim/attention_traffic.hpp"
#include "sim/attention_variant.hpp"
#include "sim/beside_attention.hpp"
#include "sim/digest.hpp"
#include "sim/known_operation.hpp"
#include "sim/masked_cost.hpp"
#include "sim/table_walk.hpp"
#include "sim/tile_ratios.hpp"
#include "sim/wave_times.hpp"
#include "sim/waves.hpp"

namespace cplab {
namespace {

class Costs {
 public:
  Costs(const Hardware& hardware, ClockLift lift, RowwiseCost rowwise)
      : hardware_(hardware),
        lift_(std::move(lift)),
        beside_(hardware, std::move(rowwise)),
        variants_(hardware, true) {
    library_[0] = cplab::takes_library(hardware, OpKind::attend);
    library_[1] = cplab::takes_library(hardware, OpKind::attend_backward);
    for (const KernelTable& table : hardware.kernels) {
      if (!has_square_points(table.kind)) continue;
      table_of(waves_, table).add(table);
      if (family_of(table) != KernelFamily::foreign) table_of(ratios_, table).add(table);
    }
  }

  KernelCost operator()(const Plan& plan, const CallConverter& calls, const Operation& op) {
    const Digest key = known_by(calls, op);
    const auto known = known_.find(key);
    return known != known_.end() ? known->second
                                 : known_.emplace(key, cost_of(plan, calls, op)).first->second;
  }

 private:
  KernelCost cost_of(const Plan& plan, const CallConverter& calls, const Operation& op) {
    const AttentionVariant& variant =
        variants_.of(calls, op, reserved_sms(plan.scenario.schedule, hardware_.gpu.sms));
    const Shape shape = shape_of(plan, calls, op, variant);
    const auto segments = calls.plan().segments_of(op);
    const Asked asked{shape, digest_of(segments)};
    auto known = remembered_.find(asked);
    if (known == remembered_.end())
      known = remembered_.emplace(asked, computed(shape, segments, variant)).first;
    KernelCost cost = known->second;
    if (cost.parts.of(Origin::measured) < cost.parts.total() || shape.by_model)
      hold_to_memory(attention_bytes(plan, calls.plan(), op), cost);
    if (plan.scenario.problem.changes_logits()) {
      add_mask(plan.scenario.problem, calls.calls(op).front().call, hardware_.gpu.copy_bytes_s, cost);
      if (variant.changes_scores) cost.seconds *= variant.longer, cost.persistent = known->second.persistent;
      cost.parts = {};
    }
    if (cost.parts.total() <= 0) cost.parts.add(cost.origin, cost.seconds);
    if (const double lift = lift_.of(calls.plan().rank); lift > 0) {
      const double speed = attention_speed(hardware_.burst, shape.head_size, lift);
      cost.seconds /= speed;
      // So much of the time as the clock makes up is known no better than how far it rises.
      cost.parts.scale(1 / (speed * speed));
      cost.parts.add(hardware_.burst.provenance.origin, cost.seconds * (1 - 1 / speed));
    }
    // What these merge or add to is in the model of their tiles, if there is one, or of a second launch.
    const bool modelled = variant.family == KernelFamily::decode ||
                          (variant.family == KernelFamily::hopper && variant.tiles_s > 0);
    if (hardware_.elementwise.apart)
      beside_.add_apart(plan, calls.plan(), op, cost);
    else if (!variant.adds_by_tma && !modelled)
      beside_.add_updates(plan, calls.plan(), op, cost);
    if (hardware_.elementwise.gathers) beside_.add_gathers(plan, calls.plan(), op, cost);
    // A library's call rounds its gradients and computes delta itself.
    if (shape.tables != KernelFamily::foreign && !takes_library(shape))
      beside_.add_launches(plan, calls, op, variant, cost);
    cost.seconds /= hardware_.attention_speed;
    cost.parts.scale(1 / hardware_.attention_speed);
    cost.origin = cost.parts.most();
    return cost;
  }

  // Tables that say what a variant costs: its own family's. Without any, those of a library's kernels, which
  // are about as fast as our fastest on that GPU; else the family's nearest in speed. `speed`, relative to
  // theirs, is somebody's guess.
  struct Tables {
    KernelFamily family = KernelFamily::hopper;
    double speed = 1;
    Origin floor = Origin::measured;
  };

  // What the cost of an attention kernel depends on, besides its segments and write modes (add_updates).
  struct Shape {
    OpKind kind = OpKind::attend;
    DType dtype = DType::bf16;
    std::int64_t heads = 0, head_size = 0, value_size = 0;
    std::string_view variant;
    bool fell_back = false;
    double tiles_s = 0, tiles = 0;
    bool by_model = false;
    KernelFamily tables = KernelFamily::hopper;
    double speed = 1;
    Origin floor = Origin::measured;
    bool operator==(const Shape&) const = default;
    bool by_key() const { return kind == OpKind::attend_backward; }
  };

  Shape shape_of(const Plan& plan, const CallConverter& calls, const Operation& op,
                 const AttentionVariant& variant) const {
    const AttentionExtents of = extents_of(calls.calls(op).front().call);
    Shape shape{.kind = op.kind,
                .dtype = plan.scenario.problem.dtype,
                .heads = of.heads,
                .head_size = of.head_size,
                .value_size = of.value_size,
                .variant = variant.name,
                .fell_back = variant.fall_back.has_value(),
                .tiles_s = variant.tiles_s,
                .tiles = variant.tiles,
                .by_model = variant.by_model};
    const bool library = takes_library(shape) && !is_masked(plan);
    if (shape.by_model && !library) return shape;
    shape.by_model = false;
    const Tables tables = tables_for(shape, variant);
    shape.tables = tables.family;
    shape.speed = tables.speed;
    shape.floor = tables.floor;
    if (variant.family == KernelFamily::hopper && !library) {  // takes the time of what it pads heads to
      const AttentionExtents kernel = padded_extents(of);
      shape.head_size = kernel.head_size;
      shape.value_size = kernel.value_size;
      if (kernel != of) shape.floor = worst(shape.floor, Origin::extrapolated);
    }
    return shape;
  }

  template <class Table>
  Table& table_of(std::vector<Table>& tables, const KernelTable& table) const {
    const auto found =
        std::find_if(tables.begin(), tables.end(), [&](const Table& t) { return t.takes(table); });
    if (found != tables.end()) return *found;
    return tables.emplace_back(table, hardware_, hardware_.burst.speed);
  }

  bool takes_library(const Shape& shape) const {
    return library_[shape.kind == OpKind::attend ? 0 : 1] && has_dtype(shape);
  }
  static bool is_masked(const Plan& plan) { return plan.scenario.problem.changes_logits(); }
  bool has_dtype(const Shape& shape) const {
    return std::ranges::any_of(waves_, [&](const WaveTimes& candidate) {
      return candidate.table->kind == shape.kind && candidate.table->dtype == shape.dtype;
    });
  }

  // The fastest kernels that the file times: a library's, else Hopper's.
  Tables tables_of_library(const Shape& shape) const {
    Tables best{KernelFamily::general, 1, Origin::assumed};
    for (const WaveTimes& candidate : waves_)
      if (candidate.table->kind == shape.kind && candidate.table->dtype == shape.dtype)
        best.family = std::min(best.family, candidate.family);  // declared from fastest to slowest
    return best;
  }

  Tables tables_for(const Shape& shape, const AttentionVariant& variant) const {
    if (takes_library(shape)) return tables_of_library(shape);
    std::optional<Tables> best;
    double best_distance = 0;
    for (const WaveTimes& candidate : waves_) {
      const KernelTable& table = *candidate.table;
      if (table.kind != shape.kind || table.dtype != shape.dtype) continue;
      if (candidate.family == variant.family)
        return {variant.family, 1, variant.by_other_tiles ? Origin::extrapolated : Origin::measured};
      if (candidate.family == KernelFamily::foreign) {
        // On Hopper the portable kernels on tensor cores are slower than a library's, which are made for it.
        const bool slower = variant.family == KernelFamily::mma && tables_of_hopper();
        // They say what our kernels take only where the file is meant to be of theirs.
        const bool theirs = !hardware_.kernels_of.empty() && hardware_.kernels_of == table.variant;
        best = {candidate.family, slower ? relative_speed(shape.kind, variant.family, hardware_.rates) : 1,
                slower                         ? Origin::assumed
                : variant.fall_back || !theirs ? Origin::extrapolated
                                               : Origin::measured};
        best_distance = -1;
        continue;
      }
      const double speed = relative_speed(shape.kind, variant.family, hardware_.rates) /
                           relative_speed(shape.kind, candidate.family, hardware_.rates);
      const double distance = std::abs(std::log(speed));
      if (best && distance >= best_distance) continue;
      best = {candidate.family, speed, Origin::assumed};
      best_distance = distance;
    }
    return best.value_or(Tables{KernelFamily::foreign});  // choose() says what is missing
  }

  bool tables_of_hopper() const {
    const int major = hardware_.curve_sm_major > 0 ? hardware_.curve_sm_major : hardware_.gpu.sm_major;
    return major == 9;
  }

  // How far the head size of a table is from the call's, by FLOPs per pair; 0: the same.
  static double distance(const KernelTable& table, const Shape& shape) {
    if (table.head_size == shape.head_size && table.value_size == shape.value_size) return 0;
    return 1 + std::abs(std::log(scale_of(table, shape)));
  }
  static double scale_of(const KernelTable& table, const Shape& shape) {
    return flops_per_pair(table.kind, shape.head_size, shape.value_size) /
           flops_per_pair(table.kind, table.head_size, table.value_size);
  }

  // The tile heights that kernels for a call may have: the variant's own where a table names it, else those
  // of the tables of the nearest head size.
  std::vector<int> heights(const Shape& shape) const {
    std::vector<int> found;
    double nearest = std::numeric_limits<double>::infinity();
    for (const WaveTimes& candidate : waves_) {
      const KernelTable& table = *candidate.table;
      if (table.kind != shape.kind || table.dtype != shape.dtype || candidate.family != shape.tables)
        continue;
      const double away = distance(table, shape);
      if (away == 0 && table.variant == shape.variant) return {table.tile_rows};
      if (away > nearest) continue;
      if (away < nearest) found.clear();
      nearest = away;
      if (std::find(found.begin(), found.end(), table.tile_rows) == found.end())
        found.push_back(table.tile_rows);
    }
    if (found.empty()) found.push_back(0);  // choose() says what is missing
    return found;
  }

  // The table of that mask and dtype of the call's tables, of the nearest head size. If there is none, the
  // other mask's table, as an extrapolation. tile_rows: of that height; 0: of any.
  template <class Table>
  struct Choice {
    const Table* table = nullptr;
    Origin floor = Origin::measured;
  };
  template <class Table>
  Choice<Table> choose(const std::vector<Table>& tables, const Shape& shape, bool causal,
                       int tile_rows) const {
    Choice<Table> best;
    double best_cost = 0;
    for (const Table& candidate : tables) {
      const KernelTable& table = *candidate.table;
      if (table.kind != shape.kind || table.dtype != shape.dtype || candidate.family != shape.tables ||
          (tile_rows > 0 && table.tile_rows != tile_rows))
        continue;
      const double cost = distance(table, shape) + (table.causal != causal ? 0.5 : 0);
      if (best.table != nullptr && cost >= best_cost) continue;
      best_cost = cost;
      best = {&candidate, cost > 0 ? Origin::extrapolated : Origin::measured};
    }
    if (best.table == nullptr) throw_missing(shape);
    return best;
  }

  [[noreturn]] void throw_missing(const Shape& shape) const {
    const std::string kind(name(shape.kind));
    std::string there;
    for (const WaveTimes& candidate : waves_) {
      const std::string dtype(name(candidate.table->dtype));
      if (candidate.table->kind != shape.kind || there.find(dtype) != std::string::npos) continue;
      there += (there.empty() ? "dtype=" : ", dtype=") + dtype;
    }
    throw HardwareError("kernel", "class=" + kind + " dtype=" + std::string(name(shape.dtype)),
                        "the plan needs this table and there is none; of class " + kind + " there is " +
                            (there.empty() ? "none at all" : there));
  }

  // Ranks repeat few shapes, which are remembered by what the cost depends on.
  struct Asked {
    Shape shape;
    Digest segments;
    bool operator==(const Asked&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Asked& asked) const { return Digest::Hash()(asked.segments); }
  };
  static Digest digest_of(std::span<const Segment> segments) {
    Digest digest;
    for (const Segment& s : segments)
      digest.add({s.q_begin, s.q_count, s.k_begin, s.k_count, s.offset, s.left, s.right});
    return digest;
  }

  // Kernels that have no tables; models of what they do have been held against runs on one H200. Those on
  // tensor cores are of dynamic masks: add_mask() says how sure that is.
  KernelCost modelled(const Shape& shape, KernelFamily family) const {
    KernelCost cost;
    cost.seconds = shape.tiles_s;
    cost.origin = family == KernelFamily::general ? Origin::assumed : Origin::extrapolated;
    fill_waves(std::max(shape.tiles, 1.0), cost);
    return cost;
  }

  void fill_waves(double tiles, KernelCost& cost) const {
    const Waves waves = waves_of(tiles, hardware_.gpu.sms);
    cost.waves = waves.count;
    cost.tail_sms = waves.tail_sms;
    cost.useful_sms = hardware_.gpu.sms;
  }

  // Tables are a launch and a share of the peak that they were measured with.
  KernelCost computed(const Shape& shape, std::span<const Segment> segments,
                      const AttentionVariant& variant) const {
    KernelCost cost = at_measured_peak(shape, segments, variant);
    const double scale = hardware_.peak_scale(shape.dtype);
    if (scale == 1) return cost;
    const double launch_s = std::min(cost.seconds, hardware_.gpu.least_kernel_s), before_s = cost.seconds;
    cost.seconds = launch_s + (cost.seconds - launch_s) * scale;
    const Origin floor = worst(hardware_.gpu.provenance.origin, Origin::extrapolated);
    cost.origin = worst(cost.origin, floor);
    cost.parts.raise(floor);
    cost.parts.scale(cost.seconds / before_s);
    return cost;
  }

  // Of several tile heights that nobody chose between the fastest is taken.
  KernelCost at_measured_peak(const Shape& shape, std::span<const Segment> segments,
                              const AttentionVariant& variant) const {
    if (shape.by_model) return modelled(shape, variant.family);
    std::optional<KernelCost> best;
    // Tables of kernels of ours of the family that takes the call, whose tiles are known.
    if (variant.tiles_s > 0 && shape.tables == variant.family) {
      best = by_tiles(shape, segments);
    } else {
      for (const int tile_rows : heights(shape)) {
        const KernelCost cost = by_waves(shape, segments, tile_rows);
        if (!best || cost.seconds < best->seconds) best = cost;
      }
    }
    best->seconds /= shape.speed;
    best->parts.raise(shape.floor);
    best->parts.scale(best->parts.total() > 0 ? best->seconds / best->parts.total() : 0);
    best->origin = best->parts.most();
    best->persistent = shape.tables == KernelFamily::hopper;
    return *best;
  }

  // Rows that meet all keys of their segment are those of the full mask's table.
  KernelCost by_tiles(const Shape& shape, std::span<const Segment> segments) const {
    const auto causal = choose(ratios_, shape, true, 0), full = choose(ratios_, shape, false, 0);
    double all_pairs = 0;
    for (const Segment& segment : segments) all_pairs += live_pairs(segment);
    KernelCost cost;
    const bool squares = are_squares(segments);
    for (const Segment& segment : segments) {
      const double pairs = live_pairs(segment);
      if (pairs <= 0) continue;
      const double met = pairs / static_cast<double>(segment.q_count);
      const double unmasked = rows_that_meet_all(segment);
      const auto add = [&](const Choice<TileRatios>& choice, double weight) {
        if (weight <= 0) return;
        const TileRatio ratio = choice.table->at(met, shape.tiles);
        const double seconds = weight * shape.tiles_s * pairs / all_pairs / ratio.of_model;
        cost.seconds += seconds;
        const Origin origin = worst(ratio.origin, choice.floor);
        cost.parts.add(squares ? origin : worst(origin, Origin::interpolated), seconds);
      };
      add(causal, 1 - unmasked);
      add(full, unmasked);
    }
    fill_waves(shape.tiles, cost);
    return cost;
  }

  KernelCost by_waves(const Shape& shape, std::span<const Segment> segments, int tile_rows) const {
    const auto causal = choose(waves_, shape, true, tile_rows),
               full = choose(waves_, shape, false, tile_rows);
    const bool both_sides = causal.table->table->both_sides;
    std::vector<SegmentTiles> all;
    double tiles = 0;
    for (const TableWalk& walk : walks_of(segments, shape.by_key())) {
      const TableWalk read = both_sides ? walk.on_both_sides() : walk;
      const double more = walk.met / read.met;
      all.push_back({.tiles = blocks_of(walk.rows(), shape.heads, std::max(tile_rows, 1)),
                     .walk = read,
                     .causal = causal.table,
                     .full = full.table,
                     .causal_floor = causal.floor,
                     .full_floor = full.floor,
                     .causal_scale = more * scale_of(*causal.table->table, shape),
                     .full_scale = more * scale_of(*full.table->table, shape)});
      tiles += all.back().tiles;
    }
    KernelCost cost;
    fill_waves(tiles, cost);
    if (all.empty()) return cost;
    const TableWalk walk = all.front().walk;
    const WaveTimes& table = walk.unmasked < 1 ? *causal.table : *full.table;
    cost.seconds = launch_s(std::move(all), hardware_.gpu.sms, cost.parts);
    if (cost.parts.total() <= 0) cost.parts.add(Origin::measured, cost.seconds);  // the launch alone
    if (!are_squares(segments) || !table.is_point(walk.met, tiles)) cost.parts.raise(Origin::interpolated);
    return cost;
  }

  // Whether they are what a point of a table is measured on: a batch of equal squares, full or causal.
  static bool are_squares(std::span<const Segment> segments) {
    return std::all_of(segments.begin(), segments.end(), [&](const Segment& segment) {
      const double pairs = live_pairs(segment);
      return segment.q_count == segments.front().q_count && pairs == live_pairs(segments.front()) &&
             segment.q_count == segment.k_count &&
             (pairs == square_pairs(segment.q_count, false) || pairs == square_pairs(segment.q_count, true));
    });
  }

  // What nobody measured does not move its operands faster than memory does; what somebody did may have
  // found them in the L2 cache.
  void hold_to_memory(double bytes, KernelCost& cost) const {
    const double least_s = bytes / hardware_.gpu.copy_bytes_s;
    if (cost.seconds >= least_s) return;
    cost.seconds = least_s;
    cost.origin = worst(hardware_.gpu.provenance.origin, Origin::extrapolated);
    cost.parts = {};
  }

  const Hardware& hardware_;
  ClockLift lift_;
  BesideAttention beside_;
  AttentionVariants variants_;
  std::array<bool, 2> library_{};   // of attend, of attend_backward: takes_library() of the machine
  std::vector<WaveTimes> waves_;    // of all tables
  std::vector<TileRatios> ratios_;  // of those of kernels of ours
  std::unordered_map<Asked, KernelCost, Hash> remembered_;
  std::unordered_map<Digest, KernelCost, Digest::Hash> known_;  // of operations
};

}  // namespace

KernelCostFunction attention_cost(const Hardware& hardware, ClockLift lift, RowwiseCost rowwise_cost) {
  const auto costs = std::make_shared<Costs>(hardware, std::move(lift), std::move(rowwise_cost));
  return [costs](const Plan& plan, const CallConverter& calls, const Operation& op) {
    return (*costs)(plan, calls, op);
  };
}

}  // namespace cplab
