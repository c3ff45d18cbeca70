// The command line that check_sweep, mutants and plan_mutants have in common.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/core/list.hpp"

namespace cplab::testing {

// [NUMBER...] [--algorithm NAME]: the algorithm, or null for all of the registry; and the numbers, those that
// are not given from `defaults`. Ends the program with status 2 where there is no such algorithm, or a word
// is no number from 1 on.
inline std::pair<const Algorithm*, std::vector<std::uint64_t>> algorithm_and_numbers(
    int argc, char** argv, std::vector<std::uint64_t> defaults) {
  const Algorithm* algorithm = nullptr;
  std::size_t place = 0;
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) != "--algorithm") {
      char* end = nullptr;
      const std::uint64_t number = std::strtoull(argv[i], &end, 10);
      if (place == defaults.size() || *end != '\0' || number == 0) {
        std::fprintf(stderr, "%s: legal are at most %zu numbers from 1 on, and --algorithm NAME\n", argv[i],
                     defaults.size());
        std::exit(2);
      }
      defaults[place++] = number;
      continue;
    }
    algorithm = ++i < argc ? find_algorithm(argv[i]) : nullptr;
    if (algorithm) continue;
    std::fprintf(stderr, "--algorithm takes one of:");
    for (const Algorithm& a : algorithms()) std::fprintf(stderr, " %s", std::string(a.name).c_str());
    std::fprintf(stderr, "\n");
    std::exit(2);
  }
  return {algorithm, std::move(defaults)};
}

}  // namespace cplab::testing
