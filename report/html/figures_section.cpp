// See figures_section.hpp.
#include "report/html/figures_section.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "report/html/charts.hpp"
#include "report/table.hpp"
#include "report/units.hpp"

namespace cplab {
namespace {

std::string share_text(double share) {
  return format_percent(share) + " %";
}

// "/ranks/3/time_s"
std::string rank_key(std::size_t index, const char* member) {
  return fmt::format("/ranks/{}/{}", index, member);
}

// Where the time of a rank goes, as one bar: computing, transfers and waiting beside nothing, the rest.
std::string rank_bar(const RankFigures& rank, double longest_s) {
  std::string bar =
      "<svg class=\"bar\" viewBox=\"0 0 100 10\" preserveAspectRatio=\"none\" aria-hidden=\"true\">";
  double at = 0;
  const double idle_s =
      std::max(0.0, rank.time_s - rank.compute_s - rank.exposed_transfer_s - rank.exposed_wait_s);
  for (const auto& [css, seconds] :
       {std::pair{"attention", rank.compute_s}, std::pair{"communication", rank.exposed_transfer_s},
        std::pair{"wait", rank.exposed_wait_s}, std::pair{"idle", idle_s}}) {
    const double width = 100 * seconds / longest_s;
    bar += fmt::format("<rect class=\"{}\" x=\"{:.2f}\" width=\"{:.2f}\" height=\"10\"/>", css, at, width);
    at += width;
  }
  return bar + "</svg>";
}

}  // namespace

PageFact peak_fact(const Figures& figures, const std::optional<Fit>& fit) {
  PageFact fact{"peak memory of a rank", shown(bytes_text(static_cast<double>(figures.peak_bytes)),
                                               figures.peak_bytes, "/peak_bytes")};
  if (!fit) return fact;
  fact.note =
      fit->fits
          ? fmt::format("fits: {} left of {}", bytes_text(static_cast<double>(fit->headroom_bytes)),
                        bytes_text(static_cast<double>(fit->capacity_bytes)))
          : fmt::format("does not fit: {} too much", bytes_text(static_cast<double>(-fit->headroom_bytes)));
  fact.css = fit->fits ? "good" : "bad";
  return fact;
}

PageFact exposed_fact(const Figures& figures) {
  std::size_t worst = 0;
  for (std::size_t r = 0; r < figures.ranks.size(); ++r)
    if (figures.ranks[r].exposed_communication_s > figures.ranks[worst].exposed_communication_s) worst = r;
  if (figures.ranks.empty()) return {"exposed communication", {"none"}};
  const RankFigures& rank = figures.ranks[worst];
  const double share = figures.time_s > 0 ? rank.exposed_communication_s / figures.time_s : 0;
  return {"exposed communication",
          shown(time_text(rank.exposed_communication_s), rank.exposed_communication_s,
                rank_key(worst, "exposed_communication_s")),
          fmt::format("{} of the time, on rank {}, the worst", share_text(share), rank.rank)};
}

void write_rank_section(HtmlPage& page, const Figures& figures) {
  double longest_s = 0;
  std::int64_t most_bytes = 0, most_sent = 0;
  for (const RankFigures& rank : figures.ranks) {
    longest_s = std::max(longest_s, rank.time_s);
    most_bytes = std::max({most_bytes, rank.peak_bytes, rank.arena_bytes});
    most_sent = std::max({most_sent, rank.sent_bytes, rank.received_bytes});
  }
  const TimeUnit unit = time_unit(longest_s);
  const Unit memory = byte_unit(static_cast<double>(most_bytes)),
             wire = byte_unit(static_cast<double>(most_sent));
  HtmlTable table(
      {{"rank"},
       {"where its time goes", "", false, "computing, exposed transfer, exposed waiting, idle"},
       {"time", unit.name},
       {"compute", unit.name},
       {"communication", unit.name, true, "with at least one message under way, waiting included"},
       {"exposed transfer", unit.name, true, "a message moves and nothing is computed"},
       {"exposed wait", unit.name, true, "all messages wait for a peer and nothing is computed"},
       {"peak", memory.name},
       {"allocated", memory.name},
       {"sent", wire.name},
       {"received", wire.name}});
  for (std::size_t r = 0; r < figures.ranks.size(); ++r) {
    const RankFigures& rank = figures.ranks[r];
    const auto time = [&](double seconds, const char* member) {
      return shown(format_time(seconds, unit), seconds, rank_key(r, member));
    };
    const auto bytes = [&](const Unit& of, std::int64_t value, const char* member) {
      return shown(of.text(static_cast<double>(value)), value, rank_key(r, member));
    };
    Shown bar{.text = {}, .value = fmt::format("{}", rank.compute_s), .css = "bars"};
    bar.markup = rank_bar(rank, longest_s);
    table.add_row({shown(std::to_string(rank.rank), std::int64_t{rank.rank}, rank_key(r, "rank")), bar,
                   time(rank.time_s, "time_s"), time(rank.compute_s, "compute_s"),
                   time(rank.communication_s, "communication_s"),
                   time(rank.exposed_transfer_s, "exposed_transfer_s"),
                   time(rank.exposed_wait_s, "exposed_wait_s"), bytes(memory, rank.peak_bytes, "peak_bytes"),
                   bytes(memory, rank.arena_bytes, "arena_bytes"), bytes(wire, rank.sent_bytes, "sent_bytes"),
                   bytes(wire, rank.received_bytes, "received_bytes")});
  }
  page.begin_section("ranks", "Every rank");
  constexpr std::size_t many = 32;
  if (figures.ranks.size() > many) page.filter("rank-table");
  table.write(page.html(), "rank-table", "");
  page.end_section();
}

void write_memory_section(HtmlPage& page, const Figures& figures, const std::optional<Fit>& fit) {
  if (figures.peak_buffers.empty()) return;
  page.begin_section("memory-at-peak", fmt::format("Memory at its peak, on rank {}", figures.peak_rank));
  std::vector<BarPart> parts;
  for (std::size_t i = 0; i < figures.peak_buffers.size(); ++i) {
    const PeakBuffer& buffer = figures.peak_buffers[i];
    parts.push_back({buffer.name, static_cast<double>(buffer.bytes),
                     shown(bytes_text(static_cast<double>(buffer.bytes)), buffer.bytes,
                           fmt::format("/peak_buffers/{}/bytes", i)),
                     "memory-" + std::string(name(buffer.category))});
  }
  write_stacked_bar(page.html(), "buffers alive at the peak", parts, 0);
  std::string sentence = "Light: what comes in and goes out. Dark: what the algorithm works in.";
  if (fit && fit->fixed_bytes > 0)
    sentence += fmt::format(" Beside it {} of context and library buffers.",
                            bytes_text(static_cast<double>(fit->fixed_bytes)));
  sentence += " Weights, optimizer and other layers are not counted.";
  page.html().element("p", sentence, {{"class", "quiet"}});
  page.end_section();
}

void write_variants_section(HtmlPage& page, const std::vector<VariantFigures>& variants) {
  if (variants.empty()) return;
  HtmlTable table(
      {{"kernel", "", false}, {"operations"}, {"of the time of kernels", "%"}, {"of their FLOPs", "%"}});
  for (std::size_t i = 0; i < variants.size(); ++i) {
    const VariantFigures& each = variants[i];
    const auto key = [&](const char* member) { return fmt::format("/variants/{}/{}", i, member); };
    table.add_row({{std::string(each.variant)},
                   shown(format_count(each.operations), each.operations, key("operations")),
                   shown(format_percent(each.time_share), each.time_share, key("time_share")),
                   shown(format_percent(each.flops_share), each.flops_share, key("flops_share"))});
  }
  page.begin_section("kernels", "Kernels");
  table.write(page.html(), "kernel-table", "");
  page.end_section();
}

TimelineDrawing drawing_of(const TimelineResult& result, std::span<const ChainStep> chain,
                           std::string no_chain) {
  constexpr std::size_t few = 16;  // are all open
  const std::vector<NotableRank> chosen = notable_ranks(result.figures.ranks);
  const auto role = [chosen](std::size_t rank) {
    const auto found = std::ranges::find(chosen, rank, &NotableRank::rank);
    return found == chosen.end() ? std::string_view() : found->role;
  };
  const std::size_t ranks = result.plan.ranks.size();
  TimelineDrawing drawing;
  drawing.row_count = ranks;
  drawing.is_open = [role, ranks](std::size_t rank) { return ranks <= few || !role(rank).empty(); };
  drawing.make_row = [&result, role, ranks, open = drawing.is_open](std::size_t rank) {
    TimelineRow row = timeline_row(result.plan, result.timeline, result.memory[rank], rank);
    row.open = open(rank);
    if (ranks > few && row.open) row.label += fmt::format(", {}", role(rank));
    return row;
  };
  if (ranks > few) {
    for (const NotableRank& each : chosen)
      drawing.words += fmt::format("{}{} rank {}", drawing.words.empty() ? "Open: the " : ", the ", each.role,
                                   result.figures.ranks[each.rank].rank);
    drawing.words += " (by the end of its last operation, then by exposed communication).";
  }
  drawing.chain = chain;
  drawing.no_chain = std::move(no_chain);
  return drawing;
}

}  // namespace cplab
