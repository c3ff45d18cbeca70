// Messages and combinations of a scan of affine maps.
#include "algorithms/linear/affine_scan.hpp"

#include <array>
#include <utility>

namespace cplab {

// Backwards through the rounds: whose transition is asked for. A receiver takes its own to bring the state
// through its tokens; both ends give theirs where the receiver's is asked for afterwards.
AffineScan::AffineScan(const LinearScope& s, const StateScan& scan, const std::vector<ScanRound>& rounds)
    : s_(s) {
  const std::vector<ScanRound> kept = scan.pruned(rounds, s.P(), false);
  rounds_.resize(kept.size());
  std::vector<char> asked(static_cast<std::size_t>(s.P()), 0);
  const auto of = [](std::vector<char>& list, int index) -> char& {
    return list[static_cast<std::size_t>(index)];
  };
  for (std::size_t r = kept.size(); r-- > 0;) {
    std::vector<char> after = asked;
    for (const ScanMove& move : kept[r]) {
      const bool travels = of(after, move.into) != 0;
      rounds_[r].push_back({move, travels});
      of(asked, move.into) = 1;
      if (travels) of(asked, move.from) = 1;
    }
  }
  asks_transition_ = of(asked, scan.index()) != 0;
}

void AffineScan::inclusive(StateScan& scan, const AffineMap& own) const {
  ScanSpans spans(s_.P());
  const auto like = [&](const char* name, const Box& box) {
    const View& view = box.view();
    return s_.states(name, s_.stretches.states(), Category::working, Role::wide,
                     view.width_end - view.width_begin);
  };
  Box received, received_transition, transition = own.transition;
  std::array<Box, 2> joined;  // alternating: what is joined is read while the result is written
  for (const std::vector<Move>& round : rounds_) {
    std::vector<Message> messages;
    const Move* taken = nullptr;
    for (const Move& move : round) {
      if (move.from == scan.index()) {
        messages.push_back(send(own.state, scan.place_of(move.into)));
        if (move.transition) messages.push_back(send(transition, scan.place_of(move.into)));
      }
      if (move.into != scan.index()) continue;
      taken = &move;
      if (!received.given()) received = like("received_state", own.state);
      messages.push_back(receive(received, scan.place_of(move.from)));
      if (!move.transition) continue;
      if (!received_transition.given()) received_transition = like("received_transition", transition);
      messages.push_back(receive(received_transition, scan.place_of(move.from)));
    }
    scan.post(messages);
    if (taken) scan.combine(received, own.state, spans[scan.index()], transition);
    spans.apply(ScanRound(round.begin(), round.end()));
    if (!taken || !taken->transition) continue;
    std::swap(joined[0], joined[1]);
    if (!joined[0].given()) joined[0] = like("joined_transition", transition);
    const Box &first = scan.reverse ? transition : received_transition,
              &then = scan.reverse ? received_transition : transition;
    scan.compose(first, then, joined[0], spans[scan.index()]);
    transition = joined[0];
  }
}

}  // namespace cplab
