// The interface that algorithms are written against. An algorithm declares buffers and says in program order
// what its rank does; everything derivable is derived here: bytes, FLOPs, event edges, lifetimes, arena
// offsets.
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
#include "algorithms/core/team.hpp"
#include "algorithms/core/tile.hpp"
#include "plan/islands.hpp"
#include "plan/plan.hpp"

namespace cplab {

class Builder;

// A view under construction: a buffer, narrowed axis by axis.
class Box {
 public:
  Box() = default;
  Box slot(std::int64_t index) const;
  Box rows(const Rows&) const;                   // as stored: within the rows of the buffer
  Box rows(const std::vector<RowRange>&) const;  // in this order, at any stride
  Box first_rows(std::int64_t count) const;
  Box rows_at(std::int64_t begin, std::int64_t count) const;
  Box heads(std::int64_t begin, std::int64_t end) const;
  Box of_problem(HeadRange) const;              // heads by their numbers in the problem
  Box numbered(std::int64_t first_head) const;  // the buffer's first head has that number now
  Box columns(std::int64_t begin, std::int64_t end) const;
  HeadRange problem_heads() const;
  bool given() const { return builder_ != nullptr; }  // false: no box at all
  std::vector<RowRange> row_list() const;
  const View& view() const { return view_; }

 private:
  friend class Builder;
  Builder* builder_ = nullptr;
  View view_;
  std::int64_t first_head_ = 0;  // the problem's number of the buffer's first head
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

// Of two transports on one lane, nccl takes the lane this far on.
inline constexpr std::uint8_t beside_copies = 8;

class Builder {
 public:
  // `teams`: what teams_of() returns for this rank.
  Builder(const Scenario& resolved, const Placement&, int replica, int position, std::vector<Team> teams);
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;
  ~Builder();

  const Scenario& scenario() const { return scenario_; }
  const Problem& problem() const { return scenario_.problem; }
  int P() const { return static_cast<int>(scenario_.parallel.ranks); }
  int position() const { return plan_.position; }
  std::int64_t rows() const { return placement_.rows(); }  // local rows
  bool backward() const { return problem().has_backward(); }
  // Other layers run between forward and backward.
  bool between_layers() const { return backward() && plan_.between_layers; }
  // Whether wide and nominal are different dtypes.
  bool has_wide() const;

  const Team& team(std::string_view name) const;  // this rank's; throws std::logic_error if it is in none
  const Team& everyone() const { return teams_.front(); }
  const Placement& placement() const { return placement_; }

  // The box of all of it. A name that is taken gets a number ("kv_packed_2"). A working or saved buffer that
  // no operation touches will not be in the plan.
  Box buffer(const BufferSpec&);

  const Buffer& declared(const Box& box) const { return plan_.buffers[box.view().buffer]; }
  std::int64_t pieces(const Box&) const;  // contiguous ones of its message: derive/pieces.hpp

  void phase(Phase phase);
  bool in_backward() const { return phase_ == Phase::backward; }
  void step(std::int64_t step) { step_ = static_cast<std::uint32_t>(step); }

  // Operands in the order of plan.hpp. Segments count rows of the q and k boxes; heads follow from the q box,
  // and of the k, v, dk and dv boxes those are taken that these query heads read. Where they take only some
  // of the query heads of their first or last key head, these are operations of their own.
  // Of dynamic mask attention: bias, keep and dbias of the q box's rows and heads, with the columns that the
  // rows of k have there; without columns of the k box's. Absent where the problem does not have them.
  struct PairMask {
    Box bias, keep, dbias;
    WriteMode dbias_mode = WriteMode::store;
    std::vector<RowRange> columns;
    PairMask of_heads(HeadRange queries, HeadRange keys) const;
  };
  struct Attend {
    Box q, k, v, out, lse;
    const std::vector<Segment>& segments;
    WriteMode mode = WriteMode::store;
    Box max_logit = {};  // absent where the problem does not ask for it (algorithms/softmax/max_logit.hpp)
    PairMask mask = {};
  };
  void attend(Lane, const Attend&);
  struct AttendBackward {
    Box q, k, v, dout, lse, delta, dq, dk, dv;
    const std::vector<Segment>& segments;
    WriteMode dq_mode = WriteMode::store;
    WriteMode dk_mode = WriteMode::store;
    PairMask mask = {};
    // Where it is given, this call computes delta from it, rather than reads it.
    Box out = {};
    // Where it is given, this call writes there, in the problem's dtype, what it stores in dq.
    Box rounded_dq = {};
  };
  void attend_backward(Lane, const AttendBackward&);
  // delta = rowsum(dout * out), as an operation of its own.
  void row_dot(Lane, const Box& dout, const Box& out, const Box& delta);
  void merge(Lane, const Box& part_out, const Box& part_lse, const Box& out, const Box& lse);
  void merge_lse(Lane, const Box& part_lse, const Box& lse);
  void rescale_add(Lane, const Box& part_out, const Box& part_lse, const Box& lse, const Box& out);
  void copy(Lane, const Box& from, const Box& into);
  void cast(Lane, const Box& from, const Box& into);
  // A copy where both have the same role, else a cast.
  void convert(Lane, const Box& from, const Box& into);
  void add(Lane, const Box& from, const Box& into);
  void maximum(Lane, const Box& from, const Box& into);
  void fill(Lane, const Box& into, double value);

  // ---- linear attention: builder_linear.cpp. Operands by name; boxes that are not given are absent. Heads
  // follow from the first box.
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

  // ---- communication: builder_communication.cpp; of a team, of the whole group unless one is named. Where
  // the transport is left open (auto), an exchange becomes two, one for each transport that its messages
  // take; where a plan may need both, what goes over nccl has a lane of its own, so that neither waits for
  // the other.
  void exchange(Lane, TransportChoice, const std::vector<Message>&);
  void exchange(Lane, TransportChoice, const Team&, const std::vector<Message>&);
  void communicate(Lane, OpKind, TransportChoice, const Team&, const std::vector<Message>&);
  // Lists have a box for every member of the team, in its order; own parts may lie in place.
  void all_gather(Lane, TransportChoice, const Team&, const Box& own, const std::vector<Box>& into);
  void all_to_all(Lane, TransportChoice, const Team&, const std::vector<Box>& from,
                  const std::vector<Box>& into);
  // What member i receives is the sum over all members of their from[i]; into: this rank's share.
  void reduce_scatter(Lane, TransportChoice, const Team&, const std::vector<Box>& from, const Box& into);
  void all_reduce(Lane, TransportChoice, const Team&, Reduction, const Box& from, const Box& into);
  void barrier(Lane, TransportChoice, const Team&);
  void host_sync(Lane);  // the host waits until the lane has reached this point

  // The operation that was emitted last, for wait_for_start.
  std::uint32_t last() const { return static_cast<std::uint32_t>(plan_.operations.size()) - 1; }
  // The next operation waits until that one, on another lane, has started: Operation::after_started.
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
  // Where a tile that stores `dk`, and the dv beside it, may sum them in the wide dtype before it rounds them
  // (Operand::rounded_dk): in a working buffer as long as dk's, of the tile's key heads; absent where it may
  // not.
  Box dkv_sums(Lane, const Box& dk, std::int64_t query_heads, WriteMode);
  void drop_unused_buffers();
  void attach_segments(Operation&, const std::vector<Segment>&, const Box& q);
  // Operands by their names; those that are not given are left out.
  Operation& emit_named(Lane, OpKind, const std::vector<Named>& reads, const std::vector<Named>& writes);
  void post(Lane, OpKind, Transport, const Team&, const std::vector<Message>&);
  Lane lane_of(Lane, TransportChoice, Transport taken) const;
  void collective(Lane, OpKind, TransportChoice, const Team&, const std::vector<Box>& from,
                  const std::vector<Box>& into);

  const Scenario& scenario_;
  const Placement& placement_;
  RankPlan plan_;
  std::unique_ptr<Pools> pools_;
  Phase phase_ = Phase::forward;
  std::uint32_t step_ = 0;
  std::uint32_t ordinal_ = 0;
  std::vector<Team> teams_;
  std::vector<std::uint32_t> starts_;  // of the next operation
  std::vector<std::uint32_t> beside_;  // over nccl, since the last attention kernel was emitted
};

}  // namespace cplab
