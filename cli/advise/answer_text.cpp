// The answer for a terminal of 100 columns, and as CSV; see answer.hpp.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ostream>

#include "cli/advise/answer.hpp"
#include "cli/advise/answer_sentences.hpp"
#include "report/folding.hpp"

namespace cplab {

namespace {

std::string band_text(const StepEstimate& step) {
  return format_percent((step.high_s - step.low_s) / 2 / step.time_s, 0);
}

TextTable candidate_table(const Question& question, const Answer& answer) {
  double longest = 0;
  for (const std::size_t i : answer.shown)
    longest = std::max(longest, answer.search.candidates[i].step.time_s);
  const TimeUnit unit = time_unit(longest);
  TextTable table({{"layout", "", Align::left},
                   {"algorithm", "", Align::left},
                   {"time", unit.name},
                   {"+-", "%"},
                   {"tok/s", ""},
                   {"limit", "%"},
                   {"moves", unit.name},
                   {"waits", unit.name},
                   {"GPU", "GiB"},
                   {"host", "GiB"},
                   {"fits", "", Align::left},
                   {"proved", "", Align::left}});
  for (const std::size_t i : answer.shown) {
    const Candidate& c = answer.search.candidates[i];
    table.add_row(
        {describe(c.layout), algorithm_text(question.model, c.layout), format_time(c.step.time_s, unit),
         band_text(c.step), fmt::format("{:.0f}", c.step.tokens_s_gpu),
         format_percent(c.step.limit_s / c.step.time_s, 0), format_time(c.step.exposed_transfer_s(), unit),
         format_time(c.step.exposed_wait_s(), unit), format_gib(c.step.memory.total_bytes, 1),
         c.step.memory.host_bytes > 0 ? format_gib(c.step.memory.host_bytes, 0) : "-",
         c.step.fits_everywhere() ? "yes" : "NO", answer.proved[i]});
    if (c.equal_to_best && c.step.fits_everywhere()) table.mark_best(table.rows() - 1);
  }
  return table;
}

TextTable memory_table(const StepEstimate& step) {
  TextTable table({{"memory of a GPU", "", Align::left}, {"", "GiB"}, {"share", "%"}});
  for (const MemoryPart& part : step.memory.parts)
    table.add_row(
        {std::string(name(part.kind)), format_gib(part.bytes),
         format_percent(static_cast<double>(part.bytes) / static_cast<double>(step.memory.total_bytes), 0)});
  return table;
}

std::string origin_text(const OriginSeconds& origins) {
  return std::string(name(origins.most()));
}

TextTable term_table(const StepEstimate& step, const StepEstimate* baseline) {
  std::vector<Column> columns{{"time of the best layout", "", Align::left},
                              {"time", "s"},
                              {"share", "%"},
                              {"origin", "", Align::left}};
  if (baseline != nullptr) columns.insert(columns.begin() + 2, {{"baseline", "s"}, {"slower by", "s"}});
  TextTable table(columns);
  std::vector<std::string_view> names;
  for (const StepEstimate* each : {&step, baseline})
    if (each != nullptr)
      for (const StepTerm& term : each->terms)
        if (std::find(names.begin(), names.end(), term.name) == names.end()) names.push_back(term.name);
  const auto find = [](const StepEstimate& in, std::string_view term_name) {
    const auto found = std::find_if(in.terms.begin(), in.terms.end(),
                                    [&](const StepTerm& t) { return t.name == term_name; });
    return found == in.terms.end() ? nullptr : &*found;
  };
  for (const std::string_view term_name : names) {
    const StepTerm* own = find(step, term_name);
    const double seconds = own == nullptr ? 0 : own->seconds();
    std::vector<std::string> cells{std::string(term_name), format_fixed(seconds, 4)};
    const StepTerm* other = baseline == nullptr ? nullptr : find(*baseline, term_name);
    if (baseline != nullptr) {
      const double theirs = other == nullptr ? 0 : other->seconds();
      cells.push_back(format_fixed(theirs, 4));
      cells.push_back(format_fixed(theirs - seconds, 4));
    }
    cells.push_back(format_percent(seconds / step.time_s));
    cells.push_back(origin_text(own != nullptr ? own->origins : other->origins));
    table.add_row(std::move(cells));
  }
  return table;
}

void write_changes(std::ostream& out, const Answer& answer, TextStyle style) {
  const StepEstimate& now = answer.search.candidates.front().step;
  TextTable table(
      {{"what would change it", "", Align::left}, {"time", "s"}, {"change", "%"}, {"", "", Align::left}});
  for (const Change& change : answer.changes)
    table.add_row({change.what, change.time_s > 0 ? format_fixed(change.time_s, 3) : "-",
                   change.time_s > 0 ? format_signed_percent(change.delta_s / now.time_s) : "-",
                   change.note});
  if (table.rows() > 0) {
    out << '\n';
    table.write(out, style);
  }
}

void write_levers(std::ostream& out, const std::vector<MemoryLever>& levers, TextStyle style) {
  if (levers.empty()) return;
  TextTable table({{"what frees memory, first things first", "", Align::left},
                   {"frees", "GiB"},
                   {"time", "%"},
                   {"then it fits", "", Align::left}});
  for (const MemoryLever& lever : levers)
    table.add_row({lever.what, format_gib(lever.frees_bytes, 1), format_signed_percent(lever.slower),
                   lever.fits ? "yes" : "no"});
  out << '\n';
  table.write(out, style);
}

void write_head(std::ostream& out, const Question& question, const Answer& answer, std::size_t width) {
  write_folded(out, question_text(question, answer), width, "  ");
  write_folded(out, searched_text(answer), width, "  ");
  out << '\n';
  for (const std::string& sentence : answer_sentences(question, answer)) write_folded(out, sentence, width);
  for (const std::string& sentence : formula_sentences(answer)) write_folded(out, sentence, width, "  ");
}

}  // namespace

void write_answer(std::ostream& out, const Question& question, const Answer& answer, TextStyle style) {
  const StepEstimate& best = answer.search.candidates.front().step;
  write_head(out, question, answer, style.width);
  out << '\n';
  candidate_table(question, answer).write(out, style);
  out << '\n';
  write_folded(
      out,
      "* equal: what it does otherwise is within the band of just that. limit: all products and attention "
      "at peak, all memory traffic at full bandwidth, nothing exposed, in % of the time. tok/s: of a GPU. "
      "moves, waits: transfers and waiting that no computation hides",
      style.width, "  ");
  if (answer.without_cp) {
    const Candidate& none = answer.search.candidates[*answer.without_cp];
    write_folded(
        out,
        fmt::format("Without context parallelism: {}, {} ({} %){}.", describe(none.layout),
                    time_text(none.step.time_s), format_signed_percent(none.step.time_s / best.time_s - 1),
                    none.step.fits_everywhere() ? "" : ", which does not fit"),
        style.width);
  }
  out << '\n';
  if (answer.baseline)
    write_folded(
        out,
        fmt::format("Baseline {}: {}{}, {} GiB, {} % in time a token.", describe(answer.baseline->layout),
                    time_text(answer.baseline->step.time_s),
                    answer.baseline->step.fits_everywhere() ? "" : " (does not fit)",
                    format_gib(answer.baseline->step.memory.total_bytes, 1),
                    format_signed_percent(answer.baseline->step.time_s / answer.baseline->step.tokens /
                                              (best.time_s / best.tokens) -
                                          1)),
        style.width);
  term_table(best, answer.baseline ? &answer.baseline->step : nullptr).write(out, style);
  out << '\n';
  memory_table(best).write(out, style);
  write_changes(out, answer, style);
  write_levers(out, answer.levers, style);
  if (!answer.break_even.empty()) out << '\n';
  for (const BreakEven& each : answer.break_even) write_folded(out, each.what, style.width, "  ");
  if (answer.fit) {
    out << '\n';
    write_folded(out, fit_text(question, *answer.fit), style.width);
    if (answer.levers.empty()) write_levers(out, answer.fit->levers, style);
  }
  if (question.price_per_gpu_hour > 0) write_folded(out, "\n" + price_text(question, answer), style.width);
  if (!question.attention_alone) write_folded(out, peak_text(answer), style.width);
  if (!answer.emitted.empty()) out << '\n';
  for (const std::string& line : answer.emitted) {
    if (!line.starts_with("# ")) {
      out << line << '\n';
      continue;
    }
    for (const std::string& part : folded(line.substr(2), style.width - 2)) out << "# " << part << '\n';
  }
}

void write_answer_csv(std::ostream& out, const Question& question, const Answer& answer) {
  TextTable table({{"tp", ""},
                   {"cp", ""},
                   {"pp", ""},
                   {"dp", ""},
                   {"ep", ""},
                   {"layout", ""},
                   {"algorithm", ""},
                   {"time", "s"},
                   {"low", "s"},
                   {"high", "s"},
                   {"tokens_s_gpu", ""},
                   {"memory", "bytes"},
                   {"fits", ""},
                   {"equal to best", ""},
                   {"proved", ""}});
  const auto& all = answer.search.candidates;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Candidate& c = all[i];
    table.add_row({std::to_string(c.layout.tp), std::to_string(c.layout.cp), std::to_string(c.layout.pp),
                   std::to_string(c.layout.dp), std::to_string(c.layout.ep), describe(c.layout),
                   algorithm_text(question.model, c.layout), fmt::format("{}", c.step.time_s),
                   fmt::format("{}", c.step.low_s), fmt::format("{}", c.step.high_s),
                   fmt::format("{}", c.step.tokens_s_gpu), std::to_string(c.step.memory.total_bytes),
                   c.step.fits_everywhere() ? "true" : "false", c.equal_to_best ? "true" : "false",
                   answer.proved[i]});
  }
  table.write_csv(out);
}

}  // namespace cplab
