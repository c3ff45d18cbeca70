// The operations of linear attention in the symbolic run. A state is a set of tokens of one sequence and the
// edge that they are decayed to; kernels/linear.hpp says what that is for states of keys and of queries.
// Edges are counted in token ids (check/coverage.hpp): edge p lies before the token p. An empty state is the
// same at every edge, and held as zeros.
//
// A chunk by itself covers its own tokens: of these pairs the mask leaves the causal ones. A state adds its
// tokens to the set of every row of the chunk.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "check/contents.hpp"

namespace cplab::checking {

// What `rows` rows of states hold together.
struct HeldState {
  enum class Kind : std::uint8_t {
    unknown,
    nothing,    // or in part
    other,      // something that is no state: `holds`
    mixed,      // parts of different states
    misplaced,  // rows of D, heads or columns of a state where others belong
    empty,
    known
  };
  Kind kind = Kind::unknown;
  Holds holds = Holds::nothing;
  std::uint32_t set = 0;
  std::int64_t edge = 0;
};
// The rows [first, first + rows) of the view, which must be the state's D rows from 0 on, its first head
// being `head`.
HeldState held_state(const Runs&, std::int64_t first, std::int64_t rows, std::int32_t head);

// Q, K and V before and behind a convolution, with the names of its factors and of their gradients.
struct Convolved {
  std::string_view filter_name, gradient_name;
  Holds raw, made, filter;
  Holds gradient, raw_gradient, dfilter;  // of what is made, of what is raw, of the filter
  std::int64_t width(const Problem& p) const { return made == Holds::v ? p.value_size : p.head_size; }
};
inline constexpr std::array<Convolved, 3> convolved{
    {{"conv_q", "dconv_q", Holds::raw_q, Holds::q, Holds::conv_q, Holds::dq, Holds::draw_q, Holds::dconv_q},
     {"conv_k", "dconv_k", Holds::raw_k, Holds::k, Holds::conv_k, Holds::dk, Holds::draw_k, Holds::dconv_k},
     {"conv_v", "dconv_v", Holds::raw_v, Holds::v, Holds::conv_v, Holds::dv, Holds::draw_v, Holds::dconv_v}}};
// carry, dcarry, state_last, dstate_first: check/outputs.cpp. And the gradients of transitions.
bool is_linear_output(const Problem&, std::string_view name);

// The runs of rows [first, first + count) of a view.
Runs clipped_runs(const Runs&, std::int64_t first, std::int64_t count);

// One operation of good form.
class LinearStep {
 public:
  LinearStep(Contents& contents, std::uint32_t rank, std::uint32_t operation)
      : contents_(contents),
        site_{rank, operation},
        rank_(contents.model_.ranks[rank]),
        op_(rank_.op(operation)),
        problem_(contents.model_.plan->scenario.problem) {}
  void run();

 private:
  using Interval = Sets::Interval;  // of token ids
  struct Held {                     // an operand that is read
    Operand operand;
    const Box* box;
    Runs runs;
  };
  struct Written {
    Operand operand;
    const Box* box;
    WriteMode mode;
    std::uint32_t writer;
    Runs runs;
  };
  // A state that nothing is wrong with. set 0: it is empty, and `edge` says nothing.
  struct State {
    std::uint32_t set = 0;
    std::int64_t edge = 0;
  };
  using MaybeState = std::optional<State>;  // nothing: something was wrong, which has been reported

  // check/linear.cpp
  double flops() const;
  void read_operands();
  const Held* find(Operand) const;
  Written* find_written(Operand);
  std::span<const Chunk> chunks() const { return rank_.plan->chunks_of(op_); }
  bool wrong(const Box&, const std::string& what, FindingKind = FindingKind::coverage) const;
  std::string place(const Box& box) const { return describe_box(rank_, box); }
  std::string chunk_name(const Interval& tokens) const;
  // The tokens of a chunk, which all operands that are rows of tokens must agree about; empty without tokens.
  std::optional<Interval> tokens(const Chunk&) const;
  std::optional<Interval> tokens(const Held&, Holds wanted, const Chunk&) const;
  MaybeState state(const Held&, std::int32_t number, Holds wanted) const;
  std::uint32_t set_of(const Interval& tokens) const {
    return tokens.begin < tokens.end ? contents_.sets_.of({&tokens, 1}) : 0;
  }
  std::uint32_t sequence_of(std::uint32_t set) const;  // of a set that is not empty
  bool same_sequence(std::uint32_t set, std::uint32_t other) const {
    return set == other || sequence_of(set) == sequence_of(other);
  }
  Run state_run(std::int64_t number, const MaybeState&, Holds) const;
  void write_states(Written&, bool clear_others);
  void write_rows(Written&);

  // check/linear_rows.cpp: operations that write rows of tokens.
  void local();
  // What enters a chunk at one side, at the edge of its tokens where it has any.
  MaybeState entering(const Chunk&, const Interval& tokens, bool of_queries) const;
  bool enters_at(const Held&, const State&, const Chunk&, const Interval& tokens, bool of_queries) const;
  bool has_all(const Interval& tokens, const State& left, const State& right) const;
  void write_rows_of(const Chunk&, const std::optional<Interval>&, const MaybeState& left,
                     const MaybeState& right);
  void write_final(Written&, const Chunk&, const std::optional<Interval>&, const MaybeState& entered);

  // check/convolutions.cpp
  double taps() const;
  const Convolved* of_filter() const;
  std::optional<Interval> rows_of(const Held&, Holds wanted, const Chunk&) const;
  std::optional<Interval> convolved_tokens(const Held& rows, Holds wanted, const Chunk&, bool behind) const;
  void convolve();
  void filter_gradient();

  // check/linear_states.cpp: operations that write states.
  void own_states();
  void scan();
  void combine();
  // Both are of one sequence, but `from` does not come to the edge that `into` lies at.
  std::string wrong_exponent(const State& from, const State& into, std::int64_t count) const;
  bool is_transition(const Value&) const;
  Value composed(const Run& from, const Run* transition, const Chunk&) const;
  Value passed_on(const Run& from, const Run& into, const Run* transition, const Chunk&, Holds) const;
  std::optional<std::int64_t> edge_behind(const Value& from, const Run* transition, const Chunk&) const;

  Contents& contents_;
  Contents::Site site_;
  const RankModel& rank_;
  const Operation& op_;
  const Problem& problem_;
  Contents::Heads heads_;
  std::vector<Held> held_;
  std::vector<Written> written_;
};

}  // namespace cplab::checking
