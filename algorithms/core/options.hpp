// Options of [schedule] that every algorithm has, because readers beside the algorithm know them; and what
// tables of options are written with.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/core/algorithm.hpp"
#include "plan/islands.hpp"
#include "plan/plan.hpp"

namespace cplab {

inline OptionValue option_word(const char* text) {
  return std::string(text);
}
inline OptionValue option_count(std::int64_t value) {
  return value;
}

// These options, and who reads them: transport and channels, every call that communicates; head_start_us, the
// builder (edges that wait for a start), the cost model and kernel launches; reserved_sms, the cost model and
// kernel launches; reuse, the arena (derive/arena.hpp); between, what is derived of a plan, the checker and
// the simulator.
std::vector<OptionInfo> common_options();

// Options by their form; of several legal values the first is the default.
OptionInfo word_option(std::string_view key, std::initializer_list<const char*> words, std::string_view help);
OptionInfo count_option(std::string_view key, std::initializer_list<std::int64_t> counts,
                        std::string_view help);
OptionInfo least_option(std::string_view key, std::int64_t least, std::int64_t by_default,
                        std::string_view help);  // every integer >= least
OptionInfo switch_option(std::string_view key, bool by_default, std::string_view help);

// Algorithms that redistribute have it: a message of more contiguous pieces is packed by a copy.
OptionInfo pack_above_option();
// The dtype of the running out and dq.
OptionInfo accumulator_option();
// Whether a tile computes delta = rowsum(dO * O) where it can (delta_by_first_tile() in softmax/softmax.hpp).
OptionInfo row_dot_option();
// The dtype in which gradients of K and V are summed and sent.
OptionInfo gradient_wire_option();

TransportChoice transport_of(const Schedule& resolved);
// 0: NCCL's own choice.
std::uint8_t exchange_channels(const Schedule& resolved);
Role gradient_wire_of(const Schedule& resolved);
bool wide_accumulator(const Schedule& resolved);

}  // namespace cplab
