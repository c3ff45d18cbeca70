// How far one operation in double is off, for bounds that count roundings.
#pragma once

#include <limits>

namespace cplab::testing {

// u in comments: the largest relative error of rounding to nearest, 2^-53.
inline constexpr double fp64_roundoff = std::numeric_limits<double>::epsilon() / 2;

}  // namespace cplab::testing
