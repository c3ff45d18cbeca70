// Candidates and the ways of choosing; see candidates.hpp.
#include "kernels/choice/candidates.hpp"

#include <algorithm>

#include "kernels/choice/measured_choices.hpp"
#include "kernels/families/family.hpp"

namespace cplab::kernels::cuda {
namespace {

VariantOptions by_table(VariantOptions options) {
  options.way = ChoiceWay::table;
  return options;
}

template <class Call>
std::vector<Candidate> all_candidates(const Call& call, const VariantOptions& options) {
  std::vector<Candidate> all;
  const auto variants = variants_for(call, options);
  if (variants.empty()) return all;
  const auto* const of_table = choose_variant(call, by_table(options)).variant;
  for (const auto* variant : variants) {
    VariantOptions alone = by_table(options);
    alone.only = variant->name;
    all.push_back({.variant = variant->name,
                   .family = variant->family->name(),
                   .tile_rows = variant->tile_rows,
                   .predicted_s = predicted_seconds(choose_variant(call, alone), call, alone),
                   .of_table = variant == of_table});
  }
  return all;
}

template <class Call>
VariantOptions decide(const Call& call, const VariantOptions& options) {
  VariantOptions result = by_table(options);
  if (options.way == ChoiceWay::table || !options.only.empty()) return result;
  if (options.way == ChoiceWay::heuristic) {
    const std::vector<Candidate> all = all_candidates(call, options);
    if (const Candidate* fastest = fastest_predicted(all)) result.only = fastest->variant;
    return result;
  }
  const std::string* measured = options.choices ? options.choices->find(call_class(call, options)) : nullptr;
  if (measured == nullptr) return result;
  for (const auto* variant : variants_for(call, options))
    if (variant->name == *measured) result.only = variant->name;
  return result;
}

}  // namespace

std::vector<Candidate> candidates(const Attend& call, const VariantOptions& options) {
  return all_candidates(call, options);
}

std::vector<Candidate> candidates(const AttendBackward& call, const VariantOptions& options) {
  return all_candidates(call, options);
}

const Candidate* fastest_predicted(const std::vector<Candidate>& all) {
  const auto fastest = std::min_element(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) {
    return a.predicted_s < b.predicted_s;
  });
  return fastest == all.end() ? nullptr : &*fastest;
}

VariantOptions decided(const Attend& call, const VariantOptions& options) {
  return decide(call, options);
}

VariantOptions decided(const AttendBackward& call, const VariantOptions& options) {
  return decide(call, options);
}

}  // namespace cplab::kernels::cuda
