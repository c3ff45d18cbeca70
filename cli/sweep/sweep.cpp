// From a study to its report; see sweep.hpp.
#include "cli/sweep/sweep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "cli/files/changes.hpp"
#include "cli/files/sha256.hpp"
#include "cli/files/text_file.hpp"
#include "cli/memory_need.hpp"
#include "cli/progress.hpp"
#include "cli/session.hpp"
#include "cli/subject.hpp"
#include "cli/sweep/evaluation.hpp"
#include "cli/sweep/lines_file.hpp"
#include "cli/sweep/workers.hpp"

namespace cplab {

namespace {

// The machine's file and those that vary, as --set hardware.file would find them; one that is not there makes
// refused points, which go on being refused only while it is not there.
std::vector<GivenFile> hardware_files(const Study& study, const std::vector<std::string>& changes) {
  std::vector<GivenFile> files;
  Table table = study.table();
  std::vector<std::string> unused;
  (void)apply_changes(table, changes, unused);
  const auto add = [&] {
    if (table.kind("hardware") != Table::Kind::table || !table.table("hardware").has("file")) return;
    std::string given, hash = "not readable";
    try {
      given = table.table("hardware").text("file");
      hash = hardware_hash(find_hardware(table.table("hardware"), study.scenario_path));
    } catch (const InputError&) {
    } catch (const EnvironmentError&) {
    }
    files.push_back({"hardware", given, hash});
  };
  bool varies = false;
  for (const StudyAxis& axis : study.axes)
    for (std::size_t k = 0; k < axis.keys.size(); ++k) {
      if (axis.keys[k] != "hardware.file") continue;
      varies = true;
      for (const std::vector<StudyValue>& row : axis.rows) {
        table.assign("hardware.file", row[k].set);
        add();
      }
    }
  if (!varies) add();
  return files;
}

SweepHeader header_of(const Study& study, const StudyPoints& points, const std::optional<Shard>& shard,
                      const Arguments& arguments, const std::vector<std::string>& changes) {
  SweepHeader header{versions_of_build(), {}, shard ? shard->text() : ""};
  SweepStudy& about = header.study;
  about.name = study.given;
  about.scenario = study.scenario;
  // Of a scenario that stands in its study: the study's other sections are not a part of it.
  about.scenario_sha256 = sha256(study.scenario.empty() ? study.table().toml() : study.scenario_text);
  about.files = hardware_files(study, changes);
  if (arguments.has("choices")) {
    const std::string path = arguments.text("choices", "");
    about.files.push_back({"choices", path, sha256(read_text_file(path))});
  }
  about.set = set_keys(changes);
  about.unset = unset_keys(changes);
  for (const auto& [option, value] : arguments.options())
    if (option == "choose" || option == "choices") about.options.emplace_back(option, value);
  for (const StudyAxis& axis : study.axes) {
    std::vector<std::string> rows;
    for (const std::vector<StudyValue>& row : axis.rows) {
      std::vector<std::string> values;
      for (const StudyValue& value : row) values.push_back(value.set);
      rows.push_back(fmt::format("{}", fmt::join(values, ", ")));
    }
    about.vary.emplace_back(fmt::format("{}", fmt::join(axis.keys, ", ")), std::move(rows));
  }
  for (const StudyConstraint& constraint : study.constraints) about.where.push_back(constraint.where.text());
  about.product = points.product();
  about.points = points.size();
  about.excluded = points.excluded();
  return header;
}

// What comes of the points: into the file at once, into the report.
class Results {
 public:
  Results(LinesFile& file, SweepReport& report, Progress& progress, std::int64_t all)
      : file_(file), report_(report), progress_(progress), all_(all) {}

  void add(const std::string& line) {
    const JsonDocument document(line, "a process of the sweep");
    if (!is_refusal(document.root())) {
      report_.points.push_back(read_sweep_point(document.root()));
      return count(line);
    }
    SweepRefusal refusal = read_sweep_refusal(document.root());
    // Several processes share the memory: perhaps there is enough for one.
    if (!alone_ && refusal.kind == RefusalKind::memory) return again.push_back(refusal.number);
    report_.refused.push_back(std::move(refusal));
    count(line);
  }
  void lost(SweepRefusal refusal) {
    if (!alone_) return again.push_back(refusal.number);
    report_.refused.push_back(std::move(refusal));
    count(line_of(report_.refused.back()));
  }
  void wait() { progress_.set_done(done_, all_); }
  // What does not succeed now never will here.
  void alone() { alone_ = true; }

  std::vector<std::int64_t> again;

 private:
  void count(const std::string& line) {
    file_.add(line);
    progress_.set_done(++done_, all_);
  }

  LinesFile& file_;
  SweepReport& report_;
  Progress& progress_;
  std::int64_t all_, done_ = 0;
  bool alone_ = false;
};

std::string line_of(const SweepOutcome& outcome) {
  return std::visit([](const auto& each) { return cplab::line_of(each); }, outcome);
}

void simulate_points(const std::vector<std::int64_t>& numbers, int processes, PointEvaluator& evaluator,
                     const StudyPoints& points, LinesFile& file, Results& results) {
  const double share = memory_left() / processes;
  WorkerCalls calls;
  calls.work = [&](std::int64_t number) { return line_of(evaluator.evaluate(number)); };
  calls.done = [&](std::int64_t, const std::string& line) { results.add(line); };
  calls.lost = [&](std::int64_t number, const std::string& why) {
    SweepRefusal refusal{number, {}, RefusalKind::memory, why, {}};
    for (auto& [key, value] : points.values(number)) refusal.set.emplace_back(key, value.value);
    results.lost(std::move(refusal));
  };
  calls.waiting = [&] { results.wait(); };
  calls.begin = [&] {
    file.leave();
    if (processes > 1) ::setenv("CPLAB_MEMORY", std::to_string(static_cast<std::int64_t>(share)).c_str(), 1);
  };
  work_in_processes(evaluator.grouped_by_plan(numbers), processes, calls);
  std::vector<std::int64_t> again;
  again.swap(results.again);
  if (again.empty()) return;
  results.alone();
  calls.begin = [&] { file.leave(); };
  std::ranges::sort(again);
  work_in_processes(evaluator.grouped_by_plan(again), 1, calls);
}

void sort_by_number(SweepReport& report) {
  const auto by_number = [](const auto& a, const auto& b) { return a.number < b.number; };
  std::ranges::sort(report.points, by_number);
  std::ranges::sort(report.refused, by_number);
}

}  // namespace

SweepReport run_sweep(const Study& study, const SweepTask& task, const Arguments& arguments,
                      Console& console) {
  const std::vector<std::string> changes = changes_of(arguments);
  const StudyPoints points(study, changes);
  PointEvaluator evaluator(study, points, arguments, changes);
  evaluator.read_machine();
  SweepReport report;
  report.header = header_of(study, points, task.shard, arguments, changes);
  if (const std::optional<ScenarioFile> alone = study.read_if_legal(changes)) {
    report.scenario = alone->scenario;
    report.sections = sections_of(*alone);
  }
  LinesFile file = task.jsonl.empty() ? LinesFile() : LinesFile(task.jsonl, report.header, report.notes);
  for (const std::string& note : report.notes) console.say("note: " + note);
  report.points = std::move(file.points);
  report.refused = std::move(file.refused);
  std::set<std::int64_t> known;
  for (const SweepPoint& point : report.points) known.insert(point.number);
  for (const SweepRefusal& refusal : report.refused) known.insert(refusal.number);
  if (!known.empty()) console.say(fmt::format("{}: {} points are there already", task.jsonl, known.size()));
  std::vector<std::int64_t> numbers;
  for (std::int64_t number = 0; number < points.size(); ++number)
    if ((!task.shard || task.shard->has(number)) && !known.contains(number)) numbers.push_back(number);

  {
    Progress progress(console, "simulating");
    progress.stage("simulating", std::ssize(numbers), "points", Progress::Alike::yes);
    Results results(file, report, progress, std::ssize(numbers));
    if (!numbers.empty()) simulate_points(numbers, task.processes, evaluator, points, file, results);
    progress.end();
  }
  sort_by_number(report);
  find_best(report);
  file.end(report);
  return report;
}

SweepMerge merge_sweeps(const std::vector<std::string>& paths) {
  SweepMerge merge;
  SweepReport& report = merge.report;
  std::map<std::int64_t, SweepPoint> points;
  std::map<std::int64_t, SweepRefusal> refused;
  std::map<std::int64_t, std::pair<std::string, std::string>> lines;  // line, file
  const auto once = [&](std::int64_t number, const std::string& line, const std::string& path) {
    const auto [at, fresh] = lines.emplace(number, std::pair(line, path));
    if (!fresh && at->second.first != line)
      merge.conflicts.push_back(
          fmt::format("point {}: {} and {} have other figures", number, at->second.second, path));
    return fresh;
  };
  const std::string* first = nullptr;
  for (const std::string& path : paths) {
    SweepLines file = read_sweep_lines(path);
    if (!file.has_header) throw InputError(path + ": holds no points of a sweep");
    if (!file.torn.empty())
      report.notes.push_back(fmt::format("{}: its last line is torn ({} bytes without an end) and left out",
                                         path, file.torn.size()));
    if (!first) {
      first = &path;
      report.header = file.header;
    } else if (const auto differ = differences(report.header, file.header); !differ.empty()) {
      throw InputError(
          fmt::format("{} and {} are of different sweeps: {}", *first, path, fmt::join(differ, "; ")));
    } else if (report.header.shard != file.header.shard) {
      report.header.shard.clear();
    }
    for (SweepPoint& point : file.points)
      if (once(point.number, line_of(point), path)) points.emplace(point.number, std::move(point));
    // Where one machine had too little memory, another may have had enough.
    for (SweepRefusal& refusal : file.refused)
      if (refusal.kind != RefusalKind::input || once(refusal.number, cplab::line_of(refusal), path))
        refused.emplace(refusal.number, std::move(refusal));
  }
  for (auto& [number, point] : points) report.points.push_back(std::move(point));
  for (auto& [number, refusal] : refused)
    if (!points.contains(number)) report.refused.push_back(std::move(refusal));
  report.missing = report.header.study.points - std::ssize(report.points) - std::ssize(report.refused);
  // All of it is there: a study without shards.
  if (report.missing == 0) report.header.shard.clear();
  find_best(report);
  return merge;
}

bool refused_as_a_whole(const SweepReport& report) {
  if (!report.points.empty()) return false;
  const std::vector<RefusedGroup> groups = grouped(report.refused);
  if (groups.size() != 1 || groups.front().kind != RefusalKind::input) return false;
  return std::ranges::none_of(groups.front().example.set, [&](const auto& each) {
    const std::string& key = each.first;
    return groups.front().reason.find(key.substr(key.rfind('.') + 1)) != std::string::npos;
  });
}

}  // namespace cplab
