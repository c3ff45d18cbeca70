// All-Scan: ZeCO (arXiv 2507.01004; petrpan26/LASP, lasp_zeco.py). The chain of states, cut in slices of
// their D rows: while a rank combines one slice the next arrives, and every rank sends its state once,
// whatever P is. (P - 2 + slices) (latency + bytes / slices / bandwidth), beside the chunks' own pairs on a
// lane of its own.
#include "algorithms/core/defaults.hpp"
#include "algorithms/linear/decoupled.hpp"

namespace cplab {
namespace {

Box slice_of(const LinearScope& s, const Box& states, std::int64_t slice, std::int64_t slices) {
  const std::int64_t D = s.problem().head_size, begin = slice * D / slices, end = (slice + 1) * D / slices;
  std::vector<RowRange> rows;
  for (std::int64_t state = 0; state < s.stretches.states(); ++state)
    rows.push_back({state * D + begin, end - begin, 1});
  return states.rows(rows);
}

// Every exchange brings one slice and takes the one before it away: P - 1 + slices - 1 rounds.
void scan_in_slices(const LinearScope& s, StateScan& scan, const Box& own, const Box& carry) {
  const std::int64_t slices = s.options().count("slices");
  const int i = scan.index();
  const bool receives = scan.needed(i - 1), sends = scan.needed(i);
  Box leaving;
  for (std::int64_t k = 0; k <= slices; ++k) {
    ScanRound round;
    Box entering;
    if (k < slices && receives) round.push_back({i - 1, i});
    if (k > 0 && sends) round.push_back({i, i + 1});
    if (k < slices && receives) entering = slice_of(s, carry, k, slices);
    scan.move(round, leaving, entering);
    if (k == slices || !sends) continue;
    leaving = slice_of(s, own, k, slices);
    if (receives) scan.combine(entering, leaving, {i, i});
  }
}

}  // namespace

Algorithm lasp_zeco_algorithm() {
  Algorithm a;
  a.name = "lasp_zeco";
  a.aliases = {"zeco", "all_scan"};
  a.summary = "linear attention, the chain of states pipelined in slices beside the pairs (ZeCO, 2507.01004)";
  a.placements = {"contiguous", "stream"};
  a.options = decoupled_options();
  for (OptionInfo& option : a.options)
    if (option.key == "inter") option.default_value = option_word("apart");
  a.options.push_back(least_option("slices", 1, defaults::state_slices(INT32_MAX),
                                   "parts of a state's D rows that follow each other through the chain"));
  a.options.back() = defaults::by_machine(a.options.back());
  a.options.back().default_rule = a.options.back().machine_rule;
  a.resolve_defaults = [](Scenario& s) {
    resolve_decoupled_defaults(s);
    if (!s.schedule.find("slices")) s.schedule.set("slices", defaults::state_slices(s.problem.head_size));
  };
  a.validate = [](const Scenario& s) {
    validate_decoupled(s);
    if (s.schedule.count("slices") > s.problem.head_size)
      throw ScenarioError("schedule.slices", "a state has " + std::to_string(s.problem.head_size) +
                                                 " rows, and no more slices; legal: 1 to as many");
  };
  a.build = [](Builder& b) { run_decoupled(b, {scan_in_slices}); };
  return a;
}

}  // namespace cplab
