// Random mutations of plans, for the question whether anything wrong slips past the checker: every field that
// an operation, a view, a part, a segment, a group or a buffer has may change, alone or on both ends of a
// message; buffers come to share a slab or leave it, edges wait for starts, tiles are split by heads; views
// become empty, buffers take other names, the scenario says another problem, results are rounded on their
// way, lists of rows are cut otherwise.
#pragma once

#include <cstdint>
#include <string>

#include "plan/plan.hpp"

namespace cplab::hand {

// One to three mutations, drawn from `seed`. The text says which; its last words after ": " name the kind of
// the first.
std::string mutate_anything(Plan&, std::uint64_t seed);

}  // namespace cplab::hand
