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

void resolve_defaults(Schedule& s) {
  if (!s.find("out_slots") && s.is_word("merge", "deferred")) s.set("out_slots", std::string("all"));
  const OptionValue* overlap = s.find("overlap");
  if (overlap && *overlap == OptionValue(false) && !s.find("compute_lanes"))
    s.set("compute_lanes", std::int64_t{1});
}

void validate(const Scenario& scenario) {
  const Schedule& s = scenario.schedule;
  if (scenario.problem.attention != Attention::softmax)
    throw ScenarioError("problem.attention", "ring computes softmax attention; legal here: \"softmax\"");
  if (s.is_word("merge", "fused") && s.find("out_slots"))
    throw ScenarioError("schedule.out_slots", "merge=\"fused\" has no out slots; leave out_slots out");
  if (s.is_word("merge", "deferred") && !s.is_word("out_slots", "all"))
    throw ScenarioError("schedule.out_slots",
                        "merge=\"deferred\" keeps every partial result to the end; legal here: \"all\"");
  if (!s.is_on("overlap") && s.count("compute_lanes") != 1)
    throw ScenarioError("schedule.compute_lanes",
                        "overlap=false runs communication on the one compute lane; legal here: 1");
}

}  // namespace

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
  o.transport = s.is_word("transport", "copy") ? Transport::copy : Transport::nccl;
  return o;
}

Algorithm ring_algorithm() {
  Algorithm a;
  a.name = "ring";
  a.aliases = {"p2p"};
  a.summary = "K and V travel around the ring (Liu et al. 2023, arXiv 2310.01889; TransformerEngine P2P)";
  a.placements = {"zigzag", "contiguous", "striped"};
  a.options = {
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
  };
  a.resolve_defaults = resolve_defaults;
  a.validate = validate;
  a.build = build_ring;
  return a;
}

}  // namespace cplab
