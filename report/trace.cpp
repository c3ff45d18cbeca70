// Chrome traces, one file of all ranks or one a rank, streamed event by event. What serves whom:
//
//   one event a line, a blank after each colon   HTA finds the rank line by line with a regular expression
//   ts, dur: microseconds, three decimals        cut from whole nanoseconds, so that neighbours never overlap
//   displayTimeUnit "ns"                         with "ms" the older viewer nests near neighbours
//   pid: rank, tid: lane                         one track a lane; a lane is in order, so slices are disjoint
//   cat "kernel", args.stream, args.correlation  HTA takes a row with a stream for work of a GPU
//   names "nccl_...", "Memcpy ..."               HTA tells communication and copies from computation by
//   waits on a track of their own                beside their communication, which they begin; no stream, so
//   that HTA
//                                                does not count the time twice
//   s, f                                         arrows from the start of a send to the end of its receive,
//   where
//                                                one file holds both ends
//   C                                            live bytes by category; multiprocessors held by kernels and
//                                                by communication, where the timeline has them
#include "report/trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <numeric>
#include <ostream>
#include <set>
#include <string>
#include <unordered_map>

#include "report/json_writer.hpp"
#include "report/output_file.hpp"
#include "report/table.hpp"
#include "report/timeline_output.hpp"
#include "report/trace_arrows.hpp"

namespace cplab {
namespace {

using Style = JsonWriter::Style;

std::int64_t nanoseconds(double seconds) {
  return std::llround(seconds * 1e9);
}

std::string lane_name(Lane lane) {
  return fmt::format("{} {}", name(lane.kind), lane.index);
}

// Track numbers of the lanes, the same on every rank. From 1, since viewers give 0 a meaning of its own.
class Tracks {
 public:
  explicit Tracks(const Plan& plan) {
    for (const RankPlan& rank : plan.ranks)
      for (const Operation& op : rank.operations) tracks_[number(op.lane)] = 0;
    int next = 1;
    for (auto& [lane, track] : tracks_) track = next++;
  }
  int of(Lane lane) const { return tracks_.at(number(lane)); }
  int count() const { return static_cast<int>(tracks_.size()); }
  std::string name_of(int of_track) const {
    std::string found;
    each([&](int track, Lane lane) {
      if (track == of_track) found = lane_name(lane);
    });
    return found;
  }
  template <class Visit>
  void each(Visit visit) const {
    for (const auto& [lane, track] : tracks_)
      visit(track, Lane{static_cast<LaneKind>(lane >> 8), static_cast<std::uint8_t>(lane & 255)});
  }

 private:
  static int number(Lane lane) { return static_cast<int>(lane.kind) << 8 | lane.index; }
  std::map<int, int> tracks_;
};

struct TimedMemoryEvent {
  std::int64_t time_ns = 0;
  MemoryEvent event;
};

// In order of time; events at one time in program order.
std::vector<TimedMemoryEvent> by_time(const std::vector<OperationTime>& times, const MemoryPlan& memory) {
  std::vector<TimedMemoryEvent> events;
  for (const MemoryEvent& event : memory.events) {
    const OperationTime& time = times.at(event.operation);
    events.push_back({nanoseconds(event.bytes > 0 ? time.start_s : time.end_s), event});
  }
  std::stable_sort(events.begin(), events.end(),
                   [](const auto& a, const auto& b) { return a.time_ns < b.time_ns; });
  return events;
}

struct EventName {
  std::string category, name;
};

EventName event_name(const Operation& op) {
  const std::string kind(name(op.kind));
  if (op.kind == OpKind::host_sync) return {"host", kind};
  if (is_communication(op.kind) && op.transport == Transport::copy && op.kind != OpKind::barrier)
    return {"gpu_memcpy", "Memcpy PtoP (" + kind + ")"};
  if (is_communication(op.kind)) return {"kernel", "nccl_" + kind};
  if (op.lane.kind == LaneKind::copy && op.kind == OpKind::copy) return {"gpu_memcpy", "Memcpy DtoD (copy)"};
  return {"kernel", kind};
}

// The events of one rank. Without `arrows` none are written; with it those to ranks that the file holds too.
class RankTrace {
 public:
  RankTrace(JsonWriter& json, const Plan& plan, const Timeline& timeline, const Tracks& tracks,
            Arrows* arrows, const std::vector<bool>& held, std::size_t rank)
      : json_(json),
        plan_(plan),
        rank_(plan.ranks[rank]),
        times_(timeline.ranks[rank]),
        predicted_(timeline.predicted),
        tracks_(tracks),
        arrows_(arrows),
        held_(held) {
    if (!timeline.multiprocessors.empty()) multiprocessors_ = timeline.multiprocessors[rank];
  }

  void write(const MemoryPlan& memory) {
    write_names();
    std::unordered_map<int, std::int64_t> free_from_ns;  // by track
    for (std::size_t i = 0; i < rank_.operations.size(); ++i) {
      const Operation& op = rank_.operations[i];
      const int track = tracks_.of(op.lane);
      // Measured times of one lane may cross by the error of the clocks; slices must not.
      const std::int64_t start = std::max(nanoseconds(times_[i].start_s), free_from_ns[track]);
      const std::int64_t end = std::max(nanoseconds(times_[i].end_s), start);
      free_from_ns[track] = end;
      write_operation(i, track, start, end);
    }
    write_counters(memory);
    write_multiprocessors();
  }

 private:
  void begin_event(const char* type, std::string_view name_, std::int64_t time_ns, int track) {
    json_.begin_object(Style::line);
    json_.field("ph", type);
    json_.field("name", name_);
    json_.field("pid", rank_.rank);
    json_.field("tid", track);
    write_time("ts", time_ns);
  }

  void write_time(const char* key, std::int64_t ns) {
    json_.key(key);
    json_.literal(fmt::format("{}.{:03}", ns / 1000, ns % 1000));
  }

  void write_name(const char* what, int track, const char* key, const auto& value) {
    begin_event("M", what, 0, track);
    json_.key("args");
    json_.begin_object();
    json_.field(key, value);
    json_.end_object();
    json_.end_object();
  }

  void write_names() {
    write_name("process_name", 0, "name", fmt::format("rank {}", rank_.rank));
    write_name("process_sort_index", 0, "sort_index", rank_.rank);
    tracks_.each([&](int track, Lane lane) {
      write_name("thread_name", track, "name", lane_name(lane));
      write_name("thread_sort_index", track, "sort_index", 2 * track);
    });
    for (const int track : waiting_tracks()) {
      write_name("thread_name", waits_of(track), "name", fmt::format("waits of {}", tracks_.name_of(track)));
      write_name("thread_sort_index", waits_of(track), "sort_index", 2 * track + 1);
    }
  }

  // The track beside that of a lane on which its waits are slices.
  int waits_of(int track) const { return tracks_.count() + track; }
  std::set<int> waiting_tracks() const {
    std::set<int> found;
    for (std::size_t i = 0; i < rank_.operations.size(); ++i)
      if (nanoseconds(times_[i].wait_s) > 0) found.insert(tracks_.of(rank_.operations[i].lane));
    return found;
  }

  void write_operation(std::size_t i, int track, std::int64_t start, std::int64_t end) {
    const Operation& op = rank_.operations[i];
    const OperationTime& time = times_[i];
    const EventName event = event_name(op);
    begin_event("X", event.name, start, track);
    write_time("dur", end - start);
    json_.field("cat", event.category);
    json_.key("args");
    json_.begin_object();
    if (event.category != "host") {
      json_.field("device", rank_.rank);
      json_.field("stream", track);
      json_.field("correlation", static_cast<std::int64_t>(i) + 1);
    }
    json_.field("op", operation_id(rank_, op));
    json_.field("phase", name(op.phase));
    json_.field("step", op.step);
    json_.field("bytes", op.bytes);
    json_.field("flops", op.flops);
    json_.field(predicted_ ? "predicted_s" : "measured_s", time.end_s - time.start_s);
    json_.field("wait_s", time.wait_s);
    json_.field("issue_s", time.issue_s);
    json_.field("origin", name(time.origin));
    if (is_communication(op.kind)) json_.field("group", plan_.groups[op.group].name);
    json_.end_object();
    json_.end_object();

    write_arrow_ends(op, true, track, start);
    const std::int64_t wait = std::clamp<std::int64_t>(nanoseconds(time.wait_s), 0, end - start);
    if (wait > 0) {
      begin_event("X", "wait for peers", start, waits_of(track));
      write_time("dur", wait);
      json_.field("cat", "wait");
      json_.key("args");
      json_.begin_object();
      json_.field("op", operation_id(rank_, op));
      json_.end_object();
      json_.end_object();
    }
    // An arrow binds to the slice that holds its time: the last nanosecond inside, not the end.
    write_arrow_ends(op, false, track, std::max(start, end - 1));
  }

  void write_arrow_ends(const Operation& op, bool send, int track, std::int64_t time_ns) {
    if (!arrows_) return;
    for (const Part& part : rank_.parts_of(op)) {
      if (part.peer == rank_.rank || part.send != send) continue;
      const std::int64_t number = arrows_->next(rank_, op, part);
      if (!held_[static_cast<std::size_t>(part.peer)]) continue;
      begin_event(send ? "s" : "f", "message", time_ns, track);
      json_.field("cat", "message");
      json_.field("id", number);
      if (!send) json_.field("bp", "e");
      json_.end_object();
    }
  }

  void write_counters(const MemoryPlan& memory) {
    std::array<std::int64_t, 5> live{};
    const std::vector<TimedMemoryEvent> events = by_time(times_, memory);
    for (std::size_t i = 0; i < events.size(); ++i) {
      const MemoryEvent& event = events[i].event;
      live[static_cast<std::size_t>(rank_.buffers[event.buffer].category)] += event.bytes;
      if (i + 1 < events.size() && events[i + 1].time_ns == events[i].time_ns) continue;
      begin_event("C", "live bytes", events[i].time_ns, 0);
      json_.key("args");
      json_.begin_object();
      for (const Category category :
           {Category::input, Category::output, Category::saved, Category::working, Category::workspace})
        json_.field(name(category), live[static_cast<std::size_t>(category)]);
      json_.end_object();
      json_.end_object();
    }
  }

  void write_multiprocessors() {
    for (std::size_t i = 0; i < multiprocessors_.size(); ++i) {
      const MultiprocessorSample& sample = multiprocessors_[i];
      const std::int64_t time_ns = nanoseconds(sample.time_s);
      if (i + 1 < multiprocessors_.size() && nanoseconds(multiprocessors_[i + 1].time_s) == time_ns) continue;
      begin_event("C", "multiprocessors", time_ns, 0);
      json_.key("args");
      json_.begin_object();
      json_.field("kernels", int{sample.compute});
      json_.field("communication", int{sample.communication});
      json_.end_object();
      json_.end_object();
    }
  }

  JsonWriter& json_;
  const Plan& plan_;
  const RankPlan& rank_;
  const std::vector<OperationTime>& times_;
  bool predicted_;
  const Tracks& tracks_;
  Arrows* arrows_;
  const std::vector<bool>& held_;  // by rank
  std::span<const MultiprocessorSample> multiprocessors_;
};

void expect_same_sizes(const Plan& plan, const Timeline& timeline, std::span<const MemoryPlan> memory) {
  bool same = timeline.ranks.size() == plan.ranks.size() && memory.size() == plan.ranks.size();
  for (std::size_t r = 0; same && r < plan.ranks.size(); ++r)
    same = timeline.ranks[r].size() == plan.ranks[r].operations.size();
  if (!same) throw std::invalid_argument("timeline or memory of another plan");
}

// What stands around the events of a file; `rank` below 0: of all.
template <class WriteEvents>
void write_file(std::ostream& out, const std::string& name, int rank, std::size_t world,
                WriteEvents write_events) {
  JsonWriter json(out);
  json.begin_object();
  json.field("schemaVersion", 1);
  json.field("displayTimeUnit", "ns");
  json.field("baseTimeNanoseconds", 0);
  json.field("traceName", name);
  if (rank >= 0) {
    json.key("distributedInfo");
    json.begin_object();
    json.field("rank", rank);
    json.field("world_size", static_cast<std::int64_t>(world));
    json.end_object();
  }
  json.key("traceEvents");
  json.begin_array();
  write_events(json);
  json.end_array();
  json.end_object();
}

bool is_trace_file(const std::string& place) {
  return std::filesystem::path(place).extension() == ".json" && !std::filesystem::is_directory(place);
}

}  // namespace

void write_traces(const std::string& directory, const Plan& plan, const Timeline& timeline,
                  std::span<const MemoryPlan> memory) {
  expect_same_sizes(plan, timeline, memory);
  make_output_folder(directory);
  const Tracks tracks(plan);
  const std::vector<bool> held;
  OutputSet files(
      false);  // not durable: with thousands of ranks, waiting for the disk each time takes too long
  for (std::size_t r = 0; r < plan.ranks.size(); ++r) {
    const std::string name = fmt::format("rank{}_trace.json", plan.ranks[r].rank);
    write_file(files.open((std::filesystem::path(directory) / name).string()), name, plan.ranks[r].rank,
               plan.ranks.size(), [&](JsonWriter& json) {
                 RankTrace(json, plan, timeline, tracks, nullptr, held, r).write(memory[r]);
               });
  }
  files.commit();
}

void write_trace(const std::string& file, const Plan& plan, const Timeline& timeline,
                 std::span<const MemoryPlan> memory, std::span<const std::size_t> ranks) {
  expect_same_sizes(plan, timeline, memory);
  std::vector<std::size_t> chosen(ranks.begin(), ranks.end());
  if (chosen.empty()) {
    chosen.resize(plan.ranks.size());
    std::iota(chosen.begin(), chosen.end(), 0);
  }
  std::vector<bool> held(plan.ranks.size());
  for (const std::size_t rank : chosen) held[rank] = true;
  const Tracks tracks(plan);
  Arrows arrows(plan);
  OutputSet files;
  write_file(files.open(file), std::filesystem::path(file).filename().string(), -1, plan.ranks.size(),
             [&](JsonWriter& json) {
               for (const std::size_t rank : chosen)
                 RankTrace(json, plan, timeline, tracks, &arrows, held, rank).write(memory[rank]);
             });
  files.commit();
}

std::vector<NotableRank> ranks_of_trace(const Plan& plan, const Figures& figures) {
  if (operation_count(plan) > most_operations_of_a_trace) return notable_ranks(figures.ranks);
  std::vector<NotableRank> all;
  for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) all.push_back({rank, ""});
  return all;
}

namespace {

std::string write_merged(const std::string& file, const TimelineResult& result) {
  const std::size_t ranks = result.plan.ranks.size();
  const std::vector<NotableRank> chosen = ranks_of_trace(result.plan, result.figures);
  std::vector<std::size_t> numbers;
  std::string words;
  for (const NotableRank& each : chosen) {
    numbers.push_back(each.rank);
    words += fmt::format("{}{} {}", words.empty() ? "" : ", ", each.role, each.rank);
  }
  std::ranges::sort(numbers);
  write_trace(file, result.plan, result.timeline, result.memory, numbers);
  if (chosen.size() == ranks) return fmt::format("a trace of {} ranks in {}", ranks, file);
  return fmt::format(
      "a trace of {} of {} ranks in {}: {}; left out are the other {}, since {} operations are more than a "
      "viewer takes in one file; --trace DIR writes a file for each rank",
      chosen.size(), ranks, file, words, ranks - chosen.size(), format_count(operation_count(result.plan)));
}

}  // namespace

TimelineOutput trace_output() {
  return {.option = "trace",
          .value = "FILE.json|DIR",
          .help = "a Chrome trace of all ranks, or a folder with one a rank; of commands with a timeline",
          .place = TimelineOutput::Place::file_or_folder,
          .write = [](const std::string& place, const TimelineResult& result) {
            if (is_trace_file(place)) return write_merged(place, result);
            write_traces(place, result.plan, result.timeline, result.memory);
            return fmt::format(
                "{} traces in {}; --trace FILE.json is one of all, with the arrows between them",
                result.plan.ranks.size(), place);
          }};
}

void write_memory_csv(std::ostream& out, const Plan& plan, const Timeline& timeline,
                      std::span<const MemoryPlan> memory) {
  expect_same_sizes(plan, timeline, memory);
  write_csv_row(out, {"time_s", "rank", "operation", "buffer", "category", "bytes"});
  for (std::size_t r = 0; r < plan.ranks.size(); ++r) {
    const RankPlan& rank = plan.ranks[r];
    for (const auto& [time_ns, event] : by_time(timeline.ranks[r], memory[r])) {
      const Buffer& buffer = rank.buffers[event.buffer];
      write_csv_row(out, {fmt::format("{:.9f}", static_cast<double>(time_ns) * 1e-9),
                          std::to_string(rank.rank), operation_id(rank, rank.operations[event.operation]),
                          buffer.name, std::string(name(buffer.category)), std::to_string(event.bytes)});
    }
  }
}

}  // namespace cplab
