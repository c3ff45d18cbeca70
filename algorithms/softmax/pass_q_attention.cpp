// What the loops of pass_q.cpp are made of: what travels and where it lies, tiles, results that go home.
#include <algorithm>

#include "algorithms/core/options.hpp"
#include "algorithms/softmax/pass_q.hpp"

namespace cplab {

PassQ::PassQ(const Scope& scope, const Distribution& keys, const Route& way, const PassQOptions& options)
    : s(scope), b(scope.b), keys_(keys), route(way), o(options) {
  for (int v = 0; v < visits(); ++v) {
    here_.push_back(tile(owner(v), s.place()));
    home_.push_back(tile(s.place(), route.holder(s.place(), v)));
  }
}

// The own tile has all rows of both sides: it stores, so that every row of a result is defined.
Tile PassQ::tile(int queries_of, int keys_of) const {
  return row_tile(s.tokens[queries_of].runs, keys_[keys_of].runs, b.visible(),
                  queries_of == keys_of ? Take::all : Take::live);
}

Box PassQ::slots_of(const Box& like, const std::string& suffix) const {
  const std::string name = b.declared(like).name + suffix;
  BufferSpec spec = b.like(like, name);
  spec.slots = 2, spec.rows = s.rows;
  return b.buffer(spec);
}

PassQ::Returned PassQ::returned(const Box& like, Role role) const {
  if (visits() == 1) return {};
  std::int64_t most_made = 0, most_received = 0;
  for (int v = 1; v < visits(); ++v) {
    most_made = std::max(most_made, here(v).q_rows.count());
    most_received = std::max(most_received, home(v).q_rows.count());
  }
  const auto slots = [&](const char* suffix, std::int64_t rows) {
    if (rows == 0) return Box();
    const std::string name = b.declared(like).name + suffix;
    BufferSpec spec = b.like(like, name);
    spec.role = role, spec.slots = 2, spec.rows = rows;
    return b.buffer(spec);
  };
  return {slots("_part", most_made), slots("_received", most_received)};
}

Box PassQ::received(const Returned& result, int visit) const {
  const std::int64_t rows = home(visit).q_rows.count();
  return rows == 0 ? Box() : result.received.slot(visit % 2).first_rows(rows);
}

void PassQ::exchange(int visit, const std::vector<Carried>& queries, const std::vector<Returned>& results) {
  std::vector<Message> messages;
  if (visit < visits())
    for (const int next : route.beside(visit))
      for (const Carried& each : queries) {
        messages.push_back(send(each.at(route[next].source), route.taker(s.place(), next)));
        messages.push_back(receive(each.at(next), route.giver(s.place(), next)));
      }
  if (const int before = visit - 1; before >= 1 && before < visits())
    for (const Returned& each : results) {
      if (const std::int64_t rows = here(before).q_rows.count(); rows > 0)
        messages.push_back(send(each.made.slot(before % 2).first_rows(rows), owner(before)));
      if (home(before).q_rows.count() > 0)
        messages.push_back(receive(received(each, before), route.holder(s.place(), before)));
    }
  b.exchange_rows(o.comm, o.transport, s.team, std::move(messages));
}

void PassQ::attend(const Forward& f, int visit, const std::vector<Carried>& of_queries, const Returned& out,
                   const Returned& lse) {
  const Tile& t = here(visit);
  const Box k = cplab::keys(b, f.kv).rows(t.k_rows), v = values(b, f.kv).rows(t.k_rows);
  const Box max_logit = f.max_logit->of(compute_lane), from = of_queries[0].at(visit).rows(t.q_rows);
  PairBoxes boxes;
  boxes.table = f.table;
  if (f.bias.given()) boxes.bias = of_queries[1].at(visit).rows(t.q_rows);
  const Builder::PairMask masked = mask(visit, f.kv.rows(t.k_rows), {}, WriteMode::store, boxes);
  if (visit == 0) return sum->attend(compute_lane, from, k, v, t.q_rows, t.segments, max_logit, masked);
  if (t.empty()) return;
  const std::int64_t rows = t.q_rows.count();
  b.attend(compute_lane,
           {from, k, v, out.made.slot(visit % 2).first_rows(rows), lse.made.slot(visit % 2).first_rows(rows),
            t.segments, WriteMode::store, max_logit, masked});
}

Builder::PairMask PassQ::mask(int visit, const Box& kv, const Box& dkv, WriteMode mode,
                              const PairBoxes& boxes) const {
  if (b.problem().has_plain_logits()) return {};
  const Tile& t = here(visit);
  return pair_mask(b, kv, dkv, mode, boxes, {s.tokens[owner(visit)].runs, t.q_rows},
                   {keys_[s.place()].runs, t.k_rows});
}

void PassQ::differentiate(const Backward& g, int visit, const std::vector<Carried>& of_queries,
                          const std::vector<Returned>& shares, const Box& dkv) {
  const Tile& t = here(visit);
  if (visit > 0 && t.empty()) return;
  const auto rows = [&](std::size_t i) { return of_queries[i].at(visit).rows(t.q_rows); };
  const Box kv = g.kv.rows(t.k_rows), into = dkv.rows(t.k_rows);
  const bool own = visit == 0;
  const auto share = [&](std::size_t i, const Box& of_own) {
    return own ? of_own.rows(t.q_rows) : shares[i].made.slot(visit % 2).first_rows(t.q_rows.count());
  };
  Builder::AttendBackward call{
      rows(0), cplab::keys(b, kv), values(b, kv),        rows(1),         rows(2),
      rows(3), share(0, g.dq),     cplab::keys(b, into), values(b, into), t.segments};
  if (!own) call.dk_mode = WriteMode::add;
  PairBoxes boxes = pairs_of(g);
  if (g.bias.given()) boxes.bias = rows(4), boxes.dbias = share(1, g.dbias);
  call.mask = mask(visit, kv, into, call.dk_mode, boxes);
  if (own && g.rounded_dq.given()) call.rounded_dq = g.rounded_dq.rows(t.q_rows);
  b.attend_backward(compute_lane, call);
}

Box PassQ::sum_of(const Box& dkv) const {
  if (visits() == 1 || !o.wide || b.declared(dkv).role == Role::wide || !b.has_wide()) return dkv;
  BufferSpec spec = b.like(dkv, "dkv_sum");
  spec.role = Role::wide;
  return b.buffer(spec);
}

void PassQ::add(const Box& share, const Box& sum_of_all) const {
  if (share.given()) b.add(compute_lane, share, sum_of_all);
}

PassQOptions pass_q_options(const Schedule& s) {
  return {wide_accumulator(s), gradient_wire_of(s), s.is_on("overlap") ? comm_lane : compute_lane,
          transport_of(s)};
}

std::vector<OptionInfo> pass_q_option_infos() {
  OptionInfo wire = gradient_wire_option();
  wire.help = "dtype in which shares of dq go home";
  OptionInfo accumulator = accumulator_option();
  return {accumulator, wire, switch_option("overlap", true, "communication on a lane of its own")};
}

}  // namespace cplab
