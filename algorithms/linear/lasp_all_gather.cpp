// LASP-2 (arXiv 2502.07563; OpenSparseLLMs/Linear-MoE, lasp2_with_mask_triton_op.py), with decay, which the
// released operator leaves out: one all-gather of every rank's own state, and each rank folds those before it
// (backward: behind it). (P - 1) states for every rank, in one collective.
#include <algorithm>

#include "algorithms/linear/decoupled.hpp"

namespace cplab {
namespace {

// The gathered states of the ranks from which something enters here, as chunks of a scan; the sum at its end
// is what enters. Nothing passes through a rank in which its sequence begins (backward: ends). Chunks run
// from left to right, and states are numbered from that of rank `first`.
std::vector<Chunk> chunks_of_others(const LinearScope& s, const StateScan& scan, int first) {
  std::vector<Chunk> list;
  const std::int64_t n = s.stretches.states();
  for (std::int64_t state = 0; state < n; ++state) {
    std::vector<Chunk> run;  // the nearest rank first
    std::int64_t between = 0;
    bool reaches = true, cut = true;
    for (int i = scan.index() - 1; i >= 0; --i) {
      const int place = scan.place_of(i);
      const Passage through = s.stretches.through(place, state, scan.reverse);
      Chunk c;
      c.count = through.count;
      c.state = static_cast<std::int32_t>((place - first) * n + state);
      c.left = c.right = reaches ? static_cast<std::int32_t>(state) : -1;
      c.left_exponent = c.right_exponent = reaches ? between : 0;
      c.resets = scan.reverse ? cut : through.resets || i == 0;
      cut = through.resets;
      reaches = reaches && !through.resets;
      between += through.count;
      run.push_back(c);
    }
    if (!scan.reverse) std::reverse(run.begin(), run.end());
    list.insert(list.end(), run.begin(), run.end());
  }
  return list;
}

void gather_and_fold(const LinearScope& s, StateScan& scan, const Box& own, const Box& carry) {
  Builder& b = s.b;
  const std::int64_t rows = s.stretches.states() * s.problem().head_size;
  const bool narrow = scan.nominal_wire();
  const auto gathered = [&](const char* name, Role role) {
    return s.states(name, s.P() * s.stretches.states(), Category::working, role);
  };
  const Box wide = gathered("gathered_states", Role::wide);
  const Box wire = narrow ? gathered("gathered_wire", Role::nominal) : wide;
  std::vector<Box> into;
  for (int place = 0; place < s.P(); ++place) into.push_back(wire.rows_at(place * rows, rows));
  const Box mine = into[static_cast<std::size_t>(s.place())];
  b.convert(linear_lane, own, mine);
  b.all_gather(state_lane, s.transport, s.team(), mine, into);
  if (!carry.given()) return;
  const int first = scan.reverse ? s.place() + 1 : 0;
  const auto others = [&](const Box& all) { return all.rows_at(first * rows, scan.index() * rows); };
  if (narrow) b.cast(linear_lane, others(wire), others(wide));
  const Operand operand = scan.reverse ? Operand::dstate : Operand::state;
  b.linear(linear_lane, OpKind::scan, {{operand, others(wide)}}, {{Operand::final_state, carry}},
           {chunks_of_others(s, scan, first), ChunkWork::blocked, scan.reverse});
}

}  // namespace

Algorithm lasp_all_gather_algorithm() {
  Algorithm a;
  a.name = "lasp_all_gather";
  a.aliases = {"lasp2", "lasp-2"};
  a.summary =
      "linear attention, all ranks' states gathered and folded in each (LASP-2, 2502.07563, with decay)";
  a.placements = {"contiguous", "stream"};
  a.options = decoupled_options();
  a.resolve_defaults = resolve_decoupled_defaults;
  a.validate = validate_decoupled;
  a.build = [](Builder& b) { run_decoupled(b, {.scan = gather_and_fold, .every_rank_gives = true}); };
  return a;
}

}  // namespace cplab
