// Token runs of contiguous, zigzag and striped placements.
#include "algorithms/placement.hpp"

#include <algorithm>

namespace cplab {

Placement::Placement(const Problem& problem, const Parallel& parallel, std::string_view placement,
                     int replica)
    : runs_(static_cast<std::size_t>(parallel.ranks)) {
  const std::int64_t P = parallel.ranks;
  if (placement == "stream") {
    lay_stream(problem, parallel, replica);
    return;
  }
  const bool zigzag = placement == "zigzag", striped = placement == "striped";
  const std::int64_t unit = zigzag ? 2 * P : P;
  const auto sequences = static_cast<std::int64_t>(problem.lengths.size());
  for (std::int64_t b = replica; b < sequences; b += parallel.replicas) {
    const std::int64_t length = problem.lengths[static_cast<std::size_t>(b)];
    const std::int64_t padded = problem.padded_lengths[static_cast<std::size_t>(b)];
    const std::int64_t n = (padded + unit - 1) / unit * unit / P;  // local rows
    padding_tokens_ += n * P - padded;
    for (std::int64_t p = 0; p < P; ++p) {
      const auto add = [&](std::int64_t row, std::int64_t rows, std::int64_t position, std::int64_t stride) {
        const std::int64_t tokens = length > position ? (length - position + stride - 1) / stride : 0;
        if (rows > 0) {
          runs_[static_cast<std::size_t>(p)].push_back(
              {b, rows_ + row, rows, std::min(rows, tokens), position, stride});
        }
      };
      if (zigzag) {
        add(0, n / 2, p * (n / 2), 1);
        add(n / 2, n / 2, (2 * P - 1 - p) * (n / 2), 1);
      } else if (striped) {
        add(0, n, p, P);
      } else {
        add(0, n, p * n, 1);
      }
    }
    rows_ += n;
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
  padding_tokens_ = rows_ * P - total;
  std::int64_t at = 0;  // in the stream
  for (std::int64_t b = replica; b < sequences; b += parallel.replicas) {
    const std::int64_t length = problem.lengths[static_cast<std::size_t>(b)];
    const std::int64_t end = at + problem.padded_lengths[static_cast<std::size_t>(b)], begin = at;
    while (at < end) {
      const std::int64_t p = at / rows_, rows = std::min(end, (p + 1) * rows_) - at, position = at - begin;
      runs_[static_cast<std::size_t>(p)].push_back(
          {b, at - p * rows_, rows, std::clamp<std::int64_t>(length - position, 0, rows), position, 1});
      at += rows;
    }
  }
  // What lies behind the last sequence is padding of it.
  for (std::int64_t p = 0; sequences > replica && p < P; ++p) {
    const std::int64_t held = std::clamp<std::int64_t>(total - p * rows_, 0, rows_);
    const std::int64_t last = replica + (sequences - 1 - replica) / parallel.replicas * parallel.replicas;
    if (held == rows_) continue;
    const std::int64_t behind =
        problem.padded_lengths[static_cast<std::size_t>(last)] + std::max<std::int64_t>(0, p * rows_ - total);
    runs_[static_cast<std::size_t>(p)].push_back({last, held, rows_ - held, 0, behind, 1});
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
