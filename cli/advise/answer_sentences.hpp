// What an answer of `cplab advise` says in sentences, on a terminal and on a page alike.
#pragma once

#include <string>
#include <vector>

#include "cli/advise/answer.hpp"

namespace cplab {

// "llama3-70b on 64 x H100 (...), rows of 128K tokens, 1M tokens a step"
std::string question_text(const Question&, const Answer&);
// "240 layouts are legal; 31 were simulated, ..."
std::string searched_text(const Answer&);
// What to run, what its time is made of, whether the algorithm matters; or that nothing fits.
std::vector<std::string> answer_sentences(const Question&, const Answer&);
// Forms of attention that were priced by a formula.
std::vector<std::string> formula_sentences(const Answer&);
// Of --fit.
std::string fit_text(const Question&, const FitAnswer&);
// Of --price; the share of peak and what it is of.
std::string price_text(const Question&, const Answer&);
std::string peak_text(const Answer&);

}  // namespace cplab
