// What ring attention registers: its options with defaults, and which combinations it refuses.
#include "algorithms/ring_options.hpp"

#include <string>

#include "algorithms/common_options.hpp"

namespace cplab {
namespace {

std::int64_t count_or_all(const Schedule& s, std::string_view key) {
  return s.is_word(key, "all") ? SoftmaxSumOptions::all : s.count(key);
}

bool not_fused(const Schedule& s) {
  return !s.is_word("merge", "fused");
}

// What the members of a ring send, in both phases.
double ring_bytes(const Scenario& s, const Distribution& ring, Travel travel) {
  const Problem& p = s.problem;
  const bool wide = !s.schedule.is_word("gradient_wire_dtype", "nominal");
  const auto row = [&](Role role) {
    return static_cast<double>(p.kv_heads * (p.head_size + p.value_size) * element_bytes(role, p.dtype));
  };
  const double kv = row(Role::nominal), gradient = row(wide ? Role::wide : Role::nominal);
  double bytes = rotation_bytes(ring, p.visible(), travel, Phase::forward, kv, gradient);
  if (p.has_backward()) bytes += rotation_bytes(ring, p.visible(), travel, Phase::backward, kv, gradient);
  return bytes;
}

}  // namespace

void resolve_ring_defaults(Scenario& scenario, const std::vector<Distribution>& rings) {
  Schedule& s = scenario.schedule;
  if (!s.find("out_slots") && s.is_word("merge", "deferred")) s.set("out_slots", std::string("all"));
  const OptionValue* overlap = s.find("overlap");
  if (overlap && *overlap == OptionValue(false) && !s.find("compute_lanes"))
    s.set("compute_lanes", std::int64_t{1});
  if (s.find("rotation")) return;
  const auto bytes = [&](Travel travel) {
    double sum = 0;
    for (const Distribution& ring : rings) sum += ring_bytes(scenario, ring, travel);
    return sum;
  };
  s.set("rotation", std::string(bytes(Travel::needed) < bytes(Travel::whole) ? "needed" : "whole"));
}

void validate_ring_options(const Schedule& s) {
  if (s.is_word("merge", "fused") && s.find("out_slots"))
    throw ScenarioError("schedule.out_slots", "merge=\"fused\" has no out slots; leave out_slots out");
  if (s.is_word("merge", "deferred") && !s.is_word("out_slots", "all"))
    throw ScenarioError("schedule.out_slots",
                        "merge=\"deferred\" keeps every partial result to the end; legal here: \"all\"");
  if (!s.is_on("overlap") && s.count("compute_lanes") != 1)
    throw ScenarioError("schedule.compute_lanes",
                        "overlap=false runs communication on the one compute lane; legal here: 1");
}

RingOptions ring_options(const Schedule& s) {
  RingOptions o;
  o.kv_slots = count_or_all(s, "kv_slots");
  if (not_fused(s)) o.sum.slots = count_or_all(s, "out_slots");
  o.compute_lanes = s.count("compute_lanes");
  o.sum.merge = s.is_word("merge", "deferred") ? MergeKind::deferred
                : s.is_word("merge", "fused")  ? MergeKind::fused
                                               : MergeKind::incremental;
  o.sum.wide = s.is_word("accumulator", "fp32");
  o.gradient_wire = s.is_word("gradient_wire_dtype", "fp32") ? Role::wide : Role::nominal;
  o.overlap = s.is_on("overlap");
  o.copy_tiles = s.is_word("tile_inputs", "copy");
  o.transport = transport_of(s);
  o.travel = s.is_word("rotation", "needed") ? Travel::needed : Travel::whole;
  return o;
}

std::vector<OptionInfo> ring_option_infos() {
  return {
      {.key = "kv_slots",
       .legal = {option_count(2), option_count(3), option_word("all")},
       .default_value = option_count(2),
       .help = "receive buffers for K and V in the forward; with tile_inputs=copy one of them holds the own "
               "K, V"},
      {.key = "out_slots",
       .legal = {option_count(1), option_count(2), option_word("all")},
       .default_value = option_count(2),
       .applies = not_fused,
       .help = "partial results kept before they are merged; \"all\" for merge=deferred, none for fused"},
      {.key = "compute_lanes",
       .legal = {option_count(1), option_count(2)},
       .default_value = option_count(2),
       .help = "lanes that tiles alternate on in the forward; 1 where overlap=false"},
      {.key = "merge",
       .legal = {option_word("incremental"), option_word("deferred"), option_word("fused")},
       .default_value = option_word("incremental"),
       .help = "after every tile, all at the end, or inside the attention kernel"},
      {.key = "accumulator",
       .legal = {option_word("fp32"), option_word("nominal")},
       .default_value = option_word("fp32"),
       .help = "dtype of the running out and dq"},
      {.key = "gradient_wire_dtype",
       .legal = {option_word("fp32"), option_word("nominal")},
       .default_value = option_word("fp32"),
       .help = "dtype in which dK and dV are summed and sent"},
      {.key = "overlap",
       .legal = {OptionValue(true), OptionValue(false)},
       .default_value = OptionValue(true),
       .help = "communication on a lane of its own"},
      {.key = "tile_inputs",
       .legal = {option_word("view"), option_word("copy")},
       .default_value = option_word("view"),
       .help = "tiles read views, or contiguous copies as in TransformerEngine (slot 0 copies the own K, V)"},
      {.key = "rotation",
       .legal = {option_word("whole"), option_word("needed")},
       .default_value = option_word("whole"),
       .help = "all of K and V go all the way round, or only rows that are needed as far as they are; default: "
               "what sends fewer bytes"},
  };
}

}  // namespace cplab
