// What several JSON results begin with or hold.
#include "report/json_parts.hpp"

#include <cstdint>
#include <string>

namespace cplab {

void begin_result(JsonWriter& json, std::string_view schema, std::string_view command,
                  const Versions& versions) {
  json.begin_object();
  json.field("schema", "cplab." + std::string(schema) + ".1");
  json.field("command", command);
  json.key("versions");
  json.begin_object();
  for (const auto& [what, version] : versions) json.field(what, version);
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
