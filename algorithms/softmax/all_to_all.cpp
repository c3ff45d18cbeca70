// All-to-all attention: DeepSpeed Ulysses (Jacobs et al. 2023, arXiv 2309.14509), in the form of
// TransformerEngine's AttnFuncWithCPAndQKVOA2A.
//
// Ranks trade heads for tokens, so that each attends the whole sequence with its share of the query heads and
// the key heads these read; then they trade back. A key head that several ranks need goes to each of them,
// and their gradients of it are summed. What is computed between does not matter: of linear attention every
// rank runs what one rank alone would (linear/whole_sequences.hpp).
#include "algorithms/core/options.hpp"
#include "algorithms/linear/whole_sequences.hpp"
#include "algorithms/softmax/trade.hpp"

namespace cplab {
namespace {

// Attention over everything that one member holds.
class Local final : public SoftmaxAlgorithm {
 public:
  explicit Local(const Scope& scope) : s(scope) {}

  void forward(const Forward& f) override {
    s.b.attend(compute_lane,
               {f.q, keys(s.b, f.kv), values(s.b, f.kv), f.out, f.lse, tile.segments, WriteMode::store,
                f.max_logit->of(compute_lane),
                mask(f.kv, {}, {.bias = f.bias, .keep = f.keep, .dbias = {}, .table = f.table}), f.sink});
  }

  void backward(const Backward& g) override {
    const Box out = delta_by_first_tile(s.b, g, true);
    s.b.attend_backward(compute_lane, {g.q, keys(s.b, g.kv), values(s.b, g.kv), g.dout, g.lse, g.delta, g.dq,
                                       keys(s.b, g.dkv), values(s.b, g.dkv), tile.segments, WriteMode::store,
                                       WriteMode::store, mask(g.kv, g.dkv, pairs_of(g)), out, g.rounded_dq});
  }

  bool stores_dq_once() const override { return true; }

 private:
  Builder::PairMask mask(const Box& kv, const Box& dkv, const PairBoxes& pairs) const {
    return pair_mask(s.b, kv, dkv, WriteMode::store, pairs, {s.tokens[0].runs, tile.q_rows},
                     {s.keys[0].runs, tile.k_rows});
  }

  const Scope& s;
  const Tile tile = s.tile(0, Take::all);
};

void build_all_to_all(Builder& b) {
  if (b.problem().attention == Attention::linear) return build_traded_sequences(b);
  const Scope whole(b);
  const Team self = alone(b.everyone());
  const Scope inside = scope_of_share(whole, self);
  Local local(inside);
  WithQuerySum with_sum(inside, local);
  Trade trade(whole, whole.team, whole.tokens, whole.key_tokens, inside, with_sum,
              trade_options(b.scenario().schedule));
  run_whole(whole, trade);
}

void validate_all_to_all(const Scenario& s) {
  if (s.problem.attention == Attention::linear) return validate_whole_sequences(s, s.parallel.ranks);
  require_softmax(s);
  require_divided_heads(s, s.parallel.ranks, "parallel.ranks");
  // Gradients of a key head that several ranks share would be summed on their way, and then go to all.
  if (s.parallel.keys_everywhere && s.problem.kv_heads % s.parallel.ranks != 0)
    throw ScenarioError("parallel.kv_placement", "all_to_all on keys that every rank holds needs kv_heads (" +
                                                     std::to_string(s.problem.kv_heads) +
                                                     ") to be a multiple of parallel.ranks (" +
                                                     std::to_string(s.parallel.ranks) +
                                                     "); legal here: \"same\"; all_gather has both");
}

}  // namespace

Algorithm all_to_all_algorithm() {
  Algorithm a;
  a.name = "all_to_all";
  a.aliases = {"a2a", "ulysses"};
  a.summary = "ranks trade heads for tokens and back (DeepSpeed Ulysses, arXiv 2309.14509)";
  a.placements = {"zigzag", "contiguous", "striped", "stream"};
  a.linear_placements = {"zigzag", "contiguous", "stream"};
  a.dynamic_masks = true;
  a.keys_everywhere = true;
  a.options = trade_option_infos();
  for (const OptionInfo& option : {accumulator_option(), row_dot_option()}) a.options.push_back(option);
  for (OptionInfo& option : a.options)
    if (option.key != "pack_above") option.serves = {is_softmax_problem, "softmax attention"};
  for (const OptionInfo& option : whole_sequence_options()) a.options.push_back(option);
  a.resolve_defaults = [](Scenario& s) { resolve_whole_sequence_defaults(s, s.parallel.ranks); };
  a.validate = validate_all_to_all;
  a.build = build_all_to_all;
  return a;
}

}  // namespace cplab
