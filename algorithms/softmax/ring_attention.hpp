// Ring attention over a scope: every member keeps its queries, K and V travel on a route. The loops over
// visits are in ring.cpp; what they are made of is in ring_attention.cpp. A ring, the rings of hierarchical
// and usp, double_ring and bidirectional are this with other routes.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "algorithms/core/rotation.hpp"
#include "algorithms/core/row_parts.hpp"
#include "algorithms/softmax/ring_options.hpp"
#include "algorithms/softmax/softmax.hpp"
#include "algorithms/softmax/tile_inputs.hpp"

namespace cplab {

// Of the queries of a member, whose rings may be several over parts of the keys: these sum into one out and
// one dq.
struct RingSums {
  std::optional<SoftmaxSum> sum;
  std::vector<std::int64_t> tile_rows;  // of all tiles to come
  FirstTouch dq_touch, dbias_touch;
  int rings = 0, begun = 0, ended = 0;
};

class RingAttention final : public SoftmaxAlgorithm {
 public:
  RingAttention(const Scope&, const RingOptions&);  // once around the ring
  // Those routes, forward and backward. `outer`: the team of this member in which hops of lane 1 are made.
  RingAttention(const Scope&, const RingOptions&, const Route& there, const Route& back, const Team* outer);
  void forward(const Forward&) override;
  void backward(const Backward&) override;
  Lane comm() const override { return lane_of(0); }
  bool rereads_kv() const override {
    return o.travel == Travel::needed || s.P() == 1 || o.keeps_own_kv || !back.one_chain();
  }
  bool stores_dq_once() const override;
  bool projects() const override { return o.latents; }

  // Before the first forward of any of them: this ring sums with others into those sums.
  void sum_with(std::shared_ptr<RingSums>);

  // The two loops one visit at a time, for several rings that take turns.
  void begin_forward(const Forward&);
  int forward_visits() const { return static_cast<int>(work.size()); }  // each part of a visit counts
  void forward_visit(const Forward&, int i);
  void end_forward();
  void begin_backward(const Backward&);
  int backward_visits() const {
    return back.visits() + !adds_in_kernels();
  }  // the last only ends the first's
  void backward_visit(const Backward&, int visit);
  void end_backward(const Backward&);

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
      const std::vector<TileOfVisit>&);  // of those that have any work
  void place_forward(const Box& kv);     // where K and V are, by visit
  void place_forward_of_tree(const Box& kv);
  std::vector<Box> placed_by_lane(const Rotation&, const Box& kv, std::string_view name,
                                  std::string_view outer_name, std::int64_t most) const;
  void receive_beside(int i);
  void receive_keys(const TileOfVisit&);
  void attend(const Forward&, const TileOfVisit&);
  Rows part_of(int owner, std::int64_t part) const;  // of the rows that travel in the forward
  // This member's queries with those keys of the owner.
  Tile tile_of_rows(int owner, const Rows&, Take) const;

  // Where latents travel (ring_latents.cpp), they and their gradients are in all buffers that have K and V
  // and theirs in other rings, `kv` and `dkv` of what is given included; tiles alone have K and V.
  template <class Given>
  Given with_what_travels(Given given) const {
    if (!o.latents) return given;
    given.kv = given.latents.rows;
    if constexpr (requires { given.dkv; }) given.dkv = given.dlatents.rows;
    return given;
  }
  Box travelling(std::string_view name, Category, std::int64_t slots, std::int64_t rows) const;
  Box gradients(std::string_view name, std::int64_t slots, std::int64_t rows) const;
  // K and V of some heads, in those rows of what travels; a lane has its own.
  Box projected(Lane, const Box& latents, const Latents&, const Rows&, HeadRange);
  // A tile's gradients of some heads go through the weights to those of latents.
  void project_back(const Backward&, int visit, const Box& tile, const Box& sum);

  void place_backward(const Box& kv);  // where K and V are, by visit, and where sums of gradients are
  // The first operation of the backward is a tile of all queries: nothing is sent, copied or set to 0 before.
  bool begins_with_all_queries(const Backward&) const;
  // Where only rows travel that are needed, or a member's rows are the last of its keys, buffers of what
  // comes have so many rows as come at once.
  bool packs() const {
    return !o.copy_tiles && (o.travel == Travel::needed || there.arrived(0).count() < s.key_rows);
  }
  // A slot as long as all rows has each in its own place, so that those that come need not wait for others.
  Box holding(const Box& slot, const Rows& rows) const {
    return packs() && b.declared(slot).rows < s.key_rows ? slot.holding(rows) : slot;
  }
  std::int64_t own_rows() const { return packs() ? there.arrived(0).count() : s.key_rows; }
  // The most rows that a visit behind the first has, of some lane or of both.
  std::int64_t most_rows(const Rotation&, int lane = -1) const;
  // The rows of owner(visit) that are in its sum then.
  Rows in_sum(int visit) const { return back.one_chain() ? back.arrived(visit) : back.summed(visit); }
  std::int64_t most_in_sums(bool at_home) const;
  std::int64_t most_in_tiles() const;
  void place_sums(const Backward&);
  // What a tile of the backward computes delta from: given for the first one, if it is to compute delta.
  Box out_for_delta(const Tile& t) {
    return out_of_delta.given() ? std::exchange(out_of_delta, Box()).rows(t.q_rows) : Box();
  }
  void post_hops(int visit);  // all that travels beside it
  void append_sums(const Backward&, int visit);
  Box sum_at(const Backward&, int visit) const;
  // Where gradients of this member's rows come that do not end their rotation here.
  Box home_of(const Backward&) const;
  // Rows of a sum to which all have added go home; those of this member come.
  void append_homecoming(const Box& sum, int visit);
  void take_own(const Backward&, const Box& sum, int visit);  // of its own rows, what ends at that visit
  void add_what_came_home();
  // The gradients of a visit: in a tile apart, some key heads at a time, which is then added to the sum.
  void differentiate(const Backward&, int visit, const Box& dkv_sum);
  void differentiate_in_parts(const Backward&, const Tile&, Builder::AttendBackward, int visit,
                              const Box& dkv_sum);

  // The backward in which attention kernels add to the sums of dK and dV that have come.
  bool adds_in_kernels() const { return back.visits() > 1 && o.sums_in_tiles && s.rows > 0; }
  void place_sums_in_kernels(const Backward&);
  void add_in_kernels(const Backward&, int visit);
  void differentiate_rows(const Backward&, int visit, const Rows&, const Box& sum, WriteMode);
  void send_sum(int visit, std::int64_t part, const Box& sum, const Box& next);
  Rows part_of_sum(int owner, const Rows& summed, std::int64_t part) const;

  // Messages that go together: of each lane, those that have rows.
  void append(int lane, const Message& message) {
    messages[static_cast<std::size_t>(lane)].push_back(message);
  }
  void exchange();
  Lane lane_of(int lane) const {
    return o.overlap ? Lane{LaneKind::comm, static_cast<std::uint8_t>(o.lane + lane)} : compute(0);
  }
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
  const Team* outer = nullptr;
  std::optional<TileInputs> inputs;
  std::shared_ptr<RingSums> of_queries = std::make_shared<RingSums>();
  std::vector<TileOfVisit> work;                 // the forward's tiles
  std::vector<Box> kv_there, kv_back;            // K and V by visit
  std::array<std::vector<Message>, 2> messages;  // by lane
  Box held, slots;  // what the forward received last, and slots that it leaves to the backward
  std::int64_t next_slot = 0;
  // Of dK and dV: on the way, before they go home, come home, of the own rows where these have a place of
  // their own.
  Box sums, ends, home, own_sum;
  Rows back_home;
  bool into_result = false;  // the last sum of the backward comes where the result is
  int homecomings = 0;
  Rows came_home;  // last, and are yet to be added
  Box out_of_delta;
  Box dkv_tile;                // of as many key heads as a tile takes at a time
  std::array<Box, 2> kv_made;  // of latents, by phase: a slot for each compute lane of the forward
  bool has_weight_gradients = false;
};

// Algorithm::build of a ring over the whole group.
inline void run_ring(const Scope& whole, RingAttention&& ring) {
  run_summed(whole, ring);
}

}  // namespace cplab
