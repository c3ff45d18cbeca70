// Pages of simulate and run; see pages.hpp.
#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "report/html/charts.hpp"
#include "report/html/figures_section.hpp"
#include "report/html/pages.hpp"
#include "report/json.hpp"
#include "report/table.hpp"
#include "report/units.hpp"

namespace cplab {
namespace {

void add_phases(std::vector<PageFact>& facts, const std::vector<PhaseTime>& phases, const std::string& key) {
  if (phases.size() < 2) return;
  for (std::size_t i = 0; i < phases.size(); ++i)
    facts.push_back({std::string(name(phases[i].phase)), shown(time_text(phases[i].time_s), phases[i].time_s,
                                                               fmt::format("{}/{}/time_s", key, i))});
}

PageFact message_fact(const Figures& figures) {
  std::string note;
  for (const TransportUse& use : figures.transports)
    note += fmt::format("{}{} in all over {}", note.empty() ? "" : ", ",
                        bytes_text(static_cast<double>(use.bytes)), name(use.transport));
  return {"messages", shown(format_count(figures.messages), figures.messages, "/messages"), note};
}

std::string place_text(const ChainPart& part) {
  if (part.peer < 0) return fmt::format("rank {}", part.rank);
  return fmt::format("rank {} to rank {}", part.rank, part.peer);
}

struct ChainSection {
  ChainShares shares;
  const ChainParts& parts;
  double time_s = 0;
  std::string words;              // what else is to be known of it
  std::string idle = "launches";  // what passed while nothing of it ran
  std::string host_share = "launches and the host";
};

void write_chain_section(HtmlPage& page, const ChainSection& chain) {
  const auto part = [](const char* what, double share, const char* member, const char* css) {
    return BarPart{what, share, shown(format_percent(share) + " %", share, fmt::format("/chain/{}", member)),
                   css};
  };
  page.begin_section("binds", "What the time is made of");
  page.html().element(
      "p",
      std::string(
          "The critical path, walked back from the end: a waiting time is what the peer did meanwhile, "
          "so that nothing of it is waiting.") +
          chain.words,
      {{"class", "quiet"}});
  write_stacked_bar(page.html(), "shares of the critical path",
                    {part("attention", chain.shares.attention, "attention", "attention"),
                     part("other kernels", chain.shares.other_kernels, "other_kernels", "kernel"),
                     part("communication", chain.shares.communication, "communication", "communication"),
                     part(chain.host_share.c_str(), chain.shares.host, "host", "host")},
                    1);
  const std::span<const ChainPart> parts = chain.parts.all();
  HtmlTable table({{"of the path", "", false},
                   {"resource", "", false},
                   {"where", "", false},
                   {"time", time_unit(chain.time_s).name},
                   {"share", "%"},
                   {"", "", false}});
  constexpr std::size_t most = 12;
  for (std::size_t i = 0; i < std::min(most, parts.size()); ++i) {
    const bool host = parts[i].resource == ChainResource::host;
    const double share = chain.time_s > 0 ? parts[i].seconds / chain.time_s : 0;
    Shown bar{.text = {}, .value = fmt::format("{}", share), .css = "bars"};
    const bool kernel = parts[i].resource == ChainResource::gpu || parts[i].resource == ChainResource::cpu;
    bar.markup = bar_markup(share / std::max(1e-9, parts.front().seconds / chain.time_s), false,
                            kernel ? "attention"
                            : host ? "host"
                                   : "communication");
    table.add_row({{host ? chain.idle : std::string(name(parts[i].kind))},
                   {std::string(name(parts[i].resource))},
                   {place_text(parts[i])},
                   shown(format_time(parts[i].seconds, time_unit(chain.time_s)), parts[i].seconds,
                         fmt::format("/chain_parts/{}/time_s", i)),
                   shown(format_percent(share), share, fmt::format("/chain_parts/{}/share", i)),
                   bar});
  }
  if (!table.empty())
    table.write(page.html(), "chain-table",
                parts.size() > most ? fmt::format("The largest {} of {} parts", most, parts.size()) : "");
  page.end_section();
}

void write_origin_section(HtmlPage& page, const OriginShares& origins) {
  const auto part = [](const char* what, double share, const char* css) {
    return BarPart{what, share, shown(format_percent(share) + " %", share, fmt::format("/origins/{}", what)),
                   css};
  };
  page.begin_section("origins", "Where these times come from");
  write_stacked_bar(
      page.html(), "shares of busy time by origin",
      {part("measured", origins.measured, "c2"), part("interpolated", origins.interpolated, "c4"),
       part("extrapolated", origins.extrapolated, "c1"), part("assumed", origins.assumed, "c3")},
      1);
  page.html().element("p", "Of the busy time of all ranks. The band beside the time follows from these.",
                      {{"class", "quiet"}});
  page.end_section();
}

// How far the path of a run is to be believed.
std::string words_on_path(const RunReport& report) {
  const MeasuredPath& path = report.path;
  std::string words =
      " A run records no reasons: each step goes to what had to end first and by the measured times ended "
      "last "
      "(the lane, the edges, the peer that came last).";
  if (!report.gpu)
    return words +
           " One thread executes all ranks, and what passed until an operation had its turn counts "
           "as the host's.";
  words +=
      " Launches, late issue and whatever else passed until an operation began count as the host's; a kernel "
      "slowed by traffic beside it counts whole. This is one iteration with events between its operations.";
  if (path.communications == 0) return words;
  return words + fmt::format(
                     " Times of one rank may be off by {}: of {} communications with other ranks on the "
                     "path the clocks do not say for {} which end came last.",
                     time_text(report.gpu->clock_residual_s), path.communications,
                     path.undecided == 0 ? "none" : fmt::format("{}", path.undecided));
}

// One dot an iteration, in their order.
void write_iterations(HtmlPage& page, const std::vector<double>& times_s) {
  if (times_s.size() < 2) return;
  ChartSeries series{"", "c0", true, false, {}};
  const TimeUnit unit = time_unit(*std::ranges::max_element(times_s));
  for (std::size_t i = 0; i < times_s.size(); ++i)
    series.points.push_back(
        {static_cast<double>(i + 1), times_s[i], 0, 0,
         fmt::format("iteration {}: {} {}", i + 1, format_time(times_s[i], unit), unit.name)});
  page.begin_section("iterations", "Iterations");
  const auto count = [](double n) {
    return n == static_cast<int>(n) ? fmt::format("{:.0f}", n) : std::string();
  };
  write_chart(page.html(), "iteration-chart", "time of every measured iteration, the maximum over ranks",
              {"iteration", false, count},
              {fmt::format("time ({})", unit.name), false, [unit](double s) { return format_time(s, unit); }},
              {series});
  page.end_section();
}

}  // namespace

void write_page(std::ostream& out, const PageTitle& title, const SimulateReport& report,
                const TimelineResult& result, std::span<const ChainStep> chain) {
  const Figures& figures = report.figures;
  HtmlPage page(out, "simulate", title.title, title.lead);
  const TimeUnit unit = time_unit(figures.time_s);
  std::vector<PageFact> facts{{"predicted time", shown(time_text(figures.time_s), figures.time_s, "/time_s"),
                               fmt::format("between {} and {} {}", format_time(report.low_s, unit),
                                           format_time(report.high_s, unit), unit.name)}};
  add_phases(facts, figures.phases, "/phases");
  facts.push_back(exposed_fact(figures));
  facts.push_back(peak_fact(figures, report.fit));
  facts.push_back(message_fact(figures));
  page.facts(facts);
  page.timeline(drawing_of(result, chain, "The critical path is not drawn: its list was not kept."));
  write_chain_section(page, {report.chain, report.chain_parts, report.chain_s, {}});
  write_rank_section(page, figures);
  write_memory_section(page, figures, report.fit);
  write_origin_section(page, figures.origins);
  write_variants_section(page, report.variants);
  page.words("notes", "What a reader must know", report.header.notes);
  SimulateReport embedded = report;
  embedded.operations.reset();  // the timeline has them
  page.finish(report.header.versions, report.header.given,
              [&](std::ostream& stream) { write_json(stream, embedded); });
}

void write_page(std::ostream& out, const PageTitle& title, const RunReport& report,
                const TimelineResult& result) {
  const Figures& figures = report.figures;
  HtmlPage page(out, "run", title.title, title.lead);
  std::vector<PageFact> facts{{"measured time", shown(time_text(report.time_s), report.time_s, "/time_s"),
                               fmt::format("median of {} iterations", report.times_s.size())}};
  if (report.undisturbed_phases.empty())
    add_phases(facts, figures.phases, "/phases");
  else
    add_phases(facts, report.undisturbed_phases, "/undisturbed_phases");
  facts.push_back(exposed_fact(figures));
  facts.push_back(peak_fact(figures, report.fit));
  facts.push_back(message_fact(figures));
  page.facts(facts);
  page.timeline(drawing_of(result, report.path.steps, ""));
  ChainSection chain{report.path.by_use.shares(), report.path.parts, report.path.time_s(),
                     words_on_path(report)};
  if (!report.gpu) chain.idle = chain.host_share = "turns of other operations";
  write_chain_section(page, chain);
  write_iterations(page, report.times_s);
  write_rank_section(page, figures);
  write_memory_section(page, figures, report.fit);
  write_variants_section(page, report.variants);
  page.words("notes", "What a reader must know", report.header.notes);
  RunReport embedded = report;
  embedded.operations.reset();
  page.finish(report.header.versions, report.header.given,
              [&](std::ostream& stream) { write_json(stream, embedded); });
}

}  // namespace cplab
