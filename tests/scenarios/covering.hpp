// Covering arrays: few cases in which every combination of values of any t dimensions occurs.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace cplab::testing {

// One value index per dimension.
using Case = std::vector<std::size_t>;

// Greedy (as in AETG): each new case starts from a combination not yet covered and fills the other dimensions
// with the values that cover most; deterministic. `legal` tells whether a whole case can be run; a
// combination that no legal completion was found for is counted in `impossible` if given.
std::vector<Case> covering_array(const std::vector<std::size_t>& levels, std::size_t strength,
                                 const std::function<bool(const Case&)>& legal,
                                 std::size_t* impossible = nullptr);

// Number of legal-looking combinations of `strength` dimensions that no case of the list contains.
std::size_t uncovered(const std::vector<std::size_t>& levels, std::size_t strength,
                      const std::vector<Case>& cases);

}  // namespace cplab::testing
