// The numbers, what they rest on, and the rules in words; see defaults.hpp.
#include "algorithms/core/defaults.hpp"

#include <algorithm>
#include <utility>

#include "algorithms/core/algorithm.hpp"
#include "algorithms/core/list.hpp"
#include "algorithms/core/options.hpp"
#include "plan/plan.hpp"

namespace cplab::defaults {
namespace {

// On 2 H200 merging in the kernel took 1.05 times as fast a step at 2048 tokens, 1.03 at 4096 and 8192
// (docs/07-gpus.md, "the kernel merges at every length"). No record of these runs is kept.
constexpr std::int64_t short_ring = 2;

// Once the tile of the other's keys is done, the memory of K and V that were received is free, if none is
// needed for the own ones. In longer rings a slow link would be waited for in every step, and the own K and V
// save no slot. On 2 H200, in two parts, this takes 1 to 6 % less time at 5793 and 8192 tokens of both ranks,
// 1 to 2 % more at 12K, and 8 to 9 % more at 4096 and 2048 (docs/07-gpus.md, the same place). No record of
// these runs is kept; what rings of two take by default is in h200x2-2026-11-28-ring.jsonl.
constexpr std::int64_t long_rows = 2560;

// Four parts brought 4 % at 32 x 1K tokens and cost up to 7 % elsewhere (docs/07-gpus.md, "Two is the
// default"). No record.
constexpr std::int64_t parts = 2;

// Tiles of the kernels have 64, 128 or 192 rows; a cut at multiples of 128 leaves most of them whole. No
// record.
constexpr std::int64_t tile_rows = 128;

// A copy engine and NCCL take a message piece by piece. No record.
constexpr std::size_t most_runs = 64;

// Small savings are not worth messages of several pieces and a further hop, in which gradients come home. No
// record.
constexpr double worth_it = 0.75;

// Of short sequences kernels store dq once, and may as well store it rounded: the backward of a batch of
// 64 x 256 took a fifth less time. Of long ones they sum it, and the cast behind them needs no room for dq
// beside all that the tiles read: rounding at every length brought 2.8 % on one GPU and 0.5 % on two, and up
// to 14 % more memory (docs/lab/hopper-attention.md, "Rounding dq for every length, through plans"). No
// record.
constexpr std::int64_t short_tokens = 1024;

// A kernel has two ways to the dk and dv of a key head that several query heads read: a thread block takes
// all of these, one after the other, and stores what it has summed in registers; or each has a thread block
// of its own, which adds to sums in memory. With few key heads the first leaves multiprocessors without work
// (8 heads on 1, 8192 tokens, causal: 215 TFLOP/s on an H100, where the second has 580). Which is faster the
// kernels decide, call by call; the plan makes room for the sums. 2048 tiles of 128 keys are enough for any
// GPU, and need none: that bounds the room, at 256 MiB with head size 128 (docs/lab/hopper-attention.md,
// "Grouped heads on one rank"). No record.
constexpr std::int64_t enough_keys = 256 * 1024;

// Longest message, in pieces, that NCCL and copy engines take about as fast as one that was packed. No
// record.
constexpr std::int64_t most_pieces = 16;

// docs/07-gpus.md, the table with "10 us ahead, NCCL's own channels (the default)": 2 H200, 2026-11-22. No
// record of its runs is kept.
constexpr std::int64_t head_start_us = 10;

// The GPUs of a node that fast links join, of the machines in scenarios/hardware/.
constexpr std::int64_t ranks_of_node = 8;

// A chunk and a head are a thread block of the kernels for Hopper. All of them should run at once: one on
// each of 132 multiprocessors where value_size is above 64, else two. scenarios/measured/
// h200-2026-11-22-linear-attention.json was measured with such chunks at 4K tokens, and at 64K with value
// size 64 (at 1M with 16384 tokens a chunk). No record compares other chunks.
constexpr std::int64_t narrow_value = 64, blocks_at_once = 132, narrow_blocks_at_once = 264;
constexpr std::int64_t least_chunk = 64;

// No record.
constexpr std::int64_t most_slices = 4;

struct Rule {
  std::string_view option;
  std::string words;
};

const std::vector<Rule>& rules() {
  using std::to_string;
  static const std::string two = to_string(short_ring) + " ranks";
  static const std::string two_long =
      two + " whose backward follows at once, of " + to_string(long_rows) + " rows each or more";
  static const std::vector<Rule> all{
      {"merge", "incremental; for " + two + " fused, unless out_slots is given"},
      {"out_accumulator", "what accumulator is; for " + two +
                              " with a merge that is not given nominal: the first of two partial results is "
                              "rounded instead of the second"},
      {"gradient_sum", "apart; fused for " + two_long + ", with as many kv_heads as heads"},
      {"gradient_wire_dtype", "fp32; nominal where gradient_sum is fused by default"},
      {"parts", "1; " + to_string(parts) + " where gradient_sum is fused by default"},
      {"own_kv", "receive; keep for " + two_long + ", where it saves a slot"},
      {"dkv_tile_heads",
       "0; half of kv_heads where own_kv is keep by default and gradients are summed apart"},
      {"rotation",
       "needed where that saves more than a quarter of the bytes, else whole (also where it takes long to "
       "find out: hundreds of ranks, or thousands of sequences cut)"},
      {"inner_ranks", "the most, up to " + to_string(ranks_of_node) + ", that divide ranks and heads"},
      {"node_ranks", "the most, up to " + to_string(ranks_of_node) + ", that divide ranks"},
      {"pack_above", "a message of more than " + to_string(most_pieces) + " contiguous pieces is packed"},
      {"head_start_us",
       "an attention kernel starts " + to_string(head_start_us) + " us after what goes over nccl beside it"},
      {"chunk", "so long that the chunks of all heads are " + to_string(blocks_at_once) + " thread blocks (" +
                    to_string(narrow_blocks_at_once) + " where value_size is " + to_string(narrow_value) +
                    " or less), a multiple of " + to_string(least_chunk)},
      {"slices", to_string(most_slices) + ", or head_size where that is less"},
  };
  return all;
}

bool any_operation(const Plan& plan, auto&& is) {
  return std::ranges::any_of(plan.ranks, [&](const RankPlan& rank) {
    return std::ranges::any_of(rank.operations, [&](const Operation& op) { return is(rank, op); });
  });
}

bool goes_over_nccl(const Plan& plan) {
  return any_operation(plan, [](const RankPlan&, const Operation& op) {
    return is_communication(op.kind) && op.transport == Transport::nccl;
  });
}

// Choices without an option, of what is computed in a wide dtype and rounded.
void append_roundings(std::vector<TakenDefault>& list, const Plan& plan) {
  const Scenario& s = plan.scenario;
  const bool wide = dtype_of(Role::wide, s.problem.dtype) != dtype_of(Role::nominal, s.problem.dtype);
  if (!s.problem.has_backward() || s.problem.attention == Attention::linear || !wide ||
      !wide_accumulator(s.schedule))
    return;
  const auto has = [&](Operand operand) {
    return any_operation(
        plan, [&](const RankPlan& rank, const Operation& op) { return rank.find(op, operand) != nullptr; });
  };
  list.push_back({"dq", std::string(has(Operand::rounded_dq) ? "rounded by tiles" : "rounded by a cast"),
                  "the tiles round it where no sequence has more than " + std::to_string(short_tokens) +
                      " tokens and each row is stored by one tile; else a cast does"});
  const bool stores_dk = any_operation(plan, [&](const RankPlan& rank, const Operation& op) {
    const Access* dk = op.kind == OpKind::attend_backward ? rank.find(op, Operand::dk) : nullptr;
    return dk && dk->mode == WriteMode::store &&
           rank.buffers[rank.views[dk->view].buffer].role == Role::nominal;
  });
  const bool sums = has(Operand::rounded_dk);
  if (s.problem.heads == s.problem.kv_heads || !(sums || stores_dk)) return;
  list.push_back({"dk, dv", std::string(sums ? "room to sum them" : "no room to sum them"),
                  "where query heads share a key head, tiles that store them have room to sum them before "
                  "they are rounded, of fewer than " +
                      std::to_string(enough_keys) + " keys, all heads together"});
}

}  // namespace

std::string_view rule_of(std::string_view option) {
  const auto at = std::ranges::find(rules(), option, &Rule::option);
  return at == rules().end() ? std::string_view() : std::string_view(at->words);
}

OptionInfo by_machine(OptionInfo option) {
  option.machine_rule = rule_of(option.key);
  return option;
}

std::vector<TakenDefault> taken(const Schedule& asked, const Plan& plan) {
  std::vector<TakenDefault> list;
  const Schedule& schedule = plan.scenario.schedule;
  const bool waits = goes_over_nccl(plan) && plan.scenario.problem.attention != Attention::linear;
  for (const OptionInfo& option : find_algorithm(plan.scenario.algorithm)->options) {
    const OptionValue* value = schedule.find(option.key);
    if (option.machine_rule.empty() || !value || asked.find(option.key)) continue;
    if (option.key == "head_start_us" && !waits) continue;
    list.push_back({std::string(option.key), *value, std::string(option.machine_rule)});
  }
  if (schedule.find("gradient_sum") && schedule.is_word("gradient_sum", "fused") &&
      schedule.count("parts") > 1) {
    list.push_back({"ends of parts", tile_rows,
                    "gradients are cut at multiples of so many rows, if not between runs of tokens"});
    list.push_back({"runs of a part", static_cast<std::int64_t>(most_runs),
                    "of more runs of rows than these, the rows between them travel as well"});
  }
  append_roundings(list, plan);
  return list;
}

bool ring_merges_in_kernel(std::int64_t ranks) {
  return ranks == short_ring;
}

bool ring_saves_slots(std::int64_t ranks, std::int64_t rows) {
  return ranks == short_ring && rows >= long_rows;
}

// Of grouped heads the kernel adds up query heads in the problem's dtype too: with 17 to a key head the
// backward took four times as long (docs/07-gpus.md, "Two is the default"). Their K and V are small anyway.
// No record.
bool ring_adds_in_kernel(std::int64_t heads, std::int64_t kv_heads) {
  return heads == kv_heads;
}

// Half of the gradients fit where K and V were that are no longer needed.
std::int64_t ring_tile_heads(std::int64_t kv_heads) {
  return (kv_heads + 1) / 2;
}

std::int64_t ring_parts() {
  return parts;
}

std::int64_t cut_rows() {
  return tile_rows;
}

bool travel_apart(std::size_t runs) {
  return runs <= most_runs;
}

bool needed_rows_pay(double needed, double whole) {
  return needed < worth_it * whole;
}

bool tiles_round_dq(std::int64_t longest_sequence) {
  return longest_sequence <= short_tokens;
}

bool tiles_sum_dkv(std::int64_t keys) {
  return keys < enough_keys;
}

std::int64_t unpacked_pieces() {
  return most_pieces;
}

std::int64_t head_start() {
  return head_start_us;
}

std::int64_t most_inner_ranks() {
  return ranks_of_node;
}

std::int64_t chunk_rows(std::int64_t longest, std::int64_t pieces, std::int64_t heads,
                        std::int64_t value_size) {
  const std::int64_t blocks = value_size > narrow_value ? blocks_at_once : narrow_blocks_at_once;
  const std::int64_t cuts = std::max<std::int64_t>(1, blocks / (pieces * heads));
  const std::int64_t rows = (longest + cuts - 1) / cuts;
  return (rows + least_chunk - 1) / least_chunk * least_chunk;
}

std::int64_t state_slices(std::int64_t head_size) {
  return std::min(most_slices, head_size);
}

}  // namespace cplab::defaults
