// Two levels: ranks trade heads for tokens in teams of A, and a ring runs across the teams, with the tokens
// of a team joined and an A-th of the heads in every place.
#pragma once

#include <cstdint>
#include <vector>

#include "algorithms/ring.hpp"
#include "algorithms/trade.hpp"

namespace cplab {

// consecutive: ranks 0 .. A-1 trade, 0, A, 2A, ... form a ring. strided: ranks 0, P/A, 2P/A, ... trade, and
// consecutive ones form a ring.
enum class InnerOrder : std::uint8_t { consecutive, strided };

// Teams "inner" and "outer".
std::vector<TeamSpec> two_level_teams(std::int64_t ranks, std::int64_t inner, InnerOrder);
void build_two_level(Builder&, InnerOrder);

// What both algorithms register, with inner_ranks.
std::vector<OptionInfo> two_level_option_infos();
void resolve_two_level_defaults(Scenario&, InnerOrder);
void validate_two_level(const Scenario&);

}  // namespace cplab
