// Ring attention over a scope: every member keeps its queries, K and V travel around the ring, to the right.
// The loops over visits are in ring.cpp (which hierarchical and usp run too), what they are made of in
// ring_attention.cpp.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "algorithms/core/rotation.hpp"
#include "algorithms/core/row_parts.hpp"
#include "algorithms/softmax/ring_options.hpp"
#include "algorithms/softmax/softmax.hpp"
#include "algorithms/softmax/tile_inputs.hpp"

namespace cplab {

class RingAttention final : public SoftmaxAlgorithm {
 public:
  RingAttention(const Scope&, const RingOptions&);
  void forward(const Forward&) override;
  void backward(const Backward&) override;
  Lane comm() const override { return o.overlap ? comm_lane : compute(0); }
  bool rereads_kv() const override { return o.travel == Travel::needed || s.P() == 1 || o.keeps_own_kv; }
  bool stores_dq_once() const override;

 private:
  // A tile of the forward: what it attends is there from that visit on. Where rows travel in parts, each
  // visit but the first has a tile for every part of them.
  struct TileOfVisit {
    int visit = 0;
    std::int64_t part = 0;
    const Tile* tile = nullptr;
  };
  std::vector<TileOfVisit> forward_tiles();  // in order
  static std::vector<std::int64_t> query_rows(
      const std::vector<TileOfVisit>&);           // of those that have any work
  std::vector<Box> forward_slots(const Box& kv);  // where K and V are, by visit
  void receive_keys(const TileOfVisit&, const std::vector<Box>& kv_by_visit);
  void attend(const Forward&, const TileOfVisit&, const std::vector<Box>& kv_by_visit, SoftmaxSum&);
  Rows part_of(int owner, std::int64_t part) const;  // of the rows that travel in the forward
  // This member's queries with those keys of the owner.
  Tile tile_of_rows(int owner, const Rows&, Take) const;

  // Delta, where K and V are that the forward left, and slots for those that come.
  void begin_backward(const Backward&);
  // The first operation of the backward is a tile of all queries: nothing is sent, copied or set to 0 before.
  bool begins_with_all_queries(const Backward&) const;
  // What a tile of the backward computes delta from: given for the first one, if it is to compute delta.
  Box out_for_delta(const Tile& t) {
    return out_of_delta.given() ? std::exchange(out_of_delta, Box()).rows(t.q_rows) : Box();
  }
  // Where K and V of the visit after this one are or, if they have to come, will be.
  Box next_keys(const Backward&, int visit) const;
  void append_hop(std::vector<Message>&, const Box& next, int visit) const;
  // Where gradients of this member's rows come that do not end their rotation here.
  Box home_of(const Backward&) const;
  // Rows of a sum to which all have added go home; those of this member come.
  void append_homecoming(std::vector<Message>&, const Box& sum, const Box& home, int visit,
                         Rows& back_home) const;
  void take_own(const Backward&, const Box& sum, int visit);  // of its own rows, what ends at that visit
  void take_home(const Backward&, const Box& home, const Rows& back_home);
  // The gradients of a visit: in a tile apart, some key heads at a time, which is then added to the sum.
  void differentiate(const Backward&, int visit, const Box& dkv_sum);
  void differentiate_in_parts(const Tile&, Builder::AttendBackward, int visit, const Box& dkv_sum);

  // The backward in which attention kernels add to the sums of dK and dV that have come.
  bool adds_in_kernels() const { return back.visits() > 1 && o.sums_in_tiles && s.rows > 0; }
  void add_in_kernels(const Backward&);
  void differentiate_rows(const Backward&, int visit, const Rows&, const Box& sum, WriteMode);
  void send_sum(int visit, std::int64_t part, const Box& sum, const Box& next);
  Rows part_of_sum(int owner, const Rows& summed, std::int64_t part) const;

  void exchange(const std::vector<Message>&);  // of those that have rows
  // The rank has its own K and V: those that come around last need not come.
  bool is_kept(int visit) const {
    return o.keeps_own_kv && o.travel == Travel::whole && back.owner(visit) == s.place();
  }
  // The own tile runs even without a live pair: it covers every row, so that each row of a result is defined.
  bool works(int owner) const {
    return owner == s.place() || !tiles[static_cast<std::size_t>(owner)].empty();
  }
  const Tile& tile(int owner) const { return tiles[static_cast<std::size_t>(owner)]; }
  // Biases of the tile with that owner's keys; `part` holds its rows of K and V and what lies behind them.
  Builder::PairMask mask_of(Lane, int owner, const Tile&, const Box& part, const PairBoxes& of_rank);
  Lane compute(int i) const { return {LaneKind::compute, static_cast<std::uint8_t>(i % o.compute_lanes)}; }
  // A lane that no tile is on, if tiles have several.
  Lane aside() const {
    return {LaneKind::compute, static_cast<std::uint8_t>(o.compute_lanes > 1 ? o.compute_lanes : 0)};
  }

  const Scope& s;
  Builder& b;
  const RingOptions o;
  const Rotation there, back;
  std::vector<Tile> tiles;  // of this member's queries with the keys of every member
  std::vector<Tile> cut;    // the same with parts of them, of the forward
  std::optional<TileInputs> inputs;
  Box held, slots;  // K and V: what the forward received last, and the backward's slots
  std::int64_t next_slot = 0;
  Box out_of_delta;
  Box dkv_tile;  // of as many key heads as a tile takes at a time
  FirstTouch dq_touch, dbias_touch;
};

}  // namespace cplab
