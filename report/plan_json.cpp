// Writes a plan as JSON, one operation a line.
#include "report/plan_json.hpp"

#include <cmath>

#include "report/json_parts.hpp"
#include "report/json_writer.hpp"
#include "report/scenario_json.hpp"

namespace cplab {
namespace {

using Style = JsonWriter::Style;

class RankWriter {
 public:
  RankWriter(JsonWriter& json, const Plan& plan, const RankPlan& rank)
      : json_(json), plan_(plan), rank_(rank) {}

  void write() {
    json_.begin_object();
    json_.field("rank", rank_.rank);
    json_.field("replica", rank_.replica);
    json_.field("position", rank_.position);
    json_.field("arena_bytes", rank_.arena_bytes);
    json_.key("buffers");
    json_.begin_array();
    for (const Buffer& buffer : rank_.buffers) write(buffer);
    json_.end_array();
    json_.key("operations");
    json_.begin_array();
    for (const Operation& op : rank_.operations) write(op);
    json_.end_array();
    json_.end_object();
  }

 private:
  void write(const Buffer& buffer) {
    json_.begin_object(Style::line);
    json_.field("name", buffer.name);
    json_.field("role", name(buffer.role));
    json_.field("category", name(buffer.category));
    json_.field("layout", name(buffer.layout));
    json_.key("axes");
    json_.begin_array();
    write_axis("slot", buffer.slots);
    write_axis("rows", buffer.rows);
    write_axis("heads", buffer.heads);
    write_axis("width", buffer.width);
    json_.end_array();
    json_.field("planes", buffer.planes);
    json_.field("bytes", buffer.bytes);
    json_.field("offset", buffer.offset);
    if (!buffer.slab.empty()) json_.field("slab", buffer.slab);
    json_.end_object();
  }

  void write_axis(const char* axis, std::int64_t size) {
    json_.begin_object();
    json_.field("name", axis);
    json_.field("size", size);
    json_.end_object();
  }

  void write(const Operation& op) {
    json_.begin_object(Style::line);
    json_.field("id", operation_id(rank_, op));
    json_.field("phase", name(op.phase));
    json_.field("step", op.step);
    write_lane(json_, op.lane);
    json_.field("kind", name(op.kind));
    json_.field("transport", name(op.transport));
    if (op.channels > 0) json_.field("channels", std::int64_t{op.channels});
    json_.key("group");
    if (is_communication(op.kind)) {
      json_.value(plan_.groups[op.group].name);
    } else {
      json_.null();
    }
    if (op.kind == OpKind::all_reduce) json_.field("reduction", name(op.reduction));
    if (op.kind == OpKind::fill || op.kind == OpKind::attend || op.kind == OpKind::attend_backward)
      write_value(op.value);
    write_accesses("reads", rank_.reads(op), false);
    write_accesses("writes", rank_.writes(op), true);
    write_parts(op);
    write_segments(op);
    if (is_linear(op.kind)) write_chunks(op);
    if (op.softcap != 0) json_.field("softcap", op.softcap);
    if (op.bias != BiasForm::none) json_.field("bias", name(op.bias));
    if (op.columns.count > 0) write_columns(op);
    json_.pair("heads", op.head_begin, op.head_end);
    write_edges("after", rank_.after(op));
    write_edges("after_started", rank_.after_started(op));
    json_.field("flops", op.flops);
    json_.field("bytes", op.bytes);
    json_.end_object();
  }

  void write_edges(const char* key, std::span<const std::uint32_t> edges) {
    json_.key(key);
    json_.begin_array();
    for (const std::uint32_t edge : edges) json_.value(operation_id(rank_, rank_.operations[edge]));
    json_.end_array();
  }

  void write_value(double value) {
    json_.key("value");
    if (std::isfinite(value)) {
      json_.value(value);
    } else {
      json_.value(std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
    }
  }

  void write_view(const View& view) {
    json_.field("buffer", rank_.buffers[view.buffer].name);
    json_.key("box");
    json_.begin_object();
    json_.pair("slot", view.slot_begin, view.slot_end);
    json_.key("rows");
    json_.begin_array();
    for (const RowRange& range : rank_.rows_of(view)) {
      json_.begin_array();
      json_.value(range.begin);
      json_.value(range.count);
      json_.value(range.step);
      json_.end_array();
    }
    json_.end_array();
    json_.pair("heads", view.head_begin, view.head_end);
    json_.pair("width", view.width_begin, view.width_end);
    json_.end_object();
  }

  void write_accesses(const char* key, std::span<const Access> accesses, bool written) {
    json_.objects(key, accesses, [&](const Access& access) {
      if (access.operand != Operand::unnamed) json_.field("operand", name(access.operand));
      write_view(rank_.views[access.view]);
      if (written) json_.field("mode", name(access.mode));
    });
  }

  void write_parts(const Operation& op) {
    json_.objects("parts", rank_.parts_of(op), [&](const Part& part) {
      json_.field("send", part.send);
      json_.field("peer", part.peer);
      json_.key("view");
      json_.begin_object();
      write_view(rank_.views[part.view]);
      json_.end_object();
    });
  }

  void write_segments(const Operation& op) {
    json_.objects("segments", rank_.segments_of(op), [&](const Segment& segment) {
      json_.pair("q", segment.q_begin, segment.q_count);
      json_.pair("k", segment.k_begin, segment.k_count);
      json_.field("offset", segment.offset);
      json_.field("left", segment.left);
      json_.field("right", segment.right);
    });
  }

  void write_columns(const Operation& op) {
    json_.key("columns");
    json_.begin_array();
    for (const RowRange& r : rank_.columns_of(op)) {
      json_.begin_array();
      for (const std::int64_t number : {r.begin, r.count, r.step}) json_.value(number);
      json_.end_array();
    }
    json_.end_array();
  }

  void write_chunks(const Operation& op) {
    json_.field("work", name(op.chunk_work));
    if (op.kind == OpKind::scan || op.kind == OpKind::combine || op.kind == OpKind::convolve)
      json_.field("reverse", op.reverse);
    json_.objects("chunks", rank_.chunks_of(op), [&](const Chunk& chunk) {
      json_.field("row", chunk.row);
      json_.field("count", chunk.count);
      json_.field("state", chunk.state);
      json_.pair("edges", chunk.left, chunk.right);
      json_.pair("exponents", chunk.left_exponent, chunk.right_exponent);
      json_.field("resets", chunk.resets);
    });
  }

  JsonWriter& json_;
  const Plan& plan_;
  const RankPlan& rank_;
};

}  // namespace

void write_plan_json(std::ostream& out, const Plan& plan, const Versions& versions,
                     std::span<const ScenarioSection> sections, const Given* given,
                     std::span<const PlanDefault> defaults) {
  JsonWriter json(out);
  begin_result(json, "plan", "show", versions);
  json.key("scenario");
  write_scenario(json, plan.scenario, sections);
  if (given) write_given(json, *given);
  if (!defaults.empty())
    json.objects("defaults", defaults, [&](const PlanDefault& each) {
      json.field("choice", each.choice);
      std::visit([&](const auto& value) { json.field("value", value); }, each.value);
      json.field("rule", each.rule);
    });
  json.field("placement_padding_tokens", plan.placement_padding_tokens);
  json.objects("groups", plan.groups, [&](const Group& group) {
    json.field("name", group.name);
    json.list("ranks", group.ranks);
  });
  json.key("ranks");
  json.begin_array();
  for (const RankPlan& rank : plan.ranks) RankWriter(json, plan, rank).write();
  json.end_array();
  json.end_object();
}

}  // namespace cplab
