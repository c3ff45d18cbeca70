// Options of [schedule] that every algorithm has, because readers beside the algorithm know them; and what
// tables of options are written with.
#pragma once

#include <string>
#include <vector>

#include "algorithms/algorithm.hpp"
#include "plan/plan.hpp"

namespace cplab {

inline OptionValue option_word(const char* text) {
  return std::string(text);
}
inline OptionValue option_count(std::int64_t value) {
  return value;
}

// transport: of communication. reserved_sms: read by the cost model and by kernel launches. reuse: by the
// arena (derive/arena.hpp). between: by what is derived of a plan, the checker and the simulator.
std::vector<OptionInfo> common_options();

// Of algorithms that redistribute: a message of more contiguous pieces is packed by a copy.
OptionInfo pack_above_option();

Transport transport_of(const Schedule& resolved);

}  // namespace cplab
