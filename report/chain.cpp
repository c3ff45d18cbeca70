// See chain.hpp.
#include "report/chain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "report/json_writer.hpp"
#include "report/table.hpp"

namespace cplab {
namespace {

constexpr double worth_a_word = 0.01;

struct PartsOfKind {
  ChainPart most;  // its largest part
  double seconds = 0;
  std::vector<std::pair<std::int32_t, std::int32_t>> places;  // rank and peer
};

std::vector<PartsOfKind> groups_of(const ChainParts& parts) {
  std::vector<PartsOfKind> groups;
  for (const ChainPart& part : parts.all()) {
    auto group = std::find_if(groups.begin(), groups.end(), [&](const PartsOfKind& each) {
      return each.most.resource == part.resource && each.most.kind == part.kind;
    });
    if (group == groups.end()) group = groups.insert(groups.end(), {part, 0, {}});
    group->seconds += part.seconds;
    group->places.emplace_back(part.rank, part.peer);
  }
  std::stable_sort(groups.begin(), groups.end(),
                   [](const PartsOfKind& a, const PartsOfKind& b) { return a.seconds > b.seconds; });
  return groups;
}

std::string place_text(std::pair<std::int32_t, std::int32_t> place) {
  if (place.second < 0) return fmt::format("rank {}", place.first);
  return fmt::format("rank {} -> {}", place.first, place.second);
}

std::string kind_text(const ChainPart& part) {
  return part.resource == ChainResource::host ? "launches" : std::string(name(part.kind));
}

// "on rank 3", "rank 3 -> 4", "on 8 ranks, most rank 3".
std::string places_text(const PartsOfKind& group) {
  const bool message = group.most.peer >= 0;
  if (group.places.size() == 1) return (message ? " " : " on ") + place_text(group.places.front());
  return fmt::format(" {}{} {}, most {}", message ? "" : "on ", group.places.size(),
                     message ? "hops" : "ranks", place_text(group.places.front()));
}

std::string how_text(ChainResource resource) {
  switch (resource) {
    case ChainResource::link: return " over link";
    case ChainResource::nic: return " over NIC";
    case ChainResource::startup: return " start-up";
    case ChainResource::gpu:
    case ChainResource::host:
    case ChainResource::cpu:
    case ChainResource::message: break;
  }
  return "";
}

}  // namespace

std::string_view name(ChainResource resource) {
  switch (resource) {
    case ChainResource::gpu: return "gpu";
    case ChainResource::link: return "link";
    case ChainResource::nic: return "nic";
    case ChainResource::startup: return "startup";
    case ChainResource::host: return "host";
    case ChainResource::cpu: return "cpu";
    case ChainResource::message: return "message";
  }
  return "";
}

void UseSeconds::add(OpKind kind, double s) {
  if (kind == OpKind::attend || kind == OpKind::attend_backward || is_linear(kind))
    attention += s;
  else if (kind == OpKind::host_sync)
    host += s;
  else
    (is_communication(kind) ? communication : other_kernels) += s;
}

ChainShares UseSeconds::shares() const {
  const double all = total();
  if (all <= 0) return {};
  return {attention / all, other_kernels / all, communication / all, host / all};
}

std::string chain_text(const ChainParts& parts, double time_s) {
  std::string text;
  for (const PartsOfKind& group : groups_of(parts)) {
    if (group.seconds < worth_a_word * time_s) break;
    text += fmt::format("{}{}{}{} {} %", text.empty() ? "" : ", ", kind_text(group.most), places_text(group),
                        how_text(group.most.resource), format_percent(group.seconds / time_s));
  }
  return text.empty() ? "nothing of a percent" : text;
}

void write_chain_parts(JsonWriter& json, const ChainParts& parts, double time_s) {
  json.objects("chain_parts", parts.all(), [&](const ChainPart& part) {
    json.field("resource", name(part.resource));
    json.field("kind", part.resource == ChainResource::host ? std::string_view("launch") : name(part.kind));
    json.field("rank", part.rank);
    json.field("peer", part.peer);
    json.field("time_s", part.seconds);
    json.field("share", time_s > 0 ? part.seconds / time_s : 0);
  });
}

}  // namespace cplab
