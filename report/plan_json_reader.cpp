// Reads a plan from JSON. Whatever gets through is safe to hand to every reader of plans: each reference is
// to something, each box inside its buffer, each operation has the operands of its kind.
#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <map>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "derive/arena.hpp"
#include "derive/edges.hpp"
#include "plan/interner.hpp"
#include "plan/operands.hpp"
#include "report/plan_json.hpp"
#include "report/plan_json_chunks.hpp"
#include "report/scenario_json.hpp"

namespace cplab {
namespace {

constexpr std::int64_t most_bytes = std::int64_t{1} << 62;
constexpr std::int64_t most_extent = std::int64_t{1} << 40;
constexpr std::int64_t most_int32 = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t most_uint32 = std::numeric_limits<std::uint32_t>::max();

template <class Enum>
Enum read_word(const JsonNode& node, Enum last) {
  std::string legal;
  for (int i = 0; i <= static_cast<int>(last); ++i) {
    const auto value = static_cast<Enum>(i);
    if (name(value) == node.text()) return value;
    (legal += legal.empty() ? "" : ", ") += name(value);
  }
  node.fail("\"" + node.text() + "\" is unknown; legal: " + legal);
}

template <class Names>
std::string listed(const Names& names) {
  constexpr std::size_t most = 16;
  std::string list;
  std::size_t count = 0;
  for (const auto& entry : names) {
    if (++count > most) return list + ", ...";
    (list += list.empty() ? "" : ", ") += entry;
  }
  return list.empty() ? "none" : list;
}

bool has_scale(OpKind kind) {
  return kind == OpKind::attend || kind == OpKind::attend_backward;
}

// What the file asks the reader to fill in.
struct Derive {
  bool after = false, offset = false;
};

class RankReader {
 public:
  RankReader(const Plan& plan, RankPlan& rank, const std::unordered_map<std::string, std::uint16_t>& groups,
             Derive derive)
      : plan_(plan), rank_(rank), groups_(groups), derive_(derive) {}

  void read(const JsonNode& node) {
    node.only({"rank", "replica", "position", "arena_bytes", "buffers", "operations"});
    const Parallel& parallel = plan_.scenario.parallel;
    node.at("rank").integer(rank_.rank, rank_.rank);
    rank_.replica = static_cast<int>(node.at("replica").integer(0, parallel.replicas - 1));
    rank_.position = static_cast<int>(node.at("position").integer(0, parallel.ranks - 1));
    rank_.between_layers = between_layers(plan_.scenario.schedule);
    if (!derive_.offset) rank_.arena_bytes = node.at("arena_bytes").integer(0, most_bytes);
    const JsonNode buffers = node.at("buffers");
    for (std::size_t b = 0; b < buffers.size(); ++b) read_buffer(buffers.at(b));
    const JsonNode operations = node.at("operations");
    for (std::size_t i = 0; i < operations.size(); ++i) read_id(operations.at(i).at("id"));
    for (std::size_t i = 0; i < operations.size(); ++i) read_operation(operations.at(i), rank_.operations[i]);
    if (derive_.offset) {
      std::int64_t all = 0;
      for (std::size_t b = 0; b < rank_.buffers.size(); ++b)
        if ((all += rank_.buffers[b].bytes / 4) > most_bytes / 8)
          buffers.at(b).at("bytes").fail("the buffers of this rank are together too large to be laid out");
      place_in_arena(rank_, reuse_of(plan_.scenario.schedule));
    }
    if (derive_.after) derive_edges(rank_);
  }

 private:
  void read_buffer(const JsonNode& node) {
    node.only({"name", "role", "category", "layout", "axes", "planes", "bytes", "offset", "slab"});
    Buffer buffer;
    buffer.name = node.at("name").text();
    const auto index = static_cast<std::uint32_t>(rank_.buffers.size());
    if (!buffers_.emplace(buffer.name, index).second)
      node.at("name").fail("this rank has another buffer named \"" + buffer.name + "\"");
    buffer.role = read_word(node.at("role"), Role::integer);
    buffer.category = read_word(node.at("category"), Category::workspace);
    buffer.layout = read_word(node.at("layout"), Layout::heads_first);
    const JsonNode axes = node.at("axes");
    constexpr std::array<std::string_view, 4> names{"slot", "rows", "heads", "width"};
    const std::array<std::int64_t*, 4> sizes{&buffer.slots, &buffer.rows, &buffer.heads, &buffer.width};
    axes.expect_size(names.size(), "slot, rows, heads, width");
    for (std::size_t i = 0; i < names.size(); ++i) {
      const JsonNode axis = axes.at(i);
      axis.only({"name", "size"});
      if (axis.at("name").text() != names[i]) axis.at("name").fail("legal: " + std::string(names[i]));
      *sizes[i] = axis.at("size").integer(0, most_extent);
    }
    buffer.planes = node.at("planes").integer(0, most_extent);
    buffer.bytes = node.at("bytes").integer(0, most_bytes);
    if (!derive_.offset) buffer.offset = node.at("offset").integer(0, most_bytes);
    if (node.has("slab")) buffer.slab = node.at("slab").text();
    rank_.buffers.push_back(std::move(buffer));
  }

  // "rank/phase/ordinal"; the operation is created, its other fields come later.
  void read_id(const JsonNode& node) {
    const std::string start = std::to_string(rank_.rank) + "/";
    std::string_view id = node.text();
    Operation op;
    const auto wrong = [&] { node.fail("legal: " + start + "PHASE/NUMBER with phase forward or backward"); };
    if (!id.starts_with(start)) wrong();
    id.remove_prefix(start.size());
    const std::size_t slash = id.find('/');
    if (slash == std::string_view::npos) wrong();
    op.phase = id.substr(0, slash) == name(Phase::backward) ? Phase::backward : Phase::forward;
    if (id.substr(0, slash) != name(op.phase)) wrong();
    const char* end = id.data() + id.size();
    const auto [stop, error] = std::from_chars(id.data() + slash + 1, end, op.ordinal);
    if (error != std::errc{} || stop != end) wrong();
    if (operation_id(rank_, op) != node.text()) wrong();  // leading zeros
    if (!ids_.emplace(node.text(), rank_.operations.size()).second)
      node.fail("another operation has this id");
    rank_.operations.push_back(op);
  }

  void read_operation(const JsonNode& node, Operation& op) {
    node.only({"id",        "phase",   "step",    "lane",   "kind",          "transport", "group",
               "reduction", "value",   "reads",   "writes", "parts",         "segments",  "work",
               "reverse",   "chunks",  "heads",   "after",  "after_started", "flops",     "bytes",
               "channels",  "softcap", "columns", "bias"});
    if (read_word(node.at("phase"), Phase::backward) != op.phase)
      node.at("phase").fail("the id says " + std::string(name(op.phase)));
    op.step = static_cast<std::uint32_t>(node.at("step").integer(0, most_uint32));
    const JsonNode lane = node.at("lane");
    lane.only({"kind", "index"});
    op.lane = {read_word(lane.at("kind"), LaneKind::host),
               static_cast<std::uint8_t>(lane.at("index").integer(0, 255))};
    op.kind = read_word(node.at("kind"), OpKind::host_sync);
    op.transport = read_word(node.at("transport"), Transport::copy);
    if (node.has("channels")) op.channels = static_cast<std::uint8_t>(node.at("channels").integer(0, 255));
    read_group(node, op);
    if (op.kind == OpKind::all_reduce) op.reduction = read_word(node.at("reduction"), Reduction::max);
    if (op.kind == OpKind::fill || has_scale(op.kind)) op.value = read_value(node.at("value"));
    read_operands(node, op);
    if (node.has("parts")) read_parts(node.at("parts"), op);
    if (node.has("heads")) std::tie(op.head_begin, op.head_end) = read_bounds(node.at("heads"));
    if (node.has("segments")) read_segments(node.at("segments"), op);
    if (node.has("softcap")) op.softcap = node.at("softcap").number();
    if (node.has("bias")) op.bias = read_word(node.at("bias"), BiasForm::buckets);
    if (node.has("columns")) op.columns = row_ranges_(rank_.row_ranges, read_column_list(node.at("columns")));
    read_chunks(node, op);
    if (!derive_.after) op.after = read_edges(node.at("after"));
    if (node.has("after_started")) op.after_started = read_edges(node.at("after_started"));
    op.flops = node.has("flops") ? node.at("flops").number() : 0;
    op.bytes = node.has("bytes") ? node.at("bytes").integer(0, most_bytes) : 0;
  }

  void read_group(const JsonNode& node, Operation& op) {
    if (!is_communication(op.kind)) {
      if (node.has("group") && !node.at("group").is_null())
        node.at("group").fail("only communication has a group; legal: null");
      return;
    }
    const JsonNode group = node.at("group");
    const auto found = groups_.find(group.text());
    if (found == groups_.end()) {
      std::vector<std::string> names;
      for (const Group& known : plan_.groups) names.push_back(known.name);
      group.fail("no group is named \"" + group.text() + "\"; legal: " + listed(names));
    }
    op.group = found->second;
  }

  static double read_value(const JsonNode& node) {
    if (!node.is_text()) return node.number();
    const std::string& word = node.text();
    if (word == "inf") return std::numeric_limits<double>::infinity();
    if (word == "-inf") return -std::numeric_limits<double>::infinity();
    if (word == "nan") return std::numeric_limits<double>::quiet_NaN();
    node.fail("legal: a number, \"inf\", \"-inf\" or \"nan\"");
  }

  static std::tuple<std::int32_t, std::int32_t> read_bounds(const JsonNode& node) {
    node.expect_size(2, "[begin, end]");
    const auto bound = [&](std::size_t i) {
      return static_cast<std::int32_t>(node.at(i).integer(-most_int32, most_int32));
    };
    return {bound(0), bound(1)};
  }

  static RowRange read_range(const JsonNode& node) {
    node.expect_size(3, "[begin, count, step]");
    const auto entry = [&](std::size_t i) { return node.at(i).integer(-most_extent, most_extent); };
    return {entry(0), entry(1), entry(2)};
  }

  // An object with `buffer` and `box` (and what else `only` of the caller allows).
  std::uint32_t read_view(const JsonNode& node) {
    const JsonNode buffer_name = node.at("buffer");
    const auto found = buffers_.find(buffer_name.text());
    if (found == buffers_.end()) {
      std::vector<std::string> names;
      for (const Buffer& known : rank_.buffers) names.push_back(known.name);
      buffer_name.fail("this rank has no buffer \"" + buffer_name.text() + "\"; legal: " + listed(names));
    }
    const JsonNode box = node.at("box");
    box.only({"slot", "rows", "heads", "width"});
    const JsonNode rows = box.at("rows");
    std::vector<RowRange> ranges;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      ranges.push_back(read_range(rows.at(i)));
    }
    View view;
    view.buffer = found->second;
    view.ranges = row_ranges_(rank_.row_ranges, ranges);
    std::tie(view.slot_begin, view.slot_end) = read_bounds(box.at("slot"));
    std::tie(view.head_begin, view.head_end) = read_bounds(box.at("heads"));
    std::tie(view.width_begin, view.width_end) = read_bounds(box.at("width"));
    return views_(rank_.views, {view}).first;
  }

  // Every access has the name of its operand, or none of the operation has: then their order names them.
  void read_operands(const JsonNode& node, Operation& op) {
    std::vector<Access> reads = read_accesses(node.at("reads"), false);
    std::vector<Access> writes = read_accesses(node.at("writes"), true);
    std::size_t named = 0;
    for (const Access& a : reads) named += a.operand != Operand::unnamed;
    for (const Access& a : writes) named += a.operand != Operand::unnamed;
    if (named == 0) name_by_position(op.kind, reads, writes);
    if (named != 0 && named != reads.size() + writes.size())
      node.fail("some of its operands have no \"operand\"; legal: a name for each of them, or for none");
    op.reads = accesses_(rank_.accesses, reads);
    op.writes = accesses_(rank_.accesses, writes);
  }

  std::vector<Access> read_accesses(const JsonNode& node, bool written) {
    std::vector<Access> accesses;
    for (std::size_t i = 0; i < node.size(); ++i) {
      const JsonNode access = node.at(i);
      if (written) {
        access.only({"operand", "buffer", "box", "mode"});
      } else {
        access.only({"operand", "buffer", "box"});
      }
      Access& a = accesses.emplace_back();
      if (access.has("operand")) a.operand = read_word(access.at("operand"), Operand::dfilter);
      if (written) a.mode = read_word(access.at("mode"), WriteMode::max);
      a.view = read_view(access);
    }
    return accesses;
  }

  void read_parts(const JsonNode& node, Operation& op) {
    std::vector<Part> parts;
    for (std::size_t i = 0; i < node.size(); ++i) {
      const JsonNode entry = node.at(i);
      entry.only({"send", "peer", "view"});
      Part part;
      part.send = entry.at("send").boolean();
      part.peer = static_cast<std::int32_t>(entry.at("peer").integer(0, plan_.scenario.parallel.world() - 1));
      entry.at("view").only({"buffer", "box"});
      part.view = read_view(entry.at("view"));
      parts.push_back(part);
    }
    op.parts = parts_(rank_.parts, parts);
  }

  void read_segments(const JsonNode& node, Operation& op) {
    op.segments = segments_(rank_.segments, read_segment_list(node));
  }

  void read_chunks(const JsonNode& node, Operation& op) {
    if (!is_linear(op.kind)) return refuse_chunks(node, op.kind);
    if (node.has("work")) op.chunk_work = read_word(node.at("work"), ChunkWork::sliced);
    if (node.has("reverse")) op.reverse = node.at("reverse").boolean();
    op.chunks = chunks_(rank_.chunks, read_chunk_list(node.at("chunks")));
  }

  Span read_edges(const JsonNode& node) {
    std::vector<std::uint32_t> edges;
    for (std::size_t i = 0; i < node.size(); ++i) {
      const JsonNode id = node.at(i);
      const auto found = ids_.find(id.text());
      if (found == ids_.end())
        id.fail("no operation of this rank has the id \"" + id.text() + "\"; legal: ids of rank " +
                std::to_string(rank_.rank) + ", such as " + operation_id(rank_, rank_.operations.front()));
      edges.push_back(static_cast<std::uint32_t>(found->second));
    }
    return edges_(rank_.edges, edges);
  }

  const Plan& plan_;
  RankPlan& rank_;
  const std::unordered_map<std::string, std::uint16_t>& groups_;
  Derive derive_;
  std::unordered_map<std::string, std::uint32_t> buffers_;
  std::unordered_map<std::string, std::size_t> ids_;
  Interner<RowRange> row_ranges_;
  Interner<View> views_;
  Interner<Access> accesses_;
  Interner<Segment> segments_;
  Interner<Chunk> chunks_;
  Interner<Part> parts_;
  Interner<std::uint32_t> edges_;
};

Derive read_derive(const JsonNode& root) {
  Derive derive;
  if (!root.has("derive")) return derive;
  const JsonNode list = root.at("derive");
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string& word = list.at(i).text();
    if (word != "after" && word != "offset")
      list.at(i).fail("\"" + word + "\" is nothing that can be derived; legal: after, offset");
    (word == "after" ? derive.after : derive.offset) = true;
  }
  return derive;
}

// By name.
std::unordered_map<std::string, std::uint16_t> read_groups(const JsonNode& node, Plan& plan) {
  const Parallel& parallel = plan.scenario.parallel;
  std::unordered_map<std::string, std::uint16_t> by_name;
  if (node.size() < parallel.groups.size() || node.size() > UINT16_MAX)
    node.fail("legal: the " + std::to_string(parallel.groups.size()) +
              " groups of the scenario first, then sub-groups, at most 65535");
  for (std::size_t g = 0; g < node.size(); ++g) {
    const JsonNode entry = node.at(g);
    entry.only({"name", "ranks"});
    Group group;
    group.name = entry.at("name").text();
    if (!by_name.emplace(group.name, static_cast<std::uint16_t>(g)).second)
      entry.at("name").fail("another group has this name");
    const JsonNode ranks = entry.at("ranks");
    std::unordered_set<int> members;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      const auto rank = static_cast<int>(ranks.at(i).integer(0, parallel.world() - 1));
      if (!members.insert(rank).second) ranks.at(i).fail("a rank is in a group once");
      group.ranks.push_back(rank);
    }
    plan.groups.push_back(std::move(group));
  }
  return by_name;
}

}  // namespace

Plan read_plan_json(const std::string& text, const std::string& file_name,
                    std::vector<ScenarioSection>* sections) {
  const JsonDocument document(text, file_name);
  const JsonNode root = document.root();
  // Before the keys: a result of another command has others.
  const bool named = root.has("schema");
  if (named && root.at("schema").text() != "cplab.plan.1") {
    const JsonNode schema = root.at("schema");
    const bool result = schema.text() == "cplab.simulate.1";
    schema.fail("\"" + schema.text() + "\" is no plan; legal: cplab.plan.1, which show --json writes" +
                (result ? "; simulate --rerun repeats a result of simulate" : ""));
  }
  root.only({"schema", "command", "versions", "scenario", "given", "defaults", "placement_padding_tokens",
             "groups", "ranks", "derive"});
  (void)root.at("schema");
  Plan plan;
  plan.scenario = read_scenario(root.at("scenario"));
  if (sections) *sections = read_sections(root.at("scenario"));
  plan.placement_padding_tokens = root.at("placement_padding_tokens").integer(0);
  const auto groups = read_groups(root.at("groups"), plan);
  const Derive derive = read_derive(root);
  const JsonNode ranks = root.at("ranks");
  ranks.expect_size(static_cast<std::size_t>(plan.scenario.parallel.world()), "every rank of the world");
  plan.ranks.resize(ranks.size());
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    plan.ranks[r].rank = static_cast<int>(r);
    RankReader(plan, plan.ranks[r], groups, derive).read(ranks.at(r));
  }
  return plan;
}

}  // namespace cplab
