// One call of a kernel as data: its operands and, until somebody adds addresses, where each of them begins.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "kernels/kernels.hpp"
#include "kernels/linear.hpp"
#include "kernels/masked.hpp"

namespace cplab {

using KernelCall =
    std::variant<kernels::Attend, kernels::AttendBackward, kernels::Merge, kernels::MergeLse,
                 kernels::Rescale, kernels::Rowwise, kernels::LinearLocal, kernels::LinearLocalBackward,
                 kernels::LinearState, kernels::LinearScan, kernels::LinearCombine, kernels::LinearInter,
                 kernels::Convolve, kernels::FilterGradient, kernels::MaskedAttend,
                 kernels::MaskedAttendBackward, kernels::SinkGradient, kernels::Project,
                 kernels::ProjectBackward, kernels::WeightGradient>;

// The views of a call in the order of its members, as kernels.hpp, linear.hpp and masked.hpp declare them; of
// a row-wise one those that its kind has, and of those that may be absent the ones that are there.
std::vector<kernels::View*> views_of(KernelCall& call);

// Byte `byte` of buffer number `buffer` of the rank.
struct Place {
  std::uint32_t buffer = 0;
  std::int64_t byte = 0;
  bool operator==(const Place&) const = default;
};

// A view whose data is null: it begins at `place`.
struct PlacedView {
  kernels::View view;
  Place place;
};

// The same for a call: views_of(call)[i] begins at places[i].
struct PlacedCall {
  KernelCall call;
  std::vector<Place> places;
};

}  // namespace cplab
