// cplab show SCENARIO | --plan FILE: the plan of one rank or of all, step by step, and what each step is
// bound by.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <optional>
#include <ostream>

#include "algorithms/core/defaults.hpp"
#include "algorithms/core/homes.hpp"
#include "algorithms/core/list.hpp"
#include "cli/commands/command.hpp"
#include "cli/commands/mask_picture.hpp"
#include "cli/commands/plan_text.hpp"
#include "cli/injection.hpp"
#include "cli/memory_need.hpp"
#include "cli/prediction.hpp"
#include "cli/result_text.hpp"
#include "cli/session.hpp"
#include "report/plan_json.hpp"

namespace cplab {

namespace {

TextTable buffer_table(const RankPlan& rank, const MemoryPlan& memory) {
  std::int64_t largest = 0;
  for (const Buffer& buffer : rank.buffers) largest = std::max(largest, buffer.bytes);
  const Unit unit = byte_unit(static_cast<double>(largest));
  TextTable table({{"buffer", "", Align::left},
                   {"category", "", Align::left},
                   {"role", "", Align::left},
                   {"slots x rows x heads x width", ""},
                   {"size", unit.name},
                   {"from", "", Align::left},
                   {"to", "", Align::left}});
  const auto at = [&](std::uint32_t index, const char* otherwise) {
    if (index >= rank.operations.size()) return std::string(otherwise);
    const Operation& op = rank.operations[index];
    return fmt::format("{}/{}", name(op.phase), op.ordinal);
  };
  for (std::size_t i = 0; i < rank.buffers.size(); ++i) {
    const Buffer& buffer = rank.buffers[i];
    table.add_row({buffer.name, std::string(name(buffer.category)), std::string(name(buffer.role)),
                   fmt::format("{} x {} x {} x {}", buffer.slots, buffer.rows, buffer.heads, buffer.width),
                   unit.text(static_cast<double>(buffer.bytes)), at(memory.lifetimes[i].birth, "never"),
                   at(memory.lifetimes[i].death, "end")});
  }
  return table;
}

// What short names of buffers stand for, of those that the plan has, and what slots are.
void write_names(std::ostream& out, const Plan& plan, std::size_t width) {
  const std::array<std::pair<std::string_view, std::string_view>, 2> names{
      {{"lse", "ln of a query's sum of exp(scaled score), by which partial results are merged"},
       {"delta", "a query's sum of out x dout, which its backward subtracts"}}};
  std::string text;
  bool turns = false;
  for (const auto& [name, meaning] : names) {
    bool there = false;
    for (const RankPlan& rank : plan.ranks)
      for (const Buffer& buffer : rank.buffers) {
        there |= buffer.name.starts_with(name);
        turns |= buffer.slots > 1;
      }
    if (there) text += fmt::format("{}: {}; ", name, meaning);
  }
  if (turns) text += "slots: copies of a buffer that steps take in turn; ";
  if (!text.empty()) write_folded(out, text.substr(0, text.size() - 2), width, "  ");
}

void write_defaults(std::ostream& out, const std::vector<TakenDefault>& defaults, const TextStyle& style) {
  if (defaults.empty()) return;
  out << "\nDefaults that depend on the machine (--set schedule.OPTION=VALUE chooses an option's value):\n\n";
  TextTable table({{"choice", "", Align::left}, {"value", "", Align::left}, {"rule", "", Align::left}});
  for (const TakenDefault& each : defaults) table.add_row({each.choice, to_string(each.value), each.rule});
  table.write(out, style);
  out << '\n';
}

// Units of a table of operations: of the largest in the rank for people, plain ones for files.
struct OperationUnits {
  Unit work{"FLOP", 1}, data{"bytes", 1};
};
OperationUnits units_of(const RankPlan& rank) {
  double flops = 0, bytes = 0;
  for (const Operation& op : rank.operations) {
    flops = std::max(flops, op.flops);
    bytes = std::max(bytes, static_cast<double>(op.bytes));
  }
  return {flop_unit(flops), byte_unit(bytes)};
}

TextTable operation_table(const OperationUnits& units, bool with_times, Audience audience) {
  std::vector<Column> columns{{"id", "", Align::left},   {"step", ""},
                              {"lane", "", Align::left}, {"operation", "", Align::left},
                              {"work", units.work.name}, {"data", units.data.name}};
  const char* const time = audience == Audience::people ? "ms" : "s";
  if (with_times) columns.insert(columns.end(), {{"start", time}, {"end", time}});
  columns.insert(columns.end(), {{"after", "", Align::left}, {"operands", "", Align::beneath}});
  return TextTable(columns);
}

void add_operations(TextTable& table, const OperationUnits& units, const RankPlan& rank,
                    const std::vector<OperationTime>* times, Audience audience) {
  const auto time_text_of = [&](double seconds) {
    return audience == Audience::people ? format_ms(seconds) : fmt::format("{}", seconds);
  };
  for (std::size_t i = 0; i < rank.operations.size(); ++i) {
    const Operation& op = rank.operations[i];
    std::vector<std::string> row{operation_id(rank, op),    std::to_string(op.step),
                                 lane_text(op.lane),        std::string(name(op.kind)),
                                 units.work.text(op.flops), units.data.text(static_cast<double>(op.bytes))};
    if (times) row.insert(row.end(), {time_text_of((*times)[i].start_s), time_text_of((*times)[i].end_s)});
    row.insert(row.end(), {waits_text(rank, op), operands_text(rank, op)});
    table.add_row(std::move(row));
  }
}

// Sums of one step of one rank. Seconds without the wait for peers, so that they say what the resource takes.
struct StepSums {
  double flops = 0;
  std::int64_t sent_bytes = 0;
  std::int64_t moved_bytes = 0;     // by memory-bound kernels
  std::array<double, 4> seconds{};  // by Resource
};

// What remedies depend on beside the scenario.
struct PlanTraits {
  double imbalance = 1;       // FLOPs of the busiest rank over the mean
  bool shares_nodes = false;  // something goes over nccl between ranks that copy engines connect
  std::string stays_whole;    // under placement hybrid; empty: the algorithm has not got it, or has taken it
};

// Of rows that stay whole; less is not worth another placement.
constexpr double least_whole = 0.25;

std::string could_stay_whole(const Scenario& scenario) {
  const Algorithm* algorithm = find_algorithm(scenario.algorithm);
  if (scenario.placement == "hybrid" || !algorithm ||
      std::ranges::count(algorithm->placements, "hybrid") == 0)
    return "";
  const Problem& p = scenario.problem;
  const std::vector<int> homes = balanced_homes(p, scenario.parallel);
  double rows = 0, all_rows = 0;
  std::size_t whole = 0;
  for (std::size_t b = 0; b < homes.size(); ++b) {
    all_rows += static_cast<double>(p.padded_lengths[b]);
    if (homes[b] < 0) continue;
    ++whole;
    rows += static_cast<double>(p.padded_lengths[b]);
  }
  if (rows == 0 || rows < least_whole * all_rows) return "";
  return fmt::format("{} of {} sequences whole, {:.0f} % of all rows", whole, homes.size(),
                     100 * rows / all_rows);
}

// The choices that this algorithm has and that would relieve a resource, worded as what to set.
std::string remedy(Resource bound, const Scenario& scenario, const PlanTraits& traits) {
  const Schedule& schedule = scenario.schedule;
  std::vector<std::string> ideas;
  switch (bound) {
    case Resource::compute:
      if (traits.imbalance > 1.05 && scenario.placement == "contiguous") {
        ideas.push_back(fmt::format(
            "the busiest rank has {:.2f} x the mean work: placement zigzag or striped", traits.imbalance));
      }
      ideas.push_back("communication is hidden; more ranks would shorten it");
      break;
    case Resource::link:
      if (!traits.stays_whole.empty())
        ideas.push_back("placement hybrid leaves " + traits.stays_whole + ", whose keys do not travel");
      if (scenario.problem.kv_heads == scenario.problem.heads) ideas.push_back("fewer kv_heads send less");
      if (schedule.is_word("gradient_wire_dtype", "fp32")) {
        ideas.push_back("gradient_wire_dtype nominal sends less backward");
      }
      if (traits.shares_nodes && schedule.is_word("transport", "nccl")) {
        ideas.push_back("transport auto copies within a node, which leaves the multiprocessors alone");
      }
      if (const auto* slots = schedule.find("kv_slots"); slots && to_string(*slots) == "2") {
        ideas.push_back("kv_slots 3 lets a transfer start before the last tile is done");
      }
      ideas.push_back("longer sequences or fewer ranks give each transfer more work to hide behind");
      break;
    case Resource::memory:
      if (schedule.find("merge") && !schedule.is_word("merge", "fused")) {
        ideas.push_back("merge fused saves the passes over partial results");
      }
      ideas.push_back("larger tiles: more tokens a rank");
      break;
    case Resource::host: ideas.push_back("simulate.cuda_graph saves launches"); break;
  }
  std::string text;
  for (const std::string& idea : ideas) text += (text.empty() ? "" : "; ") + idea;
  return text;
}

bool could_copy(const Plan& plan) {
  for (const RankPlan& rank : plan.ranks)
    for (const Operation& op : rank.operations)
      if (is_communication(op.kind) && op.transport == Transport::nccl)
        for (const Part& part : rank.parts_of(op))
          if (part.peer != rank.rank && share_island(plan.scenario.parallel, rank.rank, part.peer))
            return true;
  return false;
}

double work_imbalance(const Plan& plan) {
  double total = 0, most = 0;
  for (const RankPlan& rank : plan.ranks) {
    double flops = 0;
    for (const Operation& op : rank.operations) flops += op.flops;
    total += flops;
    most = std::max(most, flops);
  }
  return total > 0 ? most * static_cast<double>(plan.ranks.size()) / total : 1;
}

void write_steps(std::ostream& out, const RankPlan& rank, const Scenario& scenario,
                 const std::vector<OperationTime>* times, const PlanTraits& traits, const TextStyle& style) {
  std::map<std::pair<Phase, std::uint32_t>, StepSums> steps;
  for (std::size_t i = 0; i < rank.operations.size(); ++i) {
    const Operation& op = rank.operations[i];
    StepSums& sums = steps[{op.phase, op.step}];
    const Resource resource = resource_of(op.kind);
    sums.flops += op.flops;
    if (resource == Resource::link) sums.sent_bytes += op.bytes;
    if (resource == Resource::memory) sums.moved_bytes += op.bytes;
    if (times) {
      const OperationTime& time = (*times)[i];
      sums.seconds[static_cast<std::size_t>(resource)] += time.end_s - time.start_s - time.wait_s;
    }
  }
  StepSums largest;
  for (const auto& [key, sums] : steps) {
    largest.flops = std::max(largest.flops, sums.flops);
    largest.sent_bytes = std::max(largest.sent_bytes, sums.sent_bytes);
    largest.moved_bytes = std::max(largest.moved_bytes, sums.moved_bytes);
  }
  const Unit work = flop_unit(largest.flops);
  const Unit sent = byte_unit(static_cast<double>(largest.sent_bytes));
  const Unit moved = byte_unit(static_cast<double>(largest.moved_bytes));
  constexpr std::array<const char*, 4> bound_names{"compute", "memory-bound kernel", "link", "host"};
  std::vector<Column> columns{{"phase", "", Align::left},
                              {"step", ""},
                              {"work", work.name},
                              {"sent", sent.name},
                              {"other kernels", moved.name}};
  if (times) {
    columns.insert(
        columns.end(),
        {{"compute", "ms"}, {"link", "ms"}, {"other kernels", "ms"}, {"what binds", "", Align::left}});
  }
  TextTable table(columns);
  std::map<Resource, std::size_t> bound_steps;
  for (const auto& [key, sums] : steps) {
    std::vector<std::string> row{std::string(name(key.first)), std::to_string(key.second),
                                 work.text(sums.flops), sent.text(static_cast<double>(sums.sent_bytes)),
                                 moved.text(static_cast<double>(sums.moved_bytes))};
    if (times) {
      const auto most = std::max_element(sums.seconds.begin(), sums.seconds.end());
      const auto bound = static_cast<Resource>(most - sums.seconds.begin());
      ++bound_steps[bound];
      const auto ms = [&seconds = sums.seconds](Resource r) {
        return format_ms(seconds[static_cast<std::size_t>(r)]);
      };
      row.insert(row.end(), {ms(Resource::compute), ms(Resource::link), ms(Resource::memory),
                             bound_names[static_cast<std::size_t>(bound)]});
    }
    table.add_row(std::move(row));
  }
  table.write(out, style);
  for (const auto& [bound, count] : bound_steps) {
    write_folded(out,
                 fmt::format("{} of {} steps are bound by: {}. What would help: {}.", count, steps.size(),
                             bound_names[static_cast<std::size_t>(bound)], remedy(bound, scenario, traits)),
                 style.width);
  }
}

}  // namespace

int command_show(const Arguments& arguments, Console& console) {
  ScenarioFile file =
      scenario_of(arguments, "show", {.hardware = true, .simulate = true, .plan = true, .form = true});
  const std::int64_t world = file.scenario.parallel.world();
  const std::string which = arguments.text("rank", "0");
  const std::int64_t only = which == "all" ? -1 : arguments.integer("rank", 0, 0, world - 1);
  const Fault* fault = fault_of(arguments);
  Progress progress(console, "building the plan");
  Plan plan = plan_of(file, PlanUse::show);
  if (fault) inject(*fault, file, plan);
  note_injected(fault, file.notes);
  const PlanTraits traits{work_imbalance(plan), could_copy(plan), could_stay_whole(file.scenario)};

  std::optional<Prediction> prediction;
  std::string no_times;  // why
  constexpr std::int64_t most_ranks_to_predict = 1024;
  if (file.hardware.empty()) {
    if (!file.hardware_overrides.empty()) require_machine(file);
    no_times = "no [hardware] in the scenario";
  } else if (world > most_ranks_to_predict) {
    no_times = fmt::format("{} ranks are more than the {} that show simulates", world, most_ranks_to_predict);
  } else {
    try {
      prediction = predict(file, plan, &progress);
      file.notes.insert(file.notes.end(), prediction->notes.begin(), prediction->notes.end());
    } catch (const CannotPredict& error) {
      no_times = error.what();
    }
  }
  progress.end();
  say_notes(console, file);

  std::ostream& out = console.text();
  write_folded(out, describe(file.scenario), console.style().width);
  std::string settings;
  for (const auto& [key, value] : file.scenario.schedule.options)
    settings += fmt::format("{}{}={}", settings.empty() ? "" : " ", key, to_string(value));
  write_folded(out, settings, console.style().width);
  out << fmt::format("{} padding tokens of the placement\n", plan.placement_padding_tokens);
  const Problem& problem = file.scenario.problem;
  if (problem.adds_pairs() || problem.chunk > 0 || problem.is_cross()) {
    out << '\n';
    write_folded(out,
                 "queries down, keys to the right (# all pairs, + half of them or more, . fewer), ranks of "
                 "the queries:",
                 console.style().width);
    out << mask_picture(file.scenario);
  }
  TextTable all_operations = operation_table({}, prediction.has_value(), Audience::files);
  for (const RankPlan& rank : plan.ranks) {
    if (only >= 0 && rank.rank != only) continue;
    const MemoryPlan memory = plan_memory(rank);
    const auto* times =
        prediction ? &prediction->timeline.ranks[static_cast<std::size_t>(rank.rank)] : nullptr;
    out << fmt::format("\nrank {} (replica {}, position {}): at most {} in use at once, {} allocated\n\n",
                       rank.rank, rank.replica, rank.position,
                       bytes_text(static_cast<double>(memory.live_peak_bytes)),
                       bytes_text(static_cast<double>(rank.arena_bytes)));
    buffer_table(rank, memory).write(out, console.style());
    out << '\n';
    const OperationUnits units = units_of(rank);
    TextTable operations = operation_table(units, prediction.has_value(), Audience::people);
    add_operations(operations, units, rank, times, Audience::people);
    operations.write(out, console.style());
    add_operations(all_operations, {}, rank, times, Audience::files);
    out << '\n';
    write_steps(out, rank, file.scenario, times, traits, console.style());
  }
  write_names(out, plan, console.style().width);
  const std::vector<TakenDefault> defaults =
      file.asked ? defaults::taken(*file.asked, plan) : std::vector<TakenDefault>();
  write_defaults(out, defaults, console.style());
  if (prediction)
    write_folded(out, "Times are predicted: " + describe(prediction->figures.origins) + " of busy time.",
                 console.style().width);
  else
    out << "Bytes and FLOPs only, not what binds: " << no_times << ".\n";
  console.write_json_to_option([&](std::ostream& stream) {
    const ResultHeader header = header_of(file);
    std::vector<PlanDefault> taken;
    for (const TakenDefault& each : defaults) taken.push_back({each.choice, each.value, each.rule});
    write_plan_json(stream, plan, header.versions, header.sections, &*header.given, taken);
  });
  console.write_csv_to_option([&](std::ostream& stream) { all_operations.write_csv(stream); });
  return exit_fine;
}

}  // namespace cplab
