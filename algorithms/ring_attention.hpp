// Ring attention over a scope: every member keeps its queries. Forward, keys and values travel around the
// ring, to the right; each member attends what it holds and merges the partial results. Backward, they travel
// again, and the gradients of K and V follow one step behind, until their rows have been seen by all and are
// home.
#pragma once

#include <optional>
#include <vector>

#include "algorithms/ring_options.hpp"
#include "algorithms/rotation.hpp"
#include "algorithms/softmax.hpp"
#include "algorithms/tile_inputs.hpp"

namespace cplab {

class RingAttention final : public SoftmaxAlgorithm {
 public:
  RingAttention(const Scope&, const RingOptions&);
  void forward(const Forward&) override;
  void backward(const Backward&) override;
  Lane comm() const override { return o.overlap ? comm_lane : compute(0); }
  bool rereads_kv() const override { return o.travel == Travel::needed || s.P() == 1 || o.keeps_own_kv; }

 private:
  void exchange(const std::vector<Message>&);
  void differentiate(const Backward&, int visit, const Box& dkv_sum);
  void differentiate_in_parts(const Tile&, Builder::AttendBackward, int visit, const Box& dkv_sum);
  // The rank has its own K and V: those that come around last need not come.
  bool is_kept(int visit) const {
    return o.keeps_own_kv && o.travel == Travel::whole && back.owner(visit) == s.place();
  }
  // The own tile runs even without a live pair: it covers every row, so that each row of a result is defined.
  bool works(int owner) const {
    return owner == s.place() || !tiles[static_cast<std::size_t>(owner)].empty();
  }
  const Tile& tile(int owner) const { return tiles[static_cast<std::size_t>(owner)]; }
  Lane compute(int i) const { return {LaneKind::compute, static_cast<std::uint8_t>(i % o.compute_lanes)}; }

  const Scope& s;
  Builder& b;
  const RingOptions o;
  const Rotation there, back;
  std::vector<Tile> tiles;  // of this member's queries with the keys of every member
  std::optional<TileInputs> inputs;
  Box held, slots;  // K and V: what the forward received last, and the backward's slots
  std::int64_t next_slot = 0;
  Box dkv_tile;  // of as many key heads as a tile takes at a time
  FirstTouch dq_touch;
};

}  // namespace cplab
