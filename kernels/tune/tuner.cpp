// Checked, timed by turns, decided; see tuner.hpp.
#include "kernels/tune/tuner.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>

namespace cplab::kernels::tune {
namespace {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Says of each candidate why it is not to be measured; nothing: it is.
void leave_out(std::vector<Tried>& tried, const TuneOptions& options) {
  std::vector<Tried*> order;
  for (Tried& each : tried) order.push_back(&each);
  // The table's choice takes part in any case: what is taken instead must have been seen to be faster.
  std::stable_sort(order.begin(), order.end(), [](const Tried* a, const Tried* b) {
    return a->candidate.predicted_s < b->candidate.predicted_s;
  });
  const double least = order.front()->candidate.predicted_s;
  const bool few = options.way == ChoiceWay::hybrid;
  int room = options.candidates - 1;  // beside the table's
  for (Tried* each : order) {
    if (each->candidate.of_table) continue;
    if (each->candidate.predicted_s > options.hopeless * least)
      each->reason = "by the model much slower";
    else if (few && room-- <= 0)
      each->reason = "by the model not among the fastest";
  }
}

void check(Tried& tried, const Call& call, Bench& bench) {
  try {
    tried.reason = bench.check(call, tried.candidate.variant);
    tried.standing = tried.reason.empty() ? Standing::timed : Standing::wrong;
  } catch (const std::runtime_error& error) {
    tried.standing = Standing::refused;
    tried.reason = error.what();
  }
}

void time(std::vector<Tried*> right, const Call& call, const TuneOptions& options, Bench& bench) {
  std::mt19937_64 random(options.seed);
  for (int round = 0; round < options.rounds; ++round) {
    std::shuffle(right.begin(), right.end(), random);
    for (Tried* each : right) {
      if (each->standing != Standing::timed) continue;
      try {
        const double seconds = bench.sample_s(call, each->candidate.variant);
        if (!(seconds > 0) || !std::isfinite(seconds)) throw std::runtime_error("a time that is none");
        each->samples.push_back(seconds);
      } catch (const std::runtime_error& error) {
        each->standing = Standing::refused;
        each->reason = error.what();
        each->samples.clear();
      }
    }
  }
}

}  // namespace

std::string call_class(const Call& call, const cuda::VariantOptions& options) {
  return std::visit([&](const auto& of) { return cuda::call_class(of, options); }, call);
}

std::vector<cuda::Candidate> candidates(const Call& call, const cuda::VariantOptions& options) {
  return std::visit([&](const auto& of) { return cuda::candidates(of, options); }, call);
}

std::string_view name_of(Standing standing) {
  switch (standing) {
    case Standing::timed: return "timed";
    case Standing::wrong: return "wrong";
    case Standing::refused: return "refused";
    case Standing::left_out: break;
  }
  return "left out";
}

double Tried::median_s() const {
  return median(samples);
}

Decision tune_one(const Call& call, const TuneOptions& options, Bench& bench) {
  Decision decision{.call = call_class(call, options.variants)};
  for (const cuda::Candidate& candidate : candidates(call, options.variants))
    decision.tried.push_back({.candidate = candidate});
  if (decision.tried.empty()) throw std::invalid_argument("no attention kernel of this build fits the call");
  const auto of_table = std::find_if(decision.tried.begin(), decision.tried.end(),
                                     [](const Tried& each) { return each.candidate.of_table; });
  decision.variant = of_table->candidate.variant;
  const auto unmeasured = [&](const char* why) {
    decision.not_measured = why;
    for (Tried& each : decision.tried) each.reason = why;
    return decision;
  };
  if (decision.tried.size() == 1) return unmeasured("the only kernel that takes it");
  if (bench.capturing()) return unmeasured("a stream is being captured into a graph");
  leave_out(decision.tried, options);
  std::vector<Tried*> right;
  for (Tried& each : decision.tried) {
    if (!each.reason.empty()) continue;
    check(each, call, bench);
    if (each.standing == Standing::timed) right.push_back(&each);
  }
  time(right, call, options, bench);
  const Tried* best = nullptr;
  for (const Tried* each : right) {
    if (each->standing != Standing::timed) continue;
    // The table's choice keeps its place where another is hardly faster.
    const auto cost = [&](const Tried& of) {
      return of.median_s() * (of.candidate.of_table ? 1 : options.least_advantage);
    };
    if (best == nullptr || cost(*each) < cost(*best)) best = each;
  }
  if (best == nullptr)
    throw NoRightKernel("of the kernels that take it none is right and can be timed: " + decision.call +
                        " (" + std::string(of_table->candidate.variant) + ": " + of_table->reason + ")");
  decision.variant = best->candidate.variant;
  return decision;
}

std::vector<Decision> tune_all(std::span<const Call> calls, const TuneOptions& options, Bench& bench,
                               cuda::MeasuredChoices& known,
                               const std::function<void(const std::string&)>& progress) {
  std::vector<Decision> decisions;
  std::set<std::string> seen;
  for (const Call& call : calls) {
    const std::string which = call_class(call, options.variants);
    if (known.find(which) != nullptr || !seen.insert(which).second) continue;
    if (progress) progress(which);
    decisions.push_back(tune_one(call, options, bench));
    if (decisions.back().not_measured.empty()) known.set(which, decisions.back().variant);
  }
  return decisions;
}

}  // namespace cplab::kernels::tune
