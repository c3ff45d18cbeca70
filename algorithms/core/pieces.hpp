// Placements that a list of pieces says: chunks of the packed row shared out by cost ("balanced",
// MagiAttention's dispatch), and sequences cut over groups of 1, 2, 4, ... ranks by their length ("dynamic",
// Megatron-LM's dynamic context parallelism).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "plan/problem.hpp"

namespace cplab {

// Has placement of that name pieces?
bool in_pieces(std::string_view placement);

// balanced: all sequences of a replica, with their padding, lie one after the other, cut into chunks of
// `chunk` rows (0: so that each rank has 8). Each rank gets equally many chunks or one more; they go, those
// of most visible pairs first, to the rank that has fewest pairs so far, and are exchanged between ranks as
// long as that makes the fullest rank less full.
std::vector<Parallel::Piece> balanced_pieces(const Problem&, const Parallel&, std::int64_t chunk);

// dynamic: a sequence is cut over the least power of two of ranks, or all, with which no rank gets more of it
// than parallel.tokens_per_rank rows (0: than a rank's share of all rows, and of all pairs, of the replica),
// as in zigzag. A group of g ranks begins at a multiple of g. Longest first, sequences go to the group whose
// fullest member has least.
std::vector<Parallel::Piece> dynamic_pieces(const Problem&, const Parallel&);

// Fills in the pieces where the placement has them and none are given. Throws ScenarioError for pieces of
// another placement, or that are not each row of each sequence once.
void resolve_pieces(Scenario&);

}  // namespace cplab
