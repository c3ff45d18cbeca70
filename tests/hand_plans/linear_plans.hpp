// Linear attention written by hand: one sequence on P ranks, or several, decoupled as LASP's log-depth scans
// are (states of the ranks' own tokens first, a scan over ranks, then the rows), with scans as lists of
// moves.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/hand_plans/hand_plans.hpp"

namespace cplab::hand {

// H = 2, D = 4, E = 3, decay 0.5 and 0.25; no operations.
Plan empty_linear_plan(int P, const std::vector<std::int64_t>& lengths, Direction,
                       const std::string& placement = "contiguous", DType = DType::fp64);

// Tokens [begin, end) of a sequence at the rows from `row` on of a rank: of every sequence of its replica
// (contiguous, also without tokens), or of those that it has tokens of (stream).
struct TokenPiece {
  std::int64_t sequence = 0, row = 0, begin = 0, end = 0;
  std::int64_t length = 0;  // of the sequence
  std::int64_t count() const { return end - begin; }
};
std::vector<TokenPiece> pieces_of(const Plan&, int rank);

struct LinearBuffers {
  std::uint32_t q, kv, out, dout, dq, dkv;
};
LinearBuffers linear_buffers(const Plan&, Rank&);
At keys_at(const Plan&, std::uint32_t buffer);    // the K columns
At values_at(const Plan&, std::uint32_t buffer);  // the V columns
// `count` states: [count D, H, E], wide, heads first.
std::uint32_t states(const Plan&, Rank&, const std::string& name, std::int64_t count = 1,
                     Category = Category::working);

struct Named {
  Operand operand;
  ViewIndex view;
  WriteMode mode = store;
};
std::vector<Access> accesses(const std::vector<Named>& operands);  // as Rank::operation takes them
// Any operation of linear attention, on all heads.
std::uint32_t linear(const Plan&, Rank&, OpKind, const std::vector<Named>& reads,
                     const std::vector<Named>& writes, const std::vector<Chunk>&, bool reverse = false);

// ---- scans over ranks ---------------------------------------------------------------------------

// One rank and one direction of a scan, in scan indices: index i is rank i, or P - 1 - i in reverse.
class Scan {
 public:
  Scan(Plan&, Rank&, const LinearBuffers&, bool reverse);

  const int P, index;
  const bool reverse;
  Rank& rank;

  // Computes the state of the rank's own tokens. `total`: into the output that holds all tokens at the end.
  std::uint32_t own_state(bool total = false);
  // The output of what enters; the rows read it.
  std::uint32_t carry();
  std::optional<std::uint32_t> given_carry() const { return carry_; }
  std::uint32_t buffer(const std::string& name, std::int64_t count = 1) const;
  // Tokens of the indices first .. last, which a state passes over.
  std::int64_t tokens(int first, int last) const;
  std::uint32_t combine(const At& from, const At& into, std::int64_t count) const;
  struct Message {
    int index;
    At at;
    bool send;
  };
  void exchange(const std::vector<Message>&, OpKind = OpKind::exchange, Lane = comm) const;
  int rank_of(int i) const { return reverse ? P - 1 - i : i; }

 private:
  Plan& plan_;
  LinearBuffers buffers_;
  std::optional<std::uint32_t> carry_;
};
using ScanRanks = std::function<void(Scan&)>;

// Forward (and backward, with the suffix scan) of whole sequences: `scan` writes the carries.
Plan scanned(int P, std::int64_t tokens, Direction, const ScanRanks& scan, DType = DType::fp64);

struct Move {
  int from, into;
};
using Rounds = std::vector<std::vector<Move>>;
Rounds brent_kung_rounds(int P);

ScanRanks brent_kung_and_shift();
ScanRanks inclusive_and_shift(const std::function<Rounds(int P)>&);  // the receiver holds what lies between
ScanRanks kogge_stone_after_shift();
ScanRanks swap_form();
ScanRanks ring_of_states();
ScanRanks gather_and_fold();
ScanRanks pipelined_slices(int slices);
// The down-sweep as it was published: right up to P = 7.
ScanRanks published_down_sweep();
// The up-sweep takes the left edge of the left subtree for its partner.
ScanRanks left_edge_partner();
// The shift of a scan goes the wrong way: index i takes the result of index i + 1.
ScanRanks shifted_the_wrong_way();

// ---- chunks -------------------------------------------------------------------------------------

// Several sequences, chunks of at most `rows` tokens, the states of whole ranks passed on along a chain.
Plan chunked(int P, const std::vector<std::int64_t>& lengths, Direction, const std::string& placement,
             std::int64_t rows, DType = DType::fp64);
// One sequence with transitions of the problem's own; all ranks' states and transitions are gathered and
// folded.
Plan affine(int P, std::int64_t tokens, Transition, DType = DType::fp64);

}  // namespace cplab::hand
