// Stretches of sequences from a placement's runs of tokens.
#include "algorithms/linear/stretches.hpp"

#include <algorithm>
#include <stdexcept>

namespace cplab {

Stretches::Stretches(const Distribution& tokens, bool stream) : of_every_sequence_(!stream) {
  for (const Holding& member : tokens.members) {
    std::vector<Stretch>& list = stretches_.emplace_back();
    for (const TokenRun& run : member.runs) {
      const auto number = static_cast<std::int32_t>(list.size());
      if (stream && run.valid == 0) continue;
      if (run.stride != 1) throw std::logic_error("stretches of sequences need consecutive tokens");
      list.push_back({run.sequence, run.row, run.valid, stream ? -1 : number, stream ? -1 : number});
    }
  }
  if (!stream) {
    states_ = stretches_.empty() ? 0 : std::ssize(stretches_[0]);
    return;
  }
  states_ = tokens.members.empty() || tokens[0].rows() == 0 ? 0 : 1;
  // A sequence may have its tokens on several ranks, those between them wholly its own.
  for (std::size_t p = 0; p + 1 < stretches_.size(); ++p) {
    const auto next = std::find_if(stretches_.begin() + static_cast<std::ptrdiff_t>(p) + 1, stretches_.end(),
                                   [](const auto& list) { return !list.empty(); });
    if (stretches_[p].empty() || next == stretches_.end()) continue;
    if (stretches_[p].back().sequence != next->front().sequence) continue;
    stretches_[p].back().right = 0;
    next->front().left = 0;
  }
}

bool Stretches::crosses_left(int place) const {
  const auto& list = of(place);
  return std::any_of(list.begin(), list.end(), [](const Stretch& stretch) { return stretch.left >= 0; });
}

bool Stretches::crosses_right(int place) const {
  const auto& list = of(place);
  return std::any_of(list.begin(), list.end(), [](const Stretch& stretch) { return stretch.right >= 0; });
}

// Where every stretch has a state, it has the stretch's number; else the one state of an edge is that of the
// stretch which lies there.
Passage Stretches::through(int place, std::int64_t state, bool reverse) const {
  const std::vector<Stretch>& list = of(place);
  const std::size_t at = of_every_sequence_ ? static_cast<std::size_t>(state) : reverse ? 0 : list.size() - 1;
  if (at >= list.size()) return {0, true};
  const Stretch& stretch = list[at];
  const std::int32_t out = reverse ? stretch.left : stretch.right,
                     in = reverse ? stretch.right : stretch.left;
  return out == state ? Passage{stretch.count, in != state} : Passage{0, true};
}

std::vector<Chunk> Stretches::chunks(int place, std::int64_t rows) const {
  std::vector<Chunk> list;
  for (const Stretch& stretch : of(place)) {
    if (stretch.count == 0 && stretch.left < 0 && stretch.right < 0) continue;
    std::int64_t at = 0;
    do {
      Chunk c;
      c.row = stretch.row + at;
      c.count = std::min(rows, stretch.count - at);
      c.state = static_cast<std::int32_t>(list.size());
      c.left = stretch.left;
      c.right = stretch.right;
      c.left_exponent = stretch.left < 0 ? 0 : at;
      c.right_exponent = stretch.right < 0 ? 0 : stretch.count - at - c.count;
      c.resets = at == 0;
      list.push_back(c);
      at += c.count;
    } while (at < stretch.count);
  }
  return list;
}

std::int64_t Stretches::longest() const {
  std::int64_t most = 0;
  for (const auto& list : stretches_)
    for (const Stretch& stretch : list) most = std::max(most, stretch.count);
  return most;
}

std::int64_t Stretches::most() const {
  std::int64_t most = 0;
  for (const auto& list : stretches_) most = std::max<std::int64_t>(most, std::ssize(list));
  return most;
}

}  // namespace cplab
