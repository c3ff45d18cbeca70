// See timeline_data.hpp. Rows are streams of variable-length numbers in base 64: seven bits a byte, the
// lowest first; a number that may be negative is twice itself, or twice its distance below -1 plus one.
#include "report/html/timeline_data.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <sstream>
#include <tuple>

#include "report/json_writer.hpp"
#include "report/table.hpp"

namespace cplab {
namespace {

std::int64_t nanoseconds(double seconds) {
  return std::llround(seconds * 1e9);
}

class Stream {
 public:
  void add(std::uint64_t number) {
    for (; number > 127; number >>= 7) bytes_.push_back(static_cast<std::uint8_t>((number & 127) | 128));
    bytes_.push_back(static_cast<std::uint8_t>(number));
  }
  void add_signed(std::int64_t number) {
    add(number < 0 ? 2 * static_cast<std::uint64_t>(-(number + 1)) + 1
                   : 2 * static_cast<std::uint64_t>(number));
  }
  void add_byte(double share) {
    bytes_.push_back(static_cast<std::uint8_t>(std::lround(255 * std::clamp(share, 0.0, 1.0))));
  }
  std::string base64() const {
    constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string text;
    for (std::size_t i = 0; i < bytes_.size(); i += 3) {
      const std::size_t left = std::min<std::size_t>(3, bytes_.size() - i);
      const auto byte = [&](std::size_t n) { return n < left ? unsigned{bytes_[i + n]} : 0U; };
      const unsigned bits = byte(0) << 16 | byte(1) << 8 | byte(2);
      for (std::size_t n = 0; n < 4; ++n) text += n <= left ? letters[(bits >> (18 - 6 * n)) & 63] : '=';
    }
    return text;
  }

 private:
  std::vector<std::uint8_t> bytes_;
};

// Different values by the order in which they first come.
template <class Value>
class Numbering {
 public:
  std::size_t of(const Value& value) {
    const auto [at, fresh] = numbers_.emplace(value, all_.size());
    if (fresh) all_.push_back(value);
    return at->second;
  }
  const std::vector<Value>& all() const { return all_; }

 private:
  std::map<Value, std::size_t> numbers_;
  std::vector<Value> all_;
};

// Shares of the time of a group of ranks by what runs at a moment, in `bins` columns: a kernel, else a
// message that moves, else one that waits. Sampled at the middle of equal stretches.
class Shares {
 public:
  static constexpr std::size_t bins = 240, samples_a_bin = 8, samples = bins * samples_a_bin;

  explicit Shares(double end_s) : end_s_(end_s) {}

  void add(const std::vector<TimelineBox>& boxes) {
    std::array<std::uint8_t, samples> now{};  // 3: a kernel, 2: moves, 1: waits
    for (const TimelineBox& box : boxes) {
      if (box.use == BoxUse::host) continue;
      const bool moves = box.use == BoxUse::communication;
      const double moves_s = std::min(box.end_s, box.start_s + box.wait_s);
      if (moves) mark(now, box.start_s, moves_s, 1);
      mark(now, moves ? moves_s : box.start_s, box.end_s, moves ? 2 : 3);
    }
    for (std::size_t i = 0; i < samples; ++i)
      if (now[i] > 0) ++counts_[i / samples_a_bin][3U - now[i]];
    ++ranks_;
  }
  std::string base64() const {
    Stream stream;
    for (const auto& bin : counts_)
      for (const std::int64_t count : bin)
        stream.add_byte(static_cast<double>(count) / static_cast<double>(ranks_ * samples_a_bin));
    return stream.base64();
  }

 private:
  void mark(std::array<std::uint8_t, samples>& now, double begin_s, double end_s, std::uint8_t what) const {
    const auto place = [&](double seconds) {
      return static_cast<std::size_t>(
          std::clamp(std::ceil(seconds / end_s_ * samples - 0.5), 0.0, double{samples}));
    };
    for (std::size_t i = place(begin_s); i < place(end_s); ++i) now[i] = std::max(now[i], what);
  }

  double end_s_;
  std::int64_t ranks_ = 0;
  std::array<std::array<std::int64_t, 3>, bins> counts_{};
};

class Encoder {
 public:
  explicit Encoder(const TimelineDrawing& drawing) : drawing_(drawing) {}

  EncodedTimeline encode() {
    choose_rows();
    if (rows_.size() < drawing_.row_count) group_rows();
    EncodedTimeline result;
    result.boxes = boxes_;
    result.rows = rows_.size();
    std::ostringstream out;
    write(out);
    result.json = safe_in_script(out.str());
    result.left_out = left_out_;
    return result;
  }

 private:
  struct Row {
    std::string label, boxes, memory;
    std::size_t index = 0;  // of the drawing
    int rank = 0;
    std::size_t side = 0, count = 0;
    bool open = false;
  };
  struct Group {
    std::string label, shares;
    std::size_t first = 0, last = 0;  // rows
    std::size_t side = 0;
  };
  using Signature = std::tuple<std::size_t, std::string, std::string, std::string, std::string, int>;

  // All rows if they are not too many and fit, else those that are open, each cut where its share of the room
  // ends.
  void choose_rows() {
    if (drawing_.row_count <= drawing_.most_rows) {
      for (std::size_t row = 0; row < drawing_.row_count && fits(); ++row) add_row(row, SIZE_MAX);
      if (fits()) return;
      rows_.clear();
      lanes_ = {};
      signatures_ = {};
      numbers_ = {};
      bytes_ = boxes_ = 0;
    }
    std::vector<std::size_t> open;
    for (std::size_t row = 0; row < drawing_.row_count; ++row)
      if (drawing_.is_open(row)) open.push_back(row);
    for (const std::size_t row : open) add_row(row, drawing_.most_bytes / open.size());
  }

  // With what the rows refer to, about as many bytes as it is written in.
  bool fits() const {
    constexpr std::size_t a_number = 14, a_signature = 90;
    return bytes_ + a_number * numbers_.all().size() + a_signature * signatures_.all().size() <=
           drawing_.most_bytes;
  }

  void add_row(std::size_t index, std::size_t room) {
    const TimelineRow from = drawing_.make_row(index);
    Row row{from.label, {}, {}, index, from.rank, from.side, 0, from.open};
    constexpr double bytes_a_box = 20;  // of base 64, most of them
    const auto most = static_cast<std::size_t>(static_cast<double>(room) / bytes_a_box);
    row.count = std::min(from.boxes.size(), most);
    row.boxes = boxes_of(from, row.count);
    row.memory = memory_of(from);
    if (row.count < from.boxes.size())
      left_out_.push_back(fmt::format("{}: the first {} of {} operations are drawn", from.label,
                                      format_count(static_cast<std::int64_t>(row.count)),
                                      format_count(static_cast<std::int64_t>(from.boxes.size()))));
    bytes_ += row.boxes.size() + row.memory.size();
    boxes_ += row.count;
    rows_.push_back(std::move(row));
  }

  std::string boxes_of(const TimelineRow& row, std::size_t count) {
    Stream stream;
    std::map<std::string_view, std::int64_t> next_ordinal;
    std::map<std::size_t, std::int64_t> free_ns;  // by lane
    std::int64_t step = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const TimelineBox& box = row.boxes[i];
      const std::size_t lane = lanes_.of({box.lane, row.side});
      stream.add(
          signatures_.of({lane, std::string(box.phase), std::string(box.kind), std::string(box.variant),
                          std::string(box.origin), static_cast<int>(box.use)}));
      std::int64_t& ordinal = next_ordinal[box.phase];
      stream.add_signed(box.ordinal - ordinal);
      ordinal = std::int64_t{box.ordinal} + 1;
      stream.add_signed(box.step - step);
      step = box.step;
      stream.add(numbers_.of(static_cast<double>(box.bytes)));
      stream.add(numbers_.of(box.flops));
      const std::int64_t start = nanoseconds(box.start_s), end = std::max(start, nanoseconds(box.end_s));
      stream.add_signed(start - free_ns[lane]);
      stream.add(static_cast<std::uint64_t>(end - start));
      stream.add(
          static_cast<std::uint64_t>(std::clamp<std::int64_t>(nanoseconds(box.wait_s), 0, end - start)));
      free_ns[lane] = end;
      end_s_ = std::max(end_s_, box.end_s);
    }
    return stream.base64();
  }

  std::string memory_of(const TimelineRow& row) {
    Stream stream;
    std::int64_t before = 0;
    for (const MemoryChange& change : row.memory) {
      const std::int64_t now = nanoseconds(change.time_s);
      stream.add_signed(now - before);
      before = now;
      stream.add(static_cast<std::uint64_t>(change.category));
      stream.add(2 * numbers_.of(static_cast<double>(std::abs(change.bytes))) + (change.bytes < 0 ? 1 : 0));
    }
    return stream.base64();
  }

  // Every row, also those that are drawn, in at most `most` groups a side.
  void group_rows() {
    constexpr std::size_t most = 64;
    const std::size_t sides = drawing_.sides.size(), ranks = drawing_.row_count / sides;
    std::size_t each = 1;
    while (ranks > most * each) each *= 2;
    for (std::size_t row = 0; row < drawing_.row_count; ++row)
      for (const TimelineBox& box : drawing_.make_row(row).boxes) end_s_ = std::max(end_s_, box.end_s);
    for (std::size_t first = 0; first < ranks; first += each) {
      for (std::size_t side = 0; side < sides; ++side) {
        const std::size_t last = std::min(ranks, first + each) - 1;
        Shares shares(end_s_);
        std::string label;
        for (std::size_t rank = first; rank <= last; ++rank) {
          const TimelineRow row = drawing_.make_row(rank * sides + side);
          shares.add(row.boxes);
        }
        label = first == last ? fmt::format("rank {}", first) : fmt::format("ranks {} to {}", first, last);
        groups_.push_back({label, shares.base64(), first, last, side});
      }
    }
    left_out_.push_back(
        fmt::format("{} of {} ranks are drawn operation by operation; all ranks together as the share of "
                    "their time in which a "
                    "kernel runs, else a message moves, else one waits, {} a row, in {} columns",
                    rows_.size() / sides, format_count(static_cast<std::int64_t>(ranks)),
                    each == 1 ? std::string("one rank") : fmt::format("{} ranks", each), Shares::bins));
  }

  std::string chain_text() {
    constexpr std::size_t most = 30'000;
    if (drawing_.chain.size() > most) {
      left_out_.push_back(fmt::format("the critical path: it has {} stretches",
                                      format_count(static_cast<std::int64_t>(drawing_.chain.size()))));
      return {};
    }
    Stream stream;
    std::int64_t at = 0, rank = 0;
    for (const ChainStep& step : drawing_.chain) {
      const std::int64_t end = std::max(at, nanoseconds(step.end_s));
      stream.add_signed(step.rank - rank);
      rank = step.rank;
      stream.add(2 * std::uint64_t{step.operation} + (step.host ? 1 : 0));
      stream.add(static_cast<std::uint64_t>(end - at));
      at = end;
    }
    return stream.base64();
  }

  void write(std::ostream& out) {
    const std::string chain = chain_text();
    JsonWriter json(out);
    json.begin_object();
    json.field("end_ns", nanoseconds(end_s_));
    json.list("sides", drawing_.sides);
    json.field("steps", drawing_.steps);
    json.key("lanes");
    json.begin_array(JsonWriter::Style::line);
    for (const auto& [lane, side] : lanes_.all()) json.value(lane);
    json.end_array();
    json.key("signatures");
    json.begin_array();
    for (const auto& [lane, phase, kind, variant, origin, use] : signatures_.all()) {
      json.begin_array(JsonWriter::Style::line);
      json.value(static_cast<std::int64_t>(lane));
      for (const std::string& text : {phase, kind, variant, origin}) json.value(text);
      json.value(use);
      json.end_array();
    }
    json.end_array();
    json.list("numbers", numbers_.all());
    json.key("categories");
    json.begin_array(JsonWriter::Style::line);
    for (const Category category :
         {Category::input, Category::output, Category::saved, Category::working, Category::workspace})
      json.value(name(category));
    json.end_array();
    json.objects("rows", rows_, [&](const Row& row) {
      json.field("label", row.label);
      json.field("rank", row.rank);
      json.field("side", static_cast<std::int64_t>(row.side));
      json.field("open", row.open);
      json.field("count", static_cast<std::int64_t>(row.count));
      json.field("boxes", row.boxes);
      json.field("memory", row.memory);
    });
    json.objects("groups", groups_, [&](const Group& group) {
      json.field("label", group.label);
      json.field("first", static_cast<std::int64_t>(group.first));
      json.field("last", static_cast<std::int64_t>(group.last));
      json.field("side", static_cast<std::int64_t>(group.side));
      json.field("shares", group.shares);
    });
    json.field("chain", chain);
    json.end_object();
  }

  const TimelineDrawing& drawing_;
  std::vector<Row> rows_;
  std::vector<Group> groups_;
  std::vector<std::string> left_out_;
  Numbering<std::pair<std::string, std::size_t>> lanes_;  // of a side
  Numbering<Signature> signatures_;
  Numbering<double> numbers_;
  double end_s_ = 0;
  std::size_t bytes_ = 0, boxes_ = 0;
};

std::string lane_text(Lane lane) {
  return fmt::format("{} {}", name(lane.kind), lane.index);
}

}  // namespace

BoxUse use_of(OpKind kind) {
  if (kind == OpKind::host_sync) return BoxUse::host;
  if (is_communication(kind)) return BoxUse::communication;
  const bool attends = kind == OpKind::attend || kind == OpKind::attend_backward || is_linear(kind);
  return attends ? BoxUse::attention : BoxUse::kernel;
}

EncodedTimeline encode(const TimelineDrawing& drawing) {
  return Encoder(drawing).encode();
}

TimelineRow timeline_row(const Plan& plan, const Timeline& timeline, const MemoryPlan& memory,
                         std::size_t rank) {
  const RankPlan& from = plan.ranks[rank];
  const std::vector<OperationTime>& times = timeline.ranks[rank];
  TimelineRow row;
  row.rank = from.rank;
  row.label = fmt::format("rank {}", from.rank);
  for (std::size_t i = 0; i < from.operations.size(); ++i) {
    const Operation& op = from.operations[i];
    const OperationTime& time = times[i];
    row.boxes.push_back({lane_text(op.lane), name(op.kind),
                         timeline.variants.empty() ? std::string_view() : timeline.variants[rank][i],
                         name(op.phase), name(time.origin), use_of(op.kind), op.ordinal, op.step,
                         time.start_s, time.end_s, time.wait_s, op.bytes, op.flops});
  }
  for (const MemoryEvent& event : memory.events) {
    const OperationTime& time = times.at(event.operation);
    row.memory.push_back(
        {event.bytes > 0 ? time.start_s : time.end_s, from.buffers[event.buffer].category, event.bytes});
  }
  std::ranges::stable_sort(row.memory, {}, &MemoryChange::time_s);
  return row;
}

std::string safe_in_script(std::string_view json) {
  std::string safe;
  for (const char c : json)
    if (c == '<')
      safe += "\\u003c";
    else
      safe += c;
  return safe;
}

}  // namespace cplab
