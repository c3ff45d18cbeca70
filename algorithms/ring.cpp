// Ring attention: Liu, Zaharia, Abbeel 2023 (arXiv 2310.01889), in the form of TransformerEngine's
// AttnFuncWithCPAndKVP2P with the O(1) memory of its PR 2916.
//
// Every rank keeps its queries. Forward, keys and values travel once around the ring, to the right; each rank
// attends what it holds and merges the partial results. Backward, they travel on to the left from where they
// stopped, and the gradients of K and V follow one step behind: the last step brings them home.
#include <algorithm>
#include <optional>

#include "algorithms/buffers.hpp"
#include "algorithms/max_logit.hpp"
#include "algorithms/ring_options.hpp"
#include "algorithms/softmax_sum.hpp"
#include "algorithms/tile_inputs.hpp"

namespace cplab {
namespace {

class Ring {
 public:
  explicit Ring(Builder& builder) : b(builder) {
    for (int owner = 0; owner < P; ++owner) tiles.push_back(b.tile(owner, owner == r));
    inputs.emplace(b, o.copy_tiles, tiles);
  }

  void forward() {
    q = b.buffer({"q", Role::nominal, Category::input, 1, n, p.heads, p.head_size});
    held = kv = kv_buffer(b, "kv", Role::nominal, Category::input, 1, n);
    out = b.buffer({"out", Role::nominal, Category::output, 1, n, p.heads, p.value_size});
    lse = lse_buffer(b, "lse", Category::output, 1, n);
    std::vector<std::int64_t> tile_rows;
    for (int step = 0; step < P; ++step)
      if (works(owner_forward(step))) tile_rows.push_back(tiles[owner_forward(step)].q_rows.count());
    SoftmaxSum sum(b, o.sum, out, lse, tile_rows);
    MaxLogit max_logit(b);
    const int own = o.copy_tiles;  // slot 0 then holds a copy of this rank's K and V
    std::int64_t slots = std::min(o.kv_slots, std::int64_t{P - 1 + own});
    // The backward starts from the K and V that the forward received last, and needs two slots: the forward's
    // own if it has two, else two further ones that the last hop receives into. Where other layers run in
    // between, what was received last is saved instead of this rank's own K and V.
    const bool saves = b.between_layers() && P > 1;
    const bool apart = b.backward() && P > 1 && slots != 2 && !saves;
    if (apart || saves) slots = std::min(o.kv_slots, std::int64_t{P - 2 + own});
    if (apart) two_slots = kv_buffer(b, "kv_slots_backward", Role::nominal, Category::working, 2, n);
    if (saves) saved = kv_buffer(b, "kv_saved", Role::nominal, Category::saved, 1, n);
    if (slots > 0) kv_slots = kv_buffer(b, "kv_slots", Role::nominal, Category::working, slots, n);
    if (own) b.copy(compute(0), held, kv_slots.slot(0));
    if (own) held = kv_slots.slot(0);
    for (int step = 0; step < P; ++step) {
      b.step(step);
      const bool last_hop = step + 2 == P;
      const Box next = saves && last_hop   ? saved
                       : apart && last_hop ? two_slots.slot(0)
                       : slots > 0         ? kv_slots.slot((step + own) % slots)
                                           : held;
      if (step + 1 < P) b.exchange(comm, o.transport, {send(held, right), receive(next, left)});
      if (const std::size_t owner = owner_forward(step); works(owner)) {
        const Tile& t = tiles[owner];
        const Lane lane = compute(step);
        const Box part = inputs->keys(lane, "kv_tile", held, t);
        sum.attend(lane, inputs->queries(lane, "q_tile", q, t), keys(b, part), values(b, part), t.q_rows,
                   t.segments, max_logit.of(lane));
      }
      if (step + 1 < P) held = next;
    }
    sum.finish(compute(0));
    max_logit.finish(comm, o.transport, b.everyone());
    if (!apart) two_slots = kv_slots;
    next_slot = saves ? 0 : apart ? 1 : P - 1 + own;
  }

  void backward() {
    b.phase(Phase::backward);
    const int slots = b.between_layers() ? std::min(2, P - 1) : 0;  // else the forward's are used
    if (slots > 0) two_slots = kv_buffer(b, "kv_slots_backward", Role::nominal, Category::working, slots, n);
    if (b.between_layers() && P == 1) held = kv;
    dout = b.buffer({"dout", Role::nominal, Category::input, 1, n, p.heads, p.value_size});
    delta = lse_buffer(b, "delta", Category::working, 1, n);
    const Box dq = b.buffer({"dq", Role::nominal, Category::output, 1, n, p.heads, p.head_size});
    const Box dkv = kv_buffer(b, "dkv", Role::nominal, Category::output, 1, n);
    const bool wide = o.sum.wide && b.has_wide() && P > 1;
    dq_sum = wide ? b.buffer({"dq_sum", Role::wide, Category::working, 1, n, p.heads, p.head_size}) : dq;
    b.row_dot(compute(0), dout, out, delta);
    if (P > 1) dkv_slots = kv_buffer(b, "dkv_slots", o.gradient_wire, Category::working, 2, n);
    if (P > 1) dkv_tile = kv_buffer(b, "dkv_tile", o.gradient_wire, Category::working, 1, n);
    for (int step = 0; step < P; ++step) {
      b.step(step);
      const Box next = step + 1 < P ? two_slots.slot((next_slot + step) % b.declared(two_slots).slots) : held;
      const Box dkv_sum = P > 1 ? dkv_slots.slot((step + 1) % 2) : dkv;
      std::vector<Message> messages;
      if (step + 1 < P) messages = {send(held, left), receive(next, right)};
      if (step > 0) messages.push_back(send(dkv_slots.slot(step % 2), left));
      if (step > 0) messages.push_back(receive(dkv_sum, right));
      if (P > 1) b.exchange(comm, o.transport, messages);
      differentiate(step, dkv_sum);
      held = next;
    }
    if (P > 1) b.convert(compute(0), dkv_slots.slot(P % 2), dkv);
    if (wide) b.cast(compute(0), dq_sum, dq);
  }

 private:
  void differentiate(int step, const Box& dkv_sum) {
    const auto owner = static_cast<std::size_t>((r + 1 + step) % P);
    if (!works(owner)) return;
    const Tile& t = tiles[owner];
    const Lane lane = compute(0);
    const Box part = inputs->keys(lane, "kv_tile_backward", held, t);
    const Box into = (step == 0 ? dkv_sum : dkv_tile).rows(t.k_rows);
    b.attend_backward(lane, {inputs->queries(lane, "q_tile_backward", q, t), keys(b, part), values(b, part),
                             inputs->queries(lane, "dout_tile", dout, t), lse.rows(t.q_rows),
                             delta.rows(t.q_rows), dq_sum.rows(t.q_rows), keys(b, into), values(b, into),
                             t.segments, dq_touch.touch(b, lane, dq_sum, t.q_rows)});
    if (step == 0) return;
    // The rows of dK and dV that ranks to the right, which had them earlier, have written. All others are
    // uninitialised.
    Rows touched;
    for (int j = 1; j <= step && touched.count() < n; ++j)
      touched = touched.united(b.live_key_rows((r + j) % P, static_cast<int>(owner)));
    const Rows old = t.k_rows.common(touched), fresh = t.k_rows.minus(touched);
    if (!old.empty()) b.add(lane, dkv_tile.rows(old), dkv_sum.rows(old));
    if (!fresh.empty()) b.copy(lane, dkv_tile.rows(fresh), dkv_sum.rows(fresh));
  }
  // The own tile runs even without a live pair: it covers every row, so that each row of a result is defined.
  bool works(std::size_t owner) const { return static_cast<int>(owner) == r || !tiles[owner].empty(); }
  std::size_t owner_forward(int step) const { return static_cast<std::size_t>((r - step + P) % P); }
  Lane compute(int i) const { return {LaneKind::compute, static_cast<std::uint8_t>(i % o.compute_lanes)}; }
  Builder& b;
  const Problem& p = b.problem();
  const RingOptions o = ring_options(b.scenario().schedule);
  const int P = b.P(), r = b.position(), right = (r + 1) % P, left = (r + P - 1) % P;
  const std::int64_t n = b.rows();
  const Lane comm = o.overlap ? Lane{LaneKind::comm, 0} : compute(0);
  std::vector<Tile> tiles;  // of this rank's queries with the keys of every rank
  Box q, out, lse, dout, delta, kv_slots, two_slots, saved, kv, held;
  Box dq_sum, dkv_slots, dkv_tile;
  FirstTouch dq_touch;
  std::int64_t next_slot = 0;
  std::optional<TileInputs> inputs;
};

}  // namespace

void build_ring(Builder& builder) {
  Ring ring(builder);
  ring.forward();
  if (builder.backward()) ring.backward();
}

}  // namespace cplab
