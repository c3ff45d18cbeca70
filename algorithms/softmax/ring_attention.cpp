// What the loops of ring.cpp are made of: where K and V lie at a visit, what a hop sends, what a tile
// computes; and the backward in which attention kernels add to the sums of dK and dV.
#include "algorithms/softmax/ring_attention.hpp"

#include <algorithm>

#include "algorithms/core/defaults.hpp"

namespace cplab {

RingAttention::RingAttention(const Scope& scope, const RingOptions& options)
    : RingAttention(scope, options, ring_route(scope.P(), options.travel, Phase::forward),
                    ring_route(scope.P(), options.travel, Phase::backward), nullptr) {}

RingAttention::RingAttention(const Scope& scope, const RingOptions& options, const Route& route_there,
                             const Route& route_back, const Team* outer_team)
    : s(scope),
      b(scope.b),
      o(options),
      there(b.shared().rotation(s.tokens, s.key_tokens, b.visible(), o.travel, route_there), s.place()),
      back(b.shared().rotation(s.tokens, s.key_tokens, b.visible(), o.travel, route_back), s.place()),
      outer(outer_team) {
  for (int owner = 0; owner < s.P(); ++owner)
    tiles.push_back(s.tile(owner, owner == s.place() ? Take::all : Take::live));
  inputs.emplace(s, o.copy_tiles, tiles);
}

void RingAttention::exchange() {
  for (std::size_t lane = messages.size(); lane-- > 0;) {
    const Team& team = lane == 0 ? s.team : *outer;
    if (lane > 0)
      for (Message& m : messages[lane])
        m.peer = team.place_of(s.team.positions[static_cast<std::size_t>(m.peer)]);
    b.exchange_rows(lane_of(static_cast<int>(lane)), o.transport, team, std::exchange(messages[lane], {}));
  }
}

// ---- The forward.

void RingAttention::begin_forward(const Forward& f) {
  if (of_queries->rings == 0) sum_with(of_queries);
  RingSums& sums_of_all = *of_queries;
  if (sums_of_all.begun++ == 0)
    sums_of_all.sum.emplace(s, o.sum, f.out, f.lse, sums_of_all.tile_rows, f.sink);
  there.one_chain() ? place_forward(f.kv) : place_forward_of_tree(f.kv);
}

void RingAttention::end_forward() {
  held = kv_there.back();
  if (++of_queries->ended == of_queries->rings) of_queries->sum->finish(compute(0));
}

void RingAttention::sum_with(std::shared_ptr<RingSums> sums_of_all) {
  of_queries = std::move(sums_of_all);
  work = forward_tiles();
  const std::vector<std::int64_t> rows = query_rows(work);
  of_queries->tile_rows.insert(of_queries->tile_rows.end(), rows.begin(), rows.end());
  ++of_queries->rings;
}

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
void RingAttention::place_forward(const Box& kv) {
  const int visits = there.visits(), own = o.copy_tiles;  // slot 0 then holds a copy of this member's K and V
  const bool goes_on = b.backward() && visits > 1 && o.travel == Travel::whole;
  const std::int64_t of_backward = visits == 2 && o.keeps_own_kv ? 1 : 2;
  std::int64_t count = std::min(o.kv_slots, std::int64_t{visits - 1 + own});
  const bool saves = goes_on && b.between_layers(), apart = goes_on && !saves && count != of_backward;
  if (apart || saves) count = std::min(o.kv_slots, std::int64_t{visits - 2 + own});
  Box last, mine;
  if (apart) last = travelling("kv_slots_backward", Category::working, of_backward, most_rows(there));
  if (saves) last = travelling("kv_saved", Category::saved, 1, most_rows(there));
  if (count > 0) mine = travelling("kv_slots", Category::working, count, most_rows(there));
  if (own) b.copy(compute(0), kv, mine.slot(0));
  slots = apart ? last : goes_on && !saves ? mine : Box();
  next_slot = saves ? 0 : apart ? 1 : visits - 1 + own;
  kv_there = {own ? mine.slot(0) : kv};
  for (int v = 1; v < visits; ++v)
    kv_there.push_back(holding(
        v + 1 == visits && last.given() ? last.slot(0) : mine.slot((v - 1 + own) % count), there.arrived(v)));
}

std::int64_t RingAttention::most_rows(const Rotation& r, int lane) const {
  if (!packs()) return s.key_rows;
  std::int64_t most = 0;
  for (int v = 1; v < r.visits(); ++v)
    if (lane < 0 || r[v].lane == lane) most = std::max(most, r.arrived(v).count());
  return most;
}

// Every lane has slots of its own, so that what comes slowly keeps nothing else from coming. The backward
// goes from this member's own K and V.
void RingAttention::place_forward_of_tree(const Box& kv) {
  kv_there = placed_by_lane(there, kv, "kv_slots", "kv_outer", o.kv_slots);
}

std::vector<Box> RingAttention::placed_by_lane(const Rotation& r, const Box& kv, std::string_view name,
                                               std::string_view outer_name, std::int64_t most) const {
  std::array<std::int64_t, 2> come{0, 0};
  for (int v = 1; v < r.visits(); ++v) ++come[static_cast<std::size_t>(r[v].lane)];
  std::array<Box, 2> of_lane;
  const auto declare = [&](std::size_t lane, std::string_view of, std::int64_t count) {
    if (come[lane] > 0)
      of_lane[lane] = travelling(of, Category::working, std::min(count, come[lane]),
                                 most_rows(r, static_cast<int>(lane)));
  };
  declare(0, name, most);
  declare(1, outer_name, 2);
  // Rows that nothing has to come for are the own ones; others are in the order of their coming.
  std::vector<Box> by_visit(static_cast<std::size_t>(r.visits()), kv);
  come = {0, 0};
  for (int v = 0; v < r.visits(); ++v)
    for (const int arriving : r.route().beside(v)) {
      const auto lane = static_cast<std::size_t>(r[arriving].lane);
      by_visit[static_cast<std::size_t>(arriving)] =
          holding(of_lane[lane].slot(come[lane]++ % b.declared(of_lane[lane]).slots), r.arrived(arriving));
    }
  return by_visit;
}

// What is posted beside that tile: in parts, always the next one.
void RingAttention::receive_beside(int i) {
  const auto now = static_cast<std::size_t>(i);
  if (o.parts == 1) {
    for (const int v : there.route().beside(work[now].visit)) receive_keys(work[static_cast<std::size_t>(v)]);
  } else if (now + 1 < work.size()) {
    receive_keys(work[now + 1]);
  }
}

// The hop that brings the rows of that tile; the like part of what the visit's source has goes on.
void RingAttention::receive_keys(const TileOfVisit& of) {
  const int v = of.visit, source = there[v].source;
  const Rows leaving = there.going(v).common(part_of(there.owner(source), of.part));
  const Rows arriving = there.coming(v).common(part_of(there.owner(v), of.part));
  b.step(there[v].beside);
  append(there[v].lane, send(kv_there[static_cast<std::size_t>(source)].rows(leaving), there.taker(v)));
  append(there[v].lane, receive(kv_there[static_cast<std::size_t>(v)].rows(arriving), there.giver(v)));
  exchange();
}

void RingAttention::attend(const Forward& f, const TileOfVisit& of) {
  const Tile& t = *of.tile;
  const Lane lane = compute(of.visit);
  const Box& there_now = kv_there[static_cast<std::size_t>(of.visit)];
  const Box part = o.latents ? projected(lane, there_now, f.latents, t.k_rows, s.key_heads())
                             : inputs->keys(lane, "kv_tile", there_now, t);
  const Box max_logit = f.max_logit->of(lane), q = inputs->queries(lane, "q_tile", f.q, t);
  of_queries->sum->attend(lane, q, keys(b, part), values(b, part), t.q_rows, t.segments, max_logit,
                          mask_of(lane, there.owner(of.visit), t, part,
                                  {.bias = f.bias, .keep = f.keep, .dbias = {}, .table = f.table}));
}

Rows RingAttention::part_of(int owner, std::int64_t part) const {
  if (o.parts == 1) return Rows::range(0, s.key_rows);
  return cut_in_parts(s.keys[owner].runs, o.parts, CutAt::sequences)[static_cast<std::size_t>(part)];
}

Tile RingAttention::tile_of_rows(int owner, const Rows& rows, Take take) const {
  return row_tile(s.tokens[s.place()].runs, runs_within(s.keys[owner].runs, rows), b.visible(), take);
}

// ---- The backward.

void RingAttention::begin_backward(const Backward& g) {
  out_of_delta = delta_by_first_tile(b, g, begins_with_all_queries(g));
  place_backward(g.kv);
  adds_in_kernels() ? place_sums_in_kernels(g) : place_sums(g);
}

// The sum of the own rows has all of them. In one chain, where others have less than half as many, it has a
// place of its own, else a slot like theirs.
void RingAttention::place_sums(const Backward& g) {
  const std::int64_t most = most_in_sums(false);
  const bool apart = back.one_chain() && 2 * most < own_rows();
  if (back.visits() > 1)
    sums = gradients("dkv_slots", apart ? std::min(2, back.visits() - 1) : 2,
                     back.one_chain() && !apart ? std::max(most, own_rows()) : most);
  home = home_of(g);
  if (apart && back.visits() > 1) own_sum = holding(gradients("dkv_sum", 1, own_rows()), in_sum(0));
  if (back.one_chain()) return;
  own_sum = o.gradient_wire == Role::nominal ? g.dkv : gradients("dkv_sum", 1, s.key_rows);
  ends = gradients("dkv_ends", 1, most_in_sums(true));
}

std::int64_t RingAttention::most_in_sums(bool at_home) const {
  if (!packs()) return s.key_rows;
  std::int64_t most = 0;
  for (int v = 1; v < back.visits(); ++v)
    if (back.one_chain() || back[v].home == at_home) most = std::max(most, in_sum(v).count());
  return most;
}

void RingAttention::end_backward(const Backward& g) {
  const bool summed = !back.one_chain();
  if (summed) add_what_came_home();
  if (summed && own_sum.view().buffer != g.dkv.view().buffer) b.convert(compute(0), own_sum, g.dkv);
  if (!summed && o.gradient_wire != Role::nominal && !back_home.empty())
    b.convert(compute(0), home.rows(back_home), g.dkv.rows(back_home));
  if (!adds_in_kernels()) return;
  of_queries->dq_touch.finish(b, compute(0), g.dq, s.rows);
  if (g.dbias.given()) of_queries->dbias_touch.finish(b, compute(0), g.dbias, s.rows);
}

void RingAttention::place_backward(const Box& kv) {
  const int visits = back.visits();
  if (!back.one_chain()) {
    kv_back = placed_by_lane(back, kv, "kv_slots_backward", "kv_outer_backward", 2);
    return;
  }
  if (o.travel == Travel::needed || visits == 1) held = kv;
  const int received = visits - 1 - is_kept(visits - 1);
  if (received > 0 && !slots.given())
    slots = travelling("kv_slots_backward", Category::working, std::min(2, received), most_rows(back));
  kv_back = {held};
  for (int v = 1; v < visits; ++v)
    kv_back.push_back(
        is_kept(v) ? kv
                   : holding(slots.slot((next_slot + v - 1) % b.declared(slots).slots), back.arrived(v)));
}

bool RingAttention::begins_with_all_queries(const Backward& g) const {
  // Without rows nothing travels: the own tile, which has none either, is all there is.
  if (s.rows == 0) return o.dkv_tile_heads == 0 || o.dkv_tile_heads >= s.key_heads().count();
  const bool hops = back.visits() > 1 && !is_kept(1);
  if (hops && !(back.leaving(0).empty() && back.arrived(1).empty())) return false;
  const int owner = back.owner(0);
  if (!adds_in_kernels()) {
    const Tile& first = tile(owner);
    const bool copied = o.copy_tiles && first.k_rows.count() < s.key_rows;
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

// Rows that go on at once wait for those that come in this very step.
void RingAttention::post_hops(int visit) {
  for (const int v : back.route().beside(visit)) {
    if (is_kept(v)) continue;
    if (back[back[v].source].beside == visit) exchange();
    append(back[v].lane,
           send(kv_back[static_cast<std::size_t>(back[v].source)].rows(back.going(v)), back.taker(v)));
    append(back[v].lane, receive(kv_back[static_cast<std::size_t>(v)].rows(back.coming(v)), back.giver(v)));
  }
}

// The sum of a visit goes on to the next one, or home.
void RingAttention::append_sums(const Backward& g, int visit) {
  const Box sum_then = sum_at(g, visit);
  if (visit + 1 < back.visits() && back.route().continues(visit + 1)) {
    append(0, send(sum_then.rows(back.sum_going(visit)), back.next(visit)));
    append(0, receive(sum_at(g, visit + 1).rows(back.sum_coming(visit + 1)), back.previous(visit + 1)));
  }
  append_homecoming(sum_then, visit);
}

// What is on its way home for long has a slot that no sum comes into.
Box RingAttention::sum_at(const Backward& g, int visit) const {
  if (back.visits() == 1) return g.dkv;
  if (visit == 0 && own_sum.given()) return own_sum;
  return holding(!back.one_chain() && back[visit].home ? ends : sums.slot((visit + 1) % 2), in_sum(visit));
}

Box RingAttention::home_of(const Backward& g) const {
  Rows all;
  std::int64_t most = 0;
  for (int v = 1; v < back.visits(); ++v) {
    const Rows returning = back.owner(v) == s.place() ? Rows() : back.returning(v);
    all = all.united(returning);
    most = std::max(most, returning.count());
  }
  if (!back.one_chain()) return gradients("dkv_home", 2, packs() ? most : s.key_rows);
  if (o.travel == Travel::whole || back.visits() == 1 || o.gradient_wire == Role::nominal) return g.dkv;
  return holding(gradients("dkv_home", 1, packs() ? all.count() : s.key_rows), all);
}

void RingAttention::append_homecoming(const Box& sum_then, int visit) {
  if (back.owner(visit) == s.place()) return;
  const Rows returning = back.returning(visit);
  if (back.one_chain()) {
    append(0, send(sum_then.rows(back.ending(visit)), back.owner(visit)));
    append(0, receive(home.rows(returning), back.holder(visit)));
    back_home = back_home.united(returning);
  } else if (back[visit].home) {
    add_what_came_home();
    const int lane = outer != nullptr && back[visit].shift % back.route().inner() == 0 ? 1 : 0;
    const Box into = holding(home.slot(homecomings++ % 2), returning);
    append(lane, send(sum_then.rows(back.ending(visit)), back.owner(visit)));
    append(lane, receive(into.rows(returning), back.holder(visit)));
    came_home = returning;
  }
}

// One homecoming behind, so that no tile waits for it.
void RingAttention::add_what_came_home() {
  const Rows rows = std::exchange(came_home, Rows());
  if (!rows.empty())
    b.add(compute(0), holding(home.slot((homecomings + 1) % 2), rows).rows(rows), own_sum.rows(rows));
}

void RingAttention::take_own(const Backward& g, const Box& sum_then, int visit) {
  const Rows ending = back.ending(visit);
  if (!ending.empty()) b.convert(compute(0), sum_then.rows(ending), g.dkv.rows(ending));
}

void RingAttention::differentiate(const Backward& g, int v, const Box& dkv_sum) {
  const Tile& t = tile(back.owner(v));
  const Lane lane = compute(0);
  const Box& back_now = kv_back[static_cast<std::size_t>(v)];
  const Box part = o.latents ? Box() : inputs->keys(lane, "kv_tile_backward", back_now, t),
            first = dkv_sum.rows(t.k_rows);
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
                                  of_queries->dq_touch.touch(b, lane, g.dq, t.q_rows)};
  of_tile.out = out_for_delta(t);
  if (g.rounded_dq.given()) of_tile.rounded_dq = g.rounded_dq.rows(t.q_rows);
  of_tile.mask = mask_of(lane, back.owner(v), t, part, pairs_of(g));
  if (b.problem().bias == BiasForm::keys) of_tile.mask.dbias = bias_gradients(b, first);
  if (v == 0 && !o.latents)
    b.attend_backward(lane, of_tile);
  else
    differentiate_in_parts(g, t, of_tile, v, dkv_sum);
}

void RingAttention::differentiate_in_parts(const Backward& g, const Tile& t, Builder::AttendBackward of_tile,
                                           int v, const Box& dkv_sum) {
  const Lane lane = compute(0);
  // The rows of dK and dV that earlier holders have written. All others are uninitialised.
  const Rows old = t.k_rows.common(back.seen(v)), fresh = t.k_rows.minus(old);
  const HeadRange all = s.key_heads(), queries = s.heads();
  const std::int64_t most = o.dkv_tile_heads > 0 ? std::min(o.dkv_tile_heads, all.count()) : all.count();
  const std::int64_t sharing = b.problem().heads / b.problem().kv_heads;
  if (!dkv_tile.given())
    dkv_tile = s.dkv_buffer("dkv_tile", o.gradient_wire, Category::working, 1, most_in_tiles(),
                            {all.begin, all.begin + most});
  const Builder::AttendBackward whole = of_tile;
  for (std::int64_t first = all.begin; first < all.end; first += most) {
    const HeadRange part{first, std::min(first + most, all.end)};
    const HeadRange readers{std::max(part.begin * sharing, queries.begin),
                            std::min(part.end * sharing, queries.end)};
    const Box tile = holding(dkv_tile, t.k_rows).numbered(part.begin).of_problem(part),
              into = o.latents ? dkv_sum : dkv_sum.of_problem(part);
    if (o.latents) {
      const Box kv = projected(lane, kv_back[static_cast<std::size_t>(v)], g.latents, t.k_rows, part);
      of_tile.k = keys(b, kv), of_tile.v = values(b, kv);
    }
    of_tile.q = whole.q.of_problem(readers), of_tile.dout = whole.dout.of_problem(readers);
    of_tile.lse = whole.lse.of_problem(readers), of_tile.delta = whole.delta.of_problem(readers);
    of_tile.dq = whole.dq.of_problem(readers);
    if (whole.rounded_dq.given()) of_tile.rounded_dq = whole.rounded_dq.of_problem(readers);
    if (whole.out.given()) of_tile.out = whole.out.of_problem(readers);
    of_tile.dk = keys(b, tile.rows(t.k_rows)), of_tile.dv = values(b, tile.rows(t.k_rows));
    of_tile.mask = whole.mask.of_heads(readers, part);
    if (b.problem().bias == BiasForm::keys) of_tile.mask.dbias = bias_gradients(b, tile.rows(t.k_rows));
    b.attend_backward(lane, of_tile);
    if (o.latents) {
      project_back(g, v, tile, dkv_sum);
      continue;
    }
    if (!old.empty()) b.add(lane, tile.rows(old), into.rows(old));
    if (!fresh.empty()) b.copy(lane, tile.rows(fresh), into.rows(fresh));
  }
}

// Of tiles whose gradients are in a buffer of their own.
std::int64_t RingAttention::most_in_tiles() const {
  if (!packs()) return s.key_rows;
  std::int64_t most = 0;
  for (int v = o.latents ? 0 : 1; v < back.visits(); ++v)
    if (works(back.owner(v))) most = std::max(most, tile(back.owner(v)).k_rows.count());
  return most;
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
    pairs.dbias_mode = of_queries->dbias_touch.touch(b, lane, of_rank.dbias, t.q_rows);
  }
  return pair_mask(b, part, {}, WriteMode::store, pairs, {s.tokens[s.place()].runs, t.q_rows},
                   {s.keys[owner].runs, t.k_rows});
}

// ---- The backward in which attention kernels add to the sums of dK and dV that have come: no tile of
// gradients apart, no operation that adds it, and a part of the rows goes on while the next is computed.

// A whole rotation ends where the rows belong: what comes there last comes into the result, if it has the
// dtype of the wire.
void RingAttention::place_sums_in_kernels(const Backward& g) {
  into_result = o.travel == Travel::whole && o.gradient_wire == Role::nominal;
  sums = gradients("dkv_slots", std::min(2, back.visits() - into_result), s.key_rows);
  home = home_of(g);
  // Beside whatever waits for a message of the forward.
  if (b.declared(g.dq).role == Role::wide) of_queries->dq_touch.clear(b, aside(), g.dq, s.rows);
}

void RingAttention::add_in_kernels(const Backward& g, int v) {
  const int last = back.visits() - 1;
  const auto sum_then = [&](int visit) {
    return into_result && visit == last ? g.dkv : sums.slot(visit % 2);
  };
  const int owner = back.owner(v);
  const Box here = sum_then(v);
  // This member's tile adds to what earlier holders have summed, which has come in parts, and leaves in
  // parts what goes on. No other row has been written: of these the tile needs nothing that comes.
  const Rows rows = tile(owner).k_rows, old = rows.common(back.seen(v));
  const Rows leaving = v < last ? back.summed(v) : back.seen(v);
  const auto differentiate_both = [&](const Rows& some) {
    differentiate_rows(g, v, some.minus(old), here, WriteMode::store);
    differentiate_rows(g, v, some.common(old), here, WriteMode::add);
  };
  const Rows fresh = v > 0 ? rows.minus(old) : Rows();
  differentiate_both(fresh);
  for (std::int64_t part = 0; part < o.parts; ++part) {
    differentiate_both(rows.minus(fresh).common(part_of_sum(owner, leaving, part)));
    if (v < last) send_sum(v, part, here, sum_then(v + 1));
  }
  differentiate_both(rows.minus(fresh).minus(leaving));
  append_homecoming(here, v);
  exchange();
  if (owner == s.place() && !(into_result && v == last)) take_own(g, here, v);
}

// A part of the sum that this member has held goes on, the like part of the next one comes.
void RingAttention::send_sum(int visit, std::int64_t part, const Box& here, const Box& next) {
  const auto sent = [&](int owner, const Rows& summed) {
    const Rows rows = part_of_sum(owner, summed, part);
    if (defaults::travel_apart(rows.ranges().size())) return rows;
    const std::int64_t begin = rows.ranges().front().begin;
    return Rows::range(begin, rows.ranges().back().begin + rows.ranges().back().count - begin);
  };
  append(0, send(here.rows(sent(back.owner(visit), back.summed(visit))), back.next(visit)));
  append(0, receive(next.rows(sent(back.owner(visit + 1), back.seen(visit + 1))), back.previous(visit + 1)));
  exchange();
}

Rows RingAttention::part_of_sum(int owner, const Rows& summed, std::int64_t part) const {
  if (o.parts == 1) return summed;
  return cut_in_parts(runs_within(s.keys[owner].runs, summed), o.parts,
                      CutAt::rows)[static_cast<std::size_t>(part)];
}

// The gradients of some rows of the keys that are held. store: nothing is in the sum yet; add: all of it is.
void RingAttention::differentiate_rows(const Backward& g, int visit, const Rows& rows, const Box& into,
                                       WriteMode mode) {
  if (rows.empty()) return;
  const Lane lane = compute(0);
  const bool store = mode == WriteMode::store, own = back.owner(visit) == s.place();
  Tile t = tile_of_rows(back.owner(visit), rows, Take::keys);
  if (t.empty() && store && own) t = tile_of_rows(back.owner(visit), rows, Take::all);
  const Box kv = kv_back[static_cast<std::size_t>(visit)].rows(rows), dkv = into.rows(rows);
  if (t.q_rows.empty()) {
    if (store) b.fill(lane, dkv, 0);
    return;
  }
  Builder::PairMask mask = mask_of(lane, back.owner(visit), t, kv, pairs_of(g));
  if (b.problem().bias == BiasForm::keys) mask.dbias = bias_gradients(b, dkv), mask.dbias_mode = mode;
  b.attend_backward(
      lane, {g.q.rows(t.q_rows), keys(b, kv), values(b, kv), g.dout.rows(t.q_rows), g.lse.rows(t.q_rows),
             g.delta.rows(t.q_rows), g.dq.rows(t.q_rows), keys(b, dkv), values(b, dkv), t.segments,
             of_queries->dq_touch.touch(b, lane, g.dq, t.q_rows), mode, mask, out_for_delta(t)});
}

}  // namespace cplab
