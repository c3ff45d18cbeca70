// What the loops of ring.cpp are made of: where K and V lie at a visit, what a hop sends, what a tile
// computes; and the backward in which attention kernels add to the sums of dK and dV.
#include "algorithms/softmax/ring_attention.hpp"

#include <algorithm>

#include "algorithms/core/defaults.hpp"

namespace cplab {

RingAttention::RingAttention(const Scope& scope, const RingOptions& options)
    : s(scope),
      b(scope.b),
      o(options),
      there(b.shared().rotation(s.tokens, b.problem().visible(), o.travel, Phase::forward), s.place()),
      back(b.shared().rotation(s.tokens, b.problem().visible(), o.travel, Phase::backward), s.place()) {
  for (int owner = 0; owner < s.P(); ++owner)
    tiles.push_back(s.tile(owner, owner == s.place() ? Take::all : Take::live));
  inputs.emplace(s, o.copy_tiles, tiles);
}

// ---- The forward.

std::vector<RingAttention::TileOfVisit> RingAttention::forward_tiles() {
  const int visits = there.visits();
  if (o.parts > 1) cut.reserve(static_cast<std::size_t>((visits - 1) * o.parts));
  std::vector<TileOfVisit> list{{0, 0, &tile(s.place())}};
  for (int v = 1; v < visits; ++v) {
    const int owner = there.owner(v);
    if (o.parts == 1) list.push_back({v, 0, &tile(owner)});
    for (std::int64_t part = 0; part < o.parts && o.parts > 1; ++part)
      list.push_back({v, part, &cut.emplace_back(tile_of_rows(owner, part_of(owner, part), Take::live))});
  }
  return list;
}

std::vector<std::int64_t> RingAttention::query_rows(const std::vector<TileOfVisit>& tiles_of_visits) {
  std::vector<std::int64_t> rows;
  for (const TileOfVisit& each : tiles_of_visits)
    if (rows.empty() || !each.tile->empty()) rows.push_back(each.tile->q_rows.count());
  return rows;
}

// A whole rotation goes back from the K and V that were received last, and needs two slots (one, if nothing
// more is to come): the forward's own if it has as many, else further ones that the last hop receives into.
// Where other layers run in between, what was received last is saved instead of this member's own K and V.
std::vector<Box> RingAttention::forward_slots(const Box& kv) {
  const int visits = there.visits(), own = o.copy_tiles;  // slot 0 then holds a copy of this member's K and V
  const bool goes_on = b.backward() && visits > 1 && o.travel == Travel::whole;
  const std::int64_t of_backward = visits == 2 && o.keeps_own_kv ? 1 : 2;
  std::int64_t count = std::min(o.kv_slots, std::int64_t{visits - 1 + own});
  const bool saves = goes_on && b.between_layers(), apart = goes_on && !saves && count != of_backward;
  if (apart || saves) count = std::min(o.kv_slots, std::int64_t{visits - 2 + own});
  Box last, mine;
  if (apart) last = s.kv_buffer("kv_slots_backward", Role::nominal, Category::working, of_backward, s.rows);
  if (saves) last = s.kv_buffer("kv_saved", Role::nominal, Category::saved, 1, s.rows);
  if (count > 0) mine = s.kv_buffer("kv_slots", Role::nominal, Category::working, count, s.rows);
  if (own) b.copy(compute(0), kv, mine.slot(0));
  slots = apart ? last : goes_on && !saves ? mine : Box();
  next_slot = saves ? 0 : apart ? 1 : visits - 1 + own;
  std::vector<Box> by_visit{own ? mine.slot(0) : kv};
  for (int v = 1; v < visits; ++v)
    by_visit.push_back(v + 1 == visits && last.given() ? last.slot(0) : mine.slot((v - 1 + own) % count));
  return by_visit;
}

// The hop that brings the rows of that tile; the like part of what was held before goes on.
void RingAttention::receive_keys(const TileOfVisit& of, const std::vector<Box>& kv) {
  const int v = of.visit;
  const auto now = static_cast<std::size_t>(v);
  const Rows leaving = there.leaving(v - 1).common(part_of(there.owner(v - 1), of.part));
  const Rows arriving = there.arrived(v).common(part_of(there.owner(v), of.part));
  b.step(v - 1);
  exchange({send(kv[now - 1].rows(leaving), there.next(v - 1)),
            receive(kv[now].rows(arriving), there.previous(v))});
}

void RingAttention::attend(const Forward& f, const TileOfVisit& of, const std::vector<Box>& kv,
                           SoftmaxSum& sum) {
  const Tile& t = *of.tile;
  const Lane lane = compute(of.visit);
  const Box part = inputs->keys(lane, "kv_tile", kv[static_cast<std::size_t>(of.visit)], t);
  const Box max_logit = f.max_logit->of(lane), q = inputs->queries(lane, "q_tile", f.q, t);
  sum.attend(lane, q, keys(b, part), values(b, part), t.q_rows, t.segments, max_logit,
             mask_of(lane, there.owner(of.visit), t, part,
                     {.bias = f.bias, .keep = f.keep, .dbias = {}, .table = f.table}));
}

Rows RingAttention::part_of(int owner, std::int64_t part) const {
  if (o.parts == 1) return Rows::range(0, s.rows);
  return cut_in_parts(s.keys[owner].runs, o.parts, CutAt::sequences)[static_cast<std::size_t>(part)];
}

Tile RingAttention::tile_of_rows(int owner, const Rows& rows, Take take) const {
  return row_tile(s.tokens[s.place()].runs, runs_within(s.keys[owner].runs, rows), b.problem().visible(),
                  take);
}

// ---- The backward.

void RingAttention::begin_backward(const Backward& g) {
  const int visits = back.visits();
  out_of_delta = delta_by_first_tile(b, g, begins_with_all_queries(g));
  if (o.travel == Travel::needed || visits == 1) held = g.kv;
  const int received = visits - 1 - is_kept(visits - 1);
  if (received > 0 && !slots.given())
    slots = s.kv_buffer("kv_slots_backward", Role::nominal, Category::working, std::min(2, received), s.rows);
}

bool RingAttention::begins_with_all_queries(const Backward& g) const {
  // Without rows nothing travels: the own tile, which has none either, is all there is.
  if (s.rows == 0) return o.dkv_tile_heads == 0 || o.dkv_tile_heads >= s.key_heads().count();
  const bool hops = back.visits() > 1 && !is_kept(1);
  if (hops && !(back.leaving(0).empty() && back.arrived(1).empty())) return false;
  const int owner = back.owner(0);
  if (!adds_in_kernels()) {
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
  return !adds_in_kernels();
}

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

void RingAttention::append_homecoming(std::vector<Message>& messages, const Box& sum, const Box& home,
                                      int visit, Rows& back_home) const {
  if (back.owner(visit) == s.place()) return;
  const Rows returning = back.returning(visit);
  messages.push_back(send(sum.rows(back.ending(visit)), back.owner(visit)));
  messages.push_back(receive(home.rows(returning), back.holder(visit)));
  back_home = back_home.united(returning);
}

void RingAttention::take_own(const Backward& g, const Box& sum, int visit) {
  const Rows ending = back.ending(visit);
  if (!ending.empty()) b.convert(compute(0), sum.rows(ending), g.dkv.rows(ending));
}

void RingAttention::take_home(const Backward& g, const Box& home, const Rows& back_home) {
  if (o.gradient_wire != Role::nominal && !back_home.empty())
    b.convert(compute(0), home.rows(back_home), g.dkv.rows(back_home));
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
  of_tile.mask = mask_of(lane, back.owner(v), t, part, pairs_of(g));
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
  if (b.problem().has_plain_logits()) return {};
  PairBoxes pairs;
  pairs.table = of_rank.table, pairs.dtable = of_rank.dtable;
  // Biases are read as views in any case: a copy would be as large as what it spares.
  if (of_rank.bias.given()) pairs.bias = of_rank.bias.rows(t.q_rows);
  if (of_rank.keep.given()) pairs.keep = of_rank.keep.rows(t.q_rows);
  if (of_rank.dbias.given()) {
    pairs.dbias = of_rank.dbias.rows(t.q_rows);
    pairs.dbias_mode = dbias_touch.touch(b, lane, of_rank.dbias, t.q_rows);
  }
  return pair_mask(b, part, {}, WriteMode::store, pairs, {s.tokens[s.place()].runs, t.q_rows},
                   {s.keys[owner].runs, t.k_rows});
}

void RingAttention::exchange(const std::vector<Message>& messages) {
  std::vector<Message> some;
  for (const Message& m : messages)
    if (!m.box.row_list().empty()) some.push_back(m);
  if (!some.empty()) b.exchange(comm(), o.transport, s.team, some);
}

// ---- The backward in which attention kernels add to the sums of dK and dV that have come: no tile of
// gradients apart, no operation that adds it, and a part of the rows goes on while the next is computed.

void RingAttention::add_in_kernels(const Backward& g) {
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
    if (owner == s.place() && !(into_result && v == last)) take_own(g, sum, v);
    held = next;
  }
  take_home(g, home, back_home);
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
  Builder::PairMask mask = mask_of(lane, back.owner(visit), t, kv, pairs_of(g));
  if (b.problem().bias == BiasForm::keys) mask.dbias = bias_gradients(b, dkv), mask.dbias_mode = mode;
  b.attend_backward(
      lane, {g.q.rows(t.q_rows), keys(b, kv), values(b, kv), g.dout.rows(t.q_rows), g.lse.rows(t.q_rows),
             g.delta.rows(t.q_rows), g.dq.rows(t.q_rows), keys(b, dkv), values(b, dkv), t.segments,
             dq_touch.touch(b, lane, g.dq, t.q_rows), mode, mask, out_for_delta(t)});
}

}  // namespace cplab
