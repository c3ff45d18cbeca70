// What ring attention registers: its options with defaults, and which combinations it refuses.
#include "algorithms/softmax/ring_options.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <string>
#include <unordered_map>
#include <utility>

#include "algorithms/core/defaults.hpp"
#include "algorithms/core/options.hpp"
#include "algorithms/softmax/softmax.hpp"

namespace cplab {
namespace {

std::int64_t count_or_all(const Schedule& s, std::string_view key) {
  return s.is_word(key, "all") ? SoftmaxSumOptions::all : s.count(key);
}

bool not_fused(const Schedule& s) {
  return !s.is_word("merge", "fused");
}

bool sums_apart(const Schedule& s) {
  return !s.is_word("gradient_sum", "fused");
}

// Tokens of sequences that several members hold: only these are ever needed elsewhere.
Distribution shared_tokens(const Distribution& ring) {
  std::unordered_map<std::int64_t, int> holder;  // by sequence; several: -1
  for (int place = 0; place < ring.size(); ++place)
    for (const TokenRun& run : ring[place].runs)
      if (run.valid > 0 && holder.try_emplace(run.sequence, place).first->second != place)
        holder[run.sequence] = -1;
  Distribution shared;
  for (const Holding& member : ring.members) {
    std::vector<TokenRun> runs;
    std::ranges::copy_if(member.runs, std::back_inserter(runs),
                         [&](const TokenRun& run) { return run.valid > 0 && holder[run.sequence] < 0; });
    shared.members.push_back({std::move(runs), member.heads});
  }
  return shared;
}

// Does it save enough to send only rows that are needed?
bool needed_saves(const Scenario& s, const std::vector<RingTokens>& rings) {
  std::vector<Distribution> shared;
  double all_rows = 0, shared_rows = 0;
  for (const auto& [queries, ring] : rings) {
    shared.push_back(shared_tokens(ring));
    const auto P = static_cast<double>(ring.size());
    for (int place = 0; place < ring.size(); ++place) {
      all_rows += (P - 1) * static_cast<double>(ring[place].rows());
      for (const TokenRun& run : shared.back()[place].runs) shared_rows += P * static_cast<double>(run.rows);
    }
  }
  // Even if all of them go all the way round, and home.
  if (defaults::needed_rows_pay(shared_rows, all_rows)) return true;

  const Problem& p = s.problem;
  const bool wide = !s.schedule.is_word("gradient_wire_dtype", "nominal");
  const auto row = [&](Role role) {
    return static_cast<double>(p.kv_heads * (p.head_size + p.value_size) * element_bytes(role, p.dtype));
  };
  const double kv = row(Role::nominal), gradient = row(wide ? Role::wide : Role::nominal);
  double needed = 0, whole = 0;
  const Visible visible(p);
  for (const Phase phase : {Phase::forward, Phase::backward}) {
    if (phase == Phase::backward && !p.has_backward()) continue;
    for (std::size_t i = 0; i < rings.size(); ++i) {
      needed += rotation_bytes(rings[i].queries, shared[i], visible, Travel::needed, phase, kv, gradient);
      whole += rotation_bytes(rings[i].keys, visible, Travel::whole, phase, kv, gradient);
    }
  }
  return defaults::needed_rows_pay(needed, whole);
}

// Two ranks have two partial results. The first is the running out, and where the kernel merges the second
// into it, it may be rounded in the second's place: as many roundings, and no pass over out but the kernels'.
void merge_two(Schedule& s) {
  if (s.find("merge") || s.find("out_slots")) return;
  s.set("merge", std::string("fused"));
  if (!s.find("out_accumulator") && !s.find("accumulator")) s.set("out_accumulator", std::string("nominal"));
}

// The other rank's share of dK and dV is complete when it is sent, and may be rounded then: the own tile adds
// to it in fp32, and rounds the sum. In parts, because the own tile needs what comes.
void sum_two(Schedule& s) {
  if (s.find("dkv_tile_heads")) return;
  s.set("gradient_sum", std::string("fused"));
  if (!s.find("gradient_wire_dtype")) s.set("gradient_wire_dtype", std::string("nominal"));
  if (!s.find("parts")) s.set("parts", defaults::ring_parts());
}

std::vector<RingTokens> rings_of_all(const Scenario& s) {
  std::vector<RingTokens> rings;
  for (int replica = 0; replica < static_cast<int>(s.parallel.replicas); ++replica) {
    const Distribution queries = placed(s, replica);
    rings.push_back({queries, s.problem.is_cross() ? placed_keys(s, replica) : queries});
  }
  return rings;
}

std::int64_t parts_of(const Schedule& s) {
  return s.find("parts") ? s.count("parts") : 1;
}

}  // namespace

void resolve_ring_defaults(Scenario& scenario, const std::vector<RingTokens>& rings) {
  Schedule& s = scenario.schedule;
  if (!s.find("out_accumulator")) {
    const OptionValue* accumulator = s.find("accumulator");
    s.set("out_accumulator", accumulator ? *accumulator : option_word("fp32"));
  }
  if (!s.find("out_slots") && s.is_word("merge", "deferred")) s.set("out_slots", std::string("all"));
  const OptionValue* overlap = s.find("overlap");
  if (overlap && *overlap == OptionValue(false) && !s.find("compute_lanes"))
    s.set("compute_lanes", std::int64_t{1});
  if (s.find("rotation")) return;
  s.set("rotation", std::string(needed_saves(scenario, rings) ? "needed" : "whole"));
}

Algorithm algorithm_of_rings(void (*build)(Builder&)) {
  Algorithm a;
  a.placements = {"zigzag", "contiguous", "striped", "hybrid"};
  for (const OptionInfo& option : ring_option_infos())
    if (option.key != "tile_inputs" && option.key != "gradient_sum" && option.key != "parts")
      a.options.push_back(option);
  a.resolve_defaults = resolve_plain_ring_defaults;
  a.validate = validate_plain_rings;
  a.build = build;
  return a;
}

void resolve_plain_ring_defaults(Scenario& s) {
  resolve_ring_defaults(s, rings_of_all(s));
}

void validate_plain_rings(const Scenario& s) {
  require_softmax(s);
  // Queries that see no key have no tile of their own then, and their delta no reader.
  if (s.problem.is_cross() && s.schedule.is_word("gradient_sum", "fused"))
    throw ScenarioError("schedule.gradient_sum",
                        "keys are not those of the queries' tokens (kv_sequence, kv_lengths); legal here: "
                        "\"apart\"");
  validate_ring_options(s.schedule);
}

void resolve_whole_ring_defaults(Scenario& s) {
  const std::vector<RingTokens> rings = rings_of_all(s);
  Schedule& o = s.schedule;
  if (defaults::ring_merges_in_kernel(s.parallel.ranks)) merge_two(o);
  const bool follows_at_once = s.problem.has_backward() && !o.is_word("between", "layers");
  if (follows_at_once && defaults::ring_saves_slots(s.parallel.ranks, rings[0].keys[0].rows())) {
    if (!o.find("own_kv")) o.set("own_kv", std::string("keep"));
    const bool may_add = !o.find("gradient_sum") && !o.is_word("tile_inputs", "copy") &&
                         !o.is_word("travels", "latent") && !s.problem.is_cross();
    if (may_add && defaults::ring_adds_in_kernel(s.problem.heads, s.problem.kv_heads)) sum_two(o);
    if (!o.is_word("gradient_sum", "fused") && !o.find("dkv_tile_heads"))
      o.set("dkv_tile_heads", defaults::ring_tile_heads(s.problem.kv_heads));
  }
  resolve_ring_defaults(s, rings);
}

void validate_ring_options(const Schedule& s) {
  if (s.is_word("merge", "fused") && s.find("out_slots"))
    throw ScenarioError("schedule.out_slots", "merge=\"fused\" has no out slots; leave out_slots out");
  if (s.is_word("merge", "deferred") && !s.is_word("out_slots", "all"))
    throw ScenarioError("schedule.out_slots",
                        "merge=\"deferred\" keeps every partial result to the end; legal here: \"all\"");
  if (s.is_word("tile_inputs", "copy") && s.is_word("gradient_sum", "fused"))
    throw ScenarioError("schedule.gradient_sum",
                        "tile_inputs=\"copy\" sums gradients apart; legal here: \"apart\"");
  if (!sums_apart(s) && s.find("dkv_tile_heads"))
    throw ScenarioError("schedule.dkv_tile_heads",
                        "gradient_sum=\"fused\" has no tile of gradients; leave dkv_tile_heads out");
  if (s.is_word("travels", "latent") && !sums_apart(s))
    throw ScenarioError("schedule.gradient_sum",
                        "travels=\"latent\" takes gradients of K and V through the weights before they are "
                        "added; legal here: \"apart\"");
  if (s.is_word("travels", "latent") && s.is_word("tile_inputs", "copy"))
    throw ScenarioError("schedule.tile_inputs",
                        "travels=\"latent\" makes the K and V of each tile anew; legal here: \"view\"");
  if (s.is_word("tile_inputs", "copy") && parts_of(s) != 1)
    throw ScenarioError("schedule.parts", "tile_inputs=\"copy\" copies whole tiles; legal here: 1");
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
  o.sum.wide = s.is_word("out_accumulator", "fp32");
  o.gradient_wire = gradient_wire_of(s);
  o.overlap = s.is_on("overlap");
  o.copy_tiles = s.is_word("tile_inputs", "copy");
  o.transport = transport_of(s);
  o.travel = s.is_word("rotation", "needed") ? Travel::needed : Travel::whole;
  o.sums_in_tiles = s.is_word("gradient_sum", "fused");
  if (!o.sums_in_tiles) o.dkv_tile_heads = s.count("dkv_tile_heads");
  o.parts = parts_of(s);
  o.keeps_own_kv = s.is_word("own_kv", "keep");
  o.latents = s.is_word("travels", "latent");
  return o;
}

std::vector<OptionInfo> ring_option_infos() {
  OptionInfo out_slots =
      count_option("out_slots", {2, 1},
                   "partial results kept before they are merged; \"all\" for merge=deferred, none for fused");
  out_slots.default_rule = "2; all with merge=deferred";
  out_slots.legal = {option_count(1), option_count(2), option_word("all")};
  out_slots.applies = not_fused;
  OptionInfo kv_slots =
      count_option("kv_slots", {2, 3},
                   "receive buffers for K and V in the forward; with tile_inputs=copy one of "
                   "them holds the own K, V");
  kv_slots.legal.push_back(option_word("all"));
  OptionInfo dkv_tile_heads =
      least_option("dkv_tile_heads", 0, 0,
                   "key heads whose dK and dV a tile of the backward computes before they are added to the "
                   "sums; 0: all at "
                   "once");
  dkv_tile_heads.applies = sums_apart;
  OptionInfo compute_lanes = count_option(
      "compute_lanes", {2, 1}, "lanes that tiles alternate on in the forward; 1 where overlap=false");
  compute_lanes.default_rule = "2; 1 with overlap=false";
  OptionInfo out_accumulator =
      word_option("out_accumulator", {"fp32", "nominal"}, "dtype of the running out alone");
  out_accumulator.default_rule = "what accumulator is";
  OptionInfo rotation =
      word_option("rotation", {"whole", "needed"},
                  "all of K and V go all the way round, or only rows that are needed as far as they are");
  rotation = defaults::by_machine(rotation);
  rotation.default_rule = rotation.machine_rule;
  return {
      kv_slots,
      out_slots,
      compute_lanes,
      word_option("merge", {"incremental", "deferred", "fused"},
                  "after every tile, all at the end, or inside the attention kernel"),
      accumulator_option(),
      row_dot_option(),
      out_accumulator,
      gradient_wire_option(),
      word_option("gradient_sum", {"apart", "fused"},
                  "dK and dV of a tile are computed apart and added to what has come, or by the attention "
                  "kernel inside"),
      switch_option("overlap", true, "communication on a lane of its own"),
      word_option(
          "tile_inputs", {"view", "copy"},
          "tiles read views, or contiguous copies as in TransformerEngine (slot 0 copies the own K, V)"),
      rotation,
      dkv_tile_heads,
      least_option(
          "parts", 1, 1,
          "parts in which rows travel, so that work on one goes beside the transfer of the next: K and "
          "V of whole sequences in the forward, of gradients what gradient_sum=fused adds to"),
  };
}

OptionInfo own_kv_option() {
  return word_option("own_kv", {"receive", "keep"},
                     "for its own tile the backward of a whole rotation receives K and V once more, as in "
                     "TransformerEngine, or reads those that the rank has");
}

std::vector<OptionInfo> whole_ring_option_infos() {
  std::vector<OptionInfo> options = ring_option_infos();
  options.push_back(own_kv_option());
  options.push_back(travels_option());
  constexpr std::array<std::string_view, 7> of_two_ranks{
      "merge", "out_accumulator", "gradient_sum", "gradient_wire_dtype", "parts", "own_kv", "dkv_tile_heads"};
  for (OptionInfo& option : options) {
    if (std::ranges::count(of_two_ranks, option.key) == 0) continue;
    option = defaults::by_machine(option);
    option.default_rule = option.machine_rule;
  }
  return options;
}

}  // namespace cplab
