// The structural validator's rules about the tensors of the problem: every rank has a buffer for each of
// them, of the rows that the placement gives it; see structure.hpp.
#include <algorithm>
#include <string>

#include "plan/structure.hpp"
#include "plan/tensors.hpp"

namespace cplab {
namespace {

std::int64_t rounded_up(std::int64_t n, std::int64_t unit) {
  return (n + unit - 1) / unit * unit;
}

std::int64_t rows_of_pieces(const Scenario& s, std::int64_t replica) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(s.parallel.ranks), 0);
  for (const Parallel::Piece& piece : s.parallel.pieces)
    if (piece.sequence % s.parallel.replicas == replica && piece.position >= 0 &&
        piece.position < s.parallel.ranks)
      rows[static_cast<std::size_t>(piece.position)] += piece.count;
  return *std::ranges::max_element(rows);
}

// Rows of queries or of keys that the placement gives to every rank of a replica, padding included.
std::int64_t rows_of_ranks(const Scenario& s, Side side, std::int64_t replica) {
  const std::int64_t P = s.parallel.ranks;
  const bool zigzag = s.placement == "zigzag", stream = s.placement == "stream",
             hybrid = s.placement == "hybrid";
  std::int64_t all = 0;  // of sequences that every rank has a piece of; stream: of all
  std::vector<std::int64_t> whole(hybrid ? static_cast<std::size_t>(P) : 0, 0);  // by home
  const std::vector<std::int64_t>& lengths = s.problem.padded_lengths_of(side);
  const bool everywhere = side == Side::keys && s.parallel.keys_everywhere;
  for (auto b = static_cast<std::size_t>(replica); b < lengths.size();
       b += static_cast<std::size_t>(s.parallel.replicas)) {
    const int home = hybrid && !everywhere && b < s.parallel.homes.size() ? s.parallel.homes[b] : -1;
    if (home >= 0 && static_cast<std::size_t>(home) < whole.size())
      whole[static_cast<std::size_t>(home)] += lengths[b];
    else if (stream || everywhere)
      all += lengths[b];
    else
      all += rounded_up(lengths[b], zigzag || hybrid ? 2 * P : P) / P;
  }
  if (!s.parallel.pieces.empty()) return rows_of_pieces(s, replica);
  if (everywhere) return all;
  if (stream) return rounded_up(all, P) / P;
  return whole.empty() ? all : all + *std::ranges::max_element(whole);
}

struct RowsOfRanks {
  std::int64_t queries = 0, keys = 0;
};

class Tensors {
 public:
  Tensors(const Plan& plan, const RankPlan& rank, RowsOfRanks rows, const RankFaultSink& sink)
      : problem_(plan.scenario.problem), rank_(rank), rows_(rows), sink_(sink) {}

  void test(Category category) const {
    std::string_view buffer;
    for (const ProblemTensor& tensor : tensors_of(problem_, category)) {
      if (tensor.buffer == buffer) continue;  // several lie in one, side by side
      buffer = tensor.buffer;
      test(tensor);
    }
  }

 private:
  void test(const ProblemTensor& tensor) const {
    const std::string kind(name(tensor.category));
    const auto at = std::ranges::find_if(rank_.buffers, [&](const Buffer& b) {
      return b.name == tensor.buffer && b.category == tensor.category;
    });
    const auto fault = [&](FindingKind what, std::uint32_t buffer, std::string text) {
      sink_(rank_, {what, no_index, buffer, std::move(text),
                    buffer == no_index ? std::string(tensor.buffer) : std::string()});
    };
    if (at == rank_.buffers.end())
      return fault(FindingKind::uninitialised, no_index,
                   "there is no " + kind + " " + std::string(tensor.buffer) +
                       " here; every rank has those of the problem, with tokens or without");
    const TokenRow row = token_row(problem_, tensor);
    const std::int64_t rows = !tensor.per_token()           ? 1
                              : tensor.side() == Side::keys ? rows_.keys
                                                            : rows_.queries;
    const auto index = static_cast<std::uint32_t>(at - rank_.buffers.begin());
    if (at->slots != 1 || at->rows != rows || at->heads != row.heads || at->width != row.buffer_width)
      return fault(FindingKind::coverage, index,
                   kind + " " + at->name + " has " + std::to_string(at->slots) + " slots, " +
                       std::to_string(at->rows) + " rows, " + std::to_string(at->heads) + " heads and " +
                       std::to_string(at->width) + " columns; the problem has 1, " + std::to_string(rows) +
                       ", " + std::to_string(row.heads) + " and " + std::to_string(row.buffer_width));
    if (at->role != tensor.role)
      fault(FindingKind::coverage, index,
            kind + " " + at->name + " is not " + std::string(name(tensor.role)) + ", as the problem's is");
  }

  const Problem& problem_;
  const RankPlan& rank_;
  RowsOfRanks rows_;
  const RankFaultSink& sink_;
};

}  // namespace

void inspect_tensors(const Plan& plan, const RankFaultSink& sink) {
  if (plan.scenario.problem.lengths.empty()) return;  // it computes no attention, whatever it moves
  std::vector<RowsOfRanks> rows;
  for (std::int64_t replica = 0; replica < plan.scenario.parallel.replicas; ++replica)
    rows.push_back({rows_of_ranks(plan.scenario, Side::queries, replica),
                    rows_of_ranks(plan.scenario, Side::keys, replica)});
  for (const RankPlan& rank : plan.ranks) {
    const auto replica = static_cast<std::size_t>(rank.replica);
    const Tensors tensors(plan, rank, replica < rows.size() ? rows[replica] : RowsOfRanks{}, sink);
    tensors.test(Category::input);
    tensors.test(Category::output);
  }
}

}  // namespace cplab
