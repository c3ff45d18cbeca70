// Ring attention over a scope: every member keeps its queries. Forward, keys and values travel around the
// ring, to the right; each member attends what it holds and merges the partial results. Backward, they travel
// again, and the gradients of K and V follow one step behind, until their rows have been seen by all and are
// home.
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
  void exchange(const std::vector<Message>&);
  std::vector<Tile> cut_tiles() const;
  void receive_keys(std::size_t of_tile, const std::vector<Box>& kv_by_visit);
  int visit_of(std::size_t tile_of_forward) const {
    return tile_of_forward == 0 ? 0 : 1 + static_cast<int>((tile_of_forward - 1) / o.parts);
  }
  Rows part_of(int owner, std::int64_t part) const;  // of the rows that travel in the forward
  // This member's queries with those keys of the owner.
  Tile tile_of_rows(int owner, const Rows&, Take) const;

  // The backward begins with a tile of all queries, before anything is sent, copied or set to 0.
  bool begins_with_all_queries(const Backward&) const;
  // What the next tile of the backward computes delta from, if it is the one that does.
  Box out_for_delta(const Tile& t) {
    return out_of_delta.given() ? std::exchange(out_of_delta, Box()).rows(t.q_rows) : Box();
  }
  // The backward with a tile's gradients apart, or (ring_sums.cpp) added to what has come by its kernel.
  void add_apart(const Backward&);
  void pass_sums_on(const Backward&);
  Box next_keys(const Backward&, int visit) const;
  void append_hop(std::vector<Message>&, const Box& next, int visit) const;
  Box home_of(const Backward&) const;
  void append_homecoming(std::vector<Message>&, const Box& sum, const Box& home, int visit,
                         Rows& back_home) const;
  void differentiate(const Backward&, int visit, const Box& dkv_sum);
  void differentiate_in_parts(const Tile&, Builder::AttendBackward, int visit, const Box& dkv_sum);
  void differentiate_rows(const Backward&, int visit, const Rows&, const Box& sum, WriteMode);
  void send_sum(int visit, std::int64_t part, const Box& sum, const Box& next);
  Rows part_of_sum(int owner, const Rows& summed, std::int64_t part) const;
  // The rank has its own K and V: those that come around last need not come.
  bool is_kept(int visit) const {
    return o.keeps_own_kv && o.travel == Travel::whole && back.owner(visit) == s.place();
  }
  // The own tile runs even without a live pair: it covers every row, so that each row of a result is defined.
  bool works(int owner) const {
    return owner == s.place() || !tiles[static_cast<std::size_t>(owner)].empty();
  }
  // Attention kernels add to the sums of dK and dV that have come (ring_sums.cpp).
  bool passes_sums_on() const { return back.visits() > 1 && o.sums_in_tiles && s.rows > 0; }
  const Tile& tile(int owner) const { return tiles[static_cast<std::size_t>(owner)]; }
  // Of the tile with that owner's keys, of which `part` holds what there is for each key.
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
  std::optional<TileInputs> inputs;
  Box held, slots;  // K and V: what the forward received last, and the backward's slots
  std::int64_t next_slot = 0;
  Box out_of_delta;
  Box dkv_tile;  // of as many key heads as a tile takes at a time
  FirstTouch dq_touch, dbias_touch;
};

}  // namespace cplab
