// The keys of [problem] that only linear attention has, and those that it has not.
#pragma once

#include <cstdint>
#include <vector>

#include "cli/files/toml_table.hpp"
#include "plan/problem.hpp"

namespace cplab {

// slopes and transition. `problem` has everything else of the section; its scale becomes 1. Throws InputError
// for keys that have no meaning with the attention or the transition, for another mask than causal, and for
// numbers of slopes or key heads that do not fit the heads.
void read_linear(const Table& table, Problem& problem);

// The slopes of ALiBi (Press et al. 2022; LASP's lasp/utils/module_utils.py): 2^(-8 i / H) with i = 1 .. H
// where H is a power of two; else those of the largest power of two below it, then every second one of twice
// as many, from the first on.
std::vector<double> alibi_slopes(std::int64_t heads);

// The key slopes: "alibi" (also where it is missing), a number for all heads, or a list; one for each head.
std::vector<double> read_slopes(const Table& table, std::int64_t heads);

}  // namespace cplab
