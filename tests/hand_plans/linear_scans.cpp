// Scans of states over ranks, right ones and such as were published wrong; see linear_plans.hpp.
// Schedules: Brent, Kung 1982; Kogge, Stone 1973; Blelloch 1990; arXiv 2507.01004 (pipelined slices).
#include <algorithm>
#include <map>

#include "tests/hand_plans/linear_plans.hpp"

namespace cplab::hand {
namespace {

// A buffer that a rank has once it receives anything.
class Received {
 public:
  explicit Received(const Scan& s) : s_(s) {}
  At at() {
    if (!given_) buffer_ = s_.buffer("received");
    given_ = true;
    return {buffer_};
  }

 private:
  const Scan& s_;
  bool given_ = false;
  std::uint32_t buffer_ = 0;
};

int levels(int P) {  // ceil(log2 P)
  int L = 0;
  while ((1 << L) < P) ++L;
  return L;
}

// The round's messages of this index, all at once; what comes in is added to `partial`.
void run_round(Scan& s, const std::vector<Move>& round, std::uint32_t partial, Received& received,
               std::vector<int>& first, int last_offset) {
  std::vector<Scan::Message> messages;
  bool receives = false;
  for (const Move& m : round) {
    if (m.from == s.index) messages.push_back({m.into, {partial}, true});
    if (m.into != s.index) continue;
    messages.push_back({m.from, received.at(), false});
    receives = true;
  }
  s.exchange(messages);
  const auto at = static_cast<std::size_t>(s.index);
  if (receives) s.combine(received.at(), {partial}, s.tokens(first[at], s.index - last_offset));
  const std::vector<int> before = first;
  for (const Move& m : round)
    first[static_cast<std::size_t>(m.into)] = before[static_cast<std::size_t>(m.from)];
}

}  // namespace

Rounds brent_kung_rounds(int P) {
  Rounds rounds;
  const auto sweep = [&](int s, int end, int begin) {  // from i - begin to i + end
    std::vector<Move> round;
    for (int i = 2 * s - 1; i < P; i += 2 * s)
      if (i + end < P) round.push_back({i - begin, i + end});
    if (!round.empty()) rounds.push_back(round);
  };
  for (int l = 0; l < levels(P); ++l) sweep(1 << l, 0, 1 << l);
  for (int l = levels(P); l-- > 0;) sweep(1 << l, 1 << l, 0);
  return rounds;
}

ScanRanks inclusive_and_shift(const std::function<Rounds(int P)>& rounds_of) {
  return [rounds_of](Scan& s) {
    if (s.P == 1) return;
    const std::uint32_t partial = s.own_state(s.index == s.P - 1);
    std::vector<int> first(static_cast<std::size_t>(s.P));
    for (int i = 0; i < s.P; ++i) first[static_cast<std::size_t>(i)] = i;
    Received received(s);
    for (const auto& round : rounds_of(s.P)) run_round(s, round, partial, received, first, 0);
    std::vector<Scan::Message> shift;
    if (s.index + 1 < s.P) shift.push_back({s.index + 1, {partial}, true});
    if (s.index > 0) shift.push_back({s.index - 1, {s.carry()}, false});
    s.exchange(shift);
  };
}

ScanRanks brent_kung_and_shift() {
  return inclusive_and_shift(brent_kung_rounds);
}

ScanRanks shifted_the_wrong_way() {
  return [](Scan& s) {
    const std::uint32_t partial = s.own_state(s.index == s.P - 1);
    std::vector<int> first(static_cast<std::size_t>(s.P));
    for (int i = 0; i < s.P; ++i) first[static_cast<std::size_t>(i)] = i;
    Received received(s);
    for (const auto& round : brent_kung_rounds(s.P)) run_round(s, round, partial, received, first, 0);
    std::vector<Scan::Message> shift;
    if (s.index > 0) shift.push_back({s.index - 1, {partial}, true});
    if (s.index + 1 < s.P) shift.push_back({s.index + 1, {s.carry()}, false});
    s.exchange(shift);
  };
}

ScanRanks left_edge_partner() {
  return inclusive_and_shift([](int P) {
    Rounds rounds = brent_kung_rounds(P);
    for (int l = 0; l < levels(P) && (2 << l) <= P; ++l)
      for (Move& m : rounds[static_cast<std::size_t>(l)]) m.from = m.into - (2 << l) + 1;
    return rounds;
  });
}

ScanRanks kogge_stone_after_shift() {
  return [](Scan& s) {
    if (s.P == 1) return;
    std::vector<Scan::Message> shift;
    if (s.index + 1 < s.P) shift.push_back({s.index + 1, {s.own_state()}, true});
    std::uint32_t carry = 0;
    if (s.index > 0) shift.push_back({s.index - 1, {carry = s.carry()}, false});
    s.exchange(shift);
    std::vector<int> first(static_cast<std::size_t>(s.P));
    for (int i = 0; i < s.P; ++i) first[static_cast<std::size_t>(i)] = i - 1;
    Received received(s);
    for (int d = 1; 1 + d < s.P; d *= 2) {
      std::vector<Move> round;
      for (int i = 1; i + d < s.P; ++i) round.push_back({i, i + d});
      run_round(s, round, carry, received, first, 1);
    }
  };
}

// Inner node v of the tree padded to a power of two, of the leaves (v - 2^l, v], lies at index v, or at the
// last one where that is beyond it; without leaves of its own it passes everything on.
ScanRanks swap_form() {
  return [](Scan& s) {
    const int last = s.P - 1, i = s.index;
    if (last == 0) return;
    const std::uint32_t up = s.own_state(i == last);
    const std::uint32_t prefix = s.carry();
    Received received(s);
    // The right child of a node of 2^(l + 1) leaves lies where the node does, the left one at v - 2^l.
    const auto node = [&](int l) { return i == last ? (i | ((2 << l) - 1)) : i; };
    const auto is_parent = [&](int l) {
      return (node(l) & ((2 << l) - 1)) == (2 << l) - 1 && node(l) - (1 << l) < last;
    };
    const auto is_left = [&](int l) {
      return i != last && (i & ((1 << l) - 1)) == (1 << l) - 1 && (i & (1 << l)) == 0;
    };
    const auto parent_of = [&](int l) { return std::min(i + (1 << l), last); };
    for (int l = 0; l < levels(s.P); ++l) {
      if (is_left(l)) s.exchange({{parent_of(l), {up}, true}});
      if (!is_parent(l)) continue;
      const int left = node(l) - (1 << l);
      s.exchange({{left, received.at(), false}});
      s.combine(received.at(), {up}, s.tokens(left + 1, std::min(node(l), last)));
    }
    if (i == last) s.rank.fill(compute, s.rank.view(prefix));
    for (int l = levels(s.P); l-- > 0;) {
      if (is_left(l)) s.exchange({{parent_of(l), {up}, true}, {parent_of(l), {prefix}, false}});
      if (!is_parent(l)) continue;
      const int left = node(l) - (1 << l);
      s.exchange({{left, {prefix}, true}, {left, received.at(), false}});
      s.combine({prefix}, received.at(), s.tokens(left - (1 << l) + 1, left));
      s.rank.copy(compute, s.rank.view(received.at()), s.rank.view(prefix));
    }
  };
}

ScanRanks ring_of_states() {
  return [](Scan& s) {
    const bool sends = s.index + 1 < s.P;
    std::uint32_t own = 0, carry = 0;
    if (sends) own = s.own_state();
    if (s.index > 0) s.exchange({{s.index - 1, {carry = s.carry()}, false}});
    if (s.index > 0 && sends) s.combine({carry}, {own}, s.tokens(s.index, s.index));
    if (sends) s.exchange({{s.index + 1, {own}, true}});
  };
}

ScanRanks gather_and_fold() {
  return [](Scan& s) {
    const std::uint32_t own = s.own_state(), all = s.buffer("all", s.P);
    const auto state = [&](int i) { return rows_of(all, 4 * i, 4); };
    std::vector<Scan::Message> messages;
    for (int i = 0; i < s.P; ++i) messages.insert(messages.end(), {{i, {own}, true}, {i, state(i), false}});
    s.exchange(messages, OpKind::all_gather);
    if (s.index == 0) return;
    for (int i = 1; i < s.index; ++i) s.combine(state(i - 1), state(i), s.tokens(i, i));
    s.rank.copy(compute, s.rank.view(state(s.index - 1)), s.rank.view(s.carry()));
  };
}

ScanRanks pipelined_slices(int slices) {
  return [slices](Scan& s) {
    const bool sends = s.index + 1 < s.P, receives = s.index > 0;
    std::uint32_t own = 0, carry = 0;
    if (sends) own = s.own_state();
    if (receives) carry = s.carry();
    const std::int64_t rows = 4 / slices;
    for (int slice = 0; slice < slices; ++slice) {
      const At in = rows_of(carry, slice * rows, rows), out = rows_of(own, slice * rows, rows);
      if (receives) s.exchange({{s.index - 1, in, false}});
      if (receives && sends) s.combine(in, out, s.tokens(s.index, s.index));
      if (sends) s.exchange({{s.index + 1, out, true}}, OpKind::exchange, {LaneKind::comm, 1});
    }
  };
}

// As spec/linear-attention.md 1.6, B3 has it: every index keeps what it held after each level of the
// up-sweep.
ScanRanks published_down_sweep() {
  return [](Scan& s) {
    const int i = s.index, L = levels(s.P);
    if (s.P == 1) return;
    std::map<int, std::uint32_t> kept{{0, s.own_state()}};
    const auto copied = [&](std::uint32_t from, const std::string& name) {
      const std::uint32_t into = s.buffer(name);
      s.rank.copy(compute, s.rank.view(from), s.rank.view(into));
      return into;
    };
    const auto at = [&](int level) { return (--kept.upper_bound(level))->second; };
    Received received(s);
    for (int l = 0; l < L; ++l) {
      const int d = 1 << l;
      if (i % (2 * d) == d - 1 && i + d < s.P) s.exchange({{i + d, {at(l)}, true}});
      if (i % (2 * d) != 2 * d - 1) continue;
      s.exchange({{i - d, received.at(), false}});
      kept[l + 1] = copied(at(l), "kept_" + std::to_string(l + 1));
      s.combine(received.at(), {kept[l + 1]}, s.tokens(i - d + 1, i));
    }
    std::optional<std::uint32_t> result;
    for (int l = L; l-- > 0;) {
      const int d = 1 << l;
      if (i % (2 * d) == d - 1 && i + 1 < s.P) s.exchange({{i + 1, {result ? *result : at(l)}, true}});
      if (i == 0 || i % (2 * d) != d % (2 * d)) continue;
      s.exchange({{i - 1, received.at(), false}});
      result = copied(at(l), "result_" + std::to_string(l));
      s.combine(received.at(), {*result}, s.tokens(i, i));
    }
    std::vector<Scan::Message> shift;
    if (i + 1 < s.P) shift.push_back({i + 1, {result ? *result : at(L)}, true});
    if (i > 0) shift.push_back({i - 1, {s.carry()}, false});
    s.exchange(shift);
  };
}

}  // namespace cplab::hand
