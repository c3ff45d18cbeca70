// Which tokens the rows of a rank are; see tensors.hpp.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "cli/verify/tensors.hpp"

namespace cplab {

namespace {

// First token of every sequence on the flattened [B,S] or [T] axis.
std::vector<std::int64_t> sequence_begins(const Problem& p) {
  std::vector<std::int64_t> begins(p.padded_lengths.size());
  std::exclusive_scan(p.padded_lengths.begin(), p.padded_lengths.end(), begins.begin(), std::int64_t{0});
  return begins;
}

// All padded sequences of the replica in one line, cut into P equal pieces.
std::vector<LocalRow> stream_rows(const Scenario& scenario, int replica, int position) {
  const Problem& p = scenario.problem;
  const std::vector<std::int64_t> begins = sequence_begins(p);
  std::vector<LocalRow> line;
  LocalRow behind;  // rows that are no tokens lie behind the last sequence
  for (std::size_t b = static_cast<std::size_t>(replica); b < p.lengths.size();
       b += static_cast<std::size_t>(scenario.parallel.replicas)) {
    for (std::int64_t i = 0; i < p.padded_lengths[b]; ++i)
      line.push_back({static_cast<std::int64_t>(b), i, begins[b] + i, i < p.lengths[b]});
    behind = {static_cast<std::int64_t>(b), p.padded_lengths[b], -1, false};
  }
  const std::int64_t P = scenario.parallel.ranks, n = (std::ssize(line) + P - 1) / P;
  for (; std::ssize(line) < n * P; ++behind.position) line.push_back(behind);
  return {line.begin() + position * n, line.begin() + (position + 1) * n};
}

// Whole sequences and two chunks of those that are cut; then padding of the last sequence, to as many rows as
// the fullest rank has.
std::vector<LocalRow> hybrid_rows(const Scenario& scenario, int replica, int position) {
  const Problem& p = scenario.problem;
  const std::vector<std::int64_t> begins = sequence_begins(p);
  const std::int64_t P = scenario.parallel.ranks;
  std::vector<std::int64_t> held(static_cast<std::size_t>(P), 0);  // rows of each rank
  std::vector<LocalRow> mine;
  LocalRow behind;
  for (std::size_t b = static_cast<std::size_t>(replica); b < p.lengths.size();
       b += static_cast<std::size_t>(scenario.parallel.replicas)) {
    const std::int64_t padded = p.padded_lengths[b], home = scenario.parallel.homes[b];
    if (padded == 0) continue;
    const std::int64_t chunk = (padded + 2 * P - 1) / (2 * P), rows = home < 0 ? chunk * 2 * P : padded;
    const auto take = [&](std::int64_t first, std::int64_t count) {
      for (std::int64_t i = first; i < first + count; ++i)
        mine.push_back({static_cast<std::int64_t>(b), i, i < padded ? begins[b] + i : -1, i < p.lengths[b]});
    };
    if (home < 0) {
      for (std::int64_t& rank_rows : held) rank_rows += 2 * chunk;
      take(position * chunk, chunk);
      take((2 * P - 1 - position) * chunk, chunk);
    } else {
      held[static_cast<std::size_t>(home)] += rows;
      if (home == position) take(0, rows);
    }
    behind = {static_cast<std::int64_t>(b), rows, -1, false};
  }
  const std::int64_t most = *std::ranges::max_element(held);
  for (std::int64_t rank = 0; rank < position; ++rank)
    behind.position += most - held[static_cast<std::size_t>(rank)];
  for (; std::ssize(mine) < most; ++behind.position) mine.push_back(behind);
  return mine;
}

}  // namespace

std::vector<LocalRow> local_rows(const Scenario& scenario, int replica, int position) {
  if (scenario.placement == "stream") return stream_rows(scenario, replica, position);
  if (scenario.placement == "hybrid") return hybrid_rows(scenario, replica, position);
  const Problem& p = scenario.problem;
  const std::int64_t P = scenario.parallel.ranks;
  const bool zigzag = scenario.placement == "zigzag";
  const bool striped = scenario.placement == "striped";
  const std::int64_t unit = zigzag ? 2 * P : P;
  const std::vector<std::int64_t> begins = sequence_begins(p);
  std::vector<LocalRow> rows;
  for (std::size_t b = static_cast<std::size_t>(replica); b < p.lengths.size();
       b += static_cast<std::size_t>(scenario.parallel.replicas)) {
    const std::int64_t n = (p.padded_lengths[b] + unit - 1) / unit * (unit / P);
    for (std::int64_t i = 0; i < n; ++i) {
      LocalRow row;
      row.sequence = static_cast<std::int64_t>(b);
      const std::int64_t chunk = n / 2;
      if (zigzag) {
        row.position = i < chunk ? position * chunk + i : (2 * P - 1 - position) * chunk + (i - chunk);
      } else {
        row.position = striped ? position + i * P : position * n + i;
      }
      if (row.position < p.padded_lengths[b]) row.token = begins[b] + row.position;
      row.valid = row.position < p.lengths[b];
      rows.push_back(row);
    }
  }
  return rows;
}

}  // namespace cplab
