// See answer_sentences.hpp.
#include "cli/advise/answer_sentences.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "report/table.hpp"

namespace cplab {

namespace {

std::string tokens_text(std::int64_t tokens) {
  if (tokens >= 1024 && tokens % 1024 == 0 && tokens < (std::int64_t{1} << 20))
    return std::to_string(tokens / 1024) + "K";
  if (tokens > 0 && tokens % (std::int64_t{1} << 20) == 0) return std::to_string(tokens >> 20) + "M";
  return std::to_string(tokens);
}

// Where one attention layer is the whole question, "a step" is one call of it.
const char* unit_of_work(const Question& question) {
  if (question.attention_alone) return "an attention call";
  switch (question.training.mode) {
    case Mode::training: return "a step";
    case Mode::prefill: return "a prefill";
    case Mode::decode: return "a token of each row";
  }
  return "a step";
}

std::string run_text(const Question& question, const Answer& answer) {
  const Candidate& best = answer.search.candidates.front();
  const StepEstimate& step = best.step;
  const std::string algorithm = algorithm_text(question.model, best.layout);
  const TimeUnit unit = time_unit(step.time_s);
  const auto in_unit = [&](double seconds) { return format_time(seconds, unit) + " " + unit.name; };
  return fmt::format(
      "Run {}{}: {} {} (between {} and {}), {:.0f} tokens/s a GPU, {} of {} GiB.", describe(best.layout),
      algorithm == "none" ? std::string(", without context parallelism") : " with " + algorithm,
      in_unit(step.time_s), unit_of_work(question), in_unit(step.low_s), in_unit(step.high_s),
      step.tokens_s_gpu, format_gib(step.memory.total_bytes, 1), format_gib(step.capacity_bytes, 1));
}

std::string why_text(const Answer& answer) {
  std::string text = "Its time is ";
  std::size_t named = 0;
  for (const Binding& binding : answer.bindings) {
    if (named == 4 || (named > 0 && binding.share < 0.02)) break;
    text += fmt::format("{}{} {} %", named++ == 0 ? "" : ", ", binding.resource,
                        format_percent(binding.share, 0));
  }
  const std::vector<Candidate>& all = answer.search.candidates;
  const auto equal =
      std::count_if(all.begin() + 1, all.end(), [](const Candidate& c) { return c.equal_to_best; });
  if (equal > 0)
    text += fmt::format("; of {} equally fast layouts within {} % it needs least memory", equal + 1,
                        format_percent(near_best, 0));
  return text + ".";
}

std::string matter_text(const Question& question, const Answer& answer) {
  std::string text;
  if (const auto spread = spread_of_algorithms(answer.search.candidates)) {
    text = *spread < near_best
               ? fmt::format("The algorithm does not matter here: all of them are within {} %.",
                             format_percent(*spread))
               : fmt::format("The algorithm matters: at these degrees the slowest one takes {} % longer.",
                             format_percent(*spread));
  } else if (answer.search.candidates.front().layout.cp == 1) {
    text = "Context parallelism is not needed here.";
  }
  if (answer.regret) {
    const Candidate& other = answer.search.candidates[answer.regret->against];
    text += fmt::format(
        " If the estimates are as wrong as their bands say, at most {} % are lost, to {} with {}.",
        format_percent(answer.regret->share), describe(other.layout),
        algorithm_text(question.model, other.layout));
  }
  return text;
}

std::string nothing_fits_text(const Answer& answer) {
  const StepEstimate& step = answer.search.candidates.front().step;
  if (!step.host_fits) return "Nothing fits: the host's memory is too small for what is moved there.";
  return fmt::format("Nothing fits: the nearest layout, {}, needs {} GiB of {}.",
                     describe(answer.search.candidates.front().layout),
                     format_gib(step.memory.total_bytes, 1), format_gib(step.capacity_bytes, 1));
}

}  // namespace

std::string question_text(const Question& question, const Answer& answer) {
  const Training& t = question.training;
  const StepEstimate& step = answer.search.candidates.front().step;
  return fmt::format("{} on {} x {} ({}), rows of {} tokens, {} tokens {}", question.model.name, t.gpus,
                     question.hardware.gpu.name, question.hardware.name, tokens_text(row_tokens(t)),
                     tokens_text(static_cast<std::int64_t>(step.tokens)), unit_of_work(question));
}

std::string searched_text(const Answer& answer) {
  return fmt::format("{} layouts are legal; {} were simulated, {} cannot win by their bound",
                     answer.search.considered, answer.search.considered - answer.search.pruned,
                     answer.search.pruned);
}

std::vector<std::string> answer_sentences(const Question& question, const Answer& answer) {
  if (!answer.search.candidates.front().step.fits_everywhere()) return {nothing_fits_text(answer)};
  std::vector<std::string> sentences{run_text(question, answer), why_text(answer)};
  if (const std::string text = matter_text(question, answer); !text.empty()) sentences.push_back(text);
  return sentences;
}

std::vector<std::string> formula_sentences(const Answer& answer) {
  std::vector<std::string> sentences;
  for (const std::string& formula : answer.search.candidates.front().step.formulas)
    sentences.push_back("Not in the vocabulary of plans, priced by a formula (assumed): " + formula + ".");
  return sentences;
}

std::string fit_text(const Question& question, const FitAnswer& fit) {
  std::string text = fit.gpus > 0 ? fmt::format("Fewest GPUs for rows of {} tokens: {} ({}).",
                                                tokens_text(row_tokens(question.training)), fit.gpus,
                                                describe(*fit.on_fewest))
                                  : fmt::format("Rows of {} tokens fit on no count of GPUs that was tried.",
                                                tokens_text(row_tokens(question.training)));
  text += fit.tokens > 0 ? fmt::format(" Longest row on {} GPUs: {} tokens ({}).", question.training.gpus,
                                       tokens_text(fit.tokens), describe(*fit.of_longest))
                         : fmt::format(" On {} GPUs not even 1K tokens fit.", question.training.gpus);
  return text;
}

std::string price_text(const Question& question, const Answer& answer) {
  const StepEstimate& best = answer.search.candidates.front().step;
  return fmt::format("At {} a GPU hour: {:.4f} for a million tokens.", question.price_per_gpu_hour,
                     question.price_per_gpu_hour / 3600 * 1e6 / best.tokens_s_gpu);
}

std::string peak_text(const Answer& answer) {
  const Candidate& best = answer.search.candidates.front();
  const double gpus = static_cast<double>(best.layout.gpus());
  return fmt::format(
      "Share of peak: {} % (FLOPs of products and seen pairs, each once, a second, over {} GPUs at {:.0f} "
      "TFLOP/s)",
      format_percent(best.step.share_of_peak), best.layout.gpus(),
      best.step.model_flops / best.step.time_s / best.step.share_of_peak / gpus / 1e12);
}

}  // namespace cplab
