// Figures for people and for spreadsheets.
#include "cli/result_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ostream>
#include <type_traits>
#include <utility>

namespace cplab {

namespace {

std::string number(double value) {
  return fmt::format("{}", value);
}

// A row of the table: a rank, "worst 17", or a mean.
struct LabelledRank {
  std::string label;
  RankFigures rank;
};

RankFigures mean_of(const std::vector<RankFigures>& ranks) {
  RankFigures mean;
  const auto share = [&](auto RankFigures::*member) {
    double sum = 0;
    for (const RankFigures& rank : ranks) sum += static_cast<double>(rank.*member);
    using Value = std::remove_reference_t<decltype(mean.*member)>;
    mean.*member = static_cast<Value>(sum / static_cast<double>(ranks.size()));
  };
  for (auto member : {&RankFigures::time_s, &RankFigures::compute_s, &RankFigures::communication_s,
                      &RankFigures::exposed_communication_s, &RankFigures::exposed_wait_s,
                      &RankFigures::exposed_transfer_s})
    share(member);
  for (auto member : {&RankFigures::peak_bytes, &RankFigures::arena_bytes, &RankFigures::saved_bytes,
                      &RankFigures::sent_bytes, &RankFigures::received_bytes})
    share(member);
  return mean;
}

// Of many ranks the one that ends last, the one that ends first, and the mean of all.
std::vector<LabelledRank> summary_of(const std::vector<RankFigures>& ranks) {
  const auto [best, worst] =
      std::minmax_element(ranks.begin(), ranks.end(), [](const RankFigures& a, const RankFigures& b) {
        return std::pair(a.time_s, a.exposed_communication_s) <
               std::pair(b.time_s, b.exposed_communication_s);
      });
  return {{"worst " + std::to_string(worst->rank), *worst},
          {"best " + std::to_string(best->rank), *best},
          {"mean", mean_of(ranks)}};
}

TextTable table_of(const std::vector<LabelledRank>& rows, bool saves) {
  std::int64_t memory = 0, wire = 0;
  double time_s = 0;
  for (const auto& [label, rank] : rows) {
    time_s = std::max(time_s, rank.time_s);
    memory = std::max(memory, rank.arena_bytes);
    wire = std::max({wire, rank.sent_bytes, rank.received_bytes});
  }
  const Unit memory_unit = byte_unit(static_cast<double>(memory));
  const Unit wire_unit = byte_unit(static_cast<double>(wire));
  const TimeUnit unit = time_unit(time_s);
  std::vector<Column> columns{{"rank", ""},
                              {"time", unit.name},
                              {"compute", unit.name},
                              {"traffic", unit.name},
                              {"exposed", unit.name},
                              {"waiting", unit.name},
                              {"transfer", unit.name},
                              {"peak", memory_unit.name},
                              {"allocated", memory_unit.name},
                              {"sent", wire_unit.name},
                              {"received", wire_unit.name}};
  // What other layers find in memory, and what they do not.
  if (saves)
    columns.insert(columns.begin() + 8, {{"saved", memory_unit.name}, {"transient", memory_unit.name}});
  TextTable table(columns);
  for (const auto& [label, rank] : rows) {
    const auto time = [&](double seconds) { return format_time(seconds, unit); };
    const auto bytes = [](const Unit& of, std::int64_t value) { return of.text(static_cast<double>(value)); };
    std::vector<std::string> row{label,
                                 time(rank.time_s),
                                 time(rank.compute_s),
                                 time(rank.communication_s),
                                 time(rank.exposed_communication_s),
                                 time(rank.exposed_wait_s),
                                 time(rank.exposed_transfer_s),
                                 bytes(memory_unit, rank.peak_bytes),
                                 bytes(memory_unit, rank.arena_bytes),
                                 bytes(wire_unit, rank.sent_bytes),
                                 bytes(wire_unit, rank.received_bytes)};
    if (saves)
      row.insert(row.begin() + 8, {bytes(memory_unit, rank.saved_bytes),
                                   bytes(memory_unit, rank.peak_bytes - rank.saved_bytes)});
    table.add_row(row);
  }
  return table;
}

}  // namespace

TextTable rank_table(const Figures& figures) {
  std::vector<LabelledRank> rows;
  for (const RankFigures& rank : figures.ranks) rows.push_back({std::to_string(rank.rank), rank});
  return table_of(rows, figures.saves());
}

TextTable rank_table_for_files(const Figures& figures, const Totals& totals) {
  std::vector<Column> columns{{"rank", ""},
                              {"time", "s"},
                              {"compute", "s"},
                              {"communication", "s"},
                              {"exposed_communication", "s"},
                              {"exposed_wait", "s"},
                              {"exposed_transfer", "s"},
                              {"peak", "bytes"},
                              {"arena", "bytes"},
                              {"sent", "bytes"},
                              {"received", "bytes"}};
  const bool saves = figures.saves();
  if (saves) columns.insert(columns.end(), {{"saved", "bytes"}, {"transient", "bytes"}});
  columns.push_back({"total_time", "s"});
  std::vector<std::string> whole{number(totals.time_s)};
  if (totals.band) {
    columns.insert(columns.end(), {{"low", "s"}, {"high", "s"}});
    whole.insert(whole.end(), {number(totals.band->first), number(totals.band->second)});
  }
  columns.insert(columns.end(), {{"fits", ""}, {"headroom", "bytes"}});
  whole.insert(whole.end(), {totals.fit.fits ? "true" : "false", std::to_string(totals.fit.headroom_bytes)});
  TextTable table(columns);
  for (const RankFigures& rank : figures.ranks) {
    std::vector<std::string> row{std::to_string(rank.rank),
                                 number(rank.time_s),
                                 number(rank.compute_s),
                                 number(rank.communication_s),
                                 number(rank.exposed_communication_s),
                                 number(rank.exposed_wait_s),
                                 number(rank.exposed_transfer_s),
                                 std::to_string(rank.peak_bytes),
                                 std::to_string(rank.arena_bytes),
                                 std::to_string(rank.sent_bytes),
                                 std::to_string(rank.received_bytes)};
    if (saves)
      row.insert(row.end(),
                 {std::to_string(rank.saved_bytes), std::to_string(rank.peak_bytes - rank.saved_bytes)});
    row.insert(row.end(), whole.begin(), whole.end());
    table.add_row(row);
  }
  return table;
}

std::string fit_text(const Fit& fit) {
  const Unit unit = byte_unit(
      std::max(static_cast<double>(fit.capacity_bytes), std::abs(static_cast<double>(fit.headroom_bytes))));
  const std::string bytes = unit.text(std::abs(static_cast<double>(fit.headroom_bytes)));
  const std::string left = fit.fits
                               ? fmt::format("fits: {} of {} {} left", bytes,
                                             unit.text(static_cast<double>(fit.capacity_bytes)), unit.name)
                               : fmt::format("does not fit: {} {} too much", bytes, unit.name);
  return "one attention call " + left + " (weights, optimizer, other layers not counted)";
}

void write_variants(std::ostream& out, const std::vector<VariantFigures>& variants, const TextStyle& style) {
  std::size_t widest = 0;
  for (const VariantFigures& of : variants) widest = std::max(widest, of.variant.size());
  for (const VariantFigures& of : variants)
    write_beside(out, fmt::format("{:<{}}  ", of.variant, widest),
                 fmt::format("{} operations, {} % of kernel time, {} % of FLOPs", of.operations,
                             format_percent(of.time_share), format_percent(of.flops_share)),
                 style.width);
}

void write_figures(std::ostream& out, const Figures& figures, const Fit& fit, const TextStyle& style,
                   bool all_ranks) {
  const auto line = [&](const std::string& text) { write_folded(out, text, style.width, "  "); };
  for (const PhaseTime& phase : figures.phases)
    line(fmt::format("{:<10}{}", name(phase.phase), time_text(phase.time_s)));
  RankFigures worst;
  for (const RankFigures& rank : figures.ranks)
    if (rank.exposed_communication_s > worst.exposed_communication_s) worst = rank;
  const TimeUnit unit = time_unit(worst.exposed_communication_s);
  line(
      fmt::format("exposed communication {} {} on the worst rank (nothing is computed meanwhile): {} waiting "
                  "for peers, {} "
                  "transfer",
                  format_time(worst.exposed_communication_s, unit), unit.name,
                  format_time(worst.exposed_wait_s, unit), format_time(worst.exposed_transfer_s, unit)));
  std::string text = fmt::format("{} messages", figures.messages);
  for (const TransportUse& use : figures.transports)
    text += fmt::format("{} {} by {} of {} in all", &use == figures.transports.data() ? ":" : ",",
                        use.messages, name(use.transport), bytes_text(static_cast<double>(use.bytes)));
  if (figures.host_syncs > 0)
    text += fmt::format("; the host waits for its GPU {} times", figures.host_syncs);
  line(text);
  const Unit bytes = byte_unit(static_cast<double>(figures.peak_bytes));
  text = fmt::format("peak memory {} {} on rank {}", bytes.text(static_cast<double>(figures.peak_bytes)),
                     bytes.name, figures.peak_rank);
  text += ":";
  for (const PeakBuffer& buffer : figures.peak_buffers)
    text += fmt::format(" {} {}", buffer.name, bytes.text(static_cast<double>(buffer.bytes)));
  line(text);
  if (fit.fixed_bytes > 0)
    line("beside it " + bytes_text(static_cast<double>(fit.fixed_bytes)) + " of context and library buffers");
  out << '\n';
  constexpr std::size_t few_ranks = 16;
  if (all_ranks || figures.ranks.size() <= few_ranks) {
    rank_table(figures).write(out, style);
    return;
  }
  table_of(summary_of(figures.ranks), figures.saves()).write(out, style);
  out << fmt::format("(--ranks prints all {})\n", figures.ranks.size());
}

}  // namespace cplab
