// Messages and combinations of a scan of states.
#include "algorithms/linear/state_scan.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace cplab {

StateScan::StateScan(const LinearScope& scope, bool from_right, Lane on, Lane combining)
    : reverse(from_right),
      s_(scope),
      b_(scope.b),
      on_(on),
      combining_(combining),
      nominal_wire_(b_.has_wide() && s_.options().find("state_wire_dtype") &&
                    s_.options().is_word("state_wire_dtype", "nominal")) {}

Passage StateScan::passage(ScanSpan span, std::int64_t state) const {
  Passage all;
  for (int e = span.first; e <= span.last; ++e) {
    const Passage one = s_.stretches.through(place_of(e), state, reverse);
    all.count += one.count;
    all.resets |= one.resets;
  }
  return all;
}

bool StateScan::passes(ScanSpan span) const {
  for (std::int64_t state = 0; state < s_.stretches.states(); ++state)
    if (!passage(span, state).resets) return true;
  return false;
}

bool StateScan::needed(int from_index) const {
  if (from_index < 0 || from_index + 1 >= s_.P()) return false;
  const int next = place_of(from_index + 1);
  return reverse ? s_.stretches.crosses_right(next) : s_.stretches.crosses_left(next);
}

// Backwards through the rounds: whose partial is still asked for. Of whole sequences on every rank the last
// index may be asked for too, as published schedules have it: it holds the state behind the last token.
std::vector<ScanRound> StateScan::prune(const std::vector<ScanRound>& rounds, int n, bool total) const {
  std::vector<ScanSpans> before{ScanSpans(n)};
  for (const ScanRound& round : rounds) {
    before.push_back(before.back());
    before.back().apply(round);
  }
  std::vector<char> asked(static_cast<std::size_t>(n), 0);
  for (int e = 0; e < n; ++e)
    asked[static_cast<std::size_t>(e)] =
        needed(e) || (total && e == n - 1 && s_.stretches.of_every_sequence());
  std::vector<ScanRound> kept(rounds.size());
  for (std::size_t r = rounds.size(); r-- > 0;) {
    const std::vector<char> after = asked;
    for (const ScanMove& move : rounds[r]) {
      if (!after[static_cast<std::size_t>(move.into)] || !passes(before[r][move.into])) continue;
      kept[r].push_back(move);
      asked[static_cast<std::size_t>(move.from)] = 1;
    }
  }
  std::erase_if(kept, [](const ScanRound& round) { return round.empty(); });
  return kept;
}

// The same for every rank.
const std::vector<ScanRound>& StateScan::pruned(const std::vector<ScanRound>& rounds, int n,
                                                bool total) const {
  std::vector<std::int64_t> numbers{reverse, n, total};
  for (const ScanRound& round : rounds) {
    numbers.push_back(std::ssize(round));
    for (const ScanMove& move : round) numbers.insert(numbers.end(), {move.from, move.into});
  }
  return b_.shared().of_numbers<std::vector<ScanRound>>("pruned rounds", std::move(numbers),
                                                        [&] { return prune(rounds, n, total); });
}

Box StateScan::wire(const char* name, const Box& like) {
  const Role role = nominal_wire_ ? Role::nominal : Role::wide;
  return s_.states(name, s_.stretches.states(), Category::working, role).rows(like.row_list());
}

Box StateScan::to_wire(const Box& state) {
  if (!nominal_wire_) return state;
  const Box sent = wire("sent_state", state);
  b_.cast(combining_, state, sent);
  return sent;
}

std::vector<Chunk> StateScan::passing(ScanSpan over) const {
  std::vector<Chunk> list;
  for (std::int64_t state = 0; state < s_.stretches.states(); ++state) {
    const Passage through = passage(over, state);
    Chunk c;
    c.count = through.count;
    c.state = static_cast<std::int32_t>(state);
    c.resets = through.resets;
    list.push_back(c);
  }
  return list;
}

void StateScan::combine(const Box& from, const Box& into, ScanSpan over, const Box& transition) const {
  b_.linear(combining_, OpKind::combine, {{Operand::from, from}, {Operand::transition, transition}},
            {{Operand::into, into, WriteMode::add}}, {passing(over), ChunkWork::blocked, reverse});
}

void StateScan::compose(const Box& first, const Box& then, const Box& into, ScanSpan over) const {
  b_.linear(combining_, OpKind::combine, {{Operand::from, first}, {Operand::transition, then}},
            {{Operand::into, into}}, {passing(over), ChunkWork::blocked, false});
}

void StateScan::post(const std::vector<Message>& messages) {
  b_.step(step_++);
  if (!messages.empty()) exchange(messages);
}

void StateScan::exchange(const std::vector<Message>& messages) {
  if (begin_after_) b_.wait_for_start(*begin_after_);
  begin_after_.reset();
  b_.exchange(on_, s_.transport, s_.team(), messages);
}

void StateScan::inclusive(const std::vector<ScanRound>& all, const Box& partial, int offset) {
  ScanSpans spans(s_.P() - offset);
  Box received;
  for (const ScanRound& round : pruned(all, s_.P() - offset, offset == 0)) {
    std::vector<Message> messages;
    bool receives = false;
    for (const ScanMove& move : round) {
      if (move.from + offset == index())
        messages.push_back(send(to_wire(partial), place_of(move.into + offset)));
      if (move.into + offset != index()) continue;
      if (!received.given()) received = wire("received_state", partial);
      messages.push_back(receive(received, place_of(move.from + offset)));
      receives = true;
    }
    post(messages);
    if (receives) combine(received, partial, spans[index() - offset]);
    spans.apply(round);
  }
}

void StateScan::move(const ScanRound& round, const Box& from, const Box& into) {
  b_.step(step_++);
  std::vector<Message> messages;
  Box sent, received;
  for (const ScanMove& move : round) {
    if (move.from == index()) {
      if (!sent.given()) sent = to_wire(from);
      messages.push_back(send(sent, place_of(move.into)));
    }
    if (move.into == index()) {
      received = nominal_wire_ ? wire("received_state", into) : into;
      messages.push_back(receive(received, place_of(move.from)));
    }
  }
  if (!messages.empty()) exchange(messages);
  if (nominal_wire_ && received.given()) b_.cast(combining_, received, into);
}

void StateScan::shift(const Box& from, const Box& carry) {
  ScanRound round;
  for (int i = 0; i + 1 < s_.P(); ++i)
    if (needed(i)) round.push_back({i, i + 1});
  move(round, from, carry);
}

void StateScan::hop(int from_index, const Box& from, const Box& into) {
  if (needed(from_index)) move({{from_index, from_index + 1}}, from, into);
}

}  // namespace cplab
