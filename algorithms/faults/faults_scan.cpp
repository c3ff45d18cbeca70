// Mutations of lasp_blelloch's scan of states over ranks, as S1's fork went through them: the plan is built
// anew with the faulty scan, everything around it stays right.
#include <algorithm>
#include <string>

#include "algorithms/core/build.hpp"
#include "algorithms/core/list.hpp"
#include "algorithms/faults/mutations.hpp"
#include "algorithms/linear/decoupled.hpp"

namespace cplab::mutations {
namespace {

using Scan = void(const LinearScope&, StateScan&, const Box& own, const Box& carry);

template <Scan* scan, bool totals>
void build_with(Builder& b) {
  run_decoupled(b, {.scan = scan, .totals = totals});
}

template <Scan* scan, bool totals = true>
void rebuild(Plan& plan, std::string_view fault, std::int64_t least_ranks) {
  const Scenario s = plan.scenario;
  Algorithm algorithm = *find_algorithm(s.algorithm);
  if (algorithm.name != "lasp_blelloch" || s.placement != "contiguous" || s.parallel.ranks < least_ranks)
    no_place(fault, "the scan of lasp_blelloch (placement contiguous) over at least " +
                        std::to_string(least_ranks) + " ranks");
  algorithm.build = build_with<scan, totals>;
  plan = build_plan(s, algorithm);
}

// The states of one round, and their combination with what `covered` indices up to the receiver hold.
void combine_round(StateScan& scan, const ScanRound& round, const Box& own, const Box& received,
                   int covered) {
  scan.move(round, own, received);
  for (const ScanMove& move : round)
    if (move.into == scan.index()) scan.combine(received, own, {move.into - covered + 1, move.into});
}

// In the backward the shift goes from left to right as in the forward: position i receives from i - 1, which
// is index i' + 1 of the scan, and the first position, behind which all others lie, takes zero.
void scan_shifted_left(const LinearScope& s, StateScan& scan, const Box& own, const Box& carry) {
  scan.inclusive(brent_kung(s.P()), own);
  if (!scan.reverse) return scan.shift(own, carry);
  ScanRound round;
  for (int i = 1; i + 1 < s.P(); ++i) round.push_back({i + 1, i});
  scan.move(round, own, carry);
  if (scan.index() == s.P() - 1) s.b.fill(linear_lane, carry, 0);
}

// The down-sweep sends from index s - 1 (mod 2 s) to the one behind it, which adds what it gets to its own
// state: right where the sender holds all tokens before, but most senders hold what the up-sweep left in
// them, a stretch that begins in the middle. Of what the source keeps of every level only the raw state is
// ever asked for: a sender has been through no level above that of its sending, and a receiver was none in
// the up-sweep, or receives at level 0 again. Moves that only serve the last index, whose result nobody
// reads, are left out: those into it, and those of the up-sweep into the one before it.
void scan_as_published(const LinearScope& s, StateScan& scan, const Box& own, const Box& carry) {
  const int n = s.P(), index = scan.index();
  const Box received = s.states("received_state", s.stretches.states());
  const Box raw = s.states("raw_state", s.stretches.states());
  const bool overwritten = index % 2 == 1 && index + 2 < n;
  if (overwritten) s.b.copy(linear_lane, own, raw);
  int width = 1;
  for (; width < n; width *= 2) {
    ScanRound round;
    for (int i = 2 * width - 1; i + 2 < n; i += 2 * width) round.push_back({i - width, i});
    combine_round(scan, round, own, received, width);
  }
  for (width /= 2; width > 0; width /= 2) {
    ScanRound round;
    for (int i = width - 1; i + 2 < n; i += 2 * width) round.push_back({i, i + 1});
    if (overwritten && width == 1) s.b.copy(linear_lane, raw, own);
    combine_round(scan, round, own, received, 1);
  }
  scan.shift(own, carry);
}

// Every index receives, and only then sends: one waits for the other.
void scan_with_blocking_shift(const LinearScope& s, StateScan& scan, const Box& own, const Box& carry) {
  scan.inclusive(brent_kung(s.P()), own);
  for (int i = 0; i + 1 < s.P(); ++i) scan.hop(i, own, carry);
}

// The up-sweep takes the state at the left edge of the left subtree, which holds no more than one index.
void scan_from_left_edge(const LinearScope& s, StateScan& scan, const Box& own, const Box& carry) {
  const int n = s.P();
  const Box received = s.states("received_state", s.stretches.states());
  int width = 1;
  for (; width < n; width *= 2) {
    ScanRound round;
    for (int i = 2 * width - 1; i < n; i += 2 * width) round.push_back({i - 2 * width + 1, i});
    combine_round(scan, round, own, received, width);
  }
  for (; width > 0; width /= 2) {
    ScanRound round;
    for (int i = 2 * width - 1; i + width < n; i += 2 * width) round.push_back({i, i + width});
    combine_round(scan, round, own, received, width);
  }
  scan.shift(own, carry);
}

void scan_without_shift(const LinearScope& s, StateScan& scan, const Box& own, const Box& carry) {
  scan.inclusive(brent_kung(s.P()), own);
  if (carry.given()) s.b.copy(linear_lane, own, carry);
}

}  // namespace

void suffix_shift_left(Plan& plan) {
  if (!plan.scenario.problem.has_backward()) no_place("suffix-shift-left", "a backward");
  rebuild<scan_shifted_left>(plan, "suffix-shift-left", 2);
}

void published_down_sweep(Plan& plan) {
  rebuild<scan_as_published, false>(plan, "published-down-sweep", 2);
}

void blocking_shift(Plan& plan) {
  rebuild<scan_with_blocking_shift>(plan, "blocking-shift", 2);
}

void left_edge_partner(Plan& plan) {
  rebuild<scan_from_left_edge>(plan, "left-edge-partner", 4);
}

void inclusive_prefix(Plan& plan) {
  rebuild<scan_without_shift>(plan, "inclusive-prefix", 2);
}

}  // namespace cplab::mutations
