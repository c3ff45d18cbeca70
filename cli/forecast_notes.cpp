// See forecast_notes.hpp.
#include "cli/forecast_notes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "cli/result_text.hpp"
#include "report/table.hpp"

namespace cplab {
namespace {

constexpr std::size_t most_ranks = 64;

// What the plan asks of attention of one kind.
struct Asked {
  std::set<std::pair<std::int64_t, std::int64_t>> sizes;  // of heads and values
  std::int64_t keys = 0;                                  // the most that a row's segment has
  double flops = 0, seconds = 0;                          // of operations that are no mere launches
  std::int64_t operations = 0;
};

class Departures {
 public:
  Departures(const Plan& plan, const Hardware& hardware, const Timeline& timeline)
      : plan_(plan), hardware_(hardware), timeline_(timeline), dtype_(plan.scenario.problem.dtype) {
    const std::size_t step = std::max<std::size_t>(1, plan.ranks.size() / most_ranks);
    for (std::size_t r = 0; r < plan.ranks.size(); r += step) look_at(r);
  }

  std::vector<std::string> notes(bool links_set) {
    note_data_sheet();
    for (const auto& [kind, asked] : asked_) note_attention(kind, asked);
    for (const auto& [use, bytes] : sent_) note_messages(use, bytes);
    if (!links_set && !hardware_.data_sheet) note_links();
    std::vector<std::string> notes;
    for (const auto& [subjects, text] : said_) notes.push_back(subjects + text);
    return notes;
  }

 private:
  // What is the same of several kinds of operations is said once.
  void say(std::string_view subject, const std::string& text) {
    const auto same = std::find_if(said_.begin(), said_.end(),
                                   [&](const auto& each) { return !subject.empty() && each.second == text; });
    if (same == said_.end())
      said_.emplace_back(subject, text);
    else
      same->first += ", " + std::string(subject);
  }

  using Use = std::tuple<OpKind, Transport, Path, int>;  // and the size of the group

  void look_at(std::size_t r) {
    const RankPlan& rank = plan_.ranks[r];
    for (std::size_t i = 0; i < rank.operations.size(); ++i) {
      const Operation& op = rank.operations[i];
      if (has_square_points(op.kind)) look_at_attention(r, i);
      if (!is_communication(op.kind)) continue;
      std::map<Path, double> bytes;
      for (const Part& part : rank.parts_of(op))
        if (part.send && part.peer != rank.rank)
          bytes[path_of(rank.rank, part.peer)] +=
              static_cast<double>(view_bytes(rank, rank.views[part.view], dtype_));
      const int group = static_cast<int>(std::max<std::size_t>(plan_.groups[op.group].ranks.size(), 2));
      for (const auto& [path, sum] : bytes) {
        double& most = sent_[{op.kind, op.transport, path, group}];
        most = std::max(most, sum);
      }
    }
  }

  void look_at_attention(std::size_t r, std::size_t i) {
    const RankPlan& rank = plan_.ranks[r];
    const Operation& op = rank.operations[i];
    const std::string_view variant = r < timeline_.variants.size() ? timeline_.variants[r][i] : "";
    // Kernels without tables have notes of their own (slower kernels: ...).
    if (plan_.scenario.problem.attention != Attention::softmax || variant.find("general") != variant.npos)
      return;
    Asked& asked = asked_[op.kind];
    const View &key = rank.view_of(op, Operand::k), &value = rank.view_of(op, Operand::v);
    asked.sizes.emplace(key.width_end - key.width_begin, value.width_end - value.width_begin);
    for (const Segment& segment : rank.segments_of(op)) asked.keys = std::max(asked.keys, segment.k_count);
    constexpr double no_launch_s = 50e-6;  // at what long attention reaches
    if (op.flops < no_launch_s * usual_rate(op.kind)) return;
    ++asked.operations;
    asked.flops += op.flops;
    asked.seconds += timeline_.ranks[r][i].end_s - timeline_.ranks[r][i].start_s;
  }

  // FLOP/s of long full attention; 0: the file says no peak.
  double usual_rate(OpKind kind) {
    const KernelClass of = kind == OpKind::attend ? KernelClass::attend : KernelClass::attend_backward;
    double& rate = rates_[of];
    if (rate == 0) rate = efficiency_of(hardware_, of, name(dtype_)).share * hardware_.gpu.peak(name(dtype_));
    return rate;
  }

  Path path_of(int a, int b) const {
    return hardware_.node_of(a) == hardware_.node_of(b) ? Path::intra : Path::inter;
  }

  void note_data_sheet() {
    if (!hardware_.data_sheet) return;
    const auto percent = [&](KernelClass each) {
      return format_percent(efficiency_of(hardware_, each, name(dtype_)).share);
    };
    say("",
        fmt::format(
            "{} is of data sheets: attention at {} % of the peak forward and {} % backward ({}), the rest as "
            "measured on H100 and H200, at its own memory, links and NICs",
            hardware_.name, percent(KernelClass::attend), percent(KernelClass::attend_backward),
            hardware_.efficiency.provenance.source));
  }

  void note_attention(OpKind kind, const Asked& asked) {
    std::set<std::pair<std::int64_t, std::int64_t>> measured;
    std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> longest;
    int other_sms = 0;
    for (const KernelTable& table : hardware_.kernels) {
      if (table.kind != kind || table.dtype != dtype_) continue;
      measured.emplace(table.head_size, table.value_size);
      for (const KernelPoint& point : table.points) {
        std::int64_t& most = longest[{table.head_size, table.value_size}];
        most = std::max(most, point.sequence);
      }
      if (table.sms > 0 && table.sms != hardware_.gpu.sms) other_sms = table.sms;
    }
    if (measured.empty()) return;
    const auto size_text = [](std::pair<std::int64_t, std::int64_t> size) {
      return size.first == size.second ? std::to_string(size.first)
                                       : fmt::format("{}/{}", size.first, size.second);
    };
    std::string there;
    for (const auto& size : measured) there += (there.empty() ? "" : ", ") + size_text(size);
    for (const auto& size : asked.sizes) {
      if (!measured.contains(size)) {
        say(name(kind),
            fmt::format(": no table of head size {}, only of {}: by the kernels' FLOPs from the nearest",
                        size_text(size), there));
      } else if (const std::int64_t end = longest.at(size); asked.keys > end) {
        say(name(kind),
            fmt::format(": up to {} keys a row, the tables end at {}: each key beyond as long as there",
                        asked.keys, end));
      }
    }
    if (other_sms > 0 && !hardware_.data_sheet)
      say(name(kind), fmt::format(": tables of a GPU of {} multiprocessors, this one has {}: by waves",
                                  other_sms, hardware_.gpu.sms));
    note_rate(kind, asked);
  }

  void note_rate(OpKind kind, const Asked& asked) {
    const double usual = usual_rate(kind);
    if (usual <= 0 || asked.seconds <= 0) return;
    const double rate = asked.flops / asked.seconds;
    constexpr double far_below = 0.4;
    if (rate >= far_below * usual) return;
    say(name(kind),
        fmt::format(
            ": {:.0f} TFLOP/s in the mean of {} operations, {} % of what long full attention reaches here "
            "({:.0f} TFLOP/s)",
            rate / 1e12, asked.operations, format_percent(rate / usual), usual / 1e12));
  }

  std::optional<MessageChoice> table_for(const Use& use, double bytes) const {
    const auto& [kind, transport, path, group] = use;
    try {
      return find_flow(hardware_, {kind, transport, path, group, bytes, false});
    } catch (const HardwareError&) {
      return std::nullopt;
    }
  }

  void note_messages(const Use& use, double bytes) {
    const auto& [kind, transport, path, group] = use;
    const std::optional<MessageChoice> choice = table_for(use, bytes);
    if (!choice) return;
    const double end = choice->table->points.back().bytes;
    if (bytes <= end) return;
    say("", fmt::format("{} by {} {}: up to {} a rank, the curve ends at {}: its last bandwidth beyond",
                        name(kind), name(transport), path_text(path), bytes_text(bytes), bytes_text(end)));
  }

  void note_links() {
    std::map<Path, double> told;
    for (const auto& [use, bytes] : sent_) {
      const std::optional<MessageChoice> choice = table_for(use, bytes);
      const Path path = std::get<2>(use);
      if (!choice || told.contains(path) || link_scale(hardware_, *choice->table) == 1) continue;
      told[path] = hardware_.curve_bytes_s(*choice->table);
      say("",
          fmt::format(
              "messages {}: measured over {:g} GB/s a rank, here {:g}: start-ups and efficiencies stay",
              path_text(path), told[path] / 1e9, told[path] / 1e9 / link_scale(hardware_, *choice->table)));
    }
  }

  static std::string_view path_text(Path path) {
    return path == Path::intra ? "inside a node" : "over the network";
  }

  const Plan& plan_;
  const Hardware& hardware_;
  const Timeline& timeline_;
  DType dtype_;
  std::map<OpKind, Asked> asked_;
  std::map<KernelClass, double> rates_;
  std::map<Use, double> sent_;
  std::vector<std::pair<std::string, std::string>> said_;  // of what, and what
};

}  // namespace

std::vector<std::string> forecast_notes(const Plan& plan, const Hardware& hardware, const Timeline& timeline,
                                        bool links_set) {
  return Departures(plan, hardware, timeline).notes(links_set);
}

}  // namespace cplab
