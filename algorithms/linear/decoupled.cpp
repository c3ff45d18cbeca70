// The two passes of decoupled linear attention; see decoupled.hpp.
#include "algorithms/linear/decoupled.hpp"

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "algorithms/core/defaults.hpp"

namespace cplab {
namespace {

using Named = Builder::Named;

class Decoupled final : public LinearAlgorithm {
 public:
  Decoupled(const LinearScope& scope, const DecoupledChoices& choices) : s(scope), choices_(choices) {}

  void forward(const LinearTensors& t) override {
    if (has_states_) state_ = keep_ ? s.saved_states("state", count_) : s.states("state", count_);
    pass(t, false);
  }

  void backward(const LinearTensors& t) override {
    if (has_states_ && !keep_) {
      state_ = s.states("state_again", count_);
      own_states(t, false, state_);
      b.linear(linear_lane, OpKind::scan, {}, {{Operand::state, state_, WriteMode::add}}, on(false));
    }
    if (has_states_) dstate_ = s.states("dstate", count_);
    pass(t, true);
  }

 private:
  Builder::OnChunks on(bool reverse) const { return {chunks_, ChunkWork::blocked, reverse}; }

  // Own states, what leaves the rank, the scan over ranks, the rows. What does not wait for the scan comes
  // first, or beside it.
  void pass(const LinearTensors& t, bool reverse) {
    StateScan scan(s, reverse, state_lane, beside_ ? Lane{LaneKind::compute, 1} : linear_lane);
    if (apart_ && !beside_) inside(t, reverse);
    const Box own = leaving(t, reverse, scan);
    if (has_states_ || own.given()) scan.begin_after_start_of(b.last());
    Box& carry = reverse ? dcarry_ : carry_;
    if (s.enters(reverse)) carry = s.carry(reverse);
    if (apart_ && beside_) inside(t, reverse);
    if (scans_) choices_.scan(s, scan, own, carry);
    if (!apart_) inside(t, reverse);
    if (apart_) between(t, reverse);
  }

  // The state of this rank's own tokens where it ends, if another rank needs it or all totals are asked for;
  // and on the way to it the states before (reverse: behind) every chunk.
  Box leaving(const LinearTensors& t, bool reverse, const StateScan& scan) {
    const bool total =
        choices_.totals && scans_ && s.stretches.of_every_sequence() && scan.index() == s.P() - 1;
    Box own;
    if (s.leaves(reverse) || total || (choices_.every_rank_gives && scans_))
      own =
          s.states(total ? (reverse ? "dstate_first" : "state_last") : (reverse ? "own_dstate" : "own_state"),
                   s.stretches.states(), total ? Category::output : Category::working);
    const bool empty = own.given() && std::ranges::none_of(chunks_, [&](const Chunk& c) {
                         return (reverse ? c.left : c.right) >= 0;
                       });
    if (empty) b.fill(linear_lane, own, 0);
    if (!has_states_) {
      if (own.given() && !empty) own_states(t, reverse, own);
      return own;
    }
    const Box states = reverse ? dstate_ : state_;
    own_states(t, reverse, states);
    std::vector<Named> written{{reverse ? Operand::dstate : Operand::state, states, WriteMode::add}};
    if (own.given() && !empty) written.push_back({Operand::final_state, own});
    b.linear(linear_lane, OpKind::scan, {}, written, on(reverse));
    return own;
  }

  void own_states(const LinearTensors& t, bool reverse, const Box& into) {
    if (reverse)
      b.linear(linear_lane, OpKind::state, {{Operand::q, t.q}, {Operand::dout, t.dout}},
               {{Operand::dstate, into}}, on(true));
    else
      b.linear(linear_lane, OpKind::state, {{Operand::k, t.k}, {Operand::v, t.v}}, {{Operand::state, into}},
               on(false));
  }

  // The pairs inside the chunks, and unless states come apart also what they hold.
  void inside(const LinearTensors& t, bool reverse) {
    std::vector<Named> reads{{Operand::q, t.q}, {Operand::k, t.k}, {Operand::v, t.v}};
    if (reverse) reads.push_back({Operand::dout, t.dout});
    if (!apart_) add_states(reads, reverse);
    if (reverse)
      b.linear(linear_lane, OpKind::local_backward, reads,
               {{Operand::dq, t.dq}, {Operand::dk, t.dk}, {Operand::dv, t.dv}}, on(false));
    else
      b.linear(linear_lane, OpKind::local, reads, {{Operand::out, t.out}}, on(false));
  }

  // Products with states that are there: one kernel for all gradients, or where states come from one side
  // only (the first and the last rank) one for each.
  void between(const LinearTensors& t, bool reverse) {
    const bool before = has_states_ || carry_.given(), behind = has_states_ || dcarry_.given();
    if (!reverse) {
      if (before) products({{Operand::q, t.q}}, {{Operand::out, t.out}}, true, false);
    } else if (before && behind) {
      products({{Operand::k, t.k}, {Operand::v, t.v}, {Operand::dout, t.dout}},
               {{Operand::dq, t.dq}, {Operand::dk, t.dk}, {Operand::dv, t.dv}}, true, true);
    } else if (before) {
      products({{Operand::dout, t.dout}}, {{Operand::dq, t.dq}}, true, false);
    } else if (behind) {
      products({{Operand::v, t.v}}, {{Operand::dk, t.dk}}, false, true);
      products({{Operand::k, t.k}}, {{Operand::dv, t.dv}}, false, true);
    }
  }

  void products(std::vector<Named> reads, std::vector<Named> writes, bool before, bool behind) const {
    if (before) reads.insert(reads.end(), {{Operand::state, state_}, {Operand::carry, carry_}});
    if (behind) reads.insert(reads.end(), {{Operand::dstate, dstate_}, {Operand::dcarry, dcarry_}});
    for (Named& written : writes) written.mode = WriteMode::add;
    b.linear(linear_lane, OpKind::inter, reads, writes, on(false));
  }

  void add_states(std::vector<Named>& reads, bool reverse) const {
    reads.push_back({Operand::state, state_});
    reads.push_back({Operand::carry, carry_});
    if (!reverse) return;
    reads.push_back({Operand::dstate, dstate_});
    reads.push_back({Operand::dcarry, dcarry_});
  }

  const LinearScope& s;
  const DecoupledChoices& choices_;
  Builder& b = s.b;
  const Schedule& o = s.options();
  const std::vector<Chunk> chunks_ = s.chunks(o.count("chunk"));
  const std::int64_t count_ = std::ssize(chunks_);
  // Where every stretch of every sequence is one chunk, nothing passes from chunk to chunk, and their states
  // are what leaves.
  const bool has_states_ = count_ > (s.stretches.of_every_sequence() ? s.stretches.states() : 0);
  const bool scans_ = s.P() > 1 && s.stretches.states() > 0;
  const bool apart_ = o.is_word("inter", "apart"), beside_ = apart_ && o.is_on("overlap");
  const bool keep_ = o.is_word("backward_states", "keep");
  Box state_, carry_, dstate_, dcarry_;
};

bool is_apart(const Schedule& s) {
  return s.is_word("inter", "apart");
}

}  // namespace

std::vector<OptionInfo> decoupled_options() {
  std::vector<OptionInfo> options{
      least_option("chunk", 1, 256, "tokens of a chunk, which one thread block walks through"),
      word_option("inter", {"fused", "apart"},
                  "what states hold for rows: in the kernel of the chunks, behind the scan, or apart"),
      switch_option("overlap", true, "the chunks' own pairs beside the scan of states, not before it"),
      word_option("backward_states", {"keep", "again"},
                  "chunk states of the forward: kept, or computed again"),
      state_wire_option()};
  options[0] = defaults::by_machine(options[0]);
  options[0].default_rule = "so many that the chunks fill a GPU once";
  options[2].applies = is_apart;
  return options;
}

void resolve_decoupled_defaults(Scenario& s) {
  if (s.schedule.find("chunk") || s.problem.attention != Attention::linear) return;
  std::int64_t longest = 1, most = 1;
  for (int replica = 0; replica < static_cast<int>(s.parallel.replicas); ++replica) {
    const Stretches stretches(placed(s, replica), s.placement == "stream");
    longest = std::max(longest, stretches.longest());
    most = std::max(most, stretches.most());
  }
  s.schedule.set("chunk", defaults::chunk_rows(longest, most, s.problem.heads, s.problem.value_size));
}

void validate_decoupled(const Scenario& s) {
  require_linear(s, {Transition::decay});
  if (!is_apart(s.schedule) && s.schedule.find("overlap"))
    throw ScenarioError("schedule.overlap",
                        "has a meaning only with inter=apart: with inter=fused one kernel takes pairs and "
                        "states, behind the scan");
  require_few_chunks(s, 1);
}

void require_few_chunks(const Scenario& s, std::int64_t times) {
  constexpr std::int64_t most_chunks = std::int64_t{1} << 22;  // of all ranks: about 3 GB of plan and proof
  const std::vector<std::int64_t>& lengths = s.problem.padded_lengths;
  const std::int64_t tokens = times * std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  const std::int64_t chunk = s.schedule.count("chunk");
  if (tokens / chunk > most_chunks)
    throw ScenarioError("schedule.chunk", std::to_string(chunk) + " cuts " + std::to_string(tokens) +
                                              " tokens into more than " + std::to_string(most_chunks) +
                                              " chunks; legal here: any integer >= " +
                                              std::to_string((tokens + most_chunks - 1) / most_chunks));
}

std::unique_ptr<LinearAlgorithm> decoupled(const LinearScope& scope, const DecoupledChoices& choices) {
  return std::make_unique<Decoupled>(scope, choices);
}

void run_decoupled(Builder& b, const DecoupledChoices& choices) {
  const LinearScope scope(b);
  Decoupled algorithm(scope, choices);
  run_linear(scope.scope, algorithm);
}

}  // namespace cplab
