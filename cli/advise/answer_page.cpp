// The answer as a page: what to run, then why, then what would change it; see answer.hpp.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <ostream>

#include "cli/advise/answer.hpp"
#include "cli/advise/answer_sentences.hpp"
#include "report/html/charts.hpp"
#include "report/html/page.hpp"
#include "report/table.hpp"
#include "report/units.hpp"

namespace cplab {

namespace {

// The best candidate's members are those of the JSON result's first.
std::string best_key(const std::string& member) {
  return "/candidates/0/" + member;
}

std::string colour_of_term(const StepTerm& term, std::size_t number) {
  if (term.kind == TermKind::transfer) return "communication";
  if (term.kind == TermKind::wait) return "wait";
  return term.name == "attention" ? "attention" : fmt::format("c{}", 2 + number % 6);
}

class AnswerPage {
 public:
  AnswerPage(HtmlPage& page, const Question& question, const Answer& answer)
      : page_(page),
        question_(question),
        answer_(answer),
        best_(answer.search.candidates.front()),
        unit_(time_unit(best_.step.time_s)) {}

  void write() {
    for (const std::string& sentence : answer_sentences(question_, answer_)) page_.answer(sentence);
    write_facts();
    write_why();
    write_changes();
    write_candidates();
    write_levers();
    write_break_even();
    write_refused();
    if (!answer_.emitted.empty()) write_emitted();
    std::vector<std::string> notes = formula_sentences(answer_);
    notes.insert(notes.end(), question_.notes.begin(), question_.notes.end());
    page_.words("notes", "What a reader must know", notes);
  }

 private:
  std::string time(double seconds) const { return format_time(seconds, unit_); }

  void write_facts() {
    const StepEstimate& step = best_.step;
    const auto total = static_cast<double>(step.memory.total_bytes);
    std::vector<PageFact> facts{
        {"run", {describe(best_.layout)}, algorithm_text(question_.model, best_.layout)},
        {"time", shown(time_text(step.time_s), step.time_s, best_key("time_s")),
         fmt::format("between {} and {} {}", time(step.low_s), time(step.high_s), unit_.name)},
        {"tokens a second, a GPU",
         shown(fmt::format("{:.0f}", step.tokens_s_gpu), step.tokens_s_gpu, best_key("tokens_s_gpu"))},
        {"memory of a GPU", shown(bytes_text(total), step.memory.total_bytes, best_key("memory_bytes")),
         fmt::format("of {}", bytes_text(static_cast<double>(step.capacity_bytes))),
         step.fits_everywhere() ? "good" : "bad"}};
    if (!question_.attention_alone)
      facts.push_back(
          {"share of peak",
           shown(format_percent(step.share_of_peak) + " %", step.share_of_peak, best_key("share_of_peak")),
           "products and seen pairs, each once"});
    page_.facts(facts);
    if (question_.price_per_gpu_hour > 0) page_.html().element("p", price_text(question_, answer_));
  }

  void write_why() {
    page_.begin_section("why", "Why: what its time is made of");
    std::vector<BarPart> parts;
    for (std::size_t i = 0; i < best_.step.terms.size(); ++i) {
      const StepTerm& term = best_.step.terms[i];
      parts.push_back({std::string(term.name), term.seconds(),
                       shown(fmt::format("{} {}", time(term.seconds()), unit_.name), term.seconds(),
                             best_key(fmt::format("terms/{}/seconds", i))),
                       colour_of_term(term, i)});
    }
    write_stacked_bar(page_.html(), "terms of the time", parts, best_.step.time_s);
    page_.html().element("p", "What the path that ends last uses:", {{"class", "quiet"}});
    std::vector<BarPart> uses;
    for (std::size_t i = 0; i < answer_.bindings.size(); ++i) {
      const Binding& binding = answer_.bindings[i];
      uses.push_back(
          {binding.resource, binding.seconds,
           shown(format_percent(binding.share) + " %", binding.share, fmt::format("/binds/{}/share", i)),
           fmt::format("c{}", i % 8)});
    }
    write_stacked_bar(page_.html(), "what binds", uses, 0);
    page_.html().element("h2", "Memory of a GPU");
    std::vector<BarPart> memory;
    for (std::size_t i = 0; i < best_.step.memory.parts.size(); ++i) {
      const MemoryPart& part = best_.step.memory.parts[i];
      const auto bytes = static_cast<double>(part.bytes);
      memory.push_back({std::string(name(part.kind)), bytes,
                        shown(bytes_text(bytes), part.bytes, best_key(fmt::format("memory/{}/bytes", i))),
                        fmt::format("c{}", i % 8)});
    }
    write_stacked_bar(page_.html(), "memory by kind, of the GPU's capacity", memory,
                      static_cast<double>(best_.step.capacity_bytes));
    page_.end_section();
  }

  // What would change it, the largest gain on top.
  void write_changes() {
    if (answer_.changes.empty()) return;
    double most = 0;
    for (const Change& change : answer_.changes)
      if (change.time_s > 0) most = std::max(most, std::abs(change.delta_s));
    HtmlTable table({{"if", "", false},
                     {"time", unit_.name},
                     {"change", "%"},
                     {"", "", false, "green: faster"},
                     {"", "", false}});
    for (std::size_t i = 0; i < answer_.changes.size(); ++i) {
      const Change& change = answer_.changes[i];
      const bool said = change.time_s > 0;
      Shown bar{.text = {}, .value = fmt::format("{}", change.delta_s), .css = "bars"};
      if (said && most > 0)
        bar.markup = bar_markup(change.delta_s / most, true, change.delta_s < 0 ? "better" : "worse");
      Shown share{"-"};
      if (said) share = sorted_as(format_signed_percent(change.delta_s / best_.step.time_s), change.delta_s);
      table.add_row({{change.what, {}, {}, "wide"},
                     said ? shown(time(change.time_s), change.time_s, fmt::format("/changes/{}/time_s", i))
                          : Shown{"-"},
                     share,
                     bar,
                     {change.note.empty() && !change.fits ? "does not fit" : change.note}});
    }
    page_.begin_section("changes", "What would change it");
    table.write(page_.html(), "change-table", "");
    page_.end_section();
  }

  void write_scatter() {
    std::map<std::string, ChartSeries> by_algorithm;
    for (std::size_t i = 0; i < answer_.search.candidates.size(); ++i) {
      const Candidate& c = answer_.search.candidates[i];
      const std::string algorithm = algorithm_text(question_.model, c.layout);
      const std::string family = algorithm.substr(0, algorithm.find(' '));
      ChartSeries& series = by_algorithm[family];
      series.name = family;
      series.points.push_back(
          {c.step.time_s, static_cast<double>(c.step.memory.total_bytes) / (1 << 30), 0, 0,
           fmt::format("{} with {}: {} {}, {} GiB", describe(c.layout), algorithm, time(c.step.time_s),
                       unit_.name, format_gib(c.step.memory.total_bytes, 1)),
           i == 0});
    }
    std::vector<ChartSeries> all;
    for (auto& [algorithm, series] : by_algorithm) {
      series.css = fmt::format("c{}", all.size() % 10);
      all.push_back(std::move(series));
    }
    write_chart(page_.html(), "candidate-chart", "every candidate by its algorithm; ringed: the answer",
                {fmt::format("time ({})", unit_.name), true,
                 [this](double s) { return fmt::format("{:.4g}", s / unit_.size_s); }},
                {"memory of a GPU (GiB)", false, [](double gib) { return fmt::format("{:.4g}", gib); }}, all);
  }

  void write_candidates() {
    HtmlTable table(
        {{"layout", "", false},
         {"algorithm", "", false},
         {"time", unit_.name},
         {"low", unit_.name},
         {"high", unit_.name},
         {"tokens/s", "a GPU"},
         {"limit", unit_.name, true, "all FLOPs at peak, all moves at full bandwidth, nothing exposed"},
         {"moves", unit_.name, true, "transfers that no computation hides"},
         {"waits", unit_.name, true, "waiting that no computation hides"},
         {"memory", "GiB"},
         {"fits", "", false},
         {"proved", "", false}});
    const auto& all = answer_.search.candidates;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const StepEstimate& step = all[i].step;
      const auto seconds = [&](double value, const char* member) {
        return shown(time(value), value, fmt::format("/candidates/{}/{}", i, member));
      };
      table.add_row({{describe(all[i].layout)},
                     {algorithm_text(question_.model, all[i].layout)},
                     seconds(step.time_s, "time_s"),
                     seconds(step.low_s, "low_s"),
                     seconds(step.high_s, "high_s"),
                     shown(fmt::format("{:.0f}", step.tokens_s_gpu), step.tokens_s_gpu,
                           fmt::format("/candidates/{}/tokens_s_gpu", i)),
                     seconds(step.limit_s, "limit_s"),
                     seconds(step.exposed_transfer_s(), "exposed_transfer_s"),
                     seconds(step.exposed_wait_s(), "exposed_wait_s"),
                     shown(format_gib(step.memory.total_bytes, 1), step.memory.total_bytes,
                           fmt::format("/candidates/{}/memory_bytes", i)),
                     {step.fits_everywhere() ? "yes" : "NO", {}, {}, step.fits_everywhere() ? "" : "worse"},
                     {answer_.proved[i]}},
                    all[i].equal_to_best && step.fits_everywhere() ? "best" : "");
    }
    page_.begin_section("candidates", "Every candidate");
    page_.html().element("p",
                         searched_text(answer_) +
                             ". Coloured: as good as the best, what it does otherwise is within the "
                             "band of just that.",
                         {{"class", "quiet"}});
    write_scatter();
    page_.filter("candidate-table");
    table.write(page_.html(), "candidate-table", "");
    page_.end_section();
  }

  void write_levers() {
    const std::vector<MemoryLever>& levers =
        answer_.fit && !answer_.fit->levers.empty() ? answer_.fit->levers : answer_.levers;
    if (!answer_.fit && levers.empty()) return;
    page_.begin_section("fit", "Does it fit");
    if (answer_.fit) page_.html().element("p", fit_text(question_, *answer_.fit));
    HtmlTable table({{"what frees memory, first things first", "", false},
                     {"frees", "GiB"},
                     {"time", "%"},
                     {"then it fits", "", false}});
    for (std::size_t i = 0; i < levers.size(); ++i) {
      const auto key = [&](const char* member) { return fmt::format("/fit/first_lever/{}/{}", i, member); };
      table.add_row({{levers[i].what},
                     shown(format_gib(levers[i].frees_bytes, 1), levers[i].frees_bytes, key("frees_bytes")),
                     shown(format_signed_percent(levers[i].slower), levers[i].slower, key("slower")),
                     {levers[i].fits ? "yes" : "no"}});
    }
    if (!table.empty()) table.write(page_.html(), "lever-table", "");
    page_.end_section();
  }

  void write_break_even() {
    std::vector<std::string> sentences;
    for (const BreakEven& each : answer_.break_even) sentences.push_back(each.what);
    page_.words("break-even", "Where the answer changes", sentences);
  }

  void write_refused() {
    if (answer_.search.refused.empty()) return;
    HtmlTable table({{"layouts"}, {"refused because", "", false}, {"such as", "", false}});
    for (std::size_t i = 0; i < answer_.search.refused.size(); ++i) {
      const Refusal& refusal = answer_.search.refused[i];
      table.add_row({shown(format_count(refusal.count), std::int64_t{refusal.count},
                           fmt::format("/refused/{}/count", i)),
                     {refusal.reason, {}, {}, "wide"},
                     {refusal.nearest}});
    }
    page_.begin_section("refused", "Refused");
    table.write(page_.html(), "refused-table", "");
    page_.end_section();
  }

  void write_emitted() {
    page_.begin_section("emit", "To paste");
    page_.html().open("pre");
    for (const std::string& line : answer_.emitted) {
      page_.html().text(line);
      page_.html().raw("\n");
    }
    page_.html().close();
    page_.end_section();
  }

  HtmlPage& page_;
  const Question& question_;
  const Answer& answer_;
  const Candidate& best_;
  TimeUnit unit_;
};

}  // namespace

void write_answer_page(std::ostream& out, const Question& question, const Answer& answer,
                       const Versions& versions) {
  HtmlPage page(out, "advise", fmt::format("{} on {} GPUs", question.model.name, question.training.gpus),
                question_text(question, answer));
  AnswerPage(page, question, answer).write();
  page.finish(versions, std::nullopt,
              [&](std::ostream& stream) { write_answer_json(stream, question, answer, versions); });
}

}  // namespace cplab
