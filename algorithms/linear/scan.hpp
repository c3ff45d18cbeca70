// Scans over an associative operator, as rounds of moves between the places of a line: who sends its partial
// result to whom, and what the receiver does with it. Written once for every algorithm, for states and for
// anything else that combines; the mapping from a scan's index to a rank is state_scan's, and only there.
//
// Sources: Brent, Kung 1982 (up and down sweep), Kogge, Stone 1973, Blelloch 1990 (exclusive scans).
#pragma once

#include <vector>

namespace cplab {

// The partial of index `into` becomes (the partial of `from`) o (its own): `from` ends where `into` begins.
struct ScanMove {
  int from = 0, into = 0;
  bool operator==(const ScanMove&) const = default;
};
using ScanRound = std::vector<ScanMove>;  // at the same time

// Inclusive scans of n elements: afterwards index i holds elements 0 .. i. Rounds without a move are left
// out.
std::vector<ScanRound> brent_kung(int n);   // floor(log2 n) + floor(log2(2n/3)) rounds
std::vector<ScanRound> kogge_stone(int n);  // ceil(log2 n) rounds
std::vector<ScanRound> chain(int n);        // n - 1 rounds

// The elements first .. last that an index's partial result covers.
struct ScanSpan {
  int first = 0, last = 0;
};
// Follows the spans of all n indices through rounds. Throws std::logic_error if a move joins spans that do
// not follow each other, which no associative operator allows.
class ScanSpans {
 public:
  explicit ScanSpans(int n);
  const ScanSpan& operator[](int index) const { return spans_[static_cast<std::size_t>(index)]; }
  void apply(const ScanRound&);

 private:
  std::vector<ScanSpan> spans_;
};

}  // namespace cplab
