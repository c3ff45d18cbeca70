// Buffers of a plan as lists of numbers in the order of their axes, and back.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "plan/plan.hpp"

namespace cplab {

// Null if the rank has no buffer of that name; throws BadPlan if the plan has no such rank.
const Buffer* find_buffer(const Plan& plan, int rank, std::string_view name);
// Throws BadPlan if there is none.
const Buffer& require_buffer(const Plan& plan, int rank, std::string_view name);

// `values`, [slots, rows, heads, width] in C order, rounded into the buffer's bytes at `memory`. Throws
// std::invalid_argument if the count is wrong.
void store_buffer(const Buffer& buffer, DType nominal, std::span<const double> values, std::byte* memory);
std::vector<double> load_buffer(const Buffer& buffer, DType nominal, const std::byte* memory);

}  // namespace cplab
