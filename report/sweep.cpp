// A sweep's result as JSON and CSV, and what is best in it; see sweep.hpp.
#include "report/sweep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <limits>
#include <map>
#include <tuple>

#include "report/json_parts.hpp"
#include "report/quantity.hpp"
#include "report/scenario_json.hpp"
#include "report/sweep_fields.hpp"
#include "report/table.hpp"

namespace cplab {

namespace {

using Style = JsonWriter::Style;

// Reasons are one where only their numbers differ.
std::string without_numbers(const std::string& reason) {
  std::string text;
  for (const char c : reason) {
    const bool digit = std::isdigit(static_cast<unsigned char>(c)) != 0;
    if (!digit) text += c;
    if (digit && (text.empty() || text.back() != '#')) text += '#';
  }
  return text;
}

// What a spreadsheet takes for a number: a size is written out.
std::string cell_of(const std::string& key, const SweepValue& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* count = std::get_if<std::int64_t>(&value)) return std::to_string(*count);
  if (const auto* number = std::get_if<double>(&value)) return fmt::format("{}", *number);
  const std::string& text = std::get<std::string>(value);
  bool overflow = false;
  if (!key.starts_with("hardware."))
    if (const auto size = parse_whole(text, Quantity::count, overflow)) return std::to_string(*size);
  return text;
}

std::string problem_of(const SweepPoint& point) {
  std::string text;
  for (const auto& [key, value] : point.set)
    if (key.starts_with("problem.")) text += cell_of(key, value) + "\n";
  return text;
}

// Of one problem: the fastest, and those that nothing else is both faster and smaller than.
void add_best(std::vector<const SweepPoint*> points, SweepReport& report) {
  if (std::ranges::any_of(points, [](const SweepPoint* p) { return p->fit.fits; }))
    std::erase_if(points, [](const SweepPoint* p) { return !p->fit.fits; });
  std::ranges::stable_sort(points, [](const SweepPoint* a, const SweepPoint* b) {
    return std::tie(a->time_s, a->peak_bytes) < std::tie(b->time_s, b->peak_bytes);
  });
  report.fastest.push_back(points.front()->number);
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (const SweepPoint* point : points) {
    if (point->peak_bytes >= least) continue;
    least = point->peak_bytes;
    report.pareto.push_back(point->number);
  }
}

}  // namespace

std::vector<RefusedGroup> grouped(const std::vector<SweepRefusal>& refused) {
  std::vector<RefusedGroup> groups;
  std::map<std::pair<RefusalKind, std::string>, std::size_t> known;
  for (const SweepRefusal& each : refused) {
    const auto [at, fresh] = known.emplace(std::pair(each.kind, without_numbers(each.reason)), groups.size());
    if (fresh) groups.push_back({each.kind, each.reason, each.nearest, 0, each});
    ++groups[at->second].count;
  }
  return groups;
}

void find_best(SweepReport& report) {
  std::vector<std::vector<const SweepPoint*>> problems;
  std::map<std::string, std::size_t> known;
  for (const SweepPoint& point : report.points) {
    const auto [at, fresh] = known.emplace(problem_of(point), problems.size());
    if (fresh) problems.emplace_back();
    problems[at->second].push_back(&point);
  }
  report.fastest.clear();
  report.pareto.clear();
  for (std::vector<const SweepPoint*>& points : problems) add_best(std::move(points), report);
}

void write_keys(JsonWriter& json, std::string_view key, const SweepKeys& keys) {
  json.key(key);
  json.begin_object();
  for (const auto& [name, value] : keys) {
    json.key(name);
    std::visit([&](const auto& each) { json.value(each); }, value);
  }
  json.end_object();
}

void write_nearest(JsonWriter& json, const std::optional<std::string>& nearest) {
  json.key("nearest");
  if (nearest)
    json.value(*nearest);
  else
    json.null();
}

void write_study(JsonWriter& json, const SweepStudy& study) {
  json.field("name", study.name);
  json.field("scenario", study.scenario);
  json.field("scenario_sha256", study.scenario_sha256);
  json.objects("files", study.files, [&](const GivenFile& file) {
    json.field("option", file.option);
    json.field("file", file.file);
    json.field("sha256", file.sha256);
  });
  json.list("set", study.set);
  json.list("unset", study.unset);
  json.key("options");
  json.begin_object();
  for (const auto& [option, value] : study.options) json.field(option, value);
  json.end_object();
  json.key("vary");
  json.begin_object();
  for (const auto& [keys, values] : study.vary) json.list(keys, values);
  json.end_object();
  json.list("where", study.where);
  json.field("product", study.product);
  json.field("points", study.points);
  json.objects("excluded", study.excluded, [&](const auto& each) {
    json.field("where", each.first);
    json.field("count", each.second);
  });
}

void write_point(JsonWriter& json, const SweepPoint& point) {
  json.field("number", point.number);
  write_keys(json, "set", point.set);
  json.field("algorithm", point.algorithm);
  json.field("placement", point.placement);
  json.field("machine", point.machine);
  json.field("gpu", point.gpu);
  json.field("placement_padding_tokens", point.placement_padding_tokens);
  json.field("time_s", point.time_s);
  json.field("low_s", point.low_s);
  json.field("high_s", point.high_s);
  write_chain(json, point.chain);
  json.objects("phases", point.phases, [&](const PhaseTime& phase) {
    json.field("name", name(phase.phase));
    json.field("time_s", phase.time_s);
  });
  json.field("exposed_wait_s", point.exposed_wait_s);
  json.field("exposed_transfer_s", point.exposed_transfer_s);
  json.field("peak_bytes", point.peak_bytes);
  json.field("peak_rank", point.peak_rank);
  json.field("capacity_bytes", point.fit.capacity_bytes);
  json.field("fixed_bytes", point.fit.fixed_bytes);
  json.field("fits", point.fit.fits);
  json.field("headroom_bytes", point.fit.headroom_bytes);
  json.field("messages", point.messages);
  json.field("host_syncs", point.host_syncs);
  write_origins(json, point.origins);
  json.list("notes", point.notes);
}

void write_json(std::ostream& out, const SweepReport& report) {
  JsonWriter json(out);
  begin_result(json, "sweep", "sweep", report.header.versions);
  json.key("scenario");
  if (report.scenario)
    write_scenario(json, *report.scenario, report.sections);
  else
    json.null();
  json.key("study");
  json.begin_object();
  write_study(json, report.header.study);
  json.end_object();
  json.key("shard");
  if (report.header.shard.empty())
    json.null();
  else
    json.value(report.header.shard);
  json.objects("points", report.points, [&](const SweepPoint& point) { write_point(json, point); });
  json.objects("refused", grouped(report.refused), [&](const RefusedGroup& group) {
    json.field("kind", name(group.kind));
    json.field("reason", group.reason);
    json.field("count", group.count);
    write_nearest(json, group.nearest);
    json.key("example");
    json.begin_object();
    json.field("number", group.example.number);
    write_keys(json, "set", group.example.set);
    json.end_object();
  });
  json.field("missing", report.missing);
  json.list("fastest", report.fastest);
  json.list("pareto", report.pareto);
  json.key("notes");
  json.begin_array();
  for (const std::string& note : report.notes) json.value(note);
  json.end_array();
  json.end_object();
}

void write_csv(std::ostream& out, const SweepReport& report) {
  std::vector<std::string> header{"number"};
  for (const auto& [keys, values] : report.header.study.vary)
    for (std::size_t at = 0; at <= keys.size();) {
      const std::size_t end = std::min(keys.find(", ", at), keys.size());
      header.push_back(keys.substr(at, end - at));
      at = end + 2;
    }
  for (const char* column : {"algorithm",
                             "placement",
                             "machine",
                             "gpu",
                             "time_s",
                             "low_s",
                             "high_s",
                             "exposed_wait_s",
                             "exposed_transfer_s",
                             "peak_bytes",
                             "peak_rank",
                             "capacity_bytes",
                             "fixed_bytes",
                             "fits",
                             "headroom_bytes",
                             "messages",
                             "host_syncs",
                             "measured",
                             "interpolated",
                             "extrapolated",
                             "assumed",
                             "placement_padding_tokens"})
    header.emplace_back(column);
  write_csv_row(out, header);
  for (const SweepPoint& p : report.points) {
    std::vector<std::string> row{std::to_string(p.number)};
    for (const auto& [key, value] : p.set) row.push_back(cell_of(key, value));
    row.insert(row.end(), {p.algorithm, p.placement, p.machine, p.gpu});
    for (const double seconds : {p.time_s, p.low_s, p.high_s, p.exposed_wait_s, p.exposed_transfer_s})
      row.push_back(fmt::format("{}", seconds));
    row.insert(row.end(), {std::to_string(p.peak_bytes), std::to_string(p.peak_rank),
                           std::to_string(p.fit.capacity_bytes), std::to_string(p.fit.fixed_bytes),
                           p.fit.fits ? "true" : "false", std::to_string(p.fit.headroom_bytes),
                           std::to_string(p.messages), std::to_string(p.host_syncs)});
    for (const double share :
         {p.origins.measured, p.origins.interpolated, p.origins.extrapolated, p.origins.assumed})
      row.push_back(fmt::format("{}", share));
    row.push_back(std::to_string(p.placement_padding_tokens));
    write_csv_row(out, row);
  }
}

}  // namespace cplab
