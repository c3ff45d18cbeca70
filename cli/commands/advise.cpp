// cplab advise SCENARIO | --model NAME|config.json --gpus N --sequence L --hardware FILE: which layout, which
// context-parallel algorithm, does it fit, and how sure.
#include <optional>
#include <ostream>
#include <sstream>

#include "cli/advise/answer.hpp"
#include "cli/advise/question.hpp"
#include "cli/commands/command.hpp"
#include "cli/files/toml_table.hpp"
#include "cli/option_words.hpp"
#include "cli/outputs.hpp"
#include "cli/progress.hpp"
#include "decide/emit/emit.hpp"

namespace cplab {

namespace {

std::optional<Framework> framework_asked(const Arguments& arguments, const Question& question) {
  if (!arguments.has("emit")) return {};
  const std::string word = arguments.word("emit", "");
  if (question.attention_alone)
    throw InputError("--emit " + word + ": flags are of a model; --model or a [model] is needed");
  return framework_of(word);
}

std::vector<std::string> emitted(Framework framework, const Question& question, const ModelLayout& layout) {
  std::istringstream text(emit(framework, question.model, question.training, layout));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

}  // namespace

std::vector<OptionSpec> advise_options(const OptionSpec& hardware) {
  return {
      {"model", "NAME|FILE", "a preset of `list models`, or a Hugging Face config.json", false, model_words},
      {"gpus", "N", "how many (default: training.gpus of the scenario)"},
      {"sequence", "L", "tokens of a row (default: training.sequence)"},
      hardware,
      {"over", "KEY=VALUES",
       "search these values alone, such as tp=1|2,cp=4; keys: tp cp pp dp ep micro_batch loss_chunks zero "
       "recompute algorithm placement",
       true},
      {"baseline", "LAYOUT", "compare with this one term by term, such as tp=8,cp=2,algorithm=ring"},
      {"price", "AMOUNT", "of a GPU hour: cost of a million tokens"},
      {"emit", "FRAMEWORK", "flags to paste: megatron, torchtitan, verl, ms-swift, deepspeed, vllm, sglang",
       false, framework_words},
      {"fit", "", "fewest GPUs for these rows, the longest row on these GPUs, what frees memory"},
      {"brief", "", "no what-ifs and no break-even lengths"},
      {"exhaustive", "", "simulate every legal layout, whatever its bound says"},
      {"strict", "", "exit 1 if nothing fits"}};
}

int command_advise(const Arguments& arguments, Console& console) {
  const Question question = question_of(arguments);
  AnswerOptions options;
  options.fit = arguments.has("fit");
  options.break_even = !arguments.has("brief");
  options.changes = !arguments.has("brief");
  options.exhaustive = arguments.has("exhaustive");
  const std::optional<Framework> framework = framework_asked(arguments, question);
  Progress progress(console, "reading the model");
  Answer answer = answer_to(question, options, progress);
  progress.end();
  if (framework) answer.emitted = emitted(*framework, question, answer.search.candidates.front().layout);
  for (const std::string& note : question.notes) console.say("note: " + note);
  write_answer(console.text(), question, answer, console.style());
  console.write_json_to_option(
      [&](std::ostream& out) { write_answer_json(out, question, answer, versions_of_build()); });
  write_page_output(arguments, console, [&](std::ostream& out) {
    write_answer_page(out, question, answer, versions_of_build());
  });
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
