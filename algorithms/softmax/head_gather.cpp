// Gathers of some heads; see head_gather.hpp.
#include "algorithms/softmax/head_gather.hpp"

#include <utility>

#include "algorithms/core/options.hpp"
#include "algorithms/core/pieces.hpp"

namespace cplab {

HeadGather::HeadGather(const Scope& s, const Distribution& to, std::vector<HeadRange> strides)
    : s_(s),
      to_(to[s.place()]),
      reads_(any_live(s.tokens[s.place()].runs, to_.runs, s.b.visible())),
      strides_(std::move(strides)) {
  for (const HeadRange heads : strides_) how_.push_back(&s.b.shared().redistribution(s.keys, to, heads));
  options_.transport = transport_of(s.b.scenario().schedule);
  options_.most_pieces = s.b.scenario().schedule.count("pack_above");
}

Box HeadGather::buffer(std::string_view name, Role role, Category category, std::int64_t slots,
                       std::int64_t heads, std::string_view slab, Holds holds) const {
  const Problem& p = s_.b.problem();
  const std::int64_t behind = holds == Holds::kv ? p.key_columns() : p.key_gradient_columns();
  return s_.b.buffer({name, role, category, slots, rows(), heads, p.head_size + p.value_size + behind,
                      p.head_size, s_.layout, 0, slab});
}

Box HeadGather::slot(const Box& buffer, std::int64_t index, int stride) const {
  return buffer.slot(index).numbered(keys(stride).begin).of_problem(keys(stride));
}

std::vector<Transfer> HeadGather::gathers(int stride, const Box& kv, const Box& into, bool apart) const {
  const Redistribution* how = how_[static_cast<std::size_t>(stride)];
  const Box own = kv.of_problem(keys(stride));
  std::vector<Transfer> transfers;
  transfers.reserve(2);
  const auto add = [&](std::string_view name, const Box& from, const Box& to) {
    transfers.emplace_back(s_.b, s_.team, options_, std::vector<TransferTensor>{{name, how, from, to}});
  };
  if (!apart) {
    add("kv", own, into);
    return transfers;
  }
  add("k", cplab::keys(s_.b, own), cplab::keys(s_.b, into));
  add("v", behind_keys(s_.b, own), behind_keys(s_.b, into));
  return transfers;
}

void HeadGather::run(const Box& kv, const At& at, const Attend& attend,
                     const std::function<bool(int stride)>& apart) const {
  if (local()) return run_kept(kv, at, attend);
  for (int stride = 0; stride <= strides(); ++stride) {
    std::vector<Transfer> next;
    if (stride < strides()) next = gathers(stride, kv, at(stride), apart && apart(stride));
    for (Transfer& transfer : next) {
      transfer.pack(compute_lane);
      transfer.move(comm_lane);
    }
    s_.b.step(stride);
    // Where no query sees a key the tile reads no row: what was gathered is left where it came.
    if (stride > 0) attend(stride - 1, reads_ ? at(stride - 1) : kv.of_problem(keys(stride - 1)));
    for (Transfer& transfer : next)
      if (reads_) transfer.unpack(compute_lane);
  }
}

void HeadGather::run_kept(const Box& kv, const At& at, const Attend& attend) const {
  for (int stride = 0; stride < strides(); ++stride) {
    s_.b.step(stride);
    attend(stride, reads_ && !local() ? at(stride) : kv.of_problem(keys(stride)));
  }
}

// The query heads that read the stride's key heads, in the tile's rows.
Box HeadGather::queries(int stride, const Box& box, const Tile& t) const {
  const std::int64_t ratio = s_.b.problem().heads / s_.b.problem().kv_heads;
  return box.of_problem({keys(stride).begin * ratio, keys(stride).end * ratio}).rows(t.q_rows);
}

PairBoxes HeadGather::pairs(int stride, const PairBoxes& of_rank, const Tile& t) const {
  PairBoxes boxes;
  if (of_rank.bias.given()) boxes.bias = queries(stride, of_rank.bias, t);
  if (of_rank.keep.given()) boxes.keep = queries(stride, of_rank.keep, t);
  if (of_rank.dbias.given()) boxes.dbias = queries(stride, of_rank.dbias, t);
  boxes.table = of_rank.table, boxes.dtable = of_rank.dtable;
  return boxes;
}

Builder::PairMask HeadGather::mask(const Box& kv, const Box& dkv, WriteMode mode, const PairBoxes& boxes,
                                   const Tile& t) const {
  return pair_mask(s_.b, kv, dkv, mode, boxes, {s_.tokens[s_.place()].runs, t.q_rows}, {runs(), t.k_rows});
}

void HeadGather::attend(Lane lane, int stride, const Forward& f, const Box& held, const Tile& t) const {
  const Box rows = held.rows(t.k_rows);
  s_.b.attend(
      lane, {queries(stride, f.q, t), cplab::keys(s_.b, rows), values(s_.b, rows), queries(stride, f.out, t),
             queries(stride, f.lse, t), t.segments, WriteMode::store, f.max_logit->of(lane),
             mask(rows, {}, WriteMode::store,
                  pairs(stride, {.bias = f.bias, .keep = f.keep, .dbias = {}, .table = f.table}, t), t),
             f.sink});
}

void HeadGather::attend_backward(Lane lane, int stride, Backward& g, const Box& held, const Box& sums,
                                 const Tile& t, FirstTouch& touched) const {
  const WriteMode mode = touched.touch(s_.b, lane, sums, t.k_rows);
  const Box rows = held.rows(t.k_rows), into = sums.rows(t.k_rows);
  const auto if_given = [&](const Box& box) { return box.given() ? queries(stride, box, t) : Box(); };
  s_.b.attend_backward(
      lane,
      {queries(stride, g.q, t), cplab::keys(s_.b, rows), values(s_.b, rows), queries(stride, g.dout, t),
       queries(stride, g.lse, t), queries(stride, g.delta, t), queries(stride, g.dq, t),
       cplab::keys(s_.b, into), values(s_.b, into), t.segments, WriteMode::store, mode,
       mask(rows, into, mode, pairs(stride, pairs_of(g), t), t), if_given(g.out), if_given(g.rounded_dq)});
  g.out = Box();
}

Backward HeadGather::begin_backward(const Backward& of_member, std::span<const Tile> tiles,
                                    bool gathers) const {
  Backward g = of_member;
  const bool has_all = strides() == 1 && !tiles.empty() && tiles[0].q_rows.count() == s_.rows;
  g.out = delta_by_first_tile(s_.b, of_member, has_all && !gathers);
  return g;
}

bool HeadGather::store_dq_once(std::span<const Tile> tiles, std::int64_t lanes) const {
  std::int64_t rows = 0;
  for (const Tile& t : tiles) rows += t.q_rows.count();
  return rows == s_.rows && (lanes == 1 || tiles.size() == 1);
}

void HeadGather::send_home(int stride, const Box& gradients, const Box& dkv, Role wire, const Box& packed,
                           bool stage_first) {
  TransferOptions options = options_;
  options.adjoint = true;
  options.wire = wire;
  if (!stage_first) drain();
  Transfer home(
      s_.b, s_.team, options,
      {{"dkv", how_[static_cast<std::size_t>(stride)], gradients, dkv.of_problem(keys(stride)), packed}});
  home.pack(compute_lane);
  drain();
  home.move(comm_lane);
  pending_.emplace(std::move(home));
}

void HeadGather::drain() {
  if (pending_) pending_->unpack(compute_lane);
  pending_.reset();
}

std::vector<std::vector<TokenRun>> query_chunks(const Holding& holding, std::string_view placement) {
  if (in_pieces(placement)) return {holding.runs};
  std::vector<std::vector<TokenRun>> chunks;
  std::size_t of_sequence = 0;
  for (std::size_t i = 0; i < holding.runs.size(); ++i) {
    of_sequence = i > 0 && holding.runs[i].sequence == holding.runs[i - 1].sequence ? of_sequence + 1 : 0;
    if (of_sequence == chunks.size()) chunks.emplace_back();
    chunks[of_sequence].push_back(holding.runs[i]);
  }
  return chunks;
}

}  // namespace cplab
