// The passes of ring attention; see ring_attention.hpp.
#include "algorithms/ring_attention.hpp"

#include <algorithm>

namespace cplab {

RingAttention::RingAttention(const Scope& scope, const RingOptions& options)
    : s(scope),
      b(scope.b),
      o(options),
      there(s.tokens, b.problem().visible(), s.place(), o.travel, Phase::forward),
      back(s.tokens, b.problem().visible(), s.place(), o.travel, Phase::backward) {
  for (int owner = 0; owner < s.P(); ++owner)
    tiles.push_back(s.tile(owner, owner == s.place() ? Take::all : Take::live));
  inputs.emplace(s, o.copy_tiles, tiles);
}

void RingAttention::forward(const Forward& f) {
  const int visits = there.visits(), own = o.copy_tiles;  // slot 0 then holds a copy of this member's K and V
  std::vector<std::int64_t> tile_rows;
  for (int v = 0; v < visits; ++v)
    if (works(there.owner(v))) tile_rows.push_back(tile(there.owner(v)).q_rows.count());
  SoftmaxSum sum(s, o.sum, f.out, f.lse, tile_rows);
  // A whole rotation goes back from the K and V that were received last, and needs two slots (one, if nothing
  // more is to come): the forward's own if it has as many, else further ones that the last hop receives into.
  // Where other layers run in between, what was received last is saved instead of this member's own K and V.
  const bool goes_on = b.backward() && visits > 1 && o.travel == Travel::whole;
  const std::int64_t of_backward = visits == 2 && o.keeps_own_kv ? 1 : 2;
  std::int64_t count = std::min(o.kv_slots, std::int64_t{visits - 1 + own});
  const bool saves = goes_on && b.between_layers(), apart = goes_on && !saves && count != of_backward;
  if (apart || saves) count = std::min(o.kv_slots, std::int64_t{visits - 2 + own});
  Box last, mine;
  if (apart) last = s.kv_buffer("kv_slots_backward", Role::nominal, Category::working, of_backward, s.rows);
  if (saves) last = s.kv_buffer("kv_saved", Role::nominal, Category::saved, 1, s.rows);
  if (count > 0) mine = s.kv_buffer("kv_slots", Role::nominal, Category::working, count, s.rows);
  if (own) b.copy(compute(0), f.kv, mine.slot(0));
  held = own ? mine.slot(0) : f.kv;
  for (int v = 0; v < visits; ++v) {
    b.step(v);
    Box next = held;
    if (v + 1 < visits) {
      next = v + 2 == visits && last.given() ? last.slot(0) : mine.slot((v + own) % count);
      exchange({send(held.rows(there.leaving(v)), there.next(v)),
                receive(next.rows(there.arrived(v + 1)), there.previous(v + 1))});
    }
    if (works(there.owner(v))) {
      const Tile& t = tile(there.owner(v));
      const Box part = inputs->keys(compute(v), "kv_tile", held, t);
      sum.attend(compute(v), inputs->queries(compute(v), "q_tile", f.q, t), keys(b, part), values(b, part),
                 t.q_rows, t.segments, f.max_logit->of(compute(v)));
    }
    held = next;
  }
  sum.finish(compute(0));
  slots = apart ? last : goes_on && !saves ? mine : Box();
  next_slot = saves ? 0 : apart ? 1 : visits - 1 + own;
}

void RingAttention::backward(const Backward& g) {
  const int visits = back.visits();
  if (o.travel == Travel::needed || visits == 1) held = g.kv;
  const Role wire = o.gradient_wire;
  const auto working = [&](std::string_view name, Role role, int count) {
    return s.kv_buffer(name, role, Category::working, count, s.rows);
  };
  const int received = visits - 1 - is_kept(visits - 1);
  if (received > 0 && !slots.given())
    slots = working("kv_slots_backward", Role::nominal, std::min(2, received));
  Box sums, home = g.dkv;
  if (visits > 1) sums = working("dkv_slots", wire, 2);
  if (o.travel == Travel::needed && visits > 1 && wire != Role::nominal) home = working("dkv_home", wire, 1);
  Rows back_home;
  for (int v = 0; v <= visits; ++v) {
    b.step(v);
    const bool comes = v + 1 < visits && !is_kept(v + 1);
    const Box next = comes            ? slots.slot((next_slot + v) % b.declared(slots).slots)
                     : v + 1 < visits ? g.kv
                                      : held;
    const Box sum = visits > 1 ? sums.slot((v + 1) % 2) : g.dkv;
    std::vector<Message> messages;
    if (comes) {
      messages.push_back(send(held.rows(back.leaving(v)), back.next(v)));
      messages.push_back(receive(next.rows(back.arrived(v + 1)), back.previous(v + 1)));
    }
    if (v > 0 && v < visits) {
      messages.push_back(send(sums.slot(v % 2).rows(back.leaving(v - 1)), back.next(v - 1)));
      messages.push_back(receive(sum.rows(back.arrived(v)), back.previous(v)));
    }
    if (v > 0 && back.owner(v - 1) != s.place()) {  // what has been seen by all goes home
      const Rows returning = back.returning(v - 1);
      messages.push_back(send(sums.slot(v % 2).rows(back.ending(v - 1)), back.owner(v - 1)));
      messages.push_back(receive(home.rows(returning), back.holder(v - 1)));
      back_home = back_home.united(returning);
    }
    exchange(messages);
    if (v == visits) break;
    if (works(back.owner(v))) differentiate(g, v, sum);
    const bool ends = visits > 1 && back.owner(v) == s.place() && !back.ending(v).empty();
    if (ends) b.convert(compute(0), sum.rows(back.ending(v)), g.dkv.rows(back.ending(v)));
    held = next;
  }
  if (wire != Role::nominal && !back_home.empty())
    b.convert(compute(0), home.rows(back_home), g.dkv.rows(back_home));
}

void RingAttention::differentiate(const Backward& g, int v, const Box& dkv_sum) {
  const Tile& t = tile(back.owner(v));
  const Lane lane = compute(0);
  const Box part = inputs->keys(lane, "kv_tile_backward", held, t), first = dkv_sum.rows(t.k_rows);
  const Builder::AttendBackward of_tile{inputs->queries(lane, "q_tile_backward", g.q, t),
                                        keys(b, part),
                                        values(b, part),
                                        inputs->queries(lane, "dout_tile", g.dout, t),
                                        g.lse.rows(t.q_rows),
                                        g.delta.rows(t.q_rows),
                                        g.dq.rows(t.q_rows),
                                        keys(b, first),
                                        values(b, first),
                                        t.segments,
                                        dq_touch.touch(b, lane, g.dq, t.q_rows)};
  if (v == 0)
    b.attend_backward(lane, of_tile);
  else
    differentiate_in_parts(t, of_tile, v, dkv_sum);
}

void RingAttention::differentiate_in_parts(const Tile& t, Builder::AttendBackward of_tile, int v,
                                           const Box& dkv_sum) {
  const Lane lane = compute(0);
  // The rows of dK and dV that earlier holders have written. All others are uninitialised.
  const Rows old = t.k_rows.common(back.seen(v)), fresh = t.k_rows.minus(old);
  const HeadRange all = s.key_heads(), queries = s.heads();
  const std::int64_t most = o.dkv_tile_heads > 0 ? std::min(o.dkv_tile_heads, all.count()) : all.count();
  const std::int64_t sharing = b.problem().heads / b.problem().kv_heads;
  if (!dkv_tile.given())
    dkv_tile =
        s.kv_buffer("dkv_tile", o.gradient_wire, Category::working, 1, s.rows, {all.begin, all.begin + most});
  const Builder::AttendBackward whole = of_tile;
  for (std::int64_t first = all.begin; first < all.end; first += most) {
    const HeadRange part{first, std::min(first + most, all.end)};
    const HeadRange readers{std::max(part.begin * sharing, queries.begin),
                            std::min(part.end * sharing, queries.end)};
    const Box tile = dkv_tile.numbered(part.begin).of_problem(part), sum = dkv_sum.of_problem(part);
    of_tile.q = whole.q.of_problem(readers), of_tile.dout = whole.dout.of_problem(readers);
    of_tile.lse = whole.lse.of_problem(readers), of_tile.delta = whole.delta.of_problem(readers);
    of_tile.dq = whole.dq.of_problem(readers);
    of_tile.dk = keys(b, tile.rows(t.k_rows)), of_tile.dv = values(b, tile.rows(t.k_rows));
    b.attend_backward(lane, of_tile);
    if (!old.empty()) b.add(lane, tile.rows(old), sum.rows(old));
    if (!fresh.empty()) b.copy(lane, tile.rows(fresh), sum.rows(fresh));
  }
}

void RingAttention::exchange(const std::vector<Message>& messages) {
  std::vector<Message> some;
  for (const Message& m : messages)
    if (!m.box.row_list().empty()) some.push_back(m);
  if (!some.empty()) b.exchange(comm(), o.transport, s.team, some);
}

}  // namespace cplab
