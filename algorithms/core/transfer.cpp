// The stages of a transfer; see transfer.hpp.
#include "algorithms/core/transfer.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "algorithms/core/rows.hpp"

namespace cplab {
namespace {

template <class Shares>
HeadRange heads_of(const Shares& shares) {
  HeadRange all = shares.front().heads;
  for (const auto& share : shares)
    all = {std::min(all.begin, share.heads.begin), std::max(all.end, share.heads.end)};
  return all;
}

// Rows in their order, as a list without order.
Rows set_of(const std::vector<RowRange>& list) {
  std::vector<std::pair<std::int64_t, std::int64_t>> pieces;  // first row, count
  for (const RowRange& range : list)
    for (std::int64_t i = 0; i < (range.step == 1 ? 1 : range.count); ++i)
      pieces.emplace_back(range.begin + i * range.step, range.step == 1 ? range.count : 1);
  std::ranges::sort(pieces);
  Rows rows;
  for (const auto& [begin, count] : pieces) rows.append(begin, count);
  return rows;
}

// Calls visit(i, j) for every two shares that have a head in common, i later in the list than j or earlier;
// until it says true, which is the answer then.
template <class Shares, class Visit>
bool any_with_common_heads(const Shares& shares, Visit visit) {
  std::vector<std::size_t> order(shares.size()), open;
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return shares[i].heads.begin; });
  for (const std::size_t i : order) {
    std::erase_if(open, [&](std::size_t j) { return shares[j].heads.end <= shares[i].heads.begin; });
    for (const std::size_t j : open)
      if (shares[i].heads.common(shares[j].heads).count() > 0 && visit(i, j)) return true;
    open.push_back(i);
  }
  return false;
}

// Whether two shares have a row and a head in common.
template <class Shares>
bool meet(const Shares& shares) {
  std::vector<Rows> rows(shares.size());
  std::vector<char> listed(shares.size());
  const auto rows_of = [&](std::size_t i) -> const Rows& {
    if (!listed[i]) rows[i] = set_of(shares[i].rows);
    listed[i] = 1;
    return rows[i];
  };
  if (std::ranges::all_of(shares, [&](const auto& s) { return s.heads == shares[0].heads; })) {
    // Mostly no row is in two of them.
    std::vector<RowRange> all;
    for (std::size_t i = 0; i < shares.size(); ++i)
      all.insert(all.end(), rows_of(i).ranges().begin(), rows_of(i).ranges().end());
    std::ranges::sort(all, {}, &RowRange::begin);
    const auto overlap = [](const RowRange& a, const RowRange& b) { return a.begin + a.count > b.begin; };
    return std::ranges::adjacent_find(all, overlap) != all.end();
  }
  return any_with_common_heads(
      shares, [&](std::size_t i, std::size_t j) { return !rows_of(i).common(rows_of(j)).empty(); });
}

// The entries of two lists of the same length at which the second one is in `wanted`.
std::pair<std::vector<RowRange>, std::vector<RowRange>> select(const std::vector<RowRange>& first,
                                                               const std::vector<RowRange>& second,
                                                               const Rows& wanted) {
  if (row_count(second) == wanted.count()) return {first, second};
  std::pair<std::vector<RowRange>, std::vector<RowRange>> taken;
  const auto append = [](std::vector<RowRange>& list, std::int64_t row) {
    if (!list.empty() && list.back().begin + list.back().count == row)
      ++list.back().count;
    else
      list.push_back({row, 1, 1});
  };
  std::size_t at = 0;
  std::int64_t in_range = 0;
  for (const RowRange& range : second) {
    for (std::int64_t i = 0; i < range.count; ++i) {
      const std::int64_t row = range.begin + i * range.step;
      const RowRange& other = first[at];
      if (!Rows::range(row, 1).common(wanted).empty()) {
        append(taken.first, other.begin + in_range * other.step);
        append(taken.second, row);
      }
      if (++in_range == other.count) {
        ++at;
        in_range = 0;
      }
    }
  }
  return taken;
}

}  // namespace

Transfer::Transfer(Builder& b, const Team& team, TransferOptions options,
                   const std::vector<TransferTensor>& tensors)
    : b_(b), team_(team), options_(options), kind_(tensors.front().how->kind()) {
  for (const TransferTensor& each : tensors) {
    const OpKind kind = each.how->kind();
    if (kind != kind_)
      kind_ = kind == OpKind::exchange || kind_ == OpKind::exchange ? OpKind::exchange : OpKind::all_to_all;
  }
  if (options.adjoint && kind_ == OpKind::all_gather) kind_ = OpKind::reduce_scatter;
  for (const TransferTensor& each : tensors) {
    Tensor& t = tensors_.emplace_back();
    // Copies: staging declares buffers, which moves those that there are.
    const Buffer source = b.declared(each.source), target = b.declared(each.target);
    t.name = each.name;
    t.source = each.source;
    t.target = each.target;
    const View& view = each.source.view();
    t.width = view.width_end - view.width_begin;
    const bool one_plane = source.planes <= view.width_begin || source.planes >= view.width_end;
    t.planes = one_plane ? 0 : source.planes - view.width_begin;
    t.role = options.wire.value_or(source.role);
    // Where members get different heads, those of one member lie together.
    t.layout = each.how->parts_heads() ? Layout::heads_first : source.layout;
    t.heads = each.how->heads_given(team.place);
    t.out = shares(each, true);
    t.in = shares(each, false);
    // In a redistribution every row and head comes from one member; only an adjoint may bring several shares.
    if (options.adjoint && kind_ != OpKind::reduce_scatter) t.sums = meet(t.in);
    if (each.packed.given() || source.role != t.role || needs_staging(t, t.source, t.out))
      stage(t, t.name + "_packed", t.source, each.packed, t.out, t.packing, true);
    if (t.sums) {
      stage_sums(t, each.received, t.in);
    } else if (each.received.given() || target.role != t.role || needs_staging(t, t.target, t.in)) {
      stage(t, t.name + "_received", t.target, each.received, t.in, t.unpacking, false);
    }
  }
}

std::vector<Transfer::Share> Transfer::shares(const TransferTensor& t, bool outgoing) const {
  const Box& buffer = outgoing ? t.source : t.target;
  const bool gives = outgoing != options_.adjoint;  // in the redistribution, which the adjoint reverses
  std::vector<Share> list;
  list.reserve(static_cast<std::size_t>(team_.size()));
  t.how->for_each_share(team_.place, gives, [&](int peer, const RangeList& rows, HeadRange heads) {
    const bool same_rows = !list.empty() && list.back().rows.is(rows);
    const Box box = (same_rows ? list.back().box : buffer.rows(rows)).of_problem(heads);
    list.push_back({peer, rows, heads, box, box});
  });
  return list;
}

bool Transfer::needs_staging(const Tensor& t, const Box& buffer, const std::vector<Share>& shares) const {
  if (b_.declared(buffer).layout != t.layout) return !shares.empty();
  const Share* last = nullptr;
  for (const Share& s : shares) {
    const bool same = last != nullptr && last->box.view() == s.box.view();
    if (!same && b_.pieces(s.box) > options_.most_pieces) return true;
    last = &s;
  }
  return false;
}

// Staged shares lie one after the other, or beside each other where they are the same rows; they take as few
// copies as that allows, mostly one.
void Transfer::stage(const Tensor& t, const std::string& name, const Box& buffer, Box staging,
                     std::vector<Share>& shares, std::vector<Copy>& copies, bool outgoing) {
  if (shares.empty()) return;
  const HeadRange heads = heads_of(shares);
  const bool same_rows = std::ranges::all_of(shares, [&](auto& s) { return s.rows == shares[0].rows; });
  const bool same_heads = std::ranges::all_of(shares, [&](auto& s) { return s.heads == heads; });
  std::vector<RowRange> all;
  for (const Share& s : shares) {
    if (!all.empty() && same_rows) break;
    all.insert(all.end(), s.rows.begin(), s.rows.end());
  }
  if (!staging.given()) {
    staging = b_.buffer(
        {name, t.role, Category::working, 1, row_count(all), heads.count(), t.width, t.planes, t.layout});
  }
  const auto copy = [&](const Box& in_buffer, const Box& staged) {
    copies.push_back(outgoing ? Copy{in_buffer, staged} : Copy{staged, in_buffer});
  };
  const Box whole = staging.first_rows(row_count(all)).heads(0, heads.count());
  if (same_rows || same_heads) copy(buffer.rows(all).of_problem(heads), whole);
  if (same_rows && same_heads) {
    for (Share& s : shares) s.wire = whole;
    return;
  }
  std::int64_t row = 0;
  for (Share& s : shares) {
    const std::int64_t rows = row_count(s.rows), first = s.heads.begin - heads.begin;
    s.wire = staging.rows_at(row, rows).heads(first, first + s.heads.count());
    if (!same_rows && !same_heads) copy(s.box, s.wire);
    if (!same_rows) row += rows;
  }
}

// Shares that will be summed: each has a slot, but that of the rank itself, which is on the wire already.
void Transfer::stage_sums(const Tensor& t, Box staging, std::vector<Share>& shares) {
  std::int64_t rows = 0, heads = 0, slots = 0;
  const auto own = [&](const Share& s) { return kind_ == OpKind::exchange && s.peer == team_.place; };
  for (const Share& s : shares) {
    if (own(s)) continue;
    rows = std::max(rows, row_count(s.rows));
    heads = std::max(heads, s.heads.count());
    ++slots;
  }
  if (!staging.given()) {
    staging = b_.buffer(
        {t.name + "_received", t.role, Category::working, slots, rows, heads, t.width, t.planes, t.layout});
  }
  std::int64_t slot = 0;
  auto packed = t.out.begin();
  for (Share& s : shares) {
    if (!own(s)) {
      s.wire = staging.slot(slot++).first_rows(row_count(s.rows)).heads(0, s.heads.count());
      continue;
    }
    packed = std::ranges::find(packed, t.out.end(), team_.place, &Share::peer);
    s.wire = (packed++)->wire;
  }
}

void Transfer::pack(Lane lane) {
  for (const Tensor& t : tensors_)
    for (const Copy& copy : t.packing) b_.convert(lane, copy.from, copy.into);
}

void Transfer::move(Lane lane) {
  if (team_.size() == 1) return;
  std::vector<Message> messages;
  std::size_t shares = 0;
  for (const Tensor& t : tensors_) shares += t.out.size() + t.in.size();
  messages.reserve(shares);
  std::vector<std::array<std::size_t, 2>> next(
      tensors_.size());  // out and in, which are in the order of peers
  for (int peer = 0; peer < team_.size(); ++peer) {
    const bool on_wire = kind_ != OpKind::exchange || peer != team_.place;
    for (std::size_t n = 0; n < tensors_.size(); ++n) {
      const Tensor& t = tensors_[n];
      auto& [out, in] = next[n];
      for (; out < t.out.size() && t.out[out].peer == peer; ++out)
        if (on_wire) messages.push_back(send(t.out[out].wire, peer));
      for (; in < t.in.size() && t.in[in].peer == peer; ++in)
        if (on_wire) messages.push_back(receive(t.in[in].wire, peer));
    }
  }
  b_.communicate(lane, kind_, options_.transport, team_, messages);
}

void Transfer::unpack(Lane lane) {
  const bool own_here = kind_ == OpKind::exchange || team_.size() == 1;  // not on the wire
  for (const Tensor& t : tensors_) {
    // An own share is given as it is packed, in the order in which it is received.
    auto packed = t.out.begin();
    for (const Share& s : t.in) {
      if (!own_here || t.sums || s.peer != team_.place) continue;
      packed = std::ranges::find(packed, t.out.end(), team_.place, &Share::peer);
      b_.convert(lane, (packed++)->wire, s.wire);
    }
    for (const Copy& copy : t.unpacking) b_.convert(lane, copy.from, copy.into);
    if (t.sums) sum(lane, t);
    if (options_.adjoint) fill_rest(lane, t);
  }
}

// Adds the shares in the order of the team, head by head: what comes first is stored.
void Transfer::sum(Lane lane, const Tensor& t) {
  const Buffer target = b_.declared(t.target);  // a copy: another buffer may be declared below
  const HeadRange heads = heads_of(t.in);
  Box into = t.target;
  if (target.role != t.role)
    into = b_.buffer({t.name + "_summed", t.role, Category::working, 1, target.rows, heads.count(), t.width,
                      t.planes, target.layout, heads.begin});
  std::vector<Rows> touched(static_cast<std::size_t>(heads.count()));  // by head
  Rows all;
  for (const Share& s : t.in) {
    const Box& from = s.wire;
    const Rows rows = set_of(s.rows);
    all = all.united(rows);
    const auto on_wire = static_cast<std::int64_t>(from.view().head_begin) - s.heads.begin;
    for (std::int64_t begin = s.heads.begin, end = 0; begin < s.heads.end; begin = end) {
      const Rows known = touched[static_cast<std::size_t>(begin - heads.begin)];
      for (end = begin; end < s.heads.end; ++end) {
        Rows& of_head = touched[static_cast<std::size_t>(end - heads.begin)];
        if (!(of_head == known)) break;
        of_head = known.united(rows);
      }
      const auto take = [&](const Rows& wanted, auto&& emit) {
        if (wanted.empty()) return;
        const auto [wire_rows, target_rows] = select(from.row_list(), s.rows, wanted);
        emit(from.rows(wire_rows).heads(begin + on_wire, end + on_wire),
             into.rows(target_rows).of_problem({begin, end}));
      };
      take(rows.minus(known), [&](const Box& part, const Box& place) { b_.copy(lane, part, place); });
      take(rows.common(known), [&](const Box& part, const Box& place) { b_.add(lane, part, place); });
    }
  }
  if (target.role != t.role) b_.convert(lane, into.rows(all), t.target.rows(all).of_problem(heads));
}

// Rows that no member has taken get no gradient: they are filled with 0, by ranges of heads within which no
// share begins or ends.
void Transfer::fill_rest(Lane lane, const Tensor& t) {
  std::vector<std::int64_t> cuts{t.heads.begin, t.heads.end};
  for (const Share& s : t.in) cuts.insert(cuts.end(), {s.heads.begin, s.heads.end});
  std::ranges::sort(cuts);
  cuts.erase(std::ranges::unique(cuts).begin(), cuts.end());
  std::vector<const Share*> order, open;  // by first head; those of the range at hand
  for (const Share& s : t.in) order.push_back(&s);
  std::ranges::stable_sort(order, {}, [](const Share* s) { return s->heads.begin; });
  auto next = order.begin();
  for (std::size_t n = 1; n < cuts.size(); ++n) {
    const HeadRange heads{cuts[n - 1], cuts[n]};
    std::erase_if(open, [&](const Share* s) { return s->heads.end <= heads.begin; });
    for (; next != order.end() && (*next)->heads.begin < heads.end; ++next) open.push_back(*next);
    Rows taken;
    for (std::size_t i = 0; i < open.size(); ++i)
      if (i == 0 || !open[i]->rows.is(open[i - 1]->rows)) taken = taken.united(set_of(open[i]->rows));
    const Rows rest = Rows::range(0, b_.declared(t.target).rows).minus(taken);
    if (!rest.empty()) b_.fill(lane, t.target.rows(rest).of_problem(heads), 0);
  }
}

void Transfer::all(Lane compute, Lane comm) {
  pack(compute);
  move(comm);
  unpack(compute);
}

}  // namespace cplab
