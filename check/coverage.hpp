// Which token every local row is, which pairs are live, and sets of tokens. Written from the definition of
// the placements and masks, apart from the code that builds plans.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "check/live_mask.hpp"
#include "check/model.hpp"

namespace cplab::checking {

// Every row of every rank has a number, its `row id`: replica after replica, in each rank after rank by
// position; of cross attention first all rows of queries, then all of keys. Rows of keys that every rank
// holds have one number each. Every token has a number, its `token id`: a sequence's tokens in their order
// (striped placement: all tokens of rank 0, then those of rank 1, ...), so that neighbouring ranks hold one
// run of ids. A Stretch is a run of rows that are consecutive tokens of one sequence, at positions position +
// stride * i. Placement `stream`: the replica's sequences lie one after the other, padded as they are, the
// end padded to a multiple of P (it counts as padding of the last one), and rank p holds the p-th of P equal
// parts. Placement `hybrid`: sequence b lies whole on rank homes[b], padded as it is, or cut as in zigzag;
// rows that other ranks have more count as padding of the last sequence that has rows. Placements `balanced`,
// `dynamic`: rank p holds the pieces that the scenario lists for it, in their order; what other ranks have
// more as in hybrid.
struct Stretch {
  std::int64_t row = 0;    // id of the first row
  std::int64_t count = 0;  // rows
  std::int64_t valid = 0;  // the first of them are tokens, the rest padding
  std::uint32_t sequence = 0;
  std::int64_t position = 0;
  std::int64_t stride = 1;
  std::int64_t token = 0;     // id of the first; the next are token + 1, ...
  Side side = Side::queries;  // in self-attention of both

  // Rows [from, from + n) of it.
  Stretch part(std::int64_t from, std::int64_t n) const;
};

class Tokens {
 public:
  explicit Tokens(const Scenario&);

  std::int64_t rows(int replica, Side side) const { return replicas_[index(replica, side)].rows; }
  std::int64_t first_row(int replica, int position, Side) const;
  // The stretch that row `id` is in, from that row on.
  Stretch at(std::int64_t id) const;
  // Calls visit(Stretch) for the rows [id, id + count).
  template <class Visit>
  void for_each(std::int64_t id, std::int64_t count, Visit visit) const {
    while (count > 0) {
      Stretch s = at(id);
      if (s.count > count) s = s.part(0, count);
      visit(s);
      id += s.count;
      count -= s.count;
    }
  }

  // Live pairs of rows with any token of their sequence; as queries or as keys.
  std::int64_t live_of_queries(const Stretch&) const;
  std::int64_t live_of_keys(const Stretch&) const;
  // Live pairs of the rows with tokens [begin, end) (token ids of one sequence).
  std::int64_t live_with_keys(const Stretch& queries, std::int64_t begin, std::int64_t end) const;
  std::int64_t live_with_queries(const Stretch& keys, std::int64_t begin, std::int64_t end) const;

  // The sequence that a token id belongs to: its number, the id of its first token, its length.
  struct Origin {
    std::uint32_t sequence = 0;
    std::int64_t first = 0, length = 0;
  };
  Origin origin(std::int64_t token) const;
  // Of one sequence that has rows.
  Origin origin_of(std::uint32_t sequence, Side) const;

  const LiveMask& mask() const { return mask_; }
  // The position of a stretch of queries among the keys.
  std::int64_t among_keys(const Stretch& queries) const {
    return queries.position + first_at(queries.sequence);
  }
  std::string describe(const Stretch&) const;  // "tokens 0..63 of sequence 2"

 private:
  struct Sequence {
    std::int64_t length = 0;
    std::int64_t local_rows = 0;  // in each rank that has some; stream: 0
    std::int64_t first_row = 0;   // within a rank; stream: within all of them; hybrid: see Held
    std::int64_t first_token = 0;
    std::int64_t rows = 0;  // in all ranks: tokens and padding
    std::uint32_t number = 0;
  };
  // Of hybrid and pieces, on one rank: a sequence from that row on, from the position `from` on.
  struct Held {
    std::int64_t first_row = 0;
    std::uint32_t index = 0;  // among the replica's sequences
    std::int64_t from = 0;
    bool cut = false;  // two chunks of it, as in zigzag
  };
  enum class Kind : std::uint8_t { contiguous, zigzag, striped, stream, hybrid, pieces, everywhere };
  struct Replica {
    Side side = Side::queries;
    Kind kind = Kind::contiguous;
    std::vector<Sequence> sequences;      // without empty ones
    std::vector<std::vector<Held>> held;  // hybrid, pieces: by position
    std::int64_t rows = 0;
    std::int64_t first_id = 0;
  };
  std::size_t index(int replica, Side side) const {
    const std::size_t among = side == Side::keys && cross_ ? replicas_.size() / 2 : 0;
    return among + static_cast<std::size_t>(replica);
  }
  void lay_side(const Scenario&, Side, std::int64_t& id, std::int64_t& token);
  std::int64_t first_at(std::uint32_t sequence) const { return first_at_.empty() ? 0 : first_at_[sequence]; }
  std::int64_t lay_hybrid(const Parallel&, Replica&) const;
  std::int64_t lay_pieces(const Parallel&, Replica&) const;
  std::int64_t fill_up(Replica&, const std::vector<std::int64_t>& rows) const;
  Stretch at_held(const Replica&, std::int64_t id, std::int64_t position, std::int64_t row) const;
  // The rest, from row i on, of what rank `position` of a zigzag holds of a sequence with n rows there.
  void zigzag_from(Stretch&, std::int64_t position, std::int64_t i, std::int64_t n) const;
  std::int64_t live_between(const Stretch&, std::int64_t position, Side, std::int64_t begin,
                            std::int64_t end) const;
  // Where a sequence lies; without rows nowhere.
  struct Place {
    std::uint32_t replica = 0, index = none;
  };
  const Place& place(std::uint32_t number, Side) const;
  const Sequence* sequence(std::uint32_t number, Side) const;  // null: it has no rows
  const Replica& replica_of(std::uint32_t number, Side side) const {
    return replicas_[place(number, side).replica];
  }

  Kind kind_ = Kind::contiguous;
  bool cross_ = false;
  std::int64_t P_ = 1;
  LiveMask mask_;
  std::vector<Replica> replicas_;
  std::vector<Place> place_;  // of each sequence; in cross attention those of their keys follow
  struct First {
    std::int64_t token = 0;
    std::uint32_t sequence = 0;
    Side side = Side::queries;
  };
  std::vector<First> first_;            // first tokens, ascending, and their sequences
  std::vector<std::int64_t> first_at_;  // by sequence: the key that its first query stands on; empty: 0
};

// The sink of a row, among the tokens that its sum has counted: the id of no token.
inline constexpr std::int64_t sink_token = std::int64_t{1} << 40;

// Sets of token ids as sorted runs; equal sets have equal ids, 0 is the empty one.
class Sets {
 public:
  struct Interval {
    std::int64_t begin = 0, end = 0;
    bool operator==(const Interval&) const = default;
  };
  Sets();
  std::span<const Interval> operator[](std::uint32_t id) const;
  std::uint32_t of(std::span<const Interval> sorted);
  // Their union; nothing if they share a token.
  std::optional<std::uint32_t> join(std::uint32_t a, std::uint32_t b);

 private:
  struct Known {
    std::uint32_t a = none, b = none, result = 0;
  };
  void grow();
  std::vector<Interval> pool_;
  std::vector<Span> spans_;
  std::vector<std::uint64_t> hashes_;
  std::vector<std::uint32_t> table_;  // open addressing
  std::vector<Known> joins_;          // direct-mapped
  std::vector<Interval> scratch_;
};

// Pairs (i, j), 0 <= i < rows, 0 <= j < columns, with low <= j - i <= high.
std::int64_t pairs_in_band(std::int64_t rows, std::int64_t columns, std::int64_t low, std::int64_t high);

// A rectangle of a tile: rows [first, first + count) of a view with tokens [begin, end).
struct Rectangle {
  std::int64_t first = 0, count = 0;
  std::int64_t begin = 0, end = 0;
};
// Rows with the same set.
struct Cover {
  std::int64_t first = 0, count = 0;
  std::uint32_t set = 0;
};
// Collects rectangles by rows; false if a row has a token twice. `rectangles` is sorted.
bool collect(std::vector<Rectangle>& rectangles, Sets&, std::vector<Cover>&);

// What is wrong with the pairs a segment computes between two stretches, or nothing. i0, j0: where they begin
// within the segment's runs. Sets `live`: some pair is computed.
enum class Pairs : std::uint8_t { right, padding, foreign, dead, left_out };
Pairs compare_band(const Tokens&, const Segment&, const Stretch& q, std::int64_t i0, const Stretch& k,
                   std::int64_t j0, bool& live);

}  // namespace cplab::checking
