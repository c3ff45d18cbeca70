// The passes of ring attention; see ring_attention.hpp.
#include "algorithms/softmax/ring_attention.hpp"

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
  const std::vector<Tile> cut = cut_tiles();
  std::vector<const Tile*> work{&tile(s.place())};
  for (int v = 1; v < visits && o.parts == 1; ++v) work.push_back(&tile(there.owner(v)));
  for (const Tile& part : cut) work.push_back(&part);
  std::vector<std::int64_t> tile_rows;
  for (std::size_t i = 0; i < work.size(); ++i)
    if (i == 0 || !work[i]->empty()) tile_rows.push_back(work[i]->q_rows.count());
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
  std::vector<Box> kv{own ? mine.slot(0) : f.kv};  // by visit
  for (int v = 1; v < visits; ++v)
    kv.push_back(v + 1 == visits && last.given() ? last.slot(0) : mine.slot((v - 1 + own) % count));
  // What a tile needs travels beside the tile before it, and is posted ahead of that.
  std::size_t posted = 1;
  for (std::size_t i = 0; i < work.size(); ++i) {
    for (; posted < work.size() && posted <= i + 1; ++posted) receive_keys(posted, kv);
    const int v = visit_of(i);
    b.step(v);
    const Tile& t = *work[i];
    if (i > 0 && t.empty()) continue;
    const Box part = inputs->keys(compute(v), "kv_tile", kv[static_cast<std::size_t>(v)], t);
    const int owner = i == 0 ? s.place() : there.owner(v);
    sum.attend(compute(v), inputs->queries(compute(v), "q_tile", f.q, t), keys(b, part), values(b, part),
               t.q_rows, t.segments, f.max_logit->of(compute(v)),
               mask_of(compute(v), owner, t, part, {f.bias, f.keep, {}}));
  }
  held = kv.back();
  sum.finish(compute(0));
  slots = apart ? last : goes_on && !saves ? mine : Box();
  next_slot = saves ? 0 : apart ? 1 : visits - 1 + own;
}

// If rows travel in parts: of each visit but the first a tile for every part.
std::vector<Tile> RingAttention::cut_tiles() const {
  std::vector<Tile> list;
  for (int v = 1; v < there.visits() && o.parts > 1; ++v)
    for (std::int64_t part = 0; part < o.parts; ++part)
      list.push_back(tile_of_rows(there.owner(v), part_of(there.owner(v), part), Take::live));
  return list;
}

// The hop that brings the rows of a tile of the forward; the like part of what was held before goes on.
void RingAttention::receive_keys(std::size_t of_tile, const std::vector<Box>& kv) {
  const int v = visit_of(of_tile);
  const auto now = static_cast<std::size_t>(v);
  const std::int64_t part = (static_cast<std::int64_t>(of_tile) - 1) % o.parts;
  const Rows leaving = there.leaving(v - 1).common(part_of(there.owner(v - 1), part));
  const Rows arriving = there.arrived(v).common(part_of(there.owner(v), part));
  b.step(v - 1);
  exchange({send(kv[now - 1].rows(leaving), there.next(v - 1)),
            receive(kv[now].rows(arriving), there.previous(v))});
}

Rows RingAttention::part_of(int owner, std::int64_t part) const {
  if (o.parts == 1) return Rows::range(0, s.rows);
  return cut_in_parts(s.keys[owner].runs, o.parts, CutAt::sequences)[static_cast<std::size_t>(part)];
}

Tile RingAttention::tile_of_rows(int owner, const Rows& rows, Take take) const {
  return row_tile(s.tokens[s.place()].runs, runs_within(s.keys[owner].runs, rows), b.problem().visible(),
                  take);
}

void RingAttention::backward(const Backward& g) {
  const int visits = back.visits();
  out_of_delta = delta_by_first_tile(b, g, begins_with_all_queries(g));
  if (o.travel == Travel::needed || visits == 1) held = g.kv;
  const int received = visits - 1 - is_kept(visits - 1);
  if (received > 0 && !slots.given())
    slots = s.kv_buffer("kv_slots_backward", Role::nominal, Category::working, std::min(2, received), s.rows);
  if (passes_sums_on())
    pass_sums_on(g);
  else
    add_apart(g);
}

bool RingAttention::begins_with_all_queries(const Backward& g) const {
  // Of no rows nothing travels: the own tile, which has none either, is all there is.
  if (s.rows == 0) return o.dkv_tile_heads == 0 || o.dkv_tile_heads >= s.key_heads().count();
  const bool hops = back.visits() > 1 && !is_kept(1);
  if (hops && !(back.leaving(0).empty() && back.arrived(1).empty())) return false;
  const int owner = back.owner(0);
  if (!passes_sums_on()) {
    const Tile& first = tile(owner);
    const bool copied = o.copy_tiles && first.k_rows.count() < s.rows;
    return works(owner) && !copied && first.q_rows.count() == s.rows;
  }
  if (b.declared(g.dq).role == Role::wide) return false;  // it is set to 0 first
  const Rows rows = tile(owner).k_rows.common(part_of_sum(owner, back.summed(0), 0));
  return !rows.empty() && tile_of_rows(owner, rows, Take::keys).q_rows.count() == s.rows;
}

// The own tile has all rows: it alone works, and stores.
bool RingAttention::stores_dq_once() const {
  for (int owner = 0; owner < s.P(); ++owner)
    if (owner != s.place() && works(owner)) return false;
  return !passes_sums_on();
}

// Where K and V of the visit after this one are or, if they have to come, will be.
Box RingAttention::next_keys(const Backward& g, int v) const {
  if (v + 1 >= back.visits()) return held;
  return is_kept(v + 1) ? g.kv : slots.slot((next_slot + v) % b.declared(slots).slots);
}

void RingAttention::append_hop(std::vector<Message>& messages, const Box& next, int v) const {
  if (v + 1 >= back.visits() || is_kept(v + 1)) return;
  messages.push_back(send(held.rows(back.leaving(v)), back.next(v)));
  messages.push_back(receive(next.rows(back.arrived(v + 1)), back.previous(v + 1)));
}

Box RingAttention::home_of(const Backward& g) const {
  if (o.travel == Travel::whole || back.visits() == 1 || o.gradient_wire == Role::nominal) return g.dkv;
  return s.dkv_buffer("dkv_home", o.gradient_wire, Category::working, 1, s.rows);
}

void RingAttention::add_apart(const Backward& g) {
  const int visits = back.visits();
  Box sums;
  if (visits > 1) sums = s.dkv_buffer("dkv_slots", o.gradient_wire, Category::working, 2, s.rows);
  const Box home = home_of(g);
  Rows back_home;
  for (int v = 0; v <= visits; ++v) {
    b.step(v);
    const Box next = next_keys(g, v), sum = visits > 1 ? sums.slot((v + 1) % 2) : g.dkv;
    std::vector<Message> messages;
    append_hop(messages, next, v);
    if (v > 0 && v < visits) {
      messages.push_back(send(sums.slot(v % 2).rows(back.leaving(v - 1)), back.next(v - 1)));
      messages.push_back(receive(sum.rows(back.arrived(v)), back.previous(v)));
    }
    if (v > 0) append_homecoming(messages, sums.slot(v % 2), home, v - 1, back_home);
    exchange(messages);
    if (v == visits) break;
    if (works(back.owner(v))) differentiate(g, v, sum);
    const bool ends = visits > 1 && back.owner(v) == s.place() && !back.ending(v).empty();
    if (ends) b.convert(compute(0), sum.rows(back.ending(v)), g.dkv.rows(back.ending(v)));
    held = next;
  }
  if (o.gradient_wire != Role::nominal && !back_home.empty())
    b.convert(compute(0), home.rows(back_home), g.dkv.rows(back_home));
}

// What has been seen by all at that visit goes home.
void RingAttention::append_homecoming(std::vector<Message>& messages, const Box& sum, const Box& home,
                                      int visit, Rows& back_home) const {
  if (back.owner(visit) == s.place()) return;
  const Rows returning = back.returning(visit);
  messages.push_back(send(sum.rows(back.ending(visit)), back.owner(visit)));
  messages.push_back(receive(home.rows(returning), back.holder(visit)));
  back_home = back_home.united(returning);
}

void RingAttention::differentiate(const Backward& g, int v, const Box& dkv_sum) {
  const Tile& t = tile(back.owner(v));
  const Lane lane = compute(0);
  const Box part = inputs->keys(lane, "kv_tile_backward", held, t), first = dkv_sum.rows(t.k_rows);
  Builder::AttendBackward of_tile{inputs->queries(lane, "q_tile_backward", g.q, t),
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
  of_tile.out = out_for_delta(t);
  if (g.rounded_dq.given()) of_tile.rounded_dq = g.rounded_dq.rows(t.q_rows);
  of_tile.mask = mask_of(lane, back.owner(v), t, part, {g.bias, g.keep, g.dbias});
  if (b.problem().bias == BiasForm::keys) of_tile.mask.dbias = bias_gradients(b, first);
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
    dkv_tile = s.dkv_buffer("dkv_tile", o.gradient_wire, Category::working, 1, s.rows,
                            {all.begin, all.begin + most});
  const Builder::AttendBackward whole = of_tile;
  for (std::int64_t first = all.begin; first < all.end; first += most) {
    const HeadRange part{first, std::min(first + most, all.end)};
    const HeadRange readers{std::max(part.begin * sharing, queries.begin),
                            std::min(part.end * sharing, queries.end)};
    const Box tile = dkv_tile.numbered(part.begin).of_problem(part), sum = dkv_sum.of_problem(part);
    of_tile.q = whole.q.of_problem(readers), of_tile.dout = whole.dout.of_problem(readers);
    of_tile.lse = whole.lse.of_problem(readers), of_tile.delta = whole.delta.of_problem(readers);
    of_tile.dq = whole.dq.of_problem(readers);
    if (whole.rounded_dq.given()) of_tile.rounded_dq = whole.rounded_dq.of_problem(readers);
    of_tile.dk = keys(b, tile.rows(t.k_rows)), of_tile.dv = values(b, tile.rows(t.k_rows));
    of_tile.mask = whole.mask.of_heads(readers, part);
    if (b.problem().bias == BiasForm::keys) of_tile.mask.dbias = bias_gradients(b, tile.rows(t.k_rows));
    b.attend_backward(lane, of_tile);
    if (!old.empty()) b.add(lane, tile.rows(old), sum.rows(old));
    if (!fresh.empty()) b.copy(lane, tile.rows(fresh), sum.rows(fresh));
  }
}

// A tile's bias gradients of pairs are in columns of their own: rows that a tile before has touched are added
// to, the first tile of a row defines all of its columns.
Builder::PairMask RingAttention::mask_of(Lane lane, int owner, const Tile& t, const Box& part,
                                         const PairBoxes& of_rank) {
  if (b.problem().attention != Attention::dynamic_mask) return {};
  PairBoxes pairs;
  // As views always: a copy would be as large as what it spares.
  if (of_rank.bias.given()) pairs.bias = of_rank.bias.rows(t.q_rows);
  if (of_rank.keep.given()) pairs.keep = of_rank.keep.rows(t.q_rows);
  if (of_rank.dbias.given()) {
    pairs.dbias = of_rank.dbias.rows(t.q_rows);
    pairs.dbias_mode = dbias_touch.touch(b, lane, of_rank.dbias, t.q_rows);
  }
  return pair_mask(b, part, {}, WriteMode::store, pairs, s.keys[owner].runs, t.k_rows);
}

void RingAttention::exchange(const std::vector<Message>& messages) {
  std::vector<Message> some;
  for (const Message& m : messages)
    if (!m.box.row_list().empty()) some.push_back(m);
  if (!some.empty()) b.exchange(comm(), o.transport, s.team, some);
}

}  // namespace cplab
