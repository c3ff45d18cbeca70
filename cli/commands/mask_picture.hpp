// A mask as a picture of characters.
#pragma once

#include <string>

#include "plan/problem.hpp"

namespace cplab {

// Queries go down and keys to the right, in at most 24 x 48 cells: '#' all of its pairs are seen, '+' half of
// them or more, '.' fewer, ' ' none. Packed sequences lie one after the other; of dense ones the first.
// Behind each row stand the positions of the ranks that hold its queries.
std::string mask_picture(const Scenario& resolved);

}  // namespace cplab
