// One call of a kernel as data: its operands and, until somebody adds addresses, where each of them begins.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "kernels/kernels.hpp"

namespace cplab {

struct RowDotCall {
  kernels::View a, b, into;
};
struct CopyCall {  // also casts
  kernels::View from, into;
};
struct AddCall {
  kernels::View from, into;
};
struct FillCall {
  kernels::View into;
  double value = 0;
};
using KernelCall = std::variant<kernels::Attend, kernels::AttendBackward, RowDotCall, kernels::Merge,
                                kernels::MergeLse, kernels::Rescale, CopyCall, AddCall, FillCall>;

// The views of a call in the order of its members, as kernels.hpp and this file declare them.
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
