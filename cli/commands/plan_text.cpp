// Plans for people.
#include "cli/commands/plan_text.hpp"

#include <fmt/format.h>

#include "plan/live_pairs.hpp"

namespace cplab {

std::string lane_text(const Lane& lane) {
  return fmt::format("{} {}", name(lane.kind), lane.index);
}

Resource resource_of(OpKind kind) {
  if (kind == OpKind::host_sync) return Resource::host;
  if (is_communication(kind)) return Resource::link;
  return flops_per_pair(kind, 1, 1) > 0 ? Resource::compute : Resource::memory;
}

std::string view_text(const RankPlan& rank, const View& view) {
  const Buffer& buffer = rank.buffers.at(view.buffer);
  std::string text = buffer.name;
  if (view.slot_end - view.slot_begin == 1) {
    if (buffer.slots > 1) text += fmt::format("[{}]", view.slot_begin);
  } else if (view.slot_end - view.slot_begin != buffer.slots) {
    text += fmt::format("[{}:{}]", view.slot_begin, view.slot_end);
  }
  const auto ranges = rank.rows_of(view);
  const bool whole = ranges.size() == 1 && ranges[0] == RowRange{0, buffer.rows, 1};
  if (!whole) {
    text += ranges.empty() ? " no rows" : " rows";
    constexpr std::size_t most = 3;
    for (std::size_t i = 0; i < ranges.size() && i < most; ++i) {
      const RowRange& range = ranges[i];
      text += fmt::format("{}{}:{}", i ? "," : " ", range.begin,
                          range.begin + (range.count - 1) * range.step + 1);
      if (range.step != 1) text += fmt::format(":{}", range.step);
    }
    if (ranges.size() > most) text += fmt::format(", {} more runs", ranges.size() - most);
  }
  if (view.head_begin != 0 || view.head_end != buffer.heads) {
    text += fmt::format(" heads {}:{}", view.head_begin, view.head_end);
  }
  if (view.width_begin != 0 || view.width_end != buffer.width) {
    text += fmt::format(" columns {}:{}", view.width_begin, view.width_end);
  }
  return text;
}

std::string operands_text(const RankPlan& rank, const Operation& op) {
  std::string text;
  const auto comma = [&] { return text.empty() || text.ends_with("=> ") ? "" : ", "; };
  for (const Access& access : rank.reads(op)) text += comma() + view_text(rank, rank.views.at(access.view));
  if (op.writes.count > 0) text += text.empty() ? "=> " : " => ";
  for (const Access& access : rank.writes(op)) {
    text += comma() + view_text(rank, rank.views.at(access.view));
    if (access.mode != WriteMode::store) text += fmt::format(" ({})", name(access.mode));
  }
  for (const Part& part : rank.parts_of(op)) {
    text += fmt::format("{}{} {} {} {}", comma(), part.send ? "send" : "receive",
                        view_text(rank, rank.views.at(part.view)), part.send ? "to" : "from", part.peer);
  }
  return text;
}

std::string waits_text(const RankPlan& rank, const Operation& op) {
  std::string text;
  for (const std::uint32_t edge : rank.after(op)) {
    const Operation& earlier = rank.operations.at(edge);
    if (!text.empty()) text += ", ";
    if (earlier.phase != op.phase) text += fmt::format("{}/", name(earlier.phase));
    text += std::to_string(earlier.ordinal);
  }
  return text;
}

}  // namespace cplab
