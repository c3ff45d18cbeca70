// What `cplab advise` is asked: a model or a problem, how many GPUs of which machine, and what may be
// searched.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/arguments.hpp"
#include "decide/search.hpp"

namespace cplab {

struct Question {
  Model model;
  Training training;
  Hardware hardware;
  std::string machine;  // as named
  SearchSpace space;
  std::vector<SlowRank> slow;    // GPUs that are slower, of [[simulate.slow]]
  bool attention_alone = false;  // a scenario without [model]: the unit is one attention layer
  // Another machine to compare, by what the answer calls it.
  std::vector<std::pair<std::string, Hardware>> others;
  std::optional<SearchSpace> baseline;  // one value for each key that the user gave
  std::string baseline_text;
  double price_per_gpu_hour = 0;  // 0: not asked
  std::vector<std::string> notes;
};

// Throws InputError (exit code 2).
Question question_of(const Arguments&);

// A machine that is asked for more GPUs than its one node has gets one 400 Gb/s NIC a GPU on a network that
// does not block; every number of it is assumed, and the note says so. Others stay as they are.
std::string give_network(Hardware&, std::int64_t gpus);

// "tp=2,cp=4,algorithm=ring": lists of values by key, several of a key joined by "|" or the key given again.
// Keys: tp, cp, pp, dp, ep, micro_batch, loss_chunks, zero, recompute, algorithm, placement. Throws
// InputError.
void restrict_space(SearchSpace&, const std::string& option, const std::string& text);

}  // namespace cplab
