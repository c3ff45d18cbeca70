// Token runs of every placement.
#include "algorithms/core/placement.hpp"

#include <algorithm>

namespace cplab {

Placement::Placement(const Problem& problem, const Parallel& parallel, std::string_view placement,
                     int replica)
    : runs_(static_cast<std::size_t>(parallel.ranks)) {
  if (placement == "stream")
    lay_stream(problem, parallel, replica);
  else
    lay_sequences(problem, parallel, placement, replica);
}

void Placement::lay_sequences(const Problem& problem, const Parallel& parallel, std::string_view placement,
                              int replica) {
  const std::int64_t P = parallel.ranks;
  const bool hybrid = placement == "hybrid", zigzag = hybrid || placement == "zigzag";
  const bool striped = placement == "striped";
  const std::int64_t unit = zigzag ? 2 * P : P;
  std::vector<std::int64_t> held(static_cast<std::size_t>(P), 0);  // rows of each rank so far
  std::int64_t last = -1, behind = 0;
  for (auto b = static_cast<std::size_t>(replica); b < problem.lengths.size();
       b += static_cast<std::size_t>(parallel.replicas)) {
    const std::int64_t length = problem.lengths[b], padded = problem.padded_lengths[b];
    if (padded == 0) continue;
    const auto add = [&](std::int64_t p, std::int64_t rows, std::int64_t position, std::int64_t stride) {
      if (rows == 0) return;
      const std::int64_t tokens = length > position ? (length - position + stride - 1) / stride : 0;
      std::int64_t& row = held[static_cast<std::size_t>(p)];
      runs_[static_cast<std::size_t>(p)].push_back(
          {static_cast<std::int64_t>(b), row, rows, std::min(rows, tokens), position, stride});
      row += rows;
    };
    last = static_cast<std::int64_t>(b), behind = padded;
    if (hybrid && parallel.homes[b] >= 0) {
      add(parallel.homes[b], padded, 0, 1);
      continue;
    }
    const std::int64_t n = (padded + unit - 1) / unit * unit / P;  // local rows
    behind = n * P;
    padding_tokens_ += n * P - padded;
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
  fill_up(held, last, behind);
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
void Placement::lay_stream(const Problem& problem, const Parallel& parallel, int replica) {
  const std::int64_t P = parallel.ranks;
  const auto sequences = static_cast<std::int64_t>(problem.lengths.size());
  std::int64_t total = 0;
  for (std::int64_t b = replica; b < sequences; b += parallel.replicas)
    total += problem.padded_lengths[static_cast<std::size_t>(b)];
  rows_ = (total + P - 1) / P;
  std::vector<std::int64_t> held(static_cast<std::size_t>(P), 0);
  std::int64_t at = 0, last = -1;  // at: in the stream
  for (std::int64_t b = replica; b < sequences; b += parallel.replicas) {
    const std::int64_t length = problem.lengths[static_cast<std::size_t>(b)];
    const std::int64_t end = at + problem.padded_lengths[static_cast<std::size_t>(b)], begin = at;
    last = b;
    while (at < end) {
      const std::int64_t p = at / rows_, rows = std::min(end, (p + 1) * rows_) - at, position = at - begin;
      runs_[static_cast<std::size_t>(p)].push_back(
          {b, at - p * rows_, rows, std::clamp<std::int64_t>(length - position, 0, rows), position, 1});
      held[static_cast<std::size_t>(p)] += rows;
      at += rows;
    }
  }
  if (last >= 0) fill_up(held, last, problem.padded_lengths[static_cast<std::size_t>(last)]);
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
