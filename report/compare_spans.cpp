// See compare_spans.hpp.
#include "report/compare_spans.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <ostream>
#include <tuple>
#include <utility>

#include "report/compare.hpp"
#include "report/compare_terms.hpp"
#include "report/json_parts.hpp"
#include "report/json_writer.hpp"

namespace cplab {
namespace {

constexpr std::size_t class_count = static_cast<std::size_t>(SpanClass::other) + 1;

using Operations = std::vector<const ResultFile::Operation*>;

// Of the rank, in order of their start; a host_sync runs nothing.
Operations operations_of(const ResultFile& result, int rank) {
  Operations own;
  for (const ResultFile::Operation& op : result.operations)
    if (op.rank == rank && op.kind != name(OpKind::host_sync)) own.push_back(&op);
  std::stable_sort(own.begin(), own.end(),
                   [](const auto* a, const auto* b) { return a->start_s < b->start_s; });
  return own;
}

// What no span was matched with, by side, class and name.
class Leftovers {
 public:
  void add(bool ours, SpanClass of, const std::string& name, double seconds) {
    Sum& sum = sums_[{ours, of, name}];
    ++sum.count;
    sum.seconds += seconds;
  }
  std::vector<SpanComparison::Unmatched> longest_first() const {
    std::vector<SpanComparison::Unmatched> all;
    for (const auto& [key, sum] : sums_)
      all.push_back({std::get<0>(key), std::get<1>(key), std::get<2>(key), sum.count, sum.seconds});
    std::stable_sort(all.begin(), all.end(),
                     [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
    return all;
  }

 private:
  struct Sum {
    std::int64_t count = 0;
    double seconds = 0;
  };
  std::map<std::tuple<bool, SpanClass, std::string>, Sum> sums_;
};

void match(SpanComparison& comparison, const Operations& operations, const std::vector<TraceSpan>& spans) {
  std::array<Operations, class_count> ours;
  std::array<SpanComparison::Class, class_count> classes;
  for (const auto* op : operations)
    ours[static_cast<std::size_t>(class_of_operation(op->kind))].push_back(op);
  Leftovers left;
  for (const TraceSpan& span : spans) {
    const auto c = static_cast<std::size_t>(span.of);
    SpanComparison::Class& of = classes[c];
    ++of.theirs;
    const double measured_s = span.end_s - span.start_s;
    const auto next = static_cast<std::size_t>(of.matched);
    if (span.of == SpanClass::other || next >= ours[c].size()) {
      left.add(false, span.of, span.name, measured_s);
      continue;
    }
    const ResultFile::Operation& op = *ours[c][next];
    ++of.matched;
    of.predicted_s += op.seconds;
    of.measured_s += measured_s;
    of.absolute_s += std::abs(op.seconds - measured_s);
    comparison.pairs.push_back({span.of, op.id, span.name, op.seconds, op.wait_s, measured_s});
  }
  for (std::size_t c = 0; c < class_count; ++c) {
    classes[c].of = static_cast<SpanClass>(c);
    classes[c].ours = static_cast<std::int64_t>(ours[c].size());
    classes[c].error = relative_error(classes[c].predicted_s, classes[c].measured_s);
    for (auto i = static_cast<std::size_t>(classes[c].matched); i < ours[c].size(); ++i)
      left.add(true, classes[c].of, ours[c][i]->kind, ours[c][i]->seconds);
    if (classes[c].ours + classes[c].theirs > 0) comparison.classes.push_back(classes[c]);
  }
  comparison.unmatched = left.longest_first();
}

// Stretches of one sort, joined where they overlap.
class Union {
 public:
  void add(double begin_s, double end_s) { stretches_.emplace_back(begin_s, end_s); }
  void join() {
    std::sort(stretches_.begin(), stretches_.end());
    std::vector<std::pair<double, double>> joined;
    for (const auto& each : stretches_)
      if (!joined.empty() && each.first <= joined.back().second)
        joined.back().second = std::max(joined.back().second, each.second);
      else
        joined.push_back(each);
    stretches_ = std::move(joined);
  }
  double seconds() const {
    double sum = 0;
    for (const auto& [begin_s, end_s] : stretches_) sum += end_s - begin_s;
    return sum;
  }
  // Of both joined: what they have in common.
  double seconds_with(const Union& other) const {
    double sum = 0;
    auto at = other.stretches_.begin();
    for (const auto& [begin_s, end_s] : stretches_) {
      while (at != other.stretches_.end() && at->second <= begin_s) ++at;
      for (auto each = at; each != other.stretches_.end() && each->first < end_s; ++each)
        sum += std::min(end_s, each->second) - std::max(begin_s, each->first);
    }
    return sum;
  }

 private:
  std::vector<std::pair<double, double>> stretches_;
};

struct Totals {
  Union compute, communication;
  void join() {
    compute.join();
    communication.join();
  }
  double exposed_s() const { return communication.seconds() - communication.seconds_with(compute); }
};

void add_segments(SpanComparison& comparison, const Operations& operations,
                  const std::vector<TraceSpan>& spans) {
  Totals ours, theirs;
  for (const auto* op : operations) {
    const bool moves = moves_data(op->kind);
    (moves ? ours.communication : ours.compute).add(op->start_s, op->start_s + op->seconds);
  }
  std::map<std::int64_t, Totals> streams;
  std::map<std::int64_t, std::int64_t> counts;
  for (const TraceSpan& span : spans) {
    const bool moves = communicates(span);
    for (Totals* sum : {&theirs, &streams[span.stream]})
      (moves ? sum->communication : sum->compute).add(span.start_s, span.end_s);
    ++counts[span.stream];
  }
  ours.join();
  theirs.join();
  const auto add = [&](const char* what, double predicted_s, double measured_s) {
    comparison.segments.push_back({what, predicted_s, measured_s, relative_error(predicted_s, measured_s)});
  };
  add("total", comparison.predicted_s, comparison.measured_s);
  add("compute", ours.compute.seconds(), theirs.compute.seconds());
  add("communication", ours.communication.seconds(), theirs.communication.seconds());
  add("exposed_communication", ours.exposed_s(), theirs.exposed_s());
  for (auto& [number, sum] : streams) {
    sum.join();
    comparison.streams.push_back(
        {number, counts[number], sum.compute.seconds(), sum.communication.seconds()});
  }
}

// What the two cannot say of each other.
void add_limits_note(SpanComparison& comparison) {
  comparison.notes.push_back(
      "compared: what ran on one GPU, joined by class and order, and the time under way of compute and "
      "communication; not compared, because such a trace does not say it or ids are absent: waiting for "
      "peers inside "
      "a communication, memory, launches and the host, other ranks");
}

// A trace of several iterations, of which a result has one.
void add_repeated_note(SpanComparison& comparison) {
  for (const SpanComparison::Class& each : comparison.classes) {
    if (each.of != SpanClass::attend || each.ours == 0 || each.theirs < 2 * each.ours) continue;
    comparison.notes.push_back(comparison.file + ": " + std::to_string(each.theirs) +
                               " forward attention kernels where one " + "iteration of ours has " +
                               std::to_string(each.ours) +
                               ": the first are matched; a trace of one step, or with ProfilerStep around "
                               "each, is of one iteration");
  }
}

}  // namespace

SpanComparison compare_spans(const ResultFile& result, const SpanFile& trace) {
  if (result.operations.empty())
    throw JsonFileError(result.side.file + ": no operations in it; write it with cplab " +
                        result.side.command + " ... --operations --json FILE");
  SpanComparison comparison;
  comparison.scenario = result.scenario;
  comparison.predicted = result.side;
  comparison.file = trace.file;
  comparison.tool = trace.tool;
  comparison.rank = std::max(0, trace.rank);
  comparison.notes = trace.notes;
  const Operations operations = operations_of(result, comparison.rank);
  if (operations.empty())
    throw JsonFileError(trace.file + ": is of rank " + std::to_string(comparison.rank) + ", and " +
                        result.side.file + " has " + std::to_string(result.ranks.size()) + " ranks");
  if (trace.rank < 0) comparison.notes.push_back(trace.file + " says no rank: compared with rank 0");
  double begin_s = operations.front()->start_s, end_s = begin_s;
  for (const auto* op : operations) end_s = std::max(end_s, op->start_s + op->seconds);
  comparison.compute_alone_s = result.ranks[static_cast<std::size_t>(comparison.rank)].compute_s;
  comparison.predicted_s = end_s - begin_s;
  begin_s = trace.spans.front().start_s;
  end_s = begin_s;
  for (const TraceSpan& span : trace.spans) end_s = std::max(end_s, span.end_s);
  comparison.measured_s = end_s - begin_s;
  comparison.error = relative_error(comparison.predicted_s, comparison.measured_s);
  comparison.compute_alone_error = relative_error(comparison.compute_alone_s, comparison.measured_s);
  match(comparison, operations, trace.spans);
  add_segments(comparison, operations, trace.spans);
  add_limits_note(comparison);
  add_repeated_note(comparison);
  return comparison;
}

void write_json(std::ostream& out, const SpanComparison& comparison) {
  JsonWriter json(out);
  begin_result(json, "spans", "compare",
               ResultHeader{comparison.versions, comparison.scenario, {}, {}, comparison.predicted.given});
  json.field("predicted", comparison.predicted.file);
  json.field("measured", comparison.file);
  json.field("tool", comparison.tool);
  json.field("rank", comparison.rank);
  json.field("predicted_s", comparison.predicted_s);
  json.field("measured_s", comparison.measured_s);
  json.field("error", comparison.error);
  json.field("compute_alone_s", comparison.compute_alone_s);
  json.field("compute_alone_error", comparison.compute_alone_error);
  json.objects("segments", comparison.segments, [&](const SpanComparison::Segment& each) {
    json.field("name", each.name);
    json.field("predicted_s", each.predicted_s);
    json.field("measured_s", each.measured_s);
    json.field("error", each.error);
  });
  json.objects("streams", comparison.streams, [&](const SpanComparison::Stream& each) {
    json.field("stream", each.number);
    json.field("spans", each.spans);
    json.field("compute_s", each.compute_s);
    json.field("communication_s", each.communication_s);
  });
  json.objects("classes", comparison.classes, [&](const SpanComparison::Class& each) {
    json.field("class", name(each.of));
    json.field("ours", each.ours);
    json.field("theirs", each.theirs);
    json.field("matched", each.matched);
    json.field("predicted_s", each.predicted_s);
    json.field("measured_s", each.measured_s);
    json.field("error", each.error);
    json.field("absolute_s", each.absolute_s);
  });
  json.objects("matched", comparison.pairs, [&](const SpanComparison::Pair& each) {
    json.field("class", name(each.of));
    json.field("id", each.id);
    json.field("name", each.name);
    json.field("predicted_s", each.predicted_s);
    json.field("wait_s", each.wait_s);
    json.field("measured_s", each.measured_s);
  });
  json.objects("unmatched", comparison.unmatched, [&](const SpanComparison::Unmatched& each) {
    json.field("side", each.ours ? "ours" : "theirs");
    json.field("class", name(each.of));
    json.field("name", each.name);
    json.field("count", each.count);
    json.field("seconds", each.seconds);
  });
  json.list("notes", comparison.notes);
  json.end_object();
}

}  // namespace cplab
