// Does it fit: fewest GPUs for a length, the longest row on so many GPUs, and what frees most where nothing
// fits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "decide/search.hpp"

namespace cplab {

struct MemoryLever {
  std::string what;              // "recompute=full"
  std::int64_t frees_bytes = 0;  // of a GPU
  double slower = 0;             // share of the step's time that it costs; negative: it is faster
  bool fits = false;             // with it alone
};

struct FitAnswer {
  std::int64_t gpus = 0;    // fewest of which some layout fits; 0: none up to most_gpus
  std::int64_t tokens = 0;  // longest row that fits on training.gpus GPUs; 0: not even 1024 tokens
  std::optional<ModelLayout> on_fewest, of_longest;
  std::vector<MemoryLever> levers;  // of the layout that comes nearest, most bytes a slow-down first
};

struct FitOptions {
  std::int64_t most_gpus = 4096;
  std::int64_t longest_tokens = std::int64_t{16} << 20;
};

FitAnswer fit_answer(const Model&, const Training&, const Hardware&, const SearchSpace&, const FitOptions&);
std::vector<MemoryLever> levers_of(const Model&, const Training&, const Hardware&, const ModelLayout&);

}  // namespace cplab
