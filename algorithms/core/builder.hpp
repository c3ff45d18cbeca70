// The interface that algorithms are written against. An algorithm declares buffers and says in program order
// what its rank does. Each call emits its operations where it stands: none changes an operation that is there
// already, and none waits for what is called next. What follows from the calls is derived: bytes and FLOPs as
// they are made, lifetimes, arena offsets and event edges in finish().
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/core/distribution.hpp"
#include "algorithms/core/placement.hpp"
#include "algorithms/core/rows.hpp"
#include "algorithms/core/shared.hpp"
#include "algorithms/core/team.hpp"
#include "algorithms/core/tile.hpp"
#include "plan/islands.hpp"
#include "plan/plan.hpp"

namespace cplab {

class Builder;

// A view under construction: a buffer, narrowed axis by axis. A Box that was made by no builder names no
// buffer; where a call takes one that may be absent, such a Box stands for its absence.
class Box {
 public:
  Box() = default;
  Box slot(std::int64_t index) const;
  Box rows(const Rows&) const;                   // as stored: within the rows of the buffer, or as held
  Box rows(const std::vector<RowRange>&) const;  // in this order, at any stride
  Box first_rows(std::int64_t count) const;
  Box rows_at(std::int64_t begin, std::int64_t count) const;
  Box heads(std::int64_t begin, std::int64_t end) const;
  Box of_problem(HeadRange) const;              // heads by their numbers in the problem
  Box numbered(std::int64_t first_head) const;  // the buffer's first head has that number now
  // The buffer's first rows are those of a larger one: from now on rows() takes them by their numbers there.
  Box holding(const Rows& of_larger) const;
  Box columns(std::int64_t begin, std::int64_t end) const;
  HeadRange problem_heads() const;
  bool given() const { return builder_ != nullptr; }  // false: it names no buffer
  std::vector<RowRange> row_list() const;
  const View& view() const { return view_; }

 private:
  friend class Builder;
  Builder* builder_ = nullptr;
  View view_;
  std::int64_t first_head_ = 0;  // the problem's number of the buffer's first head
  std::shared_ptr<const Rows> held_;
};

struct BufferSpec {
  std::string_view name;
  Role role = Role::nominal;
  Category category = Category::working;
  std::int64_t slots = 1, rows = 1, heads = 1, width = 1;
  std::int64_t planes = 0;
  Layout layout = Layout::rows_first;
  // The problem's number of its first head: a buffer that holds heads 8 to 11 of all says 8.
  std::int64_t first_head = 0;
  std::string_view slab = {};  // Buffer::slab
};

// One side of a message.
struct Message {
  Box box;
  int peer = 0;  // its index in the team (in the whole context-parallel group: its position)
  bool send = false;
};
inline Message send(const Box& box, int peer) {
  return {box, peer, true};
}
inline Message receive(const Box& box, int peer) {
  return {box, peer, false};
}

// Where the messages of one lane may take both transports, those over nccl are on the lane whose index is so
// much higher.
inline constexpr std::uint8_t beside_copies = 8;

class Builder {
 public:
  // `shared`: of all ranks of the replica's group; `teams`: what teams_of() returns for this rank.
  Builder(const Scenario& resolved, const Placement&, Shared& shared, int replica, int position,
          std::vector<Team> teams);
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;
  ~Builder();

  const Scenario& scenario() const { return scenario_; }
  const Problem& problem() const { return scenario_.problem; }
  const Visible& visible() const { return shared_.visible(problem()); }
  int P() const { return static_cast<int>(scenario_.parallel.ranks); }
  int position() const { return plan_.position; }
  int replica() const { return plan_.replica; }
  std::int64_t rows() const { return placement_.rows(); }  // local rows
  bool backward() const { return problem().has_backward(); }
  // Other layers run between forward and backward.
  bool between_layers() const { return backward() && plan_.between_layers; }
  // The roles wide and nominal have different dtypes in this problem.
  bool has_wide() const;

  const Team& team(std::string_view name) const;  // this rank's; throws std::logic_error if it is in none
  const Team& everyone() const { return teams_.front(); }
  const Placement& placement() const { return placement_; }
  Shared& shared() const { return shared_; }

  // Declares a buffer and returns the box of all of it. A name that is taken gets a number ("kv_packed_2"). A
  // working or saved buffer that no operation touches is left out of the plan.
  Box buffer(const BufferSpec&);

  // A working buffer of that name like one slot of the box's buffer, with the box's heads.
  BufferSpec like(const Box&, std::string_view name) const;

  // Until the next buffer is declared.
  const Buffer& declared(const Box& box) const { return plan_.buffers[box.view().buffer]; }
  // Of how many contiguous pieces a message of that box is (derive/pieces.hpp).
  std::int64_t pieces(const Box&) const;

  void phase(Phase phase);
  bool in_backward() const { return phase_ == Phase::backward; }
  void step(std::int64_t step) { step_ = static_cast<std::uint32_t>(step); }

  // ---- Attention. The query heads are those of the q box; of the k, v, dk and dv boxes a call takes the key
  // heads that these read. Segments count rows of the q box and of the k box. A call is one operation, but
  // where the query heads begin or end inside the group that shares a key head: that part of a group is an
  // operation of its own.

  // Stored bias, its gradient and keep, each absent where the problem does not have it. With `columns` they
  // have a value for every pair: the rows and heads of the q box, and of each row the columns that belong to
  // the rows of the k box. Without, they have one for every key: the rows and heads of the k box. Of a bias
  // of positions the columns are the positions of the rows of the k box, then of the q box; the table and its
  // gradient, to which the call adds, are of all query heads.
  struct PairMask {
    Box bias, keep, dbias;
    WriteMode dbias_mode = WriteMode::store;
    std::vector<RowRange> columns;
    Box table = {}, dtable = {};
    PairMask of_heads(HeadRange queries, HeadRange keys) const {
      PairMask some = *this;
      for (Box* box : {&some.bias, &some.keep, &some.dbias})
        if (box->given()) *box = box->of_problem(columns.empty() ? keys : queries);
      for (Box* box : {&some.table, &some.dtable})
        if (box->given()) *box = box->of_problem(queries);
      return some;
    }
  };
  struct Attend {
    Box q, k, v, out, lse;
    const std::vector<Segment>& segments;
    WriteMode mode = WriteMode::store;
    // Each query head's largest logit is raised to that of this call (algorithms/softmax/max_logit.hpp).
    Box max_logit = {};
    PairMask mask = {};
    Box sink = {};  // of all query heads: each row's counts in one call
  };
  void attend(Lane, const Attend&);
  // dk_mode is that of dv as well.
  struct AttendBackward {
    Box q, k, v, dout, lse, delta, dq, dk, dv;
    const std::vector<Segment>& segments;
    WriteMode dq_mode = WriteMode::store;
    WriteMode dk_mode = WriteMode::store;
    PairMask mask = {};
    Box out = {};  // where it is given, the call computes delta = rowsum(dout * out) and writes it
    // Where it is given, the call writes there what it stores in dq, rounded to the problem's dtype, and
    // nothing may read dq afterwards.
    Box rounded_dq = {};
  };
  void attend_backward(Lane, const AttendBackward&);

  // ---- Latent keys and values. `latents`: rows of one head, kv_latent columns and the rope key behind them;
  // weights and their gradients: of all query heads. The heads of a call are those of `kv` or `dkv`, whose
  // rows are the latents'.
  struct Weights {
    Box of_keys, of_values;
  };
  void project(Lane, const Box& latents, const Weights&, const Box& kv);
  void project_backward(Lane, const Box& dkv, const Weights&, const Box& dlatents, WriteMode);
  void weight_gradient(Lane, const Box& latents, const Box& dkv, const Weights& gradients, WriteMode);

  // ---- Operations on rows.
  void row_dot(Lane, const Box& dout, const Box& out, const Box& delta);  // delta = rowsum(dout * out)
  // dsink = -sum over the rows of exp(sink - lse) delta, of final lse and delta.
  void sink_gradient(Lane, const Box& sink, const Box& lse, const Box& delta, const Box& dsink);
  // Merges a partial result, normalised by its own lse, into another one and its lse.
  void merge(Lane, const Box& part_out, const Box& part_lse, const Box& out, const Box& lse);
  // The two steps of a merge that is deferred: first the lse of all partial results is summed up, then each
  // partial result is scaled by what its own lse is of that sum, and added.
  void merge_lse(Lane, const Box& part_lse, const Box& lse);
  void rescale_add(Lane, const Box& part_out, const Box& part_lse, const Box& lse, const Box& out);
  void copy(Lane, const Box& from, const Box& into);
  void cast(Lane, const Box& from, const Box& into);
  // A copy where both have the same role, else a cast.
  void convert(Lane, const Box& from, const Box& into);
  void add(Lane, const Box& from, const Box& into);
  void maximum(Lane, const Box& from, const Box& into);
  void fill(Lane, const Box& into, double value);

  // ---- Linear attention. Operands have names; those whose box is not given are absent.
  // The heads of the operation are those of the first box.
  struct Named {
    Operand operand;
    Box box;
    WriteMode mode = WriteMode::store;
  };
  struct OnChunks {
    const std::vector<Chunk>& list;
    ChunkWork work = ChunkWork::blocked;
    bool reverse = false;  // scan, combine
  };
  void linear(Lane, OpKind, const std::vector<Named>& reads, const std::vector<Named>& writes,
              const OnChunks& chunks);

  // ---- Communication of a team, which is the whole group unless one is named.
  // Where the transport is left open (auto), each message of an exchange takes the one that its two ends
  // allow: the call then emits two exchanges, first that of the copies, then, on a lane of its own, that over
  // nccl, so that neither waits for the other.
  void exchange(Lane, TransportChoice, const std::vector<Message>&);
  void exchange(Lane, TransportChoice, const Team&, const std::vector<Message>&);
  // Of those messages that have rows; of none nothing is emitted.
  void exchange_rows(Lane, TransportChoice, const Team&, std::vector<Message>);
  void communicate(Lane, OpKind, TransportChoice, const Team&, const std::vector<Message>&);
  // The lists have a box for every member of the team, in its order. What a member gives to itself may lie in
  // place.
  void all_gather(Lane, TransportChoice, const Team&, const Box& own, const std::vector<Box>& into);
  void all_to_all(Lane, TransportChoice, const Team&, const std::vector<Box>& from,
                  const std::vector<Box>& into);
  // Member i receives the sum over all members of their from[i]; `into` is where this rank receives.
  void reduce_scatter(Lane, TransportChoice, const Team&, const std::vector<Box>& from, const Box& into);
  void all_reduce(Lane, TransportChoice, const Team&, Reduction, const Box& from, const Box& into);
  void barrier(Lane, TransportChoice, const Team&);
  void host_sync(Lane);  // the host waits until the lane has reached this point

  // The operation that was emitted last, for wait_for_start.
  std::uint32_t last() const { return static_cast<std::uint32_t>(plan_.operations.size()) - 1; }
  // The operation that is emitted next will wait until that one, on another lane, has started
  // (Operation::after_started).
  void wait_for_start(std::uint32_t operation) { starts_.push_back(operation); }

  // Computes lifetimes, arena and event edges; the builder cannot be used afterwards.
  RankPlan finish();

 private:
  friend class Box;
  struct Pools;
  Operation& emit(Lane, OpKind, std::initializer_list<Box> reads,
                  std::initializer_list<std::pair<Box, WriteMode>> writes);
  Operation& emit_accesses(Lane, OpKind, std::int64_t bytes);
  void follow_communication(Lane);
  Span intern_ranges(const std::vector<RowRange>&);
  std::uint32_t intern_view(const View&);
  std::vector<HeadRange> groups_of_heads(const Box& q) const;
  // The working buffer in which a tile that stores dk and dv may sum them in the wide dtype before it rounds
  // them (Operand::rounded_dk): as long as the buffer of `dk`, of the tile's key heads. Absent where a tile
  // has no use for it.
  Box dkv_sums(Lane, const Box& dk, std::int64_t query_heads, WriteMode);
  void drop_unused_buffers();
  void attach_segments(Operation&, const std::vector<Segment>&, const Box& q);
  void attach_heads(Operation&, HeadRange) const;  // and the work, of a projection
  Operation& emit_named(Lane, OpKind, const std::vector<Named>& reads, const std::vector<Named>& writes);
  void post(Lane, OpKind, Transport, const Team&, const std::vector<Message>&);
  Lane lane_of(Lane, TransportChoice, Transport taken) const;
  void collective(Lane, OpKind, TransportChoice, const Team&, const std::vector<Box>& from,
                  const std::vector<Box>& into);

  const Scenario& scenario_;
  const Placement& placement_;
  Shared& shared_;
  RankPlan plan_;
  std::unique_ptr<Pools> pools_;
  Phase phase_ = Phase::forward;
  std::uint32_t step_ = 0;
  std::uint32_t ordinal_ = 0;
  std::vector<Team> teams_;
  std::vector<std::uint32_t> starts_;  // the operations for whose start the next one waits
  std::vector<std::uint32_t> beside_;  // what went over nccl since the last attention kernel was emitted
};

}  // namespace cplab
