// The page of check; see pages.hpp.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <ostream>

#include "report/html/charts.hpp"
#include "report/html/page.hpp"
#include "report/html/pages.hpp"
#include "report/json.hpp"
#include "report/table.hpp"
#include "report/units.hpp"

namespace cplab {
namespace {

const std::vector<std::string>& what_is_proved() {
  static const std::vector<std::string> all{
      "Every query meets every key that the mask lets it see exactly once, for every head, forward and "
      "backward; every "
      "gradient is complete.",
      "Nothing is read before it is written, nothing is overwritten that another lane may still read, and no "
      "buffer is "
      "left behind.",
      "Every send meets its receive, in order, of one size and one dtype.",
      "No order in which ranks and lanes may proceed ends in a deadlock, even without any buffering of "
      "messages.",
      "The launches on each communicator have one order on all ranks."};
  return all;
}

void write_findings(HtmlPage& page, const std::vector<Finding>& findings) {
  HtmlTable table({{"kind", "", false},
                   {"rank"},
                   {"operation", "", false},
                   {"buffer", "", false},
                   {"what is wrong", "", false}});
  for (const Finding& finding : findings)
    table.add_row({{std::string(name(finding.kind)), {}, {}, "worse"},
                   {finding.rank < 0 ? "" : std::to_string(finding.rank)},
                   {finding.operation},
                   {finding.buffer},
                   {finding.message, {}, {}, "wide"}});
  page.begin_section("findings", "What is wrong");
  table.write(page.html(), "finding-table", "");
  page.end_section();
}

Shown bar_cell(double value, double most, const char* css) {
  Shown bar{.text = {}, .value = fmt::format("{}", value), .css = "bars"};
  bar.markup = bar_markup(most > 0 ? value / most : 0, false, css);
  return bar;
}

void write_ranks(HtmlPage& page, const CheckResult& result) {
  if (result.flops.empty()) return;
  const double most = *std::ranges::max_element(result.flops);
  const auto most_sent = static_cast<double>(*std::ranges::max_element(result.sent_bytes));
  const Unit work = flop_unit(most), wire = byte_unit(most_sent);
  HtmlTable table({{"rank"}, {"work", work.name}, {"", "", false}, {"sent", wire.name}, {"", "", false}});
  for (std::size_t r = 0; r < result.flops.size(); ++r) {
    const std::int64_t sent = result.sent_bytes.at(r);
    table.add_row({sorted_as(std::to_string(r), static_cast<double>(r)),
                   shown(work.text(result.flops[r]), result.flops[r], fmt::format("/flops/{}", r)),
                   bar_cell(result.flops[r], most, "attention"),
                   shown(wire.text(static_cast<double>(sent)), sent, fmt::format("/sent_bytes/{}", r)),
                   bar_cell(static_cast<double>(sent), most_sent, "communication")});
  }
  page.begin_section("ranks", "Work and traffic of every rank");
  constexpr std::size_t many = 32;
  if (table.rows() > many) page.filter("rank-table");
  table.write(page.html(), "rank-table", "");
  page.end_section();
}

}  // namespace

void write_page(std::ostream& out, const PageTitle& title, const CheckReport& report) {
  const CheckResult& result = report.result;
  HtmlPage page(out, "check", title.title, title.lead);
  const double flops = std::accumulate(result.flops.begin(), result.flops.end(), 0.0);
  const auto sent = std::accumulate(result.sent_bytes.begin(), result.sent_bytes.end(), std::int64_t{0});
  page.answer(result.ok() ? "The plan is right: proved for every order in which it can run, without a clock."
                          : fmt::format("The plan is wrong: {} finding{}.", result.findings.size(),
                                        result.findings.size() == 1 ? "" : "s"));
  std::vector<PageFact> facts{
      {"the plan is", {result.ok() ? "right" : "wrong"}, "", result.ok() ? "good" : "bad"},
      {"rounds of communication", shown(format_count(result.rounds), std::int64_t{result.rounds}, "/rounds"),
       "the longest chain of communications"},
      {"messages", shown(format_count(result.messages), std::int64_t{result.messages}, "/messages"),
       fmt::format("{} sent in all", bytes_text(static_cast<double>(sent)))}};
  if (!result.flops.empty()) {
    const auto [least, most] = std::ranges::minmax(result.flops);
    facts.push_back(
        {"work of all ranks",
         {flops_text(flops)},
         least > 0 ? fmt::format("the most loaded rank has {:.2f} times the least", most / least) : ""});
  }
  page.facts(facts);
  if (result.ok())
    page.words("proved", "What is proved", what_is_proved());
  else
    write_findings(page, result.findings);
  page.words("notes", "What it costs, and what a reader must know", report.header.notes);
  write_ranks(page, result);
  page.finish(report.header.versions, report.header.given,
              [&](std::ostream& stream) { write_json(stream, report); });
}

}  // namespace cplab
