// cplab check SCENARIO | --plan FILE: the proof without a clock.
#include "check/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <ostream>
#include <stdexcept>
#include <utility>

#include "cli/commands/command.hpp"
#include "cli/injection.hpp"
#include "cli/kernel_notes.hpp"
#include "cli/memory_need.hpp"
#include "cli/outputs.hpp"
#include "cli/progress.hpp"
#include "cli/result_text.hpp"
#include "cli/session.hpp"
#include "derive/arena.hpp"
#include "derive/pieces.hpp"
#include "report/html/pages.hpp"
#include "report/json.hpp"

namespace cplab {

namespace {

// What each value of schedule.reuse costs in bytes, and in waits that no data asks for: of the rank where it
// is most, among so many ranks that it takes no longer than the proof.
std::vector<std::string> reuse_notes(const Plan& plan) {
  constexpr std::size_t most_ranks = 16;
  const std::size_t ranks = std::min(plan.ranks.size(), most_ranks);
  std::vector<std::string> notes;
  for (const Reuse reuse : {Reuse::time, Reuse::peak}) {
    ArenaCost most;
    for (std::size_t r = 0; r < ranks; ++r) {
      const ArenaCost cost = arena_cost(plan.ranks[r], reuse);
      most = {std::max(most.arena_bytes, cost.arena_bytes), std::max(most.waits, cost.waits)};
    }
    notes.push_back(
        fmt::format("reuse={}: an arena of {} bytes ({}), and {} waits across lanes for memory alone{}",
                    reuse == Reuse::time ? "time" : "peak", most.arena_bytes,
                    bytes_text(static_cast<double>(most.arena_bytes)), most.waits,
                    ranks < plan.ranks.size() ? fmt::format(", on ranks 0 to {}", ranks - 1) : ""));
  }
  return notes;
}

// A message of more contiguous pieces than this is noted: each piece is a send and a receive of its own, or a
// copy.
constexpr std::int64_t most_pieces_unnoted = 256;

// One line for each kind of message with so many pieces: the operation and buffer where it has most.
std::vector<std::string> piece_notes(const Plan& plan) {
  struct Most {
    std::int64_t pieces = 0, bytes = 0, messages = 0;
    std::string where;
  };
  std::map<std::pair<OpKind, std::string>, Most> kinds;
  for (const RankPlan& rank : plan.ranks) {
    std::vector<std::int64_t> pieces(rank.views.size(), -1);  // by view: many messages are of one
    for (const Operation& op : rank.operations) {
      for (const Part& part : rank.parts_of(op)) {
        const View& view = rank.views[part.view];
        if (part.peer == rank.rank) continue;
        std::int64_t& count = pieces[part.view];
        if (count < 0) count = count_contiguous_pieces(rank, view, plan.scenario.problem.dtype);
        if (count <= most_pieces_unnoted) continue;
        const Buffer& buffer = rank.buffers[view.buffer];
        Most& most = kinds[{op.kind, buffer.name}];
        ++most.messages;
        if (count <= most.pieces) continue;
        most.pieces = count;
        most.bytes = view_bytes(rank, view, plan.scenario.problem.dtype);
        most.where = fmt::format("{} of {}, rank {}, {} rank {}", operation_id(rank, op), buffer.name,
                                 rank.rank, part.send ? "to" : "from", part.peer);
      }
    }
  }
  std::vector<std::string> notes;
  for (const auto& [kind, most] : kinds) {
    notes.push_back(
        fmt::format("{} {}: {} contiguous pieces for {} bytes; {} such message{} of more than {} pieces: "
                    "packed by a copy it would be one",
                    name(kind.first), most.where, most.pieces, most.bytes, most.messages,
                    most.messages == 1 ? "" : "s", most_pieces_unnoted));
  }
  return notes;
}

}  // namespace

int command_check(const Arguments& arguments, Console& console) {
  CheckReport report;
  const Fault* fault = fault_of(arguments);
  Progress progress(console, "reading the scenario");
  const ScenarioFile file = scenario_of(arguments, "check", {.plan = true});
  say_notes(console, file);
  progress.stage("building the plan");
  Plan plan = plan_of(file, PlanUse::check);
  if (fault) inject(*fault, file, plan);
  report.header = header_of(file);
  note_injected(fault, report.header.notes);
  report.placement_padding_tokens = plan.placement_padding_tokens;
  progress.stage("checking");
  report.result = check(plan);
  const CheckResult& result = report.result;
  std::vector<std::string> costs;
  if (result.ok()) {
    costs = reuse_notes(plan);
    const std::vector<std::string> pieces = piece_notes(plan);
    costs.insert(costs.end(), pieces.begin(), pieces.end());
    progress.stage("choosing kernels");
    const std::vector<std::string> kernels = kernel_notes(file, plan);
    costs.insert(costs.end(), kernels.begin(), kernels.end());
  }
  progress.end();
  report.header.notes.insert(report.header.notes.end(), costs.begin(), costs.end());

  std::ostream& out = console.text();
  const TextStyle style = console.style();
  write_folded(out, describe(plan.scenario), style.width, "  ");
  if (fault) write_folded(out, injected_text(*fault), style.width, "  ");
  write_findings(out, result.findings, style);
  out << fmt::format("{}: {} rounds of communication, {} messages\n", result.ok() ? "right" : "wrong",
                     result.rounds, result.messages);
  for (const std::string& cost : costs) write_folded(out, cost, console.style().width, "  ");
  TextTable table({{"rank", ""}, {"work", "FLOP"}, {"sent", "bytes"}});
  for (std::size_t r = 0; r < result.flops.size(); ++r) {
    table.add_row(
        {std::to_string(r), fmt::format("{:.0f}", result.flops[r]), std::to_string(result.sent_bytes.at(r))});
  }
  constexpr std::size_t most_rows_for_people = 64;
  if (table.rows() <= most_rows_for_people) table.write(out, console.style());
  write_page_output(arguments, console,
                    [&](std::ostream& stream) { write_page(stream, page_title(plan.scenario), report); });
  console.write_json_to_option([&](std::ostream& stream) { write_json(stream, report); });
  console.write_csv_to_option([&](std::ostream& stream) { table.write_csv(stream); });
  return result.ok() ? exit_fine : exit_wrong;
}

}  // namespace cplab
