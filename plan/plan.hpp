// The vocabulary: what a context-parallel algorithm is, as data. Read this page first.
//
// A plan holds, per rank, an ordered list of operations on named buffers, each on a lane. Lanes are in-order
// queues that run concurrently; `after` holds the event edges that order operations across the lanes
// of one rank (`after_started` those that wait for a start); `exchange` and the collectives order operations
// across ranks. Nothing else orders anything. Three readers share it: the simulator, the executor and the
// checker. Operations are small and refer to pools of their rank (views, segments, parts, edges); equal
// entries are stored once.
//
// docs/lessons/10-plan.md reads a plan, docs/02-plan.md is the reference of this vocabulary.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plan/problem.hpp"

namespace cplab {

// ---- buffers -------------------------------------------------------------------------------------

// nominal: the problem's dtype. wide: fp32, for LSE, accumulators and states. integer: int32.
// With an fp64 problem nominal and wide are both fp64.
enum class Role : std::uint8_t { nominal, wide, integer };
// workspace: scratch of kernels or of a framework; nobody need read what is written there.
// saved: what the backward needs of the forward while other layers run between them (schedule.between).
enum class Category : std::uint8_t { input, output, saved, working, workspace };

// How a slot lies in memory. rows_first: [rows, heads, width]; heads_first: [heads, rows, width] (LSE).
enum class Layout : std::uint8_t { rows_first, heads_first };

// A buffer has four logical axes; an axis that a buffer does not need has extent 1. `planes` > 0 cuts the
// width at that column into two planes stored one after the other inside each slot (K then V): a slot is
// then one contiguous message and each plane one contiguous tensor.
// How long each lives: derive/memory.hpp. Buffers that name one slab share its bytes: they lie at one offset,
// one of them is live at a time, and the first write to one ends the contents of the others.
struct Buffer {
  std::string name;
  Role role = Role::nominal;
  Category category = Category::working;
  Layout layout = Layout::rows_first;
  std::int64_t slots = 1;
  std::int64_t rows = 1;
  std::int64_t heads = 1;
  std::int64_t width = 1;
  std::int64_t planes = 0;
  std::int64_t bytes = 0;   // slots * rows * heads * width * element size
  std::int64_t offset = 0;  // in the rank's arena, set by the memory planner
  std::string slab = {};    // empty: the buffer has bytes of its own
  // The planes are tensors of their own, at addresses that have nothing to do with each other: no piece of a
  // message spans both. Said by who executes a plan on tensors of a framework, before the plan is matched.
  bool apart = false;
};

// The rows begin, begin + step, ... (count of them).
struct RowRange {
  std::int64_t begin = 0;
  std::int64_t count = 0;
  std::int64_t step = 1;
  bool operator==(const RowRange&) const = default;
};

struct Span {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  bool operator==(const Span&) const = default;
};

// A box in a buffer's logical axes. `ranges` names entries of RankPlan::row_ranges; the view's rows are
// those ranges one after the other (ascending and disjoint except where an operation permutes rows: then
// the order is the row map).
// As a message, its elements follow each other slot by slot, plane by plane, and in each plane as the
// buffer's layout nests them: rows_first row by row, each with its heads; heads_first head by head, each with
// its rows. That nesting makes the fewest contiguous pieces of memory; derive/pieces.hpp lists them.
struct View {
  std::uint32_t buffer = 0;
  Span ranges;
  std::int32_t slot_begin = 0, slot_end = 1;
  std::int32_t head_begin = 0, head_end = 1;
  std::int32_t width_begin = 0, width_end = 1;
  bool operator==(const View&) const = default;
};

// add, merge and max also read what they write. merge is the softmax merge of (out, lse).
enum class WriteMode : std::uint8_t { store, add, merge, max };

// What an access is to its operation. Readers ask by name (RankPlan::find, view_of), never by position.
enum class Operand : std::uint8_t {
  q,
  k,
  v,
  out,
  lse,
  dout,
  delta,
  dq,
  dk,
  dv,
  part_out,  // a partial result that is merged into (out, lse)
  part_lse,
  from,
  into,
  rounded_dq,  // dq in the problem's dtype, which is summed in a wide one
  rounded_dk,  // likewise
  rounded_dv,
  max_logit,  // one number for each query head: the largest logit, -inf without any
  bias,       // stored: added to the logits
  keep,       // of dynamic mask attention: where it is 0 a pair counts for nothing
  dbias,
  bias_table,  // of bias buckets: one row of numbers for each query head
  dbias_table,
  sink,  // one more logit in a row's sum, a number for each query head
  dsink,
  // Of latent keys and values: one row of columns for all heads, of keys also columns as they are; for each
  // head a matrix, row by row, that makes its other columns of K, and one that makes its V.
  latent,
  rope_key,
  key_weights,
  value_weights,
  dlatent,
  drope_key,
  dkey_weights,
  dvalue_weights,
  // Of linear attention: states (of keys; d...: of queries), and what transitions are made of.
  log_decay,
  beta,
  dlog_decay,
  dbeta,
  state,  // one for every chunk of the operation
  dstate,
  carry,  // what enters at the edge of the rank's tokens: one for every piece of a sequence
  dcarry,
  final_state,  // what leaves at the other edge
  transition,   // what a piece does to a state that passes through it
  filter,       // of a convolution: the factors of each head and column, one for each of W tokens
  halo,         // rows of neighbouring tokens that lie on other ranks, or elsewhere on this one
  dfilter,
  unnamed,  // an access beyond the operands that its operation has
};

struct Access {
  std::uint32_t view = 0;             // index into RankPlan::views
  WriteMode mode = WriteMode::store;  // reads: store
  Operand operand = Operand::unnamed;
  bool operator==(const Access&) const = default;
};

// ---- operations ----------------------------------------------------------------------------------

// Operands by name (operands.hpp has them as a table); `=>` what is written with which modes:
// clang-format off
//   attend           q, k, v => out, lse                      both store, or both merge (fused merge)
//                    q, k, v => out, lse, max_logit           the same; max_logit: max
//   attend_backward  q, k, v, dout, lse, delta => dq, dk, dv  store or add; dk and dv alike
//                    ... => dq, dk, dv, [rounded_dq],         the same; rounded_...: store; the gradient, which
//                           [rounded_dk, rounded_dv]          is wide, holds nothing afterwards
//                    q, k, v, dout, lse, out => ..., delta    the same; delta: store; row_dot comes first
//   attend           ... [sink]: it counts in every row that sees a key here, so each row's counts in one tile
//   both, with a stored bias: bias, of dynamic mask attention also [keep], backward also [dbias] (store or
//                    add); one number for each row and head of k, or, where the operation has columns, a row of
//                    numbers for each row and head of q, in which row i of k has the i-th of the columns
//   both, with a bias of positions (Operation::bias): bias_table where it is buckets, backward then also
//                    dbias_table (add); the columns are the positions of the rows of k, then of those of q
//   sink_gradient    sink, lse, delta => dsink                store: -sum over rows of exp(sink - lse) delta
//   row_dot          dout, out => delta                       store
//   project          latent, rope_key, key_weights, value_weights => k, v  store: of every row and head
//                                                             k = [latent key_weights, rope_key], v = latent
//                                                             value_weights
//   project_backward dk, dv, key_weights, value_weights => dlatent, drope_key  store or add, both alike: sums
//                                                             over the heads
//   weight_gradient  latent, dk, dv => dkey_weights, dvalue_weights  store or add, both alike: sums over rows
//   merge            part_out, part_lse => out, lse           both merge (incremental)
//                    part_lse => lse                          merge (deferred: fold of the LSEs)
//                    part_out, part_lse, lse => out           store or add: out (+)= part_out exp(part_lse - lse)
//   copy             from => into                             store; boxes of equal shape, same dtype
//   cast             from => into                             store; dtypes may differ
//   add              from => into                             add
//   maximum          from => into                             max; same dtype
//   fill             => into                                  store of Operation::value
// of linear attention, on chunks (below); [ ] may be absent:
//   local            q, k, v [log_decay, beta, state, carry] => out [final_state]
//                                                             out: store or add; final_state: store
//   local_backward   q, k, v, dout [log_decay, beta, state, carry, dstate, dcarry]
//                    => dq, dk, dv [dlog_decay, dbeta, final_state]
//                                                             dq, dk, dv: all store or all add; others store
//   state            k, v [log_decay, beta] => state [transition]             store: of keys
//                    q, dout [k, log_decay, beta] => dstate                   store: of queries
//   scan             => state [final_state]                   state (or dstate): add (in place); final: store
//                    => dstate [final_state]
//                    state => final_state                   store: the sums alone (or dstate => final_state)
//   combine          from [transition] => into                states: store or add; transitions: store, composed
//   inter            q [state, carry] => out                  store or add; one of the states at least
//                    dout [state, carry] => dq                the same
//                    v [dstate, dcarry] => dk
//                    k [dstate, dcarry] => dv
//                    k, v, dout [state, carry, dstate, dcarry] => dq, dk, dv
//   convolve         from, filter [halo] => into              store: into_t = sum over i < W of filter_i
//                                                             from_(t - W + 1 + i), of a chunk's tokens and the
//                                                             halo rows before them, which its sequence has;
//                                                             reverse: its adjoint, sum of filter_i
//                                                             from_(t + W - 1 - i), with those behind them
//   filter_gradient  from, dout [halo] => dfilter             store: sum over the tokens of from_t
//                                                             dout_(t + W - 1 - i), with halo rows of dout
//   exchange         parts      a set of sends and receives posted together, complete when all parts are
//   all_gather       parts      the same, with a part for every peer, itself included
//   all_to_all       parts      the same
//   reduce_scatter   parts      what is received into one view is summed; every member, the rank itself
//                               included, contributes to each view that a rank receives
//   all_reduce       from => into                             sum or max over the group (Operation::reduction)
//   barrier                     of a group
//   host_sync                   the host waits until this operation's lane has reached it
// A buffer of states has n D rows, H heads and E columns: rows [s D, (s + 1) D) are state s; of transitions D
// columns, or 1. What states, edges and chunks are: kernels/linear.hpp.
// No operation takes an integer buffer, and none writes into an input. attend, attend_backward, row_dot and
// merge take operands that lie in one slot and one plane. Both ends of a message have one shape, role and
// transport, their planes part at the same column, and their layouts nest rows and heads alike (a box of one row or
// one head nests either way); so have the operands of an all_reduce, of all members. No operation writes what it also
// reads, except that all_reduce may work in place, and a rank may receive its own part of a collective in place.
// A sum over ranks is rounded to the dtype of its buffers after every addend. On the CPU and over copy the addends
// come in the order of the group, so both give the same bits. NCCL adds in an order of its own, another for every
// root: the result differs by these roundings, which verify counts in any order, and not at all for two ranks.
// clang-format on
enum class OpKind : std::uint8_t {
  attend,
  attend_backward,
  row_dot,
  sink_gradient,
  project,
  project_backward,
  weight_gradient,
  merge,
  copy,
  cast,
  add,
  maximum,
  fill,
  local,
  local_backward,
  state,
  scan,
  combine,
  inter,
  convolve,
  filter_gradient,
  exchange,
  all_gather,
  reduce_scatter,
  all_to_all,
  all_reduce,
  barrier,
  host_sync,
};

enum class Phase : std::uint8_t { forward, backward };
enum class LaneKind : std::uint8_t { compute, comm, copy, host };
enum class Transport : std::uint8_t { nccl, copy };
enum class Reduction : std::uint8_t { sum, max };

struct Lane {
  LaneKind kind = LaneKind::compute;
  std::uint8_t index = 0;
  bool operator==(const Lane&) const = default;
};

// A run of query rows against a run of key rows, as row numbers of the operation's q and k views (row i is
// the view's i-th row). With i, j counted inside the runs and d = j - (i + offset), query i sees key j iff
// (left < 0 or d >= -left) and (right < 0 or d <= right). Rows in no segment see no key.
struct Segment {
  std::int64_t q_begin = 0, q_count = 0;
  std::int64_t k_begin = 0, k_count = 0;
  std::int64_t offset = 0;
  std::int64_t left = -1, right = -1;
  bool operator==(const Segment&) const = default;
};

// `count` consecutive tokens of one sequence, at rows [row, row + count) of the operation's views; combine:
// the `count` tokens that a state passes over. `state`: the number of the chunk's own state in operands that
// have one for every chunk. left, right: the numbers of the states at the two edges of the rank's piece of
// the sequence, in operands that have one for every piece, with the tokens between (the exponents); -1: the
// sequence begins (ends) within the rank, nothing passes. resets: nothing passes from the chunk before it in
// the list (combine: from `from`). convolve, filter_gradient: `state` is the first of the chunk's rows in the
// halo, left_exponent (reverse and filter_gradient: right_exponent) how many there are: the tokens next to
// it.
struct Chunk {
  std::int64_t row = 0, count = 0;
  std::int32_t state = -1;
  std::int32_t left = -1, right = -1;
  std::int64_t left_exponent = 0, right_exponent = 0;
  bool resets = false;
  bool operator==(const Chunk&) const = default;
};

// How the work of chunks is cut into kernels; changes time and rounding, never the result: ChunkWork in
// kernels/linear.hpp.
enum class ChunkWork : std::uint8_t { blocked, serial, sliced };

// One message of a communication. Parts between one ordered pair of ranks in one group match in the order
// in which they are posted. A received part is stored (reduce_scatter: summed).
struct Part {
  std::uint32_t view = 0;
  std::int32_t peer = 0;  // global rank
  bool send = false;
  bool operator==(const Part&) const = default;
};

struct Operation {
  OpKind kind = OpKind::attend;
  Phase phase = Phase::forward;
  Lane lane;
  Transport transport = Transport::nccl;
  Reduction reduction = Reduction::sum;
  ChunkWork chunk_work = ChunkWork::blocked;
  bool reverse = false;     // scan, combine, convolve: from right to left, as states of queries go
  std::uint16_t group = 0;  // index into Plan::groups
  // Over nccl: how many channels its kernel has, a thread block and a multiprocessor each; 0: NCCL's own
  // choice. All members of the operation say the same.
  std::uint8_t channels = 0;
  BiasForm bias = BiasForm::none;  // attend, attend_backward: alibi and buckets; a stored bias is an operand
  std::uint32_t step = 0;
  std::uint32_t ordinal = 0;  // counts the operations of this rank and phase from 0
  Span reads;                 // Access, in RankPlan::accesses
  Span writes;                // Access, in RankPlan::accesses
  Span parts;                 // RankPlan::parts
  Span segments;              // RankPlan::segments
  Span chunks;                // RankPlan::chunks
  Span columns;               // RankPlan::row_ranges; step 0 repeats a column
  Span after;                 // RankPlan::edges: indices of earlier operations of this rank on other lanes
  Span after_started;         // the same; waits for their start, and orders no data
  std::int32_t head_begin = 0, head_end = 0;  // query heads, by their number in the problem
  double value = 0;                           // fill: the value; attend, attend_backward: the softmax scale
  double softcap = 0;                         // attend, attend_backward; 0: none
  double flops = 0;  // live pairs x query heads x 2(D+E) forward, 2(3D+2E) backward; states: chunk_flops;
                     // projections: two for each product of two numbers
  std::int64_t bytes = 0;  // communication: bytes sent; others: bytes read plus written
};
static_assert(sizeof(Operation) <= 128);

// ---- plans ---------------------------------------------------------------------------------------

struct Group {
  std::string name;
  std::vector<int> ranks;  // global ranks, by position
};

struct RankPlan {
  int rank = 0;  // global
  int replica = 0;
  int position = 0;  // in its context-parallel group
  // Other layers run between forward and backward (schedule.between): no operation of the backward begins
  // before all of the forward has ended, and what crosses is an input, an output or a saved buffer.
  bool between_layers = false;
  std::vector<Buffer> buffers;
  std::vector<Operation> operations;  // in issue order
  std::vector<RowRange> row_ranges;
  std::vector<View> views;
  std::vector<Access> accesses;
  std::vector<Segment> segments;
  std::vector<Chunk> chunks;
  std::vector<Part> parts;
  std::vector<std::uint32_t> edges;
  std::int64_t arena_bytes = 0;

  template <class T>
  static std::span<const T> slice(const std::vector<T>& pool, Span s) {
    return {pool.data() + s.first, s.count};
  }
  std::span<const Access> reads(const Operation& op) const { return slice(accesses, op.reads); }
  std::span<const Access> writes(const Operation& op) const { return slice(accesses, op.writes); }
  std::span<const Part> parts_of(const Operation& op) const { return slice(parts, op.parts); }
  std::span<const Segment> segments_of(const Operation& op) const { return slice(segments, op.segments); }
  std::span<const Chunk> chunks_of(const Operation& op) const { return slice(chunks, op.chunks); }
  std::span<const std::uint32_t> after(const Operation& op) const { return slice(edges, op.after); }
  std::span<const std::uint32_t> after_started(const Operation& op) const {
    return slice(edges, op.after_started);
  }
  std::span<const RowRange> columns_of(const Operation& op) const { return slice(row_ranges, op.columns); }
  std::span<const RowRange> rows_of(const View& view) const { return slice(row_ranges, view.ranges); }

  // The operation's access of that name; null where it has none. No operand is both read and written.
  const Access* find(const Operation& op, Operand operand) const {
    for (const Access& a : reads(op))
      if (a.operand == operand) return &a;
    for (const Access& a : writes(op))
      if (a.operand == operand) return &a;
    return nullptr;
  }
  // The view of an operand that the operation must have. The structural validator (plan/structure.hpp)
  // guarantees that for operations of good form.
  const View& view_of(const Operation& op, Operand operand) const { return views[find(op, operand)->view]; }
  WriteMode mode_of(const Operation& op, Operand operand) const { return find(op, operand)->mode; }
};

// Of a convolve or filter_gradient: how many rows of the halo are a chunk's.
inline std::int64_t halo_rows(const Operation& op, const Chunk& chunk) {
  return op.reverse || op.kind == OpKind::filter_gradient ? chunk.right_exponent : chunk.left_exponent;
}

struct Plan {
  Scenario scenario;
  std::vector<Group> groups;    // groups[replica] first: the context-parallel groups; then sub-groups
  std::vector<RankPlan> ranks;  // ranks[r].rank == r
  std::int64_t placement_padding_tokens = 0;  // rows added by the placement, all sequences together
};

// ---- common queries ------------------------------------------------------------------------------

std::string_view name(Role);
std::string_view name(Category);
std::string_view name(Layout);
std::string_view name(WriteMode);
std::string_view name(Operand);
std::string_view name(OpKind);
std::string_view name(Phase);
std::string_view name(LaneKind);
std::string_view name(Transport);
std::string_view name(Reduction);
std::string_view name(ChunkWork);

bool is_linear(OpKind);         // local .. filter_gradient: on chunks
bool is_convolution(OpKind);    // convolve, filter_gradient
bool is_projection(OpKind);     // project .. weight_gradient
bool is_communication(OpKind);  // exchange .. barrier
std::int64_t element_bytes(DType);
DType dtype_of(Role, DType nominal);  // integer is not a floating dtype: asserts
std::int64_t element_bytes(Role, DType nominal);
std::int64_t row_count(std::span<const RowRange>);
std::int64_t element_count(const RankPlan&, const View&);
std::int64_t view_bytes(const RankPlan&, const View&, DType nominal);
std::int64_t operation_count(const Plan&);  // of all ranks

// schedule.between = "layers": other layers run between forward and backward.
bool between_layers(const Schedule&);

// "rank/phase/ordinal", the same in check, sim and run.
std::string operation_id(const RankPlan&, const Operation&);
// "attend, step 3, lane compute 0": for messages.
std::string describe(const RankPlan&, const Operation&);

}  // namespace cplab
