// Two result files, joined by operation id.
#include "report/compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <sstream>
#include <string_view>
#include <unordered_map>

#include "report/compare_terms.hpp"
#include "report/table.hpp"

namespace cplab {

double relative_error(double predicted, double measured) {
  return measured > 0 ? predicted / measured - 1 : std::numeric_limits<double>::quiet_NaN();
}

namespace {

// ---- what must be equal --------------------------------------------------------------------------

[[noreturn]] void refuse(const ResultFile& a, const ResultFile& b, const std::string& why) {
  throw JsonFileError(fmt::format("{} and {} cannot be compared: {}", a.side.file, b.side.file, why));
}

// Everything of a scenario that a plan depends on, by the key of the scenario file.
std::map<std::string, std::string> words_of(const Scenario& scenario) {
  std::map<std::string, std::string> words;
  const Problem& problem = scenario.problem;
  const auto add_lengths = [&](std::string_view key, const std::vector<std::int64_t>& lengths) {
    for (std::size_t i = 0; i < lengths.size(); ++i)
      words[fmt::format("problem.{}[{}]", key, i)] = std::to_string(lengths[i]);
  };
  words["problem.attention"] = name(problem.attention);
  words["problem.format"] = name(problem.format);
  words["problem.dtype"] = name(problem.dtype);
  words["problem.direction"] = name(problem.direction);
  if (problem.packed) {
    add_lengths("lengths", problem.lengths);
    add_lengths("padded_lengths", problem.padded_lengths);
  } else {
    words["problem.batch"] = std::to_string(problem.batch);
    words["problem.sequence"] = std::to_string(problem.sequence);
  }
  if (problem.is_cross()) {
    if (problem.packed) {
      add_lengths("kv_lengths", problem.kv_lengths);
      add_lengths("kv_padded_lengths", problem.kv_padded_lengths);
    } else {
      words["problem.kv_sequence"] = std::to_string(problem.kv_sequence);
    }
    words["problem.align"] = name(problem.align);
    words["parallel.kv_placement"] = scenario.parallel.keys_everywhere ? "replicated" : "same";
  }
  words["problem.heads"] = std::to_string(problem.heads);
  words["problem.kv_heads"] = std::to_string(problem.kv_heads);
  words["problem.head_size"] = std::to_string(problem.head_size);
  words["problem.value_size"] = std::to_string(problem.value_size);
  words["problem.mask"] = problem.only_rectangles ? "none" : problem.causal ? "causal" : "full";
  words["problem.chunk"] = std::to_string(problem.chunk);
  words["problem.prefix"] = std::to_string(problem.prefix);
  for (std::size_t i = 0; i < problem.groups.size(); ++i)
    words[fmt::format("problem.groups[{}]", i)] =
        fmt::format("[{}, {}]", problem.groups[i].first, problem.groups[i].second);
  for (std::size_t i = 0; i < problem.rectangles.size(); ++i) {
    const MaskRectangle& r = problem.rectangles[i];
    words[fmt::format("problem.mask_rectangles[{}]", i)] =
        fmt::format("[{}, {}, {}, {}, {}]", r.q_begin, r.q_end, r.k_begin, r.k_end, name(r.form));
  }
  words["problem.window"] = fmt::format("[{}, {}]", problem.window.left, problem.window.right);
  words["problem.max_logit"] = problem.max_logit ? "true" : "false";
  words["problem.scale"] = fmt::format("{}", problem.scale);
  if (problem.attention == Attention::linear) {
    words["problem.transition"] = name(problem.transition);
    if (problem.gate != Gate::column) words["problem.gate"] = name(problem.gate);
    if (problem.convolves()) words["problem.convolution"] = std::to_string(problem.convolution);
  }
  for (std::size_t h = 0; h < problem.slopes.size(); ++h)
    words[fmt::format("problem.slopes[{}]", h)] = fmt::format("{}", problem.slopes[h]);
  if (problem.has_latent()) {
    words["problem.kv_latent"] = std::to_string(problem.kv_latent);
    words["problem.rope_size"] = std::to_string(problem.rope_size);
  }
  if (problem.attention != Attention::linear) {
    words["problem.softcap"] = fmt::format("{}", problem.softcap);
    words["problem.sink"] = problem.sink ? "head" : "none";
    words["problem.bias"] = name(problem.bias);
    words["problem.buckets"] = std::to_string(problem.buckets);
    words["problem.max_distance"] = std::to_string(problem.max_distance);
  }
  words["parallel.ranks"] = std::to_string(scenario.parallel.ranks);
  words["parallel.replicas"] = std::to_string(scenario.parallel.replicas);
  for (std::size_t g = 0; g < scenario.parallel.groups.size(); ++g)
    words[fmt::format("parallel.groups[{}]", g)] =
        fmt::format("[{}]", fmt::join(scenario.parallel.groups[g], ", "));
  for (std::size_t b = 0; b < scenario.parallel.homes.size(); ++b)
    words[fmt::format("parallel.homes[{}]", b)] = std::to_string(scenario.parallel.homes[b]);
  for (std::size_t i = 0; i < scenario.parallel.pieces.size(); ++i) {
    const Parallel::Piece& piece = scenario.parallel.pieces[i];
    words[fmt::format("parallel.pieces[{}]", i)] =
        fmt::format("[{}, {}, {}, {}]", piece.position, piece.sequence, piece.begin, piece.count);
  }
  words["parallel.algorithm"] = scenario.algorithm;
  words["parallel.placement"] = scenario.placement;
  for (const auto& [key, value] : scenario.schedule.options) words["schedule." + key] = to_string(value);
  return words;
}

// What differs, a few of it by name; empty: nothing.
std::string scenario_differences(const ResultFile& a, const ResultFile& b) {
  constexpr int most_named = 4;
  const std::map<std::string, std::string> ours = words_of(a.scenario), theirs = words_of(b.scenario);
  std::string differences;
  int count = 0;
  const auto name_difference = [&](const std::string& key, const std::string& x, const std::string& y) {
    if (++count > most_named) return;
    differences +=
        fmt::format("{}{} is {} in {}, {} in {}", count > 1 ? "; " : "", key, x, a.side.file, y, b.side.file);
  };
  for (const auto& [key, word] : ours) {
    const auto found = theirs.find(key);
    if (found == theirs.end()) {
      name_difference(key, word, "absent");
    } else if (found->second != word) {
      name_difference(key, word, found->second);
    }
  }
  for (const auto& [key, word] : theirs)
    if (!ours.contains(key)) name_difference(key, "absent", word);
  if (count > most_named) differences += fmt::format("; and {} more", count - most_named);
  return differences;
}

void expect_operations(const ResultFile& file) {
  if (!file.operations.empty()) return;
  throw JsonFileError(
      fmt::format("{}: no operations in it; write it with cplab {} ... --operations --json FILE",
                  file.side.file, file.side.command));
}

using OperationsById = std::unordered_map<std::string_view, const ResultFile::Operation*>;

OperationsById by_id(const ResultFile& file) {
  OperationsById operations;
  for (const ResultFile::Operation& operation : file.operations) operations[operation.id] = &operation;
  return operations;
}

void expect_all_of(const ResultFile& a, const ResultFile& b, const OperationsById& operations_of_b) {
  for (const ResultFile::Operation& operation : a.operations)
    if (!operations_of_b.contains(operation.id))
      refuse(a, b,
             fmt::format("the plans differ: operation {} ({}) is in {} only", operation.id, operation.kind,
                         a.side.file));
}

void expect_same_operation(const ResultFile& a, const ResultFile::Operation& x, const ResultFile& b,
                           const ResultFile::Operation& y) {
  if (x.kind != y.kind)
    refuse(a, b,
           fmt::format("the plans differ: operation {} is {} in {}, {} in {}", x.id, x.kind, a.side.file,
                       y.kind, b.side.file));
  if (x.bytes != y.bytes)
    refuse(a, b,
           fmt::format("the plans differ: operation {} ({}) moves {} bytes in {}, {} in {}", x.id, x.kind,
                       x.bytes, a.side.file, y.bytes, b.side.file));
}

// ---- segments ------------------------------------------------------------------------------------

CompareSegment& add_segment(CompareReport& report, std::string name, double predicted_s, double measured_s) {
  report.segments.push_back({std::move(name), predicted_s, measured_s,
                             relative_error(predicted_s, measured_s), std::abs(predicted_s - measured_s)});
  return report.segments.back();
}

// The null model of the whole or of a phase, as predicted.
void add_null(CompareSegment& segment, double null_s) {
  segment.null_s = null_s;
  segment.null_error = relative_error(null_s, segment.measured_s);
}

void add_phases(const ResultFile& predicted, const ResultFile& measured, CompareReport& report) {
  for (const auto& [name, predicted_s] : predicted.phases) {
    const auto found = std::find_if(measured.phases.begin(), measured.phases.end(),
                                    [&name = name](const auto& phase) { return phase.first == name; });
    if (found == measured.phases.end()) {
      if (!report.same_plan) continue;
      refuse(predicted, measured, "only one has the phase " + name);
    }
    add_null(add_segment(report, name, predicted_s, found->second), longest_compute_s(predicted, name));
  }
}

void add_rank_means(const ResultFile& predicted, const ResultFile& measured, CompareReport& report) {
  const auto add = [&](const char* name, double ResultFile::Rank::*seconds) {
    const auto mean = [&](const ResultFile& file) {
      double sum = 0;
      for (const ResultFile::Rank& rank : file.ranks) sum += rank.*seconds;
      return sum / static_cast<double>(file.ranks.size());
    };
    add_segment(report, name, mean(predicted), mean(measured));
  };
  add("compute", &ResultFile::Rank::compute_s);
  add("communication", &ResultFile::Rank::communication_s);
  add("exposed_communication", &ResultFile::Rank::exposed_communication_s);
  if (!predicted.splits_exposed || !measured.splits_exposed) return;  // of before 0.2.0
  add("exposed_wait", &ResultFile::Rank::exposed_wait_s);
  add("exposed_transfer", &ResultFile::Rank::exposed_transfer_s);
}

// "3/forward/12" and "attend" make "forward/attend".
std::string segment_name(const std::string& id, const std::string& kind) {
  const std::size_t first = id.find('/'), second = id.find('/', first + 1);
  return id.substr(first + 1, second - first) + kind;
}

// Summed over operations: of a kind, or of what communication of a kind waits and moves.
struct KindSums {
  double predicted_s = 0, measured_s = 0, absolute_s = 0;

  void add(double predicted, double measured) {
    predicted_s += predicted;
    measured_s += measured;
    absolute_s += std::abs(predicted - measured);
  }
};
using SumsByName = std::map<std::string, KindSums>;

void add_operation(SumsByName& sums, const ResultFile::Operation* ours, const ResultFile::Operation* theirs) {
  const ResultFile::Operation& of = ours != nullptr ? *ours : *theirs;
  const std::string name = segment_name(of.id, of.kind);
  const auto part = [&](const std::string& suffix, double ResultFile::Operation::*seconds) {
    sums[name + suffix].add(ours != nullptr ? ours->*seconds : 0, theirs != nullptr ? theirs->*seconds : 0);
  };
  part("", &ResultFile::Operation::seconds);
  if (!moves_data(of.kind)) return;
  part("/wait", &ResultFile::Operation::wait_s);
  const auto moving = [](const ResultFile::Operation* op) {
    return op != nullptr ? op->seconds - op->wait_s : 0;
  };
  sums[name + "/transfer"].add(moving(ours), moving(theirs));
}

void add_kinds(const ResultFile& predicted, const ResultFile& measured, CompareReport& report) {
  SumsByName sums;
  if (report.same_plan) {
    const OperationsById operations = by_id(measured);
    expect_all_of(predicted, measured, operations);
    expect_all_of(measured, predicted, by_id(predicted));
    for (const ResultFile::Operation& operation : predicted.operations) {
      const ResultFile::Operation& other = *operations.at(operation.id);
      expect_same_operation(predicted, operation, measured, other);
      add_operation(sums, &operation, &other);
    }
  } else {
    for (const ResultFile::Operation& operation : predicted.operations)
      add_operation(sums, &operation, nullptr);
    for (const ResultFile::Operation& operation : measured.operations)
      add_operation(sums, nullptr, &operation);
  }
  const auto ours = static_cast<double>(predicted.ranks.size()),
             theirs = static_cast<double>(measured.ranks.size());
  for (const auto& [name, sum] : sums) {
    CompareSegment& segment = add_segment(report, name, sum.predicted_s / ours, sum.measured_s / theirs);
    if (report.same_plan) segment.absolute_s = sum.absolute_s / ours;
  }
}

void add_terms(const ResultFile& predicted, const ResultFile& measured, CompareReport& report) {
  std::map<std::string, std::pair<double, double>> terms;
  for (const auto& [name, seconds] : terms_of(predicted)) terms[name].first = seconds;
  for (const auto& [name, seconds] : terms_of(measured)) terms[name].second = seconds;
  for (const auto& [name, seconds] : terms) report.terms.push_back({name, seconds.first, seconds.second});
}

// ---- notes ---------------------------------------------------------------------------------------

void add_notes(const ResultFile& file, CompareReport& report) {
  if (file.ranks_per_gpu > 1)
    report.notes.push_back(
        fmt::format("{}: {} ranks shared a GPU: its times say nothing about a GPU for each rank",
                    file.side.file, file.ranks_per_gpu));
  constexpr double worth_a_note = 0.01;
  const double difference = relative_error(file.side.operations_s, file.side.time_s);
  if (std::abs(difference) > worth_a_note)
    report.notes.push_back(fmt::format(
        "{}: its operations ended after {} ms, its time is {} ms ({} %): every segment but total{} is of "
        "the instrumented iteration",
        file.side.file, format_ms(file.side.operations_s), format_ms(file.side.time_s),
        format_signed_percent(difference), file.undisturbed ? " and phases" : ""));
}

// What runs a result: "the CPU", "NVIDIA H200", "the machine of hardware/h100x8.toml".
std::string what_runs(const ResultFile& file) {
  if (file.device == "cpu") return "the CPU";
  if (!file.predicted) return file.side.machine;
  return "the machine of " + file.side.machine +
         (file.side.gpu.empty() ? "" : ", whose GPU is " + file.side.gpu);
}

// "NVIDIA H100 80GB HBM3" and "H100 SXM 80GB" as "h100": the model, a word of letters with digits behind
// them, or digits of four ("GeForce RTX 5090"); the whole name if it has none.
std::string model_of(const std::string& gpu) {
  std::istringstream words(gpu);
  for (std::string word; words >> word;) {
    std::transform(word.begin(), word.end(), word.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const std::size_t digits = word.find_first_of("0123456789");
    if (digits == std::string::npos || word.ends_with("gb")) continue;
    if (digits > 0 || word.size() >= 4) return word.substr(0, word.find('-'));
  }
  return gpu;
}

// Whatever was predicted or measured, on which GPUs.
void add_gpu_note(const ResultFile& predicted, const ResultFile& measured, CompareReport& report) {
  const std::string &of = predicted.side.gpu, &on = measured.side.gpu;
  if (of.empty() || on.empty() || model_of(of) == model_of(on)) return;
  report.notes.push_back(fmt::format("{} for {}, {} on {}: the difference in time is one between them",
                                     predicted.predicted ? "predicted" : "measured", of,
                                     measured.predicted ? "predicted" : "measured", on));
}

// "attend hopper bf16 128 and attend general": the first kernel that differs, and how many operations do.
void add_kernel_note(const ResultFile& a, const ResultFile& b, CompareReport& report) {
  const OperationsById others = by_id(b);
  std::int64_t differ = 0;
  std::string first;
  for (const ResultFile::Operation& operation : a.operations) {
    const std::string& other = others.at(operation.id)->variant;
    if (operation.variant.empty() || other.empty() || operation.variant == other) continue;
    if (differ++ == 0) first = operation.variant + " and " + other;
  }
  if (differ > 0)
    report.notes.push_back(fmt::format("{} operations take other kernels in one than in the other: {}{}",
                                       differ, first, differ > 1 ? ", ..." : ""));
}

void add_difference_notes(const ResultFile& a, const ResultFile& b, CompareReport& report) {
  const bool cpu = a.device == "cpu", other_cpu = b.device == "cpu";
  const bool of_one_kind = a.predicted == b.predicted;
  if (cpu != other_cpu || (of_one_kind && a.side.machine != b.side.machine))
    report.notes.push_back(fmt::format("{} is of {}, {} of {}: the difference in time is one between them",
                                       a.side.file, what_runs(a), b.side.file, what_runs(b)));
  if (!of_one_kind) add_gpu_note(a, b, report);
  if (report.same_plan) add_kernel_note(a, b, report);
  if (!a.commit.empty() && !b.commit.empty() && a.commit != b.commit)
    report.notes.push_back(
        fmt::format("{} is of commit {}, {} of {}", a.side.file, a.commit, b.side.file, b.commit));
}

// Whether the two are of one plan, which all are but two predictions of different scenarios.
bool of_same_plan(const ResultFile& predicted, const ResultFile& measured, CompareReport& report) {
  const std::string differences = scenario_differences(predicted, measured);
  if (differences.empty()) return true;
  if (!predicted.predicted || !measured.predicted) refuse(predicted, measured, differences);
  report.notes.push_back("two plans, whose operations are not joined: " + differences);
  return false;
}

}  // namespace

CompareReport compare_results(const ResultFile& predicted, const ResultFile& measured) {
  if (!predicted.predicted && measured.predicted)
    refuse(predicted, measured, "the prediction comes first: cplab compare PREDICTED.json MEASURED.json");
  expect_operations(predicted);
  expect_operations(measured);
  CompareReport report;
  if (predicted.predicted == measured.predicted)
    report.notes.push_back(predicted.predicted ? "both files are predictions"
                                               : "both files are measurements");
  report.same_plan = of_same_plan(predicted, measured, report);
  report.scenario = predicted.scenario;
  report.predicted = predicted.side;
  report.measured = measured.side;
  report.time_error = relative_error(predicted.side.time_s, measured.side.time_s);
  for (const ResultFile::Rank& rank : predicted.ranks)
    report.compute_alone_s = std::max(report.compute_alone_s, rank.compute_s);
  report.compute_alone_error = relative_error(report.compute_alone_s, measured.side.time_s);
  add_null(add_segment(report, "total", predicted.side.time_s, measured.side.time_s), report.compute_alone_s);
  add_phases(predicted, measured, report);
  add_rank_means(predicted, measured, report);
  add_kinds(predicted, measured, report);
  add_terms(predicted, measured, report);
  report.memory_error_bytes = predicted.side.peak_bytes - measured.side.peak_bytes;
  for (std::size_t r = 0; r < std::min(predicted.ranks.size(), measured.ranks.size()); ++r) {
    const std::int64_t error = predicted.ranks[r].peak_bytes - measured.ranks[r].peak_bytes;
    if (std::abs(error) > std::abs(report.rank_memory_error_bytes)) report.rank_memory_error_bytes = error;
  }
  add_difference_notes(predicted, measured, report);
  add_notes(predicted, report);
  add_notes(measured, report);
  return report;
}

}  // namespace cplab
