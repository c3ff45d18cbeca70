// What `cplab advise` answers: candidates with their proofs, what binds and would change it, where the answer
// changes, whether it fits. As text of 100 columns, as JSON and as CSV.
#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "cli/advise/question.hpp"
#include "cli/progress.hpp"
#include "decide/break_even.hpp"
#include "decide/changes.hpp"
#include "decide/fit.hpp"
#include "decide/regret.hpp"
#include "report/results.hpp"
#include "report/table.hpp"

namespace cplab {

struct Answer {
  Search search;
  std::vector<std::size_t> shown;   // candidates that are printed, best first
  std::vector<std::string> proved;  // by candidate: "yes", "not checked", ...
  std::optional<Regret> regret;
  std::vector<Binding> bindings;  // of the best one
  std::vector<Change> changes;
  std::vector<BreakEven> break_even;
  std::optional<FitAnswer> fit;
  std::optional<Candidate> baseline;
  std::optional<std::size_t>
      without_cp;                   // the best candidate without context parallelism, where another is better
  std::vector<MemoryLever> levers;  // where nothing fits
  std::vector<std::string> emitted;  // lines for a framework
};

struct AnswerOptions {
  bool fit = false, break_even = true, changes = true, exhaustive = false;
  std::size_t rows = 10;
  double proof_s = 10;
};

Answer answer_to(const Question&, const AnswerOptions&, Progress&);

void write_answer(std::ostream&, const Question&, const Answer&, TextStyle);
void write_answer_json(std::ostream&, const Question&, const Answer&, const Versions&);
// The page of --html.
void write_answer_page(std::ostream&, const Question&, const Answer&, const Versions&);
void write_answer_csv(std::ostream&, const Question&, const Answer&);

}  // namespace cplab
