// Which rows `verify --sample` compares.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan.hpp"

namespace cplab {

// Of every sequence the positions that are compared, ascending; of keys that have tokens of their own apart.
struct SampledRows {
  std::vector<std::vector<std::int64_t>> positions, keys;
  std::int64_t count = 0, all = 0;  // over all sequences
};

// The first and the last token of every sequence and of every run of tokens that a rank holds, and tokens
// drawn from the seed until there are `wanted`, or all. Depends on scenario, number and seed alone.
SampledRows sample_rows(const Plan& plan, std::int64_t wanted, std::uint64_t seed);

}  // namespace cplab
