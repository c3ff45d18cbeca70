// The backward of the ring in which attention kernels add to the sums of dK and dV that have come: no tile of
// gradients apart, no operation that adds it, and a part of the rows goes on while the next is computed.
#include <algorithm>

#include "algorithms/core/defaults.hpp"
#include "algorithms/softmax/ring_attention.hpp"

namespace cplab {

void RingAttention::pass_sums_on(const Backward& g) {
  const int visits = back.visits(), last = visits - 1;
  // A whole rotation ends where the rows belong: what comes there last comes into the result, if it has the
  // dtype of the wire.
  const bool into_result = o.travel == Travel::whole && o.gradient_wire == Role::nominal;
  const Box sums = s.dkv_buffer("dkv_slots", o.gradient_wire, Category::working,
                                std::min(2, visits - into_result), s.rows);
  const auto sum_at = [&](int v) { return into_result && v == last ? g.dkv : sums.slot(v % 2); };
  const Box home = home_of(g);
  Rows back_home;
  // Beside whatever waits for a message of the forward.
  if (b.declared(g.dq).role == Role::wide) dq_touch.clear(b, aside(), g.dq, s.rows);
  for (int v = 0; v < visits; ++v) {
    b.step(v);
    const int owner = back.owner(v);
    const Box next = next_keys(g, v), sum = sum_at(v);
    std::vector<Message> messages;
    append_hop(messages, next, v);
    exchange(messages);
    // This member's tile adds to what earlier holders have summed, which has come in parts, and leaves in
    // parts what goes on. No other row has been written: of these the tile needs nothing that comes.
    const Rows rows = tile(owner).k_rows, old = rows.common(back.seen(v));
    const Rows leaving = v < last ? back.summed(v) : back.seen(v);
    const auto differentiate_both = [&](const Rows& some) {
      differentiate_rows(g, v, some.minus(old), sum, WriteMode::store);
      differentiate_rows(g, v, some.common(old), sum, WriteMode::add);
    };
    const Rows fresh = v > 0 ? rows.minus(old) : Rows();
    differentiate_both(fresh);
    for (std::int64_t part = 0; part < o.parts; ++part) {
      differentiate_both(rows.minus(fresh).common(part_of_sum(owner, leaving, part)));
      if (v < last) send_sum(v, part, sum, sum_at(v + 1));
    }
    differentiate_both(rows.minus(fresh).minus(leaving));
    messages.clear();
    append_homecoming(messages, sum, home, v, back_home);
    exchange(messages);
    const bool ends = owner == s.place() && !back.ending(v).empty() && !(into_result && v == last);
    if (ends) b.convert(compute(0), sum.rows(back.ending(v)), g.dkv.rows(back.ending(v)));
    held = next;
  }
  if (o.gradient_wire != Role::nominal && !back_home.empty())
    b.convert(compute(0), home.rows(back_home), g.dkv.rows(back_home));
  dq_touch.finish(b, compute(0), g.dq, s.rows);
  if (g.dbias.given()) dbias_touch.finish(b, compute(0), g.dbias, s.rows);
}

// A part of the sum that this member has held goes on, the like part of the next one comes.
void RingAttention::send_sum(int visit, std::int64_t part, const Box& sum, const Box& next) {
  const auto sent = [&](int owner, const Rows& summed) {
    const Rows rows = part_of_sum(owner, summed, part);
    if (defaults::travel_apart(rows.ranges().size())) return rows;
    const std::int64_t begin = rows.ranges().front().begin;
    return Rows::range(begin, rows.ranges().back().begin + rows.ranges().back().count - begin);
  };
  exchange({send(sum.rows(sent(back.owner(visit), back.summed(visit))), back.next(visit)),
            receive(next.rows(sent(back.owner(visit + 1), back.seen(visit + 1))), back.previous(visit + 1))});
}

Rows RingAttention::part_of_sum(int owner, const Rows& summed, std::int64_t part) const {
  if (o.parts == 1) return summed;
  return cut_in_parts(runs_within(s.keys[owner].runs, summed), o.parts,
                      CutAt::rows)[static_cast<std::size_t>(part)];
}

// The gradients of some rows of the keys that are held. store: nothing is in the sum yet; add: all of it is.
void RingAttention::differentiate_rows(const Backward& g, int visit, const Rows& rows, const Box& sum,
                                       WriteMode mode) {
  if (rows.empty()) return;
  const Lane lane = compute(0);
  const bool store = mode == WriteMode::store, own = back.owner(visit) == s.place();
  Tile t = tile_of_rows(back.owner(visit), rows, Take::keys);
  if (t.empty() && store && own) t = tile_of_rows(back.owner(visit), rows, Take::all);
  const Box kv = held.rows(rows), dkv = sum.rows(rows);
  if (t.q_rows.empty()) {
    if (store) b.fill(lane, dkv, 0);
    return;
  }
  Builder::PairMask mask = mask_of(lane, back.owner(visit), t, kv, {g.bias, g.keep, g.dbias});
  if (b.problem().bias == BiasForm::keys) mask.dbias = bias_gradients(b, dkv), mask.dbias_mode = mode;
  b.attend_backward(
      lane, {g.q.rows(t.q_rows), keys(b, kv), values(b, kv), g.dout.rows(t.q_rows), g.lse.rows(t.q_rows),
             g.delta.rows(t.q_rows), g.dq.rows(t.q_rows), keys(b, dkv), values(b, dkv), t.segments,
             dq_touch.touch(b, lane, g.dq, t.q_rows), mode, mask, out_for_delta(t)});
}

}  // namespace cplab
