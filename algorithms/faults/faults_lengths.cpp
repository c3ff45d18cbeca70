// Mutations of what a plan believes about lengths: which rows are tokens, and which keys a chunk sees.
#include <algorithm>
#include <functional>
#include <optional>
#include <vector>

#include "algorithms/core/build.hpp"
#include "algorithms/core/placement.hpp"
#include "algorithms/faults/mutations.hpp"

namespace cplab::mutations {
namespace {

// Builds the plan anew, with as many tokens in every run as `claim` says.
void build_with(Plan& plan, const Placement::Claim& claim, std::string_view fault, std::string_view needs) {
  const Scenario& s = plan.scenario;
  bool changed = false;
  for (int replica = 0; replica < static_cast<int>(s.parallel.replicas); ++replica) {
    Placement placement(s.problem, s.parallel, s.placement, replica);
    changed |= placement.claim_valid(claim);
    build_group(plan, replica, placement);
  }
  if (!changed) no_place(fault, needs);
}

std::int64_t length_of(const Problem& p, const TokenRun& run) {
  return p.lengths[static_cast<std::size_t>(run.sequence)];
}

// Tokens of a run if its sequence had that length.
std::int64_t tokens_of(const TokenRun& run, std::int64_t length) {
  return length > run.position ? (length - run.position + run.stride - 1) / run.stride : 0;
}

// A chunk of queries, and the gathered keys of its sequence.
struct TileChunk {
  TokenRun queries;
  std::int64_t q_begin = 0;  // in the queries of the tile
  SequenceRows keys;
  std::int64_t end() const { return queries.position + queries.rows; }
};

// The chunks of a tile over gathered keys; none of other tiles.
std::vector<TileChunk> chunks_of(const RankPlan& rank, const Operation& op, const Placement& placement,
                                 const std::vector<SequenceRows>& keys) {
  const View &q = rank.view_of(op, Operand::q), &k = rank.view_of(op, Operand::k);
  if (rank.buffers[q.buffer].rows != placement.rows() || rank.buffers[k.buffer].rows != keys.back().end)
    return {};
  std::vector<TileChunk> chunks;
  for (const TokenRun& run : placement.runs(rank.position)) {
    std::int64_t place = 0;
    for (const RowRange& range : rank.rows_of(q)) {
      if (range.begin <= run.row && run.row + run.rows <= range.begin + range.count && run.valid > 0)
        chunks.push_back({run, place + run.row - range.begin,
                          *std::ranges::find(keys, run.sequence, &SequenceRows::sequence)});
      place += range.count;
    }
  }
  return chunks;
}

// The keys that a chunk is given and a window relative to the last query and the last key, as attention
// kernels align them that take no offsets (get_kv_seq_info_after_all_gather of TransformerEngine).
struct Call {
  std::int64_t keys = 0;
  Window window;
};

// Gives tiles over gathered keys the calls that call_of has for their chunks (none: the right one).
bool change_calls(Plan& plan, const std::function<std::optional<Call>(const TileChunk&)>& call_of) {
  const Scenario& s = plan.scenario;
  bool changed = false;
  for (RankPlan& rank : plan.ranks) {
    const Placement placement(s.problem, s.parallel, s.placement, rank.replica);
    const std::vector<SequenceRows> keys = gathered_rows(s, placement);
    for (Operation& op : rank.operations) {
      if (op.kind != OpKind::attend || s.parallel.ranks == 1) continue;
      const std::vector<TileChunk> chunks = chunks_of(rank, op, placement, keys);
      std::vector<Segment> segments;
      bool here = false;
      for (const TileChunk& c : chunks) {
        const std::int64_t n = c.queries.valid, right = s.problem.band().right;
        const std::int64_t seen = right < 0 ? c.keys.length : std::min(c.keys.length, c.end() + right);
        const std::optional<Call> wrong = call_of(c);
        here |= wrong.has_value();
        if (wrong)
          segments.push_back({c.q_begin, n, c.keys.begin, wrong->keys, wrong->keys - n, wrong->window.left,
                              wrong->window.right});
        else
          segments.push_back(
              {c.q_begin, n, c.keys.begin, seen, c.queries.position, s.problem.band().left, right});
      }
      if (!here) continue;
      changed = true;
      op.segments = add_segments(rank, segments);
      change_views(rank, op.reads, [&](Operand operand, View& view) {
        return (operand == Operand::k || operand == Operand::v) &&
               set_rows(rank, view, {{0, keys.back().end, 1}});
      });
    }
  }
  return changed;
}

}  // namespace

void thd_even_split(Plan& plan) {
  build_with(
      plan,
      [&](const TokenRun& run, std::int64_t runs) {
        return std::min(run.rows, length_of(plan.scenario.problem, run) / runs);
      },
      "thd-even-split", "a sequence length that the number of chunks does not divide");
}

void last_token_dropped(Plan& plan) {
  const std::int64_t P = plan.scenario.parallel.ranks;
  build_with(
      plan,
      [&](const TokenRun& run, std::int64_t) {
        return std::min(run.rows, tokens_of(run, length_of(plan.scenario.problem, run) / P * P));
      },
      "last-token-dropped", "a sequence length that the number of ranks does not divide");
}

void dead_padding_nan(Plan& plan) {
  build_with(
      plan, [](const TokenRun& run, std::int64_t) { return run.valid == 0 ? run.rows : run.valid; },
      "dead-padding-nan", "a chunk that is nothing but padding");
}

void cu_seqlens_cache_by_shape(Plan& plan) {
  const std::vector<std::int64_t>& lengths = plan.scenario.problem.lengths;
  build_with(
      plan,
      [&](const TokenRun& run, std::int64_t) {
        const auto other = (static_cast<std::size_t>(run.sequence) + 1) % lengths.size();
        return std::min(run.rows, tokens_of(run, lengths[other]));
      },
      "cu-seqlens-cache-by-shape", "sequences of several lengths");
}

void no_visible_clamp(Plan& plan) {
  const Window visible = plan.scenario.problem.band();
  const bool changed =
      visible.right == 0 && change_calls(plan, [&](const TileChunk& c) -> std::optional<Call> {
        if (c.end() <= c.keys.length) return {};
        return Call{c.end(), visible};
      });
  if (!changed)
    no_place("no-visible-clamp",
             "gathered keys, a causal mask, and a sequence that ends inside a chunk (all_gather, padding)");
}

void window_one_shift(Plan& plan) {
  const Problem& p = plan.scenario.problem;
  const Window visible = p.band();
  const bool changed = change_calls(plan, [&](const TileChunk& c) -> std::optional<Call> {
    const std::int64_t chunks = (c.keys.end - c.keys.begin) / c.queries.rows;
    if (chunks == 0) return {};  // a run of a packed row that is longer than its sequence is no chunk of it
    const std::int64_t longest =
        (*std::ranges::max_element(p.padded_lengths) + chunks - 1) / chunks;  // rows of its chunks
    const std::int64_t E = (c.queries.position / c.queries.rows + 1) * longest;
    const std::int64_t shift =
        visible.right < 0 ? chunks * longest - E : std::min(chunks * longest, E + visible.right) - E;
    const std::int64_t keys =
        visible.right < 0 ? c.keys.length : std::min(c.keys.length, c.end() + visible.right);
    const std::int64_t needed = keys - c.queries.position - c.queries.valid;
    if (shift == needed || (visible.left < 0 && visible.right < 0)) return {};
    return Call{
        keys, {visible.left < 0 ? -1 : visible.left + shift, visible.right < 0 ? -1 : visible.right - shift}};
  });
  if (!changed)
    no_place(
        "window-one-shift",
        "gathered keys and a window to the right that a sequence's end cuts (all_gather, window=[3, 3])");
}

}  // namespace cplab::mutations
