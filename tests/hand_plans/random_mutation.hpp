// Random mutations of a plan, for the question whether anything wrong can slip through the checker.
#pragma once

#include <cstdint>
#include <string>

#include "plan/plan.hpp"

namespace cplab {

// One random mutation of a plan (drop an edge, swap two neighbouring operations of a rank, shift a view, drop
// a part of an exchange, take a buffer out of a slab or into one), drawn from `seed`; the text says what was
// done.
std::string mutate_at_random(Plan&, std::uint64_t seed);

}  // namespace cplab
