// What several JSON results begin with or hold.
#include "report/json_parts.hpp"

#include <cstdint>
#include <string>
#include <vector>

#include "report/scenario_json.hpp"

namespace cplab {

void begin_result(JsonWriter& json, std::string_view schema, std::string_view command,
                  const Versions& versions) {
  json.begin_object();
  json.field("schema", "cplab." + std::string(schema) + ".1");
  json.field("command", command);
  write_versions(json, versions);
}

void begin_result(JsonWriter& json, std::string_view schema, std::string_view command,
                  const ResultHeader& header) {
  begin_result(json, schema, command, header.versions);
  json.key("scenario");
  write_scenario(json, header.scenario, header.sections);
  if (header.given) write_given(json, *header.given);
}

void write_versions(JsonWriter& json, const Versions& versions) {
  json.key("versions");
  json.begin_object();
  for (const auto& [what, version] : versions) json.field(what, version);
  json.end_object();
}

void write_given(JsonWriter& json, const Given& given) {
  json.key("given");
  json.begin_object();
  json.field("scenario", given.scenario);
  json.objects("files", given.files, [&](const GivenFile& file) {
    json.field("option", file.option);
    json.field("file", file.file);
    json.field("sha256", file.sha256);
  });
  json.list("set", given.set);
  json.list("unset", given.unset);
  json.key("options");
  json.begin_object();
  for (const auto& [option, value] : given.options) json.field(option, value);
  json.end_object();
  json.list("notes", given.notes);
  json.end_object();
}

Versions read_versions(const JsonNode& result) {
  Versions versions;
  if (!result.has("versions")) return versions;
  result.at("versions").members([&](const std::string& what, const JsonNode& version) {
    versions.emplace_back(what, version.text());
  });
  return versions;
}

std::optional<Given> read_given(const JsonNode& result) {
  if (!result.has("given")) return std::nullopt;
  const JsonNode node = result.at("given");
  node.only({"scenario", "files", "set", "unset", "options", "notes"});
  Given given;
  given.scenario = node.at("scenario").text();
  const JsonNode files = node.at("files");
  for (std::size_t i = 0; i < files.size(); ++i) {
    const JsonNode file = files.at(i);
    given.files.push_back({file.at("option").text(), file.at("file").text(), file.at("sha256").text()});
  }
  const auto read_list = [&](const char* key, std::vector<std::string>& list) {
    for (std::size_t i = 0; i < node.at(key).size(); ++i) list.push_back(node.at(key).at(i).text());
  };
  read_list("set", given.set);
  read_list("unset", given.unset);
  node.at("options").members([&](const std::string& option, const JsonNode& value) {
    given.options.emplace_back(option, value.text());
  });
  read_list("notes", given.notes);
  return given;
}

void write_chain(JsonWriter& json, const ChainShares& chain) {
  json.key("chain");
  json.begin_object(JsonWriter::Style::line);
  json.field("attention", chain.attention);
  json.field("other_kernels", chain.other_kernels);
  json.field("communication", chain.communication);
  json.field("host", chain.host);
  json.end_object();
}

void write_origins(JsonWriter& json, const OriginShares& origins) {
  json.key("origins");
  json.begin_object(JsonWriter::Style::line);
  json.field("measured", origins.measured);
  json.field("interpolated", origins.interpolated);
  json.field("extrapolated", origins.extrapolated);
  json.field("assumed", origins.assumed);
  json.end_object();
}

void write_lane(JsonWriter& json, Lane lane) {
  json.key("lane");
  json.begin_object();
  json.field("kind", name(lane.kind));
  json.field("index", static_cast<std::int64_t>(lane.index));
  json.end_object();
}

}  // namespace cplab
