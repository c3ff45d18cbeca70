// Expected errors of dlog_decay by blocks of tokens; see block_gates.hpp for the model.
#include "cli/verify/block_gates.hpp"

#include <algorithm>

#include "cli/verify/rounding_errors.hpp"

namespace cplab {
namespace {

using Squares = BlockGates::Squares;

void add_to(Squares& sum, const Squares& more) {
  sum.terms += more.terms;
  sum.value += more.value;
}

}  // namespace

BlockGates::BlockGates(const Sizes& sizes)
    : sizes_(sizes),
      queries_(as_index(sizes.tokens * sizes.gates)),
      keys_(as_index(sizes.tokens * sizes.gates)),
      with_later_(as_index(sizes.tokens)),
      with_earlier_(as_index(sizes.tokens)) {}

std::size_t BlockGates::at(std::int64_t t, std::int64_t g) const {
  return as_index(t * sizes_.gates + g);
}

void BlockGates::add(std::vector<Squares>& parts, std::int64_t t, std::int64_t d, const Squares& squares) {
  add_to(parts[at(t, d * sizes_.gates / sizes_.D)], squares);
}

void BlockGates::add_pairs(std::int64_t t, const double* of_keys, const double* of_values,
                           const BlockRows& rows, double weight) {
  rows.each_pair(of_keys, of_values, [&](std::int64_t tokens_behind, double pair) {
    if (tokens_behind == 0) return;  // of a token with itself nothing is left
    with_later_[as_index(t)] += weight * pair;
    with_earlier_[as_index(t + tokens_behind)] += weight * pair;
  });
}

double BlockGates::tokens_alike(const HeadRows& log_decay) const {
  if (!one_gate()) return 1;
  double sum_of_logs = 0;
  for (std::int64_t t = 0; t < sizes_.tokens; ++t) sum_of_logs -= *log_decay[t];
  const auto tokens = static_cast<double>(sizes_.tokens);
  return std::max(std::min(tokens, static_cast<double>(sizes_.block)), tokens / (1 + sum_of_logs));
}

// Of pairs of which one token is before t, the other one not: those over the edge before t + 1 are those over
// the edge before t, with t's pairs behind it and without those before it.
std::vector<double> BlockGates::pairs_over() const {
  std::vector<double> over(1, 0);
  for (std::size_t t = 0; t + 1 < with_later_.size(); ++t)
    over.push_back(std::max(0.0, over.back() + with_later_[t] - with_earlier_[t]));
  return over;
}

void BlockGates::add_errors(double e2, double f2, const HeadRows& log_decay, const std::vector<double>& right,
                            ExpectedError& error) const {
  error.rows_alike[as_index(sizes_.head)] = tokens_alike(log_decay);
  const std::vector<double> over = pairs_over();
  const std::int64_t block = std::min(sizes_.block, sizes_.tokens);
  const double additions = static_cast<double>(sizes_.E + block + (one_gate() ? sizes_.D : 0)) / 2;
  std::vector<Squares> own(as_index(sizes_.tokens));
  for (std::int64_t g = 0; g < sizes_.gates; ++g) {
    const auto result = [&](std::int64_t t) {
      return as_index((t * sizes_.heads + sizes_.head) * sizes_.gates + g);
    };
    for (std::int64_t t = 0; t < sizes_.tokens; ++t)
      own[as_index(t)] = {error.terms[result(t)], square(right[result(t)])};
    for (std::int64_t t = 0; t < sizes_.tokens; ++t) {
      const std::int64_t end = std::min(sizes_.tokens, t + block);
      Squares parts;
      double last = 0, largest = 0, partial = 0;
      for (std::int64_t s = std::max<std::int64_t>(0, t - block + 1); s < t; ++s)
        add_to(parts, keys_[at(s, g)]);
      for (std::int64_t s = t; s < end; ++s) {
        add_to(parts, queries_[at(s, g)]);
        add_to(parts, keys_[at(s, g)]);
        partial += own[as_index(s)].value;
      }
      for (std::int64_t s = t; s < std::min(sizes_.tokens, end + 1); ++s) {
        last = std::max(last, (own[as_index(s)].terms + own[as_index(s)].value) / 2);
        largest = std::max(largest, own[as_index(s)].value);
      }
      if (one_gate()) partial += static_cast<double>(end - t) * (own[as_index(t)].value + largest);
      const double nominal = one_gate() ? over[as_index(t)] : 2 * parts.terms;
      const double sums = additions * ((parts.terms + parts.value) / 2 + last) + 2 * parts.value + partial;
      error.variance[result(t)] += e2 * nominal + f2 * sums;
      error.terms[result(t)] += parts.terms;
    }
  }
}

}  // namespace cplab
