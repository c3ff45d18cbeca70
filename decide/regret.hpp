// What the fastest layout costs if the estimates are wrong, and whether the algorithm matters at all.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "decide/search.hpp"

namespace cplab {

// The most that is lost by running the first candidate, were each difference to another one as wrong as its
// band says: a share of that other one's time, and which it is. Nothing where no other one fits.
struct Regret {
  double share = 0;
  std::size_t against = 0;  // index of the candidate
};
std::optional<Regret> regret_of(const std::vector<Candidate>&);

// How far the algorithms are apart at the first candidate's degrees, slowest over fastest less 1; nothing if
// one alone was tried there.
std::optional<double> spread_of_algorithms(const std::vector<Candidate>&);

// "ring", "usp inner 8", "window: ring contiguous, global: ring"; "none" without context parallelism.
std::string algorithm_text(const Model&, const ModelLayout&);

}  // namespace cplab
