// Token runs of every placement.
#include "algorithms/core/placement.hpp"

#include <algorithm>

namespace cplab {

Placement::Placement(const Problem& problem, const Parallel& parallel, std::string_view placement,
                     int replica, Side side)
    : runs_(static_cast<std::size_t>(parallel.ranks)) {
  const std::vector<std::int64_t>&lengths = problem.lengths_of(side),
        &padded = problem.padded_lengths_of(side);
  std::vector<Sequence> sequences;
  for (auto b = static_cast<std::size_t>(replica); b < lengths.size();
       b += static_cast<std::size_t>(parallel.replicas))
    sequences.push_back({b, lengths[b], padded[b], side == Side::queries ? problem.first_query_at(b) : 0});
  if (side == Side::keys && parallel.keys_everywhere)
    lay_everywhere(sequences);
  else if (!parallel.pieces.empty())
    lay_pieces(sequences, parallel);
  else if (placement == "stream")
    lay_stream(sequences, parallel.ranks);
  else
    lay_sequences(sequences, parallel, placement);
}

void Placement::lay_sequences(std::span<const Sequence> sequences, const Parallel& parallel,
                              std::string_view placement) {
  const std::int64_t P = parallel.ranks;
  const bool hybrid = placement == "hybrid", zigzag = hybrid || placement == "zigzag";
  const bool striped = placement == "striped";
  const std::int64_t unit = zigzag ? 2 * P : P;
  std::vector<std::int64_t> held(static_cast<std::size_t>(P), 0);  // rows of each rank so far
  std::int64_t last = -1, behind = 0, first_at = 0;
  for (const Sequence& s : sequences) {
    if (s.padded == 0) continue;
    const auto add = [&](std::int64_t p, std::int64_t rows, std::int64_t position, std::int64_t stride) {
      if (rows == 0) return;
      const std::int64_t tokens = s.length > position ? (s.length - position + stride - 1) / stride : 0;
      std::int64_t& row = held[static_cast<std::size_t>(p)];
      runs_[static_cast<std::size_t>(p)].push_back({static_cast<std::int64_t>(s.number), row, rows,
                                                    std::min(rows, tokens), s.first_at + position, stride});
      row += rows;
    };
    last = static_cast<std::int64_t>(s.number), behind = s.padded, first_at = s.first_at;
    if (hybrid && parallel.homes[s.number] >= 0) {
      add(parallel.homes[s.number], s.padded, 0, 1);
      continue;
    }
    const std::int64_t n = (s.padded + unit - 1) / unit * unit / P;  // local rows
    behind = n * P;
    padding_tokens_ += n * P - s.padded;
    for (std::int64_t p = 0; p < P; ++p) {
      if (zigzag) {
        add(p, n / 2, p * (n / 2), 1);
        add(p, n / 2, (2 * P - 1 - p) * (n / 2), 1);
      } else if (striped) {
        add(p, n, p, P);
      } else {
        add(p, n, p * n, 1);
      }
    }
  }
  rows_ = *std::max_element(held.begin(), held.end());
  fill_up(held, last, first_at + behind);
}

// Rows of a rank behind those that are held count as padding of the last sequence, from position `behind` on.
void Placement::fill_up(std::span<const std::int64_t> held, std::int64_t sequence, std::int64_t behind) {
  for (std::size_t p = 0; p < held.size(); ++p) {
    const std::int64_t missing = rows_ - held[p];
    if (missing == 0) continue;
    runs_[p].push_back({sequence, held[p], missing, 0, behind, 1});
    behind += missing;
    padding_tokens_ += missing;
  }
}

// Rank p holds rows [p n, (p + 1) n) of all sequences one after the other, their padding included.
void Placement::lay_stream(std::span<const Sequence> sequences, std::int64_t P) {
  std::int64_t total = 0;
  for (const Sequence& s : sequences) total += s.padded;
  rows_ = (total + P - 1) / P;
  std::vector<std::int64_t> held(static_cast<std::size_t>(P), 0);
  std::int64_t at = 0;  // in the stream
  for (const Sequence& s : sequences) {
    const std::int64_t end = at + s.padded, begin = at;
    while (at < end) {
      const std::int64_t p = at / rows_, rows = std::min(end, (p + 1) * rows_) - at, position = at - begin;
      runs_[static_cast<std::size_t>(p)].push_back({static_cast<std::int64_t>(s.number), at - p * rows_, rows,
                                                    std::clamp<std::int64_t>(s.length - position, 0, rows),
                                                    s.first_at + position, 1});
      held[static_cast<std::size_t>(p)] += rows;
      at += rows;
    }
  }
  if (!sequences.empty())
    fill_up(held, static_cast<std::int64_t>(sequences.back().number),
            sequences.back().first_at + sequences.back().padded);
}

void Placement::lay_pieces(std::span<const Sequence> sequences, const Parallel& parallel) {
  std::vector<const Sequence*> by_number;
  for (const Sequence& s : sequences) {
    by_number.resize(s.number + 1, nullptr);
    by_number[s.number] = &s;
  }
  std::vector<std::int64_t> held(runs_.size(), 0);
  std::int64_t last = -1, behind = 0;
  for (const Parallel::Piece& piece : parallel.pieces) {
    const auto number = static_cast<std::size_t>(piece.sequence);
    if (number >= by_number.size() || by_number[number] == nullptr) continue;  // of another replica
    const Sequence& s = *by_number[number];
    std::int64_t& row = held[static_cast<std::size_t>(piece.position)];
    const std::int64_t end = piece.begin + piece.count;
    runs_[static_cast<std::size_t>(piece.position)].push_back(
        {piece.sequence, row, piece.count, std::clamp<std::int64_t>(s.length - piece.begin, 0, piece.count),
         s.first_at + piece.begin, 1});
    row += piece.count;
    if (piece.sequence > last) last = piece.sequence, behind = 0;
    if (piece.sequence == last) behind = std::max(behind, end);
    padding_tokens_ += std::max<std::int64_t>(0, end - std::max(piece.begin, s.padded));
  }
  rows_ = *std::ranges::max_element(held);
  fill_up(held, last, behind);
}

void Placement::lay_everywhere(std::span<const Sequence> sequences) {
  for (const Sequence& s : sequences) {
    if (s.padded == 0) continue;
    for (std::vector<TokenRun>& of_rank : runs_)
      of_rank.push_back(
          {static_cast<std::int64_t>(s.number), rows_, s.padded, std::min(s.length, s.padded), 0, 1});
    rows_ += s.padded;
  }
}

bool Placement::claim_valid(const Claim& claim) {
  bool changed = false;
  for (std::vector<TokenRun>& runs : runs_) {
    for (TokenRun& run : runs) {
      const auto runs_here = std::count_if(
          runs.begin(), runs.end(), [&](const TokenRun& other) { return other.sequence == run.sequence; });
      const std::int64_t claimed = claim(run, runs_here * static_cast<std::int64_t>(runs_.size()));
      changed |= claimed != run.valid;
      run.valid = claimed;
    }
  }
  return changed;
}

std::span<const TokenRun> Placement::runs(int position) const {
  return runs_[static_cast<std::size_t>(position)];
}

std::vector<TokenRun> shifted(std::span<const TokenRun> runs, std::int64_t by) {
  std::vector<TokenRun> result(runs.begin(), runs.end());
  for (TokenRun& run : result) run.row += by;
  return result;
}

}  // namespace cplab
