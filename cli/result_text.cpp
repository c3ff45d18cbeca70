// Figures for people and for spreadsheets.
#include "cli/result_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ostream>

namespace cplab {

namespace {

template <std::size_t N>
Unit unit_for(double largest, double base, const std::array<const char*, N>& names) {
  Unit unit{names[0], 1};
  for (std::size_t i = 1; i < N && largest >= base * unit.size; ++i) unit = {names[i], unit.size * base};
  return unit;
}

TextTable rank_table_for_files(const Figures& figures) {
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
  TextTable table(columns);
  for (const RankFigures& rank : figures.ranks) {
    std::vector<std::string> row{std::to_string(rank.rank),
                                 fmt::format("{}", rank.time_s),
                                 fmt::format("{}", rank.compute_s),
                                 fmt::format("{}", rank.communication_s),
                                 fmt::format("{}", rank.exposed_communication_s),
                                 fmt::format("{}", rank.exposed_wait_s),
                                 fmt::format("{}", rank.exposed_transfer_s),
                                 std::to_string(rank.peak_bytes),
                                 std::to_string(rank.arena_bytes),
                                 std::to_string(rank.sent_bytes),
                                 std::to_string(rank.received_bytes)};
    if (saves)
      row.insert(row.end(),
                 {std::to_string(rank.saved_bytes), std::to_string(rank.peak_bytes - rank.saved_bytes)});
    table.add_row(row);
  }
  return table;
}

}  // namespace

std::string Unit::text(double value, int decimals) const {
  return format_fixed(value / size, size > 1 ? decimals : 0);
}

Unit byte_unit(double largest) {
  return unit_for(largest, 1024, std::array{"bytes", "KiB", "MiB", "GiB"});
}

Unit flop_unit(double largest) {
  return unit_for(largest, 1000, std::array{"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"});
}

std::string bytes_text(double bytes) {
  const Unit unit = byte_unit(std::abs(bytes));
  return unit.text(bytes) + " " + unit.name;
}

TextTable rank_table(const Figures& figures, Audience audience) {
  if (audience == Audience::files) return rank_table_for_files(figures);
  std::int64_t memory = 0, wire = 0;
  for (const RankFigures& rank : figures.ranks) {
    memory = std::max(memory, rank.arena_bytes);
    wire = std::max({wire, rank.sent_bytes, rank.received_bytes});
  }
  const Unit memory_unit = byte_unit(static_cast<double>(memory));
  const Unit wire_unit = byte_unit(static_cast<double>(wire));
  const bool saves = figures.saves();
  std::vector<Column> columns{{"rank", ""},
                              {"time", "ms"},
                              {"compute", "ms"},
                              {"communication", "ms"},
                              {"exposed", "ms"},
                              {"waiting", "ms"},
                              {"transfer", "ms"},
                              {"peak", memory_unit.name},
                              {"arena", memory_unit.name},
                              {"sent", wire_unit.name},
                              {"received", wire_unit.name}};
  // What other layers find in memory, and what they do not.
  if (saves)
    columns.insert(columns.begin() + 8, {{"saved", memory_unit.name}, {"transient", memory_unit.name}});
  TextTable table(columns);
  for (const RankFigures& rank : figures.ranks) {
    std::vector<std::string> row{std::to_string(rank.rank),
                                 format_ms(rank.time_s),
                                 format_ms(rank.compute_s),
                                 format_ms(rank.communication_s),
                                 format_ms(rank.exposed_communication_s),
                                 format_ms(rank.exposed_wait_s),
                                 format_ms(rank.exposed_transfer_s),
                                 memory_unit.text(static_cast<double>(rank.peak_bytes)),
                                 memory_unit.text(static_cast<double>(rank.arena_bytes)),
                                 wire_unit.text(static_cast<double>(rank.sent_bytes)),
                                 wire_unit.text(static_cast<double>(rank.received_bytes))};
    if (saves)
      row.insert(row.begin() + 8,
                 {memory_unit.text(static_cast<double>(rank.saved_bytes)),
                  memory_unit.text(static_cast<double>(rank.peak_bytes - rank.saved_bytes))});
    table.add_row(row);
  }
  return table;
}

void write_variants(std::ostream& out, const std::vector<VariantFigures>& variants) {
  std::size_t widest = 0;
  for (const VariantFigures& of : variants) widest = std::max(widest, of.variant.size());
  for (const VariantFigures& of : variants)
    out << fmt::format("{:<{}}  {} operations, {} % of the kernels' time, {} % of the FLOPs\n", of.variant,
                       widest, of.operations, format_percent(of.time_share), format_percent(of.flops_share));
}

void write_figures(std::ostream& out, const Figures& figures, const std::optional<Fit>& fit, bool color) {
  for (const PhaseTime& phase : figures.phases) {
    out << fmt::format("{:<10}{} ms\n", name(phase.phase), format_ms(phase.time_s));
  }
  RankFigures worst;
  for (const RankFigures& rank : figures.ranks)
    if (rank.exposed_communication_s > worst.exposed_communication_s) worst = rank;
  out << fmt::format(
      "exposed communication {} ms on the worst rank: {} waiting for peers, {} transfer; {} messages, {} "
      "host "
      "syncs\n",
      format_ms(worst.exposed_communication_s), format_ms(worst.exposed_wait_s),
      format_ms(worst.exposed_transfer_s), figures.messages, figures.host_syncs);
  if (!figures.transports.empty()) {
    std::string text;
    for (const TransportUse& use : figures.transports)
      text += fmt::format("{}{} {} messages of {} in all", text.empty() ? "" : ", ", name(use.transport),
                          use.messages, bytes_text(static_cast<double>(use.bytes)));
    out << "transport: " << text << '\n';
  }
  const Unit unit = byte_unit(static_cast<double>(figures.peak_bytes));
  out << fmt::format("peak memory {} {} on rank {}:", unit.text(static_cast<double>(figures.peak_bytes)),
                     unit.name, figures.peak_rank);
  for (const PeakBuffer& buffer : figures.peak_buffers) {
    out << fmt::format(" {} {}", buffer.name, unit.text(static_cast<double>(buffer.bytes)));
  }
  out << '\n';
  if (fit) {
    out << fmt::format(
        "{}: {} of {} {} beside {} of context and library buffers\n", fit->fits ? "fits" : "does not fit",
        bytes_text(std::abs(static_cast<double>(fit->headroom_bytes))),
        bytes_text(static_cast<double>(fit->capacity_bytes)), fit->fits ? "are left" : "are missing",
        bytes_text(static_cast<double>(fit->fixed_bytes)));
  }
  constexpr std::size_t most_rows_for_people = 64;
  if (figures.ranks.size() > most_rows_for_people) return;
  out << '\n';
  rank_table(figures, Audience::people).write(out, color);
}

}  // namespace cplab
