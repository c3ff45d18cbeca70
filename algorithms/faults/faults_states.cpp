// Mutations of linear attention beside its scans: which states an operation reads, when buffers are written,
// which ranks and which tokens are meant.
#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "algorithms/faults/mutations.hpp"
#include "derive/edges.hpp"
#include "plan/chunk_flops.hpp"

namespace cplab::mutations {
namespace {

using enum Operand;

Operand other_direction(Operand operand) {
  switch (operand) {
    case state: return dstate;
    case dstate: return state;
    case carry: return dcarry;
    case dcarry: return carry;
    default: return operand;
  }
}

// Whether the operation's form has states of both directions.
bool takes_both_directions(const RankPlan& rank, const Operation& op) {
  return op.kind == OpKind::local_backward ||
         (op.kind == OpKind::inter && rank.find(op, dq) && rank.find(op, dk));
}

// Blocks of 64 tokens where a kernel walks through a piece; else blocks of 256, or as many as there are up to
// 128 (lasp_fuse_parallel), or what the list has most of.
std::int64_t block_of(const Operation& op, std::span<const Chunk> list) {
  if (op.chunk_work != ChunkWork::blocked) return 64;
  std::int64_t longest = 1;
  for (const Chunk& c : list) longest = std::max(longest, c.count);
  return longest > 128 ? std::max<std::int64_t>(longest, 256) : longest;
}

void recount(RankPlan& rank, Operation& op, DType nominal) {
  op.flops = chunk_flops(rank, op);
  op.bytes = 0;
  for (const Access& a : rank.reads(op)) op.bytes += view_bytes(rank, rank.views[a.view], nominal);
  for (const Access& a : rank.writes(op))
    op.bytes += view_bytes(rank, rank.views[a.view], nominal) * (a.mode == WriteMode::store ? 1 : 2);
}

// The states that an exchange brings to `carry`, and from where; those that it sends on.
struct Hop {
  std::optional<Part> into_carry, onward;
};
Hop hop_of(const RankPlan& rank) {
  Hop hop;
  for (const Operation& op : rank.operations) {
    // On a lane of its own a message is not behind what reads the buffer.
    if (op.kind != OpKind::exchange || op.phase != Phase::forward || op.lane.kind != LaneKind::compute)
      continue;
    for (const Part& part : rank.parts_of(op)) {
      if (part.send)
        hop.onward = part;
      else if (rank.buffers[rank.views[part.view].buffer].name == "carry")
        hop.into_carry = part;
    }
  }
  return hop;
}

}  // namespace

void swapped_states(Plan& plan) {
  bool found = false;
  for (RankPlan& rank : plan.ranks) {
    for (Operation& op : rank.operations) {
      const auto chunks = rank.chunks_of(op);
      const bool anything_passes = std::ranges::any_of(
          chunks, [](const Chunk& c) { return c.left >= 0 || c.right >= 0 || !c.resets; });
      if (!takes_both_directions(rank, op) || !anything_passes) continue;
      std::vector<Access> list(rank.reads(op).begin(), rank.reads(op).end());
      bool here = false;
      for (Access& a : list) here |= std::exchange(a.operand, other_direction(a.operand)) != a.operand;
      if (!here) continue;
      std::ranges::stable_sort(list, {}, &Access::operand);
      op.reads = add_accesses(rank, list);
      found = true;
    }
  }
  if (!found)
    no_place("swapped-states",
             "a backward that reads states in the operation that has all gradients (lasp_fuse_parallel, "
             "lasp_blelloch), and a sequence on two ranks or in two chunks");
}

void local_rank_as_global(Plan& plan) {
  bool found = false;
  for (RankPlan& rank : plan.ranks) {
    for (Operation& op : rank.operations) {
      const std::vector<int>& members = plan.groups[op.group].ranks;
      if (!std::ranges::is_sorted(members)) continue;  // a group in another order of the same ranks
      std::vector<Part> list(rank.parts_of(op).begin(), rank.parts_of(op).end());
      bool here = false;
      for (Part& part : list) {
        const auto place = static_cast<int>(std::ranges::find(members, part.peer) - members.begin());
        here |= std::exchange(part.peer, place) != place;
      }
      if (!here || op.kind != OpKind::exchange) continue;
      op.parts = add_parts(rank, list);
      found = true;
    }
  }
  if (!found)
    no_place("local-rank-as-global",
             "messages of ranks whose position in their group is not their number (replicas=2)");
}

void uninitialised_state(Plan& plan) {
  bool found = false;
  for (RankPlan& rank : plan.ranks) {
    const auto is_state = [&](std::uint32_t buffer) {
      return std::ranges::any_of(rank.operations, [&](const Operation& op) {
        return is_linear(op.kind) && std::ranges::any_of(rank.reads(op), [&](const Access& a) {
                 return (a.operand == carry || a.operand == dcarry) && rank.views[a.view].buffer == buffer;
               });
      });
    };
    for (std::size_t i = rank.operations.size(); i-- > 0;) {
      const Operation& op = rank.operations[i];
      if (op.kind != OpKind::fill || op.value != 0) continue;
      if (!is_state(rank.view_of(op, into).buffer)) continue;
      remove_operation(rank, i);
      found = true;
    }
    derive_edges(rank);
  }
  if (!found)
    no_place("uninitialised-state",
             "a state that is filled with zero where nothing enters (lasp_naive, lasp_cache, lasp_fuse)");
}

void dropped_tail(Plan& plan) {
  bool found = false;
  for (RankPlan& rank : plan.ranks) {
    // Some chunks are no tokens: a fold of all ranks' states has one for each rank.
    std::vector<std::vector<Chunk>> of_tokens;
    for (const Operation& op : rank.operations)
      if (op.kind == OpKind::local || op.kind == OpKind::state)
        of_tokens.emplace_back(rank.chunks_of(op).begin(), rank.chunks_of(op).end());
    for (Operation& op : rank.operations) {
      if (!is_linear(op.kind) || is_convolution(op.kind) || op.kind == OpKind::combine) continue;
      std::vector<Chunk> list(rank.chunks_of(op).begin(), rank.chunks_of(op).end());
      if (op.kind == OpKind::scan && std::ranges::find(of_tokens, list) == of_tokens.end()) continue;
      const std::int64_t block = block_of(op, list);
      bool here = false;
      for (Chunk& c : list) here |= std::exchange(c.count, c.count / block * block) != c.count;
      if (!here) continue;
      op.chunks = add_chunks(rank, list);
      op.flops = chunk_flops(rank, op);
      found = true;
    }
  }
  if (!found)
    no_place("dropped-tail",
             "linear attention with tokens of a rank that are no multiple of its kernels' block");
}

// The chain of states of another layer, once more through the same buffers. What that layer's states are is
// no tensor of this plan: those of the next sequence of the batch stand for them.
void shared_kv_buffer(Plan& plan) {
  bool found = false;
  std::vector<Hop> hops;
  for (const RankPlan& rank : plan.ranks) hops.push_back(hop_of(rank));
  for (RankPlan& rank : plan.ranks) {
    const Hop& hop = hops[static_cast<std::size_t>(rank.rank)];
    const std::int64_t D = plan.scenario.problem.head_size;
    const auto second = std::ranges::find(rank.operations, Phase::backward, &Operation::phase);
    const auto first = std::ranges::find(rank.operations, OpKind::exchange, &Operation::kind);
    if (!rank.between_layers || second == rank.operations.end() || first >= second) continue;
    std::vector<Part> parts;
    const auto add = [&](const std::optional<Part>& part) {
      if (!part) return;
      const View whole = rank.views[part->view];
      const std::int64_t states = row_count(rank.rows_of(whole)) / D;
      if (states < 2) return;
      for (std::int64_t i = 0; i < states; ++i) {
        View view = whole;  // of state i, or into state i the next one's
        set_rows(rank, view, {{(part->send ? (i + 1) % states : i) * D, D, 1}});
        parts.push_back({add_view(rank, view), part->peer, part->send});
      }
    };
    // Only where the receiver takes it straight into its carry.
    const bool onward = hop.onward && hops[static_cast<std::size_t>(hop.onward->peer)].into_carry.has_value();
    add(hop.into_carry);
    if (onward) add(hop.onward);
    if (parts.empty()) continue;
    Operation op = *first;
    op.parts = add_parts(rank, parts);
    op.bytes = 0;
    for (const Part& part : parts)
      if (part.send) op.bytes += view_bytes(rank, rank.views[part.view], plan.scenario.problem.dtype);
    insert_operation(rank, static_cast<std::size_t>(second - rank.operations.begin()), op);
    derive_edges(rank);
    found = true;
  }
  if (!found)
    no_place("shared-kv-buffer",
             "lasp_cache or lasp_naive with between=layers, states in fp32 on the wire, and two sequences");
}

// The state of queries is computed sequence by sequence, and every one reads log_decay from the first row on.
void backward_right_on_last_rank_only(Plan& plan) {
  bool found = false;
  for (RankPlan& rank : plan.ranks) {
    for (std::size_t i = 0; i < rank.operations.size(); ++i) {
      const Operation op = rank.operations[i];
      if (op.kind != OpKind::state || !rank.find(op, dstate) || !rank.find(op, log_decay)) continue;
      const std::vector<Chunk> chunks(rank.chunks_of(op).begin(), rank.chunks_of(op).end());
      const bool alike = std::ranges::all_of(
          chunks, [&](const Chunk& c) { return c.count > 0 && c.count <= chunks.front().count; });
      if (chunks.size() < 2 || !alike) continue;
      for (std::size_t j = 0; j < chunks.size(); ++j) {
        Operation one = op;
        Chunk chunk = chunks[j];
        change_views(rank, one.reads, [&](Operand operand, View& view) {
          const std::int64_t row = operand == log_decay ? chunks.front().row : chunk.row;
          return set_rows(rank, view, {{rank.rows_of(view).front().begin + row, chunk.count, 1}});
        });
        chunk.row = 0;
        one.chunks = add_chunks(rank, {chunk});
        recount(rank, one, plan.scenario.problem.dtype);
        if (j == 0)
          rank.operations[i] = one;
        else
          insert_operation(rank, i + j, one);
      }
      i += chunks.size() - 1;
      found = true;
    }
    derive_edges(rank);
  }
  if (!found)
    no_place("backward-right-on-last-rank-only",
             "states of queries with log_decay (affine_all_gather) of two sequences");
}

}  // namespace cplab::mutations
