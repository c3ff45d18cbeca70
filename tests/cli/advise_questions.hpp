// Questions for cplab advise, and input that it refuses.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/cli/program.hpp"

namespace advise_questions {

inline std::vector<std::string> with(std::vector<std::string> words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// A small question that is quick to answer, of whole models.
inline std::vector<std::string> small(const std::vector<std::string>& more = {}) {
  return with({"advise", "--model", "llama3-8b", "--gpus", "8", "--sequence", "32K", "--hardware", "h100x8",
               "--brief"},
              more);
}

struct Bad {
  std::vector<std::string> words;
  std::vector<std::string> said;
};

inline void check_bad(const Bad& bad) {
  CAPTURE(bad.words);
  const ProgramResult result = run_cplab(bad.words);
  CAPTURE(result.err);
  CHECK(result.code == 2);
  CHECK(result.out.empty());
  for (const std::string& each : bad.said) CHECK(result.err.find(each) != std::string::npos);
}

// One attention layer of a scenario.
inline std::string attention_toml(const std::string& problem, const std::string& parallel = "ranks = 4") {
  return "[problem]\nheads = 16\nkv_heads = 4\nhead_size = 128\ndtype = \"bf16\"\n" + problem +
         "\n[parallel]\nalgorithm = \"ring\"\n" + parallel + "\n[hardware]\nfile = \"h100x8\"\n";
}

inline std::string model_toml(const std::string& model, const std::string& training,
                              const std::string& machine = "h100x8") {
  return "[model]\n" + model + "\n[training]\n" + training + "\n[hardware]\nfile = \"" + machine + "\"\n";
}

}  // namespace advise_questions
