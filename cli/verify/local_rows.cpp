// Which tokens the rows of a rank are; see tensors.hpp.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "cli/verify/tensors.hpp"

namespace cplab {

namespace {

// First token of every sequence on the flattened [B,S] or [T] axis.
std::vector<std::int64_t> sequence_begins(const std::vector<std::int64_t>& padded) {
  std::vector<std::int64_t> begins(padded.size());
  std::exclusive_scan(padded.begin(), padded.end(), begins.begin(), std::int64_t{0});
  return begins;
}

class Runs {
 public:
  // Joins what goes on where the last run ends.
  void add(std::size_t sequence, std::int64_t position, std::int64_t count, std::int64_t step = 1) {
    if (count <= 0) return;
    const auto b = static_cast<std::int64_t>(sequence);
    if (!runs.empty()) {
      LocalRun& last = runs.back();
      if (last.sequence == b && step == 1 && last.step == 1 && last.position + last.count == position) {
        last.count += count;
        return;
      }
    }
    runs.push_back({b, position, count, step});
  }

  std::vector<LocalRun> runs;
};

// All padded sequences of the replica in one line, cut into P equal pieces; rows that are no tokens lie
// behind the last sequence.
std::vector<LocalRun> stream_runs(const Scenario& scenario, int replica, int position,
                                  const std::vector<std::int64_t>& padded) {
  const auto replicas = static_cast<std::size_t>(scenario.parallel.replicas);
  std::int64_t tokens = 0;
  for (auto b = static_cast<std::size_t>(replica); b < padded.size(); b += replicas) tokens += padded[b];
  const std::int64_t P = scenario.parallel.ranks, n = (tokens + P - 1) / P;
  const std::int64_t from = position * n, to = from + n;
  Runs mine;
  std::int64_t line = 0;  // of the line, before the sequence
  std::size_t last = 0;
  for (auto b = static_cast<std::size_t>(replica); b < padded.size(); b += replicas) {
    const std::int64_t begin = std::max(from, line), end = std::min(to, line + padded[b]);
    mine.add(b, begin - line, end - begin);
    line += padded[b];
    last = b;
  }
  const std::int64_t behind = std::max(from, tokens);
  if (to > behind) mine.add(last, padded[last] + behind - tokens, to - behind);
  return mine.runs;
}

// Whole sequences and two chunks of those that are cut; then padding of the last sequence, to as many rows as
// the fullest rank has.
std::vector<LocalRun> hybrid_runs(const Scenario& scenario, int replica, int position,
                                  const std::vector<std::int64_t>& padded_lengths) {
  const std::int64_t P = scenario.parallel.ranks;
  std::vector<std::int64_t> held(static_cast<std::size_t>(P), 0);  // rows of each rank, whole ones
  std::int64_t behind = 0;
  std::size_t last = 0;
  Runs mine;
  for (std::size_t b = static_cast<std::size_t>(replica); b < padded_lengths.size();
       b += static_cast<std::size_t>(scenario.parallel.replicas)) {
    const std::int64_t padded = padded_lengths[b], home = scenario.parallel.homes[b];
    if (padded == 0) continue;
    const std::int64_t chunk = (padded + 2 * P - 1) / (2 * P);
    if (home < 0) {
      mine.add(b, position * chunk, chunk);
      mine.add(b, (2 * P - 1 - position) * chunk, chunk);
    } else {
      held[static_cast<std::size_t>(home)] += padded;
      if (home == position) mine.add(b, 0, padded);
    }
    behind = home < 0 ? chunk * 2 * P : padded;
    last = b;
  }
  const std::int64_t most = *std::ranges::max_element(held);
  for (std::int64_t rank = 0; rank < position; ++rank) behind += most - held[static_cast<std::size_t>(rank)];
  mine.add(last, behind, most - held[static_cast<std::size_t>(position)]);
  return mine.runs;
}

// The pieces that the scenario lists; then padding of the last sequence, to as many rows as the fullest rank
// has.
std::vector<LocalRun> piece_runs(const Scenario& scenario, int replica, int position) {
  std::vector<std::int64_t> held(static_cast<std::size_t>(scenario.parallel.ranks), 0);
  Runs mine;
  std::int64_t last = 0, behind = 0;
  for (const Parallel::Piece& piece : scenario.parallel.pieces) {
    if (piece.sequence % scenario.parallel.replicas != replica) continue;
    held[static_cast<std::size_t>(piece.position)] += piece.count;
    if (piece.position == position)
      mine.add(static_cast<std::size_t>(piece.sequence), piece.begin, piece.count);
    if (piece.sequence > last) last = piece.sequence, behind = 0;
    if (piece.sequence == last) behind = std::max(behind, piece.begin + piece.count);
  }
  const std::int64_t most = *std::ranges::max_element(held);
  for (std::int64_t rank = 0; rank < position; ++rank) behind += most - held[static_cast<std::size_t>(rank)];
  mine.add(static_cast<std::size_t>(last), behind, most - held[static_cast<std::size_t>(position)]);
  return mine.runs;
}

std::vector<LocalRun> all_runs(const Scenario& scenario, int replica,
                               const std::vector<std::int64_t>& padded) {
  Runs all;
  for (auto b = static_cast<std::size_t>(replica); b < padded.size();
       b += static_cast<std::size_t>(scenario.parallel.replicas))
    all.add(b, 0, padded[b]);
  return all.runs;
}

}  // namespace

std::vector<LocalRun> local_runs(const Scenario& scenario, int replica, int position, Side side) {
  const std::vector<std::int64_t>& padded = scenario.problem.padded_lengths_of(side);
  if (side == Side::keys && scenario.parallel.keys_everywhere) return all_runs(scenario, replica, padded);
  if (!scenario.parallel.pieces.empty()) return piece_runs(scenario, replica, position);
  if (scenario.placement == "stream") return stream_runs(scenario, replica, position, padded);
  if (scenario.placement == "hybrid") return hybrid_runs(scenario, replica, position, padded);
  const std::int64_t P = scenario.parallel.ranks;
  const bool zigzag = scenario.placement == "zigzag", striped = scenario.placement == "striped";
  const std::int64_t unit = zigzag ? 2 * P : P;
  Runs mine;
  for (std::size_t b = static_cast<std::size_t>(replica); b < padded.size();
       b += static_cast<std::size_t>(scenario.parallel.replicas)) {
    const std::int64_t n = (padded[b] + unit - 1) / unit * (unit / P), chunk = n / 2;
    if (zigzag) {
      mine.add(b, position * chunk, chunk);
      mine.add(b, (2 * P - 1 - position) * chunk, chunk);
    } else if (striped) {
      mine.add(b, position, n, P);
    } else {
      mine.add(b, position * n, n);
    }
  }
  return mine.runs;
}

std::int64_t local_row_count(const Scenario& scenario, int replica, int position) {
  std::int64_t count = 0;
  for (const LocalRun& run : local_runs(scenario, replica, position)) count += run.count;
  return count;
}

std::vector<LocalRow> local_rows(const Scenario& scenario, int replica, int position, Side side) {
  const std::vector<std::int64_t>&lengths = scenario.problem.lengths_of(side),
        &padded = scenario.problem.padded_lengths_of(side);
  const std::vector<std::int64_t> begins = sequence_begins(padded);
  std::vector<LocalRow> rows;
  for (const LocalRun& run : local_runs(scenario, replica, position, side)) {
    const auto b = static_cast<std::size_t>(run.sequence);
    for (std::int64_t i = 0; i < run.count; ++i) {
      const std::int64_t at = run.position + i * run.step;
      rows.push_back({run.sequence, at, at < padded[b] ? begins[b] + at : -1, at < lengths[b]});
    }
  }
  return rows;
}

}  // namespace cplab
