// Pieces of sequences from a placement's runs of tokens.
#include "algorithms/linear/pieces.hpp"

#include <algorithm>
#include <stdexcept>

namespace cplab {

Pieces::Pieces(const Placement& placement, std::string_view name, int ranks) {
  const bool stream = name == "stream";
  of_every_sequence_ = !stream;
  if (!stream && name != "contiguous")
    throw std::logic_error("pieces of sequences need a contiguous placement or a stream");
  for (int p = 0; p < ranks; ++p) {
    std::vector<SequencePiece>& list = pieces_.emplace_back();
    for (const TokenRun& run : placement.runs(p)) {
      const auto number = static_cast<std::int32_t>(list.size());
      if (stream && run.valid == 0) continue;
      list.push_back({run.sequence, run.row, run.valid, stream ? -1 : number, stream ? -1 : number});
    }
  }
  if (!stream) {
    states_ = pieces_.empty() ? 0 : std::ssize(pieces_[0]);
    return;
  }
  states_ = placement.rows() > 0 ? 1 : 0;
  // A sequence may have its tokens on several ranks, those between them wholly its own.
  for (std::size_t p = 0; p + 1 < pieces_.size(); ++p) {
    const auto next = std::find_if(pieces_.begin() + static_cast<std::ptrdiff_t>(p) + 1, pieces_.end(),
                                   [](const auto& list) { return !list.empty(); });
    if (pieces_[p].empty() || next == pieces_.end()) continue;
    if (pieces_[p].back().sequence != next->front().sequence) continue;
    pieces_[p].back().right = 0;
    next->front().left = 0;
  }
}

bool Pieces::crosses_left(int place) const {
  const auto& list = of(place);
  return std::any_of(list.begin(), list.end(), [](const SequencePiece& piece) { return piece.left >= 0; });
}

bool Pieces::crosses_right(int place) const {
  const auto& list = of(place);
  return std::any_of(list.begin(), list.end(), [](const SequencePiece& piece) { return piece.right >= 0; });
}

// Where every piece has a state, it has the piece's number; else the one state of an edge is that of the
// piece which lies there.
Passage Pieces::through(int place, std::int64_t state, bool reverse) const {
  const std::vector<SequencePiece>& list = of(place);
  const std::size_t at = of_every_sequence_ ? static_cast<std::size_t>(state) : reverse ? 0 : list.size() - 1;
  if (at >= list.size()) return {0, true};
  const SequencePiece& piece = list[at];
  const std::int32_t out = reverse ? piece.left : piece.right, in = reverse ? piece.right : piece.left;
  return out == state ? Passage{piece.count, in != state} : Passage{0, true};
}

std::vector<Chunk> Pieces::chunks(int place, std::int64_t rows) const {
  std::vector<Chunk> list;
  for (const SequencePiece& piece : of(place)) {
    if (piece.count == 0 && piece.left < 0 && piece.right < 0) continue;
    std::int64_t at = 0;
    do {
      Chunk c;
      c.row = piece.row + at;
      c.count = std::min(rows, piece.count - at);
      c.state = static_cast<std::int32_t>(list.size());
      c.left = piece.left;
      c.right = piece.right;
      c.left_exponent = piece.left < 0 ? 0 : at;
      c.right_exponent = piece.right < 0 ? 0 : piece.count - at - c.count;
      c.resets = at == 0;
      list.push_back(c);
      at += c.count;
    } while (at < piece.count);
  }
  return list;
}

std::int64_t Pieces::longest() const {
  std::int64_t most = 0;
  for (const auto& list : pieces_)
    for (const SequencePiece& piece : list) most = std::max(most, piece.count);
  return most;
}

std::int64_t Pieces::most() const {
  std::int64_t most = 0;
  for (const auto& list : pieces_) most = std::max<std::int64_t>(most, std::ssize(list));
  return most;
}

}  // namespace cplab
