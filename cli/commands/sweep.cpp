// cplab sweep STUDY | --merge FILE ...: every point of a study simulated, and files of points put together.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <thread>

#include "cli/commands/command.hpp"
#include "cli/files/toml_table.hpp"
#include "cli/outputs.hpp"
#include "cli/session.hpp"
#include "cli/sweep/lines_file.hpp"
#include "cli/sweep/summary.hpp"
#include "cli/sweep/sweep.hpp"
#include "report/html/pages.hpp"
#include "report/output_file.hpp"

namespace cplab {

namespace {

namespace fs = std::filesystem;

// The same file for each shard would be written by all of them: "points.jsonl" is "points.1-of-4.jsonl".
std::string of_shard(const std::string& file, const std::optional<Shard>& shard) {
  if (file.empty() || !shard) return file;
  fs::path path = file;
  const std::string name = fmt::format("{}.{}-of-{}{}", path.stem().string(), shard->index, shard->count,
                                       path.extension().string());
  return path.replace_filename(name).string();
}

struct SweepOutputs {
  std::string csv, jsonl;  // empty: none; csv not where --csv says it
};

// Throws InputError for outputs that are one file, or that cannot be.
void require_apart(const SweepOutputs& outputs, const Arguments& arguments) {
  std::vector<std::pair<std::string, std::string>> files{
      {"csv", outputs.csv.empty() ? arguments.text("csv", "") : outputs.csv},
      {"json", arguments.text("json", "")},
      {"jsonl", outputs.jsonl}};
  std::erase_if(files, [](const auto& file) { return file.second.empty() || is_stdout(file.second); });
  for (std::size_t i = 0; i < files.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (fs::weakly_canonical(files[i].second) == fs::weakly_canonical(files[j].second) &&
          !files[i].second.starts_with("/dev/"))
        throw InputError("--" + files[i].first + " " + files[i].second + ": --" + files[j].first +
                         " writes to that file");
}

SweepOutputs outputs_of(const Arguments& arguments, const Study* study, const std::optional<Shard>& shard) {
  SweepOutputs outputs;
  if (study && !arguments.has("csv")) outputs.csv = of_shard(study->csv, shard);
  if (arguments.has("jsonl")) {
    outputs.jsonl = arguments.text("jsonl", "");
    if (outputs.jsonl.empty() || is_stdout(outputs.jsonl))
      throw InputError("--jsonl: needs the name of a file, which a sweep can go on from");
  } else if (study) {
    outputs.jsonl = of_shard(study->jsonl, shard);
  }
  require_apart(outputs, arguments);
  for (const std::string& file : {outputs.csv, outputs.jsonl}) {
    if (file.empty()) continue;
    try {
      (void)try_output_file(file);
    } catch (const std::runtime_error& error) {
      throw EnvironmentError(error.what());
    }
  }
  return outputs;
}

// --strict: what simulate --strict would say of each point.
bool all_strict(const SweepReport& report, Console& console) {
  std::int64_t unfit = 0, unknown = 0;
  for (const SweepPoint& point : report.points) {
    unfit += !point.fit.fits;
    unknown += point.origins.extrapolated + point.origins.assumed > 0;
  }
  if (unfit > 0) console.say(fmt::format("--strict: {} points do not fit", unfit));
  if (unknown > 0)
    console.say(fmt::format("--strict: {} points have times that are extrapolated or assumed", unknown));
  if (report.missing > 0) console.say(fmt::format("--strict: {} points are missing", report.missing));
  return unfit == 0 && unknown == 0 && report.missing == 0;
}

PageTitle title_of(const SweepReport& report) {
  const SweepStudy& study = report.header.study;
  std::string lead = report.scenario ? describe(*report.scenario) : study.scenario;
  for (const auto& [keys, values] : study.vary) lead += fmt::format("; {}: {} values", keys, values.size());
  return {fs::path(study.name).stem().string(), lead};
}

int write_results(const SweepReport& report, const std::string& csv, const Arguments& arguments,
                  Console& console) {
  write_summary(console.text(), report, console.style());
  write_pictures(console.text(), report, console.picture());
  write_page_output(arguments, console,
                    [&](std::ostream& stream) { write_page(stream, title_of(report), report); });
  console.write_json_to_option([&](std::ostream& stream) { write_json(stream, report); });
  console.write_csv_to_option([&](std::ostream& stream) { write_csv(stream, report); });
  if (!csv.empty()) {
    OutputFile file(csv);
    write_csv(file.stream(), report);
    file.commit();
  }
  const auto internal = std::ranges::find_if(
      report.refused, [](const SweepRefusal& each) { return each.kind == RefusalKind::internal; });
  if (internal != report.refused.end())
    throw EnvironmentError(
        fmt::format("point {}: internal error, please report: {}", internal->number, internal->reason));
  if (refused_as_a_whole(report))
    throw InputError("every point is refused: " + report.refused.front().reason);
  if (report.points.empty() && !report.refused.empty()) console.say("no point could be simulated");
  return arguments.has("strict") && !all_strict(report, console) ? exit_wrong : exit_fine;
}

int merge(const Arguments& arguments, Console& console) {
  for (const char* option : {"set", "unset", "hardware", "shard", "workers", "choose", "choices"})
    if (arguments.has(option))
      throw InputError("--" + std::string(option) + ": goes without --merge, which simulates nothing");
  if (arguments.positional().empty())
    throw InputError("--merge: FILE is missing: JSON lines that sweep --jsonl has written");
  const SweepOutputs outputs = outputs_of(arguments, nullptr, {});
  const SweepMerge merged = merge_sweeps(arguments.positional());
  for (const std::string& note : merged.report.notes) console.say("note: " + note);
  if (!merged.conflicts.empty()) {
    for (const std::string& conflict : merged.conflicts) console.say(conflict);
    console.say("nothing is written: each point has one result, whoever simulates it");
    return exit_wrong;
  }
  if (!outputs.jsonl.empty()) write_sweep_lines(outputs.jsonl, merged.report);
  if (merged.report.missing > 0)
    console.say(
        fmt::format("{} of {} points are missing", merged.report.missing, merged.report.header.study.points));
  return write_results(merged.report, "", arguments, console);
}

}  // namespace

int command_sweep(const Arguments& arguments, Console& console) {
  if (arguments.has("merge")) return merge(arguments, console);
  if (arguments.positional().empty())
    throw InputError(
        "STUDY is missing: a path, - for standard input, or a name in scenarios/studies/; see "
        "--help");
  if (arguments.positional().size() > 1)
    throw InputError(arguments.positional()[1] + ": one argument too many; several files go with --merge");
  const Study study = read_study(arguments.positional().front());
  SweepTask task;
  task.shard = study.shard;
  if (arguments.has("shard")) {
    task.shard = parse_shard(arguments.text("shard", ""));
    if (!task.shard)
      throw InputError("--shard " + arguments.text("shard", "") +
                       ": must be i/n, with i from 0 to n: 0/4 to 3/4, or 1/4 to 4/4");
  }
  constexpr int most_processes = 1024;
  const auto cores = static_cast<std::int64_t>(std::max(1U, std::thread::hardware_concurrency()));
  task.processes = static_cast<int>(arguments.integer("workers", cores, 1, most_processes));
  const SweepOutputs outputs = outputs_of(arguments, &study, task.shard);
  task.jsonl = outputs.jsonl;
  return write_results(run_sweep(study, task, arguments, console), outputs.csv, arguments, console);
}

}  // namespace cplab
