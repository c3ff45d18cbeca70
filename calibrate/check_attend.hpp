// Whether the GPU computes attention right.
#pragma once

#include <cstdint>
#include <string>

namespace cplab::measure {

// A small attend on the current GPU against a sum in double on the host, which shares no code with it; empty:
// it is within the rounding of bf16. Else how far it is off.
std::string wrong_attend(std::uint64_t seed);

}  // namespace cplab::measure
