// Which layouts are legal, which of them can still be best, and how they compare. A closed form (memory, and
// a lower bound of time) comes first; what can still win has its attention simulated.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "decide/step.hpp"

namespace cplab {

// What --over and [training] leave open: an empty list is every legal value.
struct SearchSpace {
  std::vector<std::int64_t> tp, cp, pp, dp, ep, micro_batch, loss_chunks, zero;
  std::vector<Recompute> recompute;
  std::vector<std::string> algorithms, placements;
};

struct Refusal {
  std::string reason;  // "tp 16 does not divide 8 GPUs of a node"
  std::int64_t count = 0;
  std::string nearest;  // legal values; may be empty
};

// Counts one more of that reason.
void refuse(std::vector<Refusal>& refused, std::string reason, std::string nearest = {});

struct Candidate {
  ModelLayout layout;
  StepEstimate step;
  double bound_s = 0;          // of its degrees, by the closed form
  bool equal_to_best = false;  // what it does otherwise than the best one is within the band of just that
};

struct Search {
  std::vector<Candidate> candidates;  // best first: those that fit before the others
  std::vector<Refusal> refused;
  std::int64_t considered = 0;  // degrees and what is recomputed, by the closed form
  std::int64_t pruned = 0;      // of them those whose attention was not simulated
  const Candidate* best() const { return candidates.empty() ? nullptr : &candidates.front(); }
};

struct SearchOptions {
  bool exhaustive = false;  // nothing is pruned, of several kinds of attention no combination either
  // Degrees whose bound is above the best time by more than this share are not simulated, once `at_least`
  // were.
  double margin = 0.03;
  std::int64_t at_least = 6;
  std::function<void(std::int64_t done, std::int64_t all)> progress = {};
};

// Sequences of a step: training.tokens_per_step over the tokens of a row, which has to divide it; where it is
// not given, four million tokens, in as many rows as the GPUs' odd factor divides. Throws ScenarioError.
std::int64_t rows_of_step(const Training&);

// All layouts of training.gpus GPUs that are legal, without their attention: tp within a node and dividing
// heads (key heads may be held several times), pp at most the layers, cp at most a row of 128 tokens a rank,
// micro-batches whole, experts' ranks folded into the others (ep divides the experts and tp x cp x dp). What
// training gives is fixed.
std::vector<ModelLayout> legal_layouts(const Model&, const Training&, const Hardware&, const SearchSpace&,
                                       std::vector<Refusal>& refused);
// The layout's attention algorithms: one choice for each kind, best ones of equal placement and best ones of
// any; `all`: every combination.
std::vector<std::vector<AttentionChoice>> attention_choices(StepModel&, const ModelLayout&,
                                                            const SearchSpace&, std::vector<Refusal>& refused,
                                                            bool all = false);

// Choices whose memory is the least that the algorithms need, without their times: a ring, gathered keys,
// traded heads. Of the first of them that fits, else of the one that needs least; planned, not simulated.
// Empty: nothing is legal.
std::optional<Candidate> nearest_fit(StepModel&, const SearchSpace&);

// Throws HardwareError; ScenarioError where nothing is legal (what() says why, and what would be).
Search search(StepModel&, const SearchSpace&, const SearchOptions&);

// How far the difference of two estimates may be off: what their terms may be off where they differ, and
// near_best, since runs of one recipe differ by 2 to 6 % between releases.
double uncertain_difference_s(const StepEstimate&, const StepEstimate&);
constexpr double near_best = 0.02;
constexpr double near_memory = 0.05;  // less is not worth a choice
// Is their difference within that?
bool is_equal(const StepEstimate& best, const StepEstimate& other);
// Best first: what fits; by time; of those equal to the fastest and within near_best of it, by memory.
void rank(std::vector<Candidate>&);

// Divisors, ascending.
std::vector<std::int64_t> divisors(std::int64_t);
// Degrees of tensor parallelism that all attention kinds allow, up to `most`.
std::vector<std::int64_t> legal_tp(const Model&, std::int64_t most);

}  // namespace cplab
