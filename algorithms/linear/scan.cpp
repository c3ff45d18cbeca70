// The schedules of inclusive scans.
#include "algorithms/linear/scan.hpp"

#include <stdexcept>
#include <string>

namespace cplab {
namespace {

void append(std::vector<ScanRound>& rounds, ScanRound round) {
  if (!round.empty()) rounds.push_back(std::move(round));
}

}  // namespace

// Up: the right edges of pairs, then of fours, ... take what is left of them. Down: the middles of what is
// complete take the prefix before them.
std::vector<ScanRound> brent_kung(int n) {
  std::vector<ScanRound> rounds;
  int s = 1;
  for (; s < n; s *= 2) {
    ScanRound round;
    for (int i = 2 * s - 1; i < n; i += 2 * s) round.push_back({i - s, i});
    append(rounds, std::move(round));
  }
  for (; s > 0; s /= 2) {
    ScanRound round;
    for (int i = 2 * s - 1; i + s < n; i += 2 * s) round.push_back({i, i + s});
    append(rounds, std::move(round));
  }
  return rounds;
}

std::vector<ScanRound> kogge_stone(int n) {
  std::vector<ScanRound> rounds;
  for (int s = 1; s < n; s *= 2) {
    ScanRound round;
    for (int i = s; i < n; ++i) round.push_back({i - s, i});
    append(rounds, std::move(round));
  }
  return rounds;
}

std::vector<ScanRound> chain(int n) {
  std::vector<ScanRound> rounds;
  for (int i = 1; i < n; ++i) rounds.push_back({{i - 1, i}});
  return rounds;
}

ScanSpans::ScanSpans(int n) {
  for (int i = 0; i < n; ++i) spans_.push_back({i, i});
}

void ScanSpans::apply(const ScanRound& round) {
  const std::vector<ScanSpan> before = spans_;
  for (const ScanMove& move : round) {
    const ScanSpan& from = before[static_cast<std::size_t>(move.from)];
    ScanSpan& into = spans_[static_cast<std::size_t>(move.into)];
    if (from.last + 1 != into.first)
      throw std::logic_error("a scan joins elements that do not follow each other: up to " +
                             std::to_string(from.last) + " and from " + std::to_string(into.first));
    into.first = from.first;
  }
}

}  // namespace cplab
