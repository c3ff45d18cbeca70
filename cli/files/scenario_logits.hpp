// The keys of [problem] that change logits or the sum over them: softcap, sink and bias, with what belongs to
// a bias.
#pragma once

#include "cli/files/toml_table.hpp"
#include "plan/problem.hpp"

namespace cplab {

// `problem` has everything but what dynamic mask attention has alone. Throws InputError for keys that have no
// meaning with the attention or the bias.
void read_logits(const Table& table, Problem& problem);

}  // namespace cplab
