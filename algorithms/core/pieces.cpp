// See pieces.hpp.
#include "algorithms/core/pieces.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <queue>
#include <string>
#include <tuple>
#include <utility>

#include "plan/visible.hpp"

namespace cplab {
namespace {

constexpr std::int64_t chunks_of_a_rank = 8;
constexpr std::size_t most_comparisons = 100'000'000;  // of two chunks

// Rows [begin, begin + count) of a sequence.
struct RowsOfSequence {
  std::int64_t sequence = 0, begin = 0, count = 0;
};
struct CostedChunk {
  std::vector<RowsOfSequence> parts;
  double pairs = 0;
};

// Visible pairs of those queries.
double pairs_of(const Problem& p, const Visible& visible, const RowsOfSequence& part) {
  const auto b = static_cast<std::size_t>(part.sequence);
  return visible_pairs(p, visible, b, part.begin, part.begin + part.count, 0, p.lengths_of(Side::keys)[b]);
}

std::vector<std::size_t> sequences_of(const Problem& p, const Parallel& parallel, std::int64_t replica) {
  std::vector<std::size_t> some;
  for (auto b = static_cast<std::size_t>(replica); b < p.lengths.size();
       b += static_cast<std::size_t>(parallel.replicas))
    if (p.padded_lengths[b] > 0) some.push_back(b);
  return some;
}

std::int64_t rows_of(const Problem& p, const std::vector<std::size_t>& sequences) {
  std::int64_t rows = 0;
  for (const std::size_t b : sequences) rows += p.padded_lengths[b];
  return rows;
}

// The sequences one after the other in chunks of `size` rows, the last of what is left.
std::vector<CostedChunk> cut(const Problem& p, const std::vector<std::size_t>& sequences, std::int64_t size) {
  const Visible visible(p);
  std::vector<CostedChunk> chunks;
  std::int64_t room = 0;
  for (const std::size_t b : sequences) {
    for (std::int64_t begin = 0; begin < p.padded_lengths[b];) {
      if (room == 0) chunks.emplace_back(), room = size;
      const RowsOfSequence part{static_cast<std::int64_t>(b), begin,
                                std::min(room, p.padded_lengths[b] - begin)};
      chunks.back().parts.push_back(part);
      chunks.back().pairs += pairs_of(p, visible, part);
      begin += part.count, room -= part.count;
    }
  }
  return chunks;
}

// Which chunks each rank has, and their pairs together.
class ChunkShares {
 public:
  ChunkShares(const std::vector<CostedChunk>& chunks, std::int64_t ranks)
      : chunks_(chunks), of_(static_cast<std::size_t>(ranks)), pairs_(static_cast<std::size_t>(ranks), 0) {}

  // Most pairs first, each to the rank with least that has room (Graham's LPT rule with equal counts). Chunks
  // of one sequence are so spread over many ranks, which share the sending of its keys: kept together on few
  // ranks they took less traffic and, on 64 simulated H100, up to twice the time.
  void deal() {
    std::vector<std::size_t> order(chunks_.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t i) { return chunks_[i].pairs; });
    const std::size_t most = (chunks_.size() + of_.size() - 1) / of_.size();
    using Load = std::tuple<double, std::size_t, std::size_t>;  // pairs, chunks, rank
    std::priority_queue<Load, std::vector<Load>, std::greater<>> least;
    for (std::size_t rank = 0; rank < of_.size(); ++rank) least.push({0, 0, rank});
    for (const std::size_t chunk : order) {
      const std::size_t rank = std::get<2>(least.top());
      least.pop();
      of_[rank].push_back(chunk);
      pairs_[rank] += chunks_[chunk].pairs;
      if (of_[rank].size() < most) least.push({pairs_[rank], of_[rank].size(), rank});
    }
  }

  // Exchanges a chunk of the fullest rank for a lighter one of another, as long as that levels the two.
  void level() {
    const std::size_t of_one = 1 + chunks_.size() * (1 + chunks_.size() / of_.size());
    for (std::size_t left = most_comparisons / of_one; left > 0 && exchange_one();) --left;
  }

  const std::vector<std::vector<std::size_t>>& of() const { return of_; }

 private:
  bool exchange_one() {
    const auto full = static_cast<std::size_t>(std::ranges::max_element(pairs_) - pairs_.begin());
    double best = pairs_[full] * (1 - 1e-9);
    std::tuple<std::size_t, std::size_t, std::size_t> exchange{full, 0, 0};
    for (std::size_t other = 0; other < of_.size(); ++other) {
      if (other == full) continue;
      for (std::size_t i = 0; i < of_[full].size(); ++i)
        for (std::size_t j = 0; j < of_[other].size(); ++j) {
          const double more = chunks_[of_[full][i]].pairs - chunks_[of_[other][j]].pairs;
          const double fullest = std::max(pairs_[full] - more, pairs_[other] + more);
          if (more > 0 && fullest < best) best = fullest, exchange = {other, i, j};
        }
    }
    const auto [other, i, j] = exchange;
    if (other == full) return false;
    const double more = chunks_[of_[full][i]].pairs - chunks_[of_[other][j]].pairs;
    std::swap(of_[full][i], of_[other][j]);
    pairs_[full] -= more, pairs_[other] += more;
    return true;
  }

  const std::vector<CostedChunk>& chunks_;
  std::vector<std::vector<std::size_t>> of_;
  std::vector<double> pairs_;
};

// By rank, then by sequence and row; neighbours are one.
void in_order(std::vector<Parallel::Piece>& pieces) {
  std::ranges::sort(pieces, {},
                    [](const Parallel::Piece& x) { return std::tuple(x.position, x.sequence, x.begin); });
  std::size_t kept = 0;
  for (const Parallel::Piece& next : pieces) {
    Parallel::Piece* last = kept > 0 ? &pieces[kept - 1] : nullptr;
    if (last && last->position == next.position && last->sequence == next.sequence &&
        last->begin + last->count == next.begin)
      last->count += next.count;
    else
      pieces[kept++] = next;
  }
  pieces.resize(kept);
}

// Ranks [first, first + size) of a group, by how much of their share they have.
class RankGroups {
 public:
  RankGroups(std::int64_t ranks, double pairs, double rows)
      : held_(static_cast<std::size_t>(ranks), {0, 0}), pairs_(pairs), rows_(rows) {}

  // The first rank of the least full group of that size, which then holds so much more.
  std::int64_t take(std::int64_t size, double pairs, double rows) {
    std::int64_t best = 0;
    double least = -1;
    const auto ranks = std::ssize(held_);
    for (std::int64_t first = 0; first + size <= ranks; first += size) {
      double most = 0;
      for (std::int64_t i = first; i < first + size; ++i) most = std::max(most, load(i));
      if (least < 0 || most < least) least = most, best = first;
    }
    for (std::int64_t i = best; i < best + size; ++i) {
      held_[static_cast<std::size_t>(i)].first += pairs / static_cast<double>(size);
      held_[static_cast<std::size_t>(i)].second += rows / static_cast<double>(size);
    }
    return best;
  }

 private:
  double load(std::int64_t rank) const {
    const auto& [pairs, rows] = held_[static_cast<std::size_t>(rank)];
    return std::max(pairs_ > 0 ? pairs / pairs_ : 0, rows_ > 0 ? rows / rows_ : 0);
  }
  std::vector<std::pair<double, double>> held_;
  double pairs_, rows_;
};

// The least power of two of ranks, or all, with at most so many rows and pairs on each.
std::int64_t group_size(double rows, double most_rows, double pairs, double most_pairs, std::int64_t ranks) {
  std::int64_t size = 1;
  const auto too_much = [&](double all, double most) { return all > most * static_cast<double>(size); };
  while (size < ranks && (too_much(rows, most_rows) || too_much(pairs, most_pairs)))
    size = std::min(2 * size, ranks);
  return size;
}

void require_own_keys(const Scenario& s) {
  if (s.problem.is_cross())
    throw ScenarioError("parallel.placement", "\"" + s.placement +
                                                  "\" lays out queries and keys together; legal with keys of "
                                                  "their own: \"zigzag\", \"contiguous\", \"striped\"");
}

void require_pieces(const Scenario& s) {
  const auto fail = [](const std::string& what) { throw ScenarioError("parallel.pieces", what); };
  std::vector<std::vector<const Parallel::Piece*>> by_sequence(s.problem.lengths.size());
  for (const Parallel::Piece& piece : s.parallel.pieces) {
    if (piece.position < 0 || piece.position >= s.parallel.ranks)
      fail("names position " + std::to_string(piece.position) + "; legal: 0 to " +
           std::to_string(s.parallel.ranks - 1));
    if (piece.sequence < 0 || piece.sequence >= std::ssize(s.problem.lengths))
      fail("names sequence " + std::to_string(piece.sequence) + ", which there is not");
    if (piece.begin < 0 || piece.count < 1 || piece.begin + piece.count > limits::tokens)
      fail("a piece of sequence " + std::to_string(piece.sequence) + " is of no rows");
    by_sequence[static_cast<std::size_t>(piece.sequence)].push_back(&piece);
  }
  for (std::size_t b = 0; b < by_sequence.size(); ++b) {
    std::ranges::sort(by_sequence[b], {}, &Parallel::Piece::begin);
    std::int64_t end = 0;
    bool once = true;
    for (const Parallel::Piece* piece : by_sequence[b]) {
      once = once && piece->begin == end;
      end = piece->begin + piece->count;
    }
    if (!once || end < s.problem.padded_lengths[b])
      fail("must hold each row of sequence " + std::to_string(b) + " once, from 0 to at least " +
           std::to_string(s.problem.padded_lengths[b]));
  }
}

}  // namespace

bool in_pieces(std::string_view placement) {
  return placement == "balanced" || placement == "dynamic";
}

std::vector<Parallel::Piece> balanced_pieces(const Problem& p, const Parallel& parallel, std::int64_t chunk) {
  std::vector<Parallel::Piece> pieces;
  for (std::int64_t replica = 0; replica < parallel.replicas; ++replica) {
    const std::vector<std::size_t> sequences = sequences_of(p, parallel, replica);
    const std::int64_t wanted = parallel.ranks * chunks_of_a_rank, rows = rows_of(p, sequences);
    const std::int64_t size = chunk > 0 ? chunk : std::max<std::int64_t>(1, (rows + wanted - 1) / wanted);
    const std::vector<CostedChunk> chunks = cut(p, sequences, size);
    ChunkShares shares(chunks, parallel.ranks);
    shares.deal();
    shares.level();
    for (std::size_t rank = 0; rank < shares.of().size(); ++rank)
      for (const std::size_t i : shares.of()[rank])
        for (const RowsOfSequence& part : chunks[i].parts)
          pieces.push_back({static_cast<int>(rank), part.sequence, part.begin, part.count});
  }
  in_order(pieces);
  return pieces;
}

std::vector<Parallel::Piece> dynamic_pieces(const Problem& p, const Parallel& parallel) {
  const std::int64_t P = parallel.ranks;
  const Visible visible(p);
  std::vector<Parallel::Piece> pieces;
  for (std::int64_t replica = 0; replica < parallel.replicas; ++replica) {
    std::vector<std::size_t> sequences = sequences_of(p, parallel, replica);
    const std::int64_t rows = rows_of(p, sequences);
    std::ranges::stable_sort(sequences, std::greater<>(), [&](std::size_t b) { return p.padded_lengths[b]; });
    std::vector<double> pairs(p.lengths.size(), 0);
    double all_pairs = 0;
    for (const std::size_t b : sequences)
      all_pairs += pairs[b] = pairs_of(p, visible, {static_cast<std::int64_t>(b), 0, p.padded_lengths[b]});
    const double share = static_cast<double>(rows) / static_cast<double>(P),
                 share_of_pairs = all_pairs / static_cast<double>(P);
    const auto given = static_cast<double>(parallel.tokens_per_rank);
    RankGroups groups(P, share_of_pairs, share);
    for (const std::size_t b : sequences) {
      const std::int64_t padded = p.padded_lengths[b];
      const std::int64_t size =
          given > 0 ? group_size(static_cast<double>(padded), given, 0, 0, P)
                    : group_size(static_cast<double>(padded), share, pairs[b], share_of_pairs, P);
      const std::int64_t first = groups.take(size, pairs[b], static_cast<double>(padded));
      const auto sequence = static_cast<std::int64_t>(b);
      const std::int64_t half = (padded + 2 * size - 1) / (2 * size);
      if (size == 1) pieces.push_back({static_cast<int>(first), sequence, 0, padded});
      for (std::int64_t i = 0; i < size && size > 1; ++i) {
        pieces.push_back({static_cast<int>(first + i), sequence, i * half, half});
        pieces.push_back({static_cast<int>(first + i), sequence, (2 * size - 1 - i) * half, half});
      }
    }
  }
  in_order(pieces);
  return pieces;
}

void resolve_pieces(Scenario& s) {
  std::vector<Parallel::Piece>& pieces = s.parallel.pieces;
  if (s.placement != "dynamic" && s.parallel.tokens_per_rank != 0)
    throw ScenarioError("parallel.tokens_per_rank", "only placement = \"dynamic\" has it");
  const OptionValue* const given = s.schedule.find("balance_chunk");
  const std::int64_t* const chunk = given ? std::get_if<std::int64_t>(given) : nullptr;
  if (!in_pieces(s.placement)) {
    if (!pieces.empty())
      throw ScenarioError("parallel.pieces", "only placements \"balanced\" and \"dynamic\" have them");
    return;
  }
  require_own_keys(s);
  if (pieces.empty())
    pieces = s.placement == "dynamic" ? dynamic_pieces(s.problem, s.parallel)
                                      : balanced_pieces(s.problem, s.parallel, chunk ? *chunk : 0);
  require_pieces(s);
}

}  // namespace cplab
