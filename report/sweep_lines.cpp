// Lines of JSON of a sweep; see sweep.hpp.
#include <sstream>
#include <stdexcept>

#include "report/json_parts.hpp"
#include "report/json_writer.hpp"
#include "report/sweep.hpp"
#include "report/sweep_fields.hpp"

namespace cplab {

namespace {

constexpr std::string_view schema = "cplab.sweep.lines.1";
using Style = JsonWriter::Style;

template <class Write>
std::string one_line(Write write) {
  std::ostringstream out;
  {
    JsonWriter json(out);
    json.begin_object(Style::line);
    write(json);
    json.end_object();
  }
  std::string text = out.str();
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

std::vector<std::string> texts(const JsonNode& list) {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < list.size(); ++i) all.push_back(list.at(i).text());
  return all;
}

bool is_whole(const JsonNode& node) {
  try {
    (void)node.integer();
    return true;
  } catch (const JsonFileError&) {
    return false;
  }
}

SweepKeys read_keys(const JsonNode& node) {
  SweepKeys keys;
  node.members([&](const std::string& key, const JsonNode& value) {
    if (value.is_text())
      keys.emplace_back(key, value.text());
    else if (value.is_boolean())
      keys.emplace_back(key, value.boolean());
    else if (is_whole(value))
      keys.emplace_back(key, value.integer());
    else
      keys.emplace_back(key, value.number());
  });
  return keys;
}

SweepStudy read_study_node(const JsonNode& node) {
  SweepStudy study;
  study.name = node.at("name").text();
  study.scenario = node.at("scenario").text();
  study.scenario_sha256 = node.at("scenario_sha256").text();
  const JsonNode files = node.at("files");
  for (std::size_t i = 0; i < files.size(); ++i)
    study.files.push_back(
        {files.at(i).at("option").text(), files.at(i).at("file").text(), files.at(i).at("sha256").text()});
  study.set = texts(node.at("set"));
  study.unset = texts(node.at("unset"));
  node.at("options").members([&](const std::string& option, const JsonNode& value) {
    study.options.emplace_back(option, value.text());
  });
  node.at("vary").members(
      [&](const std::string& keys, const JsonNode& values) { study.vary.emplace_back(keys, texts(values)); });
  study.where = texts(node.at("where"));
  study.product = node.at("product").integer(0);
  study.points = node.at("points").integer(0);
  const JsonNode excluded = node.at("excluded");
  for (std::size_t i = 0; i < excluded.size(); ++i)
    study.excluded.emplace_back(excluded.at(i).at("where").text(), excluded.at(i).at("count").integer(0));
  return study;
}

ChainShares read_chain(const JsonNode& node) {
  return {node.at("attention").number(), node.at("other_kernels").number(), node.at("communication").number(),
          node.at("host").number()};
}

OriginShares read_origins(const JsonNode& node) {
  return {node.at("measured").number(), node.at("interpolated").number(), node.at("extrapolated").number(),
          node.at("assumed").number()};
}

Phase phase_of(const JsonNode& node) {
  for (const Phase phase : {Phase::forward, Phase::backward})
    if (node.text() == name(phase)) return phase;
  node.fail("is no phase");
}

std::string version_text(const Versions& versions) {
  std::string text;
  for (const auto& [what, version] : versions) text += (text.empty() ? "" : ", ") + what + " " + version;
  return text;
}

}  // namespace

std::string_view name(RefusalKind kind) {
  switch (kind) {
    case RefusalKind::input: return "input";
    case RefusalKind::memory: return "memory";
    case RefusalKind::internal: return "internal";
  }
  return "";
}

std::string line_of(const SweepHeader& header) {
  return one_line([&](JsonWriter& json) {
    json.field("schema", schema);
    write_versions(json, header.versions);
    json.key("study");
    json.begin_object();
    write_study(json, header.study);
    json.end_object();
    json.key("shard");
    if (header.shard.empty())
      json.null();
    else
      json.value(header.shard);
  });
}

std::string line_of(const SweepPoint& point) {
  return one_line([&](JsonWriter& json) { write_point(json, point); });
}

std::string line_of(const SweepRefusal& refusal) {
  return one_line([&](JsonWriter& json) {
    json.field("number", refusal.number);
    write_keys(json, "set", refusal.set);
    json.key("refused");
    json.begin_object();
    json.field("kind", name(refusal.kind));
    json.field("reason", refusal.reason);
    write_nearest(json, refusal.nearest);
    json.end_object();
  });
}

SweepHeader read_sweep_header(const JsonNode& node) {
  if (!node.is_object() || !node.has("schema") || !node.at("schema").is_text() ||
      node.at("schema").text() != schema)
    node.fail("is not the first line of points of a sweep (schema \"" + std::string(schema) + "\")");
  SweepHeader header{read_versions(node), read_study_node(node.at("study")), ""};
  if (!node.at("shard").is_null()) header.shard = node.at("shard").text();
  return header;
}

bool is_refusal(const JsonNode& node) {
  return node.has("refused");
}

SweepRefusal read_sweep_refusal(const JsonNode& node) {
  SweepRefusal refusal;
  refusal.number = node.at("number").integer(0);
  refusal.set = read_keys(node.at("set"));
  const JsonNode why = node.at("refused");
  const std::string& kind = why.at("kind").text();
  for (const RefusalKind each : {RefusalKind::input, RefusalKind::memory, RefusalKind::internal})
    if (kind == name(each)) refusal.kind = each;
  if (kind != name(refusal.kind)) why.fail("kind \"" + kind + "\"; legal: input, memory, internal");
  refusal.reason = why.at("reason").text();
  if (!why.at("nearest").is_null()) refusal.nearest = why.at("nearest").text();
  return refusal;
}

SweepPoint read_sweep_point(const JsonNode& node) {
  SweepPoint point;
  point.number = node.at("number").integer(0);
  point.set = read_keys(node.at("set"));
  point.algorithm = node.at("algorithm").text();
  point.placement = node.at("placement").text();
  point.machine = node.at("machine").text();
  point.gpu = node.at("gpu").text();
  point.placement_padding_tokens = node.at("placement_padding_tokens").integer();
  point.time_s = node.at("time_s").number();
  point.low_s = node.at("low_s").number();
  point.high_s = node.at("high_s").number();
  point.chain = read_chain(node.at("chain"));
  const JsonNode phases = node.at("phases");
  for (std::size_t i = 0; i < phases.size(); ++i)
    point.phases.push_back({phase_of(phases.at(i).at("name")), phases.at(i).at("time_s").number()});
  point.exposed_wait_s = node.at("exposed_wait_s").number();
  point.exposed_transfer_s = node.at("exposed_transfer_s").number();
  point.peak_bytes = node.at("peak_bytes").integer();
  point.peak_rank = static_cast<int>(node.at("peak_rank").integer(0, INT32_MAX));
  point.fit = {node.at("capacity_bytes").integer(), node.at("fixed_bytes").integer(),
               node.at("fits").boolean(), node.at("headroom_bytes").integer()};
  point.messages = node.at("messages").integer();
  point.host_syncs = node.at("host_syncs").integer();
  point.origins = read_origins(node.at("origins"));
  point.notes = texts(node.at("notes"));
  return point;
}

std::vector<std::string> differences(const SweepHeader& was, const SweepHeader& now) {
  std::vector<std::string> all;
  const SweepStudy &a = was.study, &b = now.study;
  if (was.versions != now.versions)
    all.push_back("made by " + version_text(was.versions) + "; this is " + version_text(now.versions));
  if (a.scenario_sha256 != b.scenario_sha256)
    all.push_back("the scenario " + a.scenario + " held sha256 " + a.scenario_sha256 + ", now " + b.scenario +
                  " holds " + b.scenario_sha256);
  const auto same = [](const GivenFile& x, const GivenFile& y) {
    return x.option == y.option && x.file == y.file && x.sha256 == y.sha256;
  };
  if (!std::equal(a.files.begin(), a.files.end(), b.files.begin(), b.files.end(), same)) {
    for (std::size_t i = 0; i < std::max(a.files.size(), b.files.size()); ++i) {
      if (i < a.files.size() && i < b.files.size() && same(a.files[i], b.files[i])) continue;
      const auto text = [&](const std::vector<GivenFile>& files) {
        return i < files.size() ? files[i].file + " with sha256 " + files[i].sha256 : std::string("none");
      };
      all.push_back("a file was " + text(a.files) + ", now " + text(b.files));
      break;
    }
  }
  const auto tell = [&](bool equal, const std::string& what) {
    if (!equal) all.push_back(what + " differ");
  };
  tell(a.vary == b.vary, "the keys that vary, or their values,");
  tell(a.where == b.where, "the constraints");
  tell(a.set == b.set && a.unset == b.unset, "the changes of --set and --unset");
  tell(a.options == b.options, "the options");
  tell(a.points == b.points && a.product == b.product, "the counts of points");
  return all;
}

}  // namespace cplab
