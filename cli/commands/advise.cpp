// cplab advise SCENARIO | --model NAME|config.json --gpus N --sequence L --hardware FILE: which layout, which
// context-parallel algorithm, does it fit, and how sure.
#include <ostream>

#include "cli/advise/answer.hpp"
#include "cli/advise/question.hpp"
#include "cli/commands/command.hpp"
#include "cli/progress.hpp"

namespace cplab {

int command_advise(const Arguments& arguments, Console& console) {
  const Question question = question_of(arguments);
  AnswerOptions options;
  options.fit = arguments.has("fit");
  options.break_even = !arguments.has("brief");
  options.changes = !arguments.has("brief");
  options.exhaustive = arguments.has("exhaustive");
  Progress progress(console, "reading the model");
  const Answer answer = answer_to(question, options, progress);
  progress.end();
  for (const std::string& note : question.notes) console.say("note: " + note);
  write_answer(console.text(), question, answer, console.style());
  console.write_json_to_option(
      [&](std::ostream& out) { write_answer_json(out, question, answer, versions_of_build()); });
  console.write_csv_to_option([&](std::ostream& out) { write_answer_csv(out, question, answer); });
  const StepEstimate& best = answer.search.candidates.front().step;
  const bool fits = best.fits && best.host_fits;
  if (!fits && arguments.has("strict")) {
    console.say("--strict: nothing fits");
    return exit_wrong;
  }
  return exit_fine;
}

}  // namespace cplab
