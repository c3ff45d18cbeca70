// The variants that could take a call, and the choice among them: see ChoiceWay.
#pragma once

#include <string_view>
#include <vector>

#include "kernels/choice/choose.hpp"

namespace cplab::kernels::cuda {

struct Candidate {
  std::string_view variant;  // valid for good
  std::string_view family;   // kernels that share code: hopper, mma, general
  int tile_rows = 0;
  double predicted_s = 0;  // by the model of its family
  bool of_table = false;   // what ChoiceWay::table takes
};

// Of variants_for(), in that order: the table of kernels by architecture, narrowed down to what the options
// allow and what the call fits. Empty where none fits.
std::vector<Candidate> candidates(const Attend& call, const VariantOptions& options);
std::vector<Candidate> candidates(const AttendBackward& call, const VariantOptions& options);

// The fastest by the model; of equals the first. Null: there is none.
const Candidate* fastest_predicted(const std::vector<Candidate>& all);

// The options with the way gone through: way is `table`, and `only` the variant that it led to. Where nothing
// was measured, or the measured variant does not fit this call of its class, `only` stays as it was.
VariantOptions decided(const Attend& call, const VariantOptions& options);
VariantOptions decided(const AttendBackward& call, const VariantOptions& options);

}  // namespace cplab::kernels::cuda
