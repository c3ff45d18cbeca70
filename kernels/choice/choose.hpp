// Which kernel takes a call: of the variants that are allowed, that the architecture has room for and that
// take the call, those of the highest rank compete, and the one that its family calls fastest wins. Plain
// host code, for launching and for predicting.
#pragma once

#include <vector>

#include "kernels/families/variants.hpp"

namespace cplab::kernels::cuda {

// The variants that are allowed, that the architecture has room for (Claim), and that take the call: in the
// order of attend_variants(). Views need no memory, only shapes, strides and alignment.
std::vector<const AttendVariant*> variants_for(const Attend& call, const VariantOptions& options);
std::vector<const AttendBackwardVariant*> variants_for(const AttendBackward& call,
                                                       const VariantOptions& options);

// Whether options allow a variant at all, whatever the call.
bool allows(const VariantOptions& options, const AttendVariant& variant);
bool allows(const VariantOptions& options, const AttendBackwardVariant& variant);

// The variant that takes the call, chosen as options.way says (candidates.hpp), and its tiles. Throws
// std::invalid_argument if no variant fits, or if the call is too large for a GPU kernel.
ChosenForward choose_variant(const Attend& call, const VariantOptions& options);
ChosenBackward choose_variant(const AttendBackward& call, const VariantOptions& options);

// What the family of the chosen variant says (AttendFamily::time()), in seconds.
double predicted_seconds(const ChosenForward& chosen, const Attend& call, const VariantOptions& options);
double predicted_seconds(const ChosenBackward& chosen, const AttendBackward& call,
                         const VariantOptions& options);

}  // namespace cplab::kernels::cuda
