// The checker on latent keys and values: plans of every algorithm, with K and V or latents travelling, what
// travels, and single mistakes in them.
#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

#include "algorithms/core/build.hpp"
#include "algorithms/core/list.hpp"
#include "algorithms/core/resolve.hpp"
#include "derive/edges.hpp"
#include "derive/edits.hpp"
#include "tests/algorithms/check_expect.hpp"
#include "tests/scenarios/any_scenario.hpp"

using namespace cplab;
using namespace cplab::hand;

namespace {

Scenario latent_scenario(const std::string& algorithm, int P, const std::string& travels = "",
                         const std::vector<std::pair<std::string, OptionValue>>& options = {}) {
  Scenario s = testing::any_scenario(P, algorithm);
  s.schedule = {};
  s.problem.kv_heads = s.problem.heads;
  s.problem.kv_latent = 12, s.problem.rope_size = 2;
  if (!travels.empty()) s.schedule.set("travels", travels);
  for (const auto& [key, value] : options) s.schedule.set(key, value);
  return testing::resolve_with_heads(s);
}

OptionValue word(const char* text) {
  return std::string(text);
}

bool knows_latents(const Algorithm& algorithm) {
  return find_option(algorithm, "travels") != nullptr;
}

void require_key(const Scenario& s, const char* key) {
  try {
    (void)resolve(s);
    FAIL_CHECK("not refused");
  } catch (const ScenarioError& error) {
    CHECK(error.key == key);
  }
}

// Bytes that one rank sends in a phase.
std::int64_t sent(const Plan& plan, Phase phase) {
  std::int64_t bytes = 0;
  for (const Operation& op : plan.ranks[0].operations)
    if (is_communication(op.kind) && op.phase == phase && op.parts.count > 0) bytes += op.bytes;
  return bytes;
}

// The first operation of that kind, of rank 1, changed.
Plan changed(const std::string& algorithm, OpKind kind,
             const std::function<void(RankPlan&, std::size_t)>& by) {
  Plan plan = build_plan(latent_scenario(algorithm, 3, "latent"));
  RankPlan& rank = plan.ranks[1];
  for (std::size_t i = 0; i < rank.operations.size(); ++i)
    if (rank.operations[i].kind == kind) {
      by(rank, i);
      derive_edges(rank);
      return plan;
    }
  FAIL("no such operation");
  return plan;
}

}  // namespace

TEST_CASE("latents: every algorithm of softmax attention is right on any number of ranks") {
  for (const Algorithm& algorithm : algorithms()) {
    const std::string name(algorithm.name);
    if (testing::attention_of(name) != Attention::softmax) continue;
    CAPTURE(name);
    for (const int P : {1, 2, 3, 4, 5}) {
      CAPTURE(P);
      require_right(build_plan(latent_scenario(name, P)));
      require_right(build_plan(latent_scenario(name, P, "", {{"between", word("layers")}})));
      if (find_option(algorithm, "backward_gather") != nullptr)
        require_right(build_plan(
            latent_scenario(name, P, "", {{"between", word("layers")}, {"backward_gather", word("keep")}})));
      if (!knows_latents(algorithm)) continue;
      require_right(build_plan(latent_scenario(name, P, "latent")));
      require_right(build_plan(latent_scenario(name, P, "latent", {{"between", word("layers")}})));
    }
  }
}

TEST_CASE("latents: ranks without a token make nothing that nobody reads") {
  for (const Algorithm& algorithm : algorithms()) {
    const std::string name(algorithm.name);
    if (testing::attention_of(name) != Attention::softmax) continue;
    CAPTURE(name);
    for (const char* travels : {"kv", "latent"})
      for (const char* between : {"nothing", "layers"})
        for (const bool sink : {false, true}) {
          Scenario s = latent_scenario(name, 8);
          s.schedule = {}, s.placement = {};
          s.problem.sequence = 3, s.problem.batch = 1;
          s.problem.lengths = s.problem.padded_lengths = {3};
          s.problem.sink = sink;
          s.schedule.set("between", word(between));
          if (knows_latents(algorithm)) s.schedule.set("travels", word(travels));
          require_right(build_plan(resolve(s)));
        }
  }
}

TEST_CASE("latents: schedules and placements of the algorithms in which they travel") {
  const auto right = [](const char* algorithm,
                        const std::vector<std::pair<std::string, OptionValue>>& options) {
    for (const char* placement : {"zigzag", "contiguous", "striped", "stream", "balanced"}) {
      Scenario s = testing::any_scenario(4, algorithm);
      s.schedule = {}, s.placement = placement;
      s.parallel.pieces.clear();
      s.problem.kv_heads = s.problem.heads, s.problem.kv_latent = 12, s.problem.rope_size = 2;
      s.problem.window = {30, 0};
      s.schedule.set("travels", word("latent"));
      for (const auto& [key, value] : options) s.schedule.set(key, value);
      CAPTURE(placement);
      require_right(build_plan(resolve(s)));
    }
  };
  for (const std::int64_t heads : {1, 2})
    for (const char* again : {"again", "keep"})
      right("all_gather",
            {{"gather_head_chunk", heads}, {"backward_gather", word(again)}, {"compute_lanes", 3 - heads}});
  for (const std::int64_t heads : {0, 3})
    for (const char* rotation : {"whole", "needed"})
      right("ring", {{"dkv_tile_heads", heads},
                     {"rotation", word(rotation)},
                     {"merge", word(heads == 0 ? "fused" : "deferred")},
                     {"own_kv", word(heads == 0 ? "keep" : "receive")},
                     {"gradient_wire_dtype", word(heads == 0 ? "nominal" : "fp32")}});
}

// 4 heads of 8 + 8 columns of K and V, or 12 + 2 of a latent; gradients in fp32.
TEST_CASE("latents: what travels is as wide as what the schedule says, both ways") {
  for (const char* algorithm : {"ring", "all_gather"}) {
    CAPTURE(algorithm);
    const std::vector<std::pair<std::string, OptionValue>> plain{{"gradient_wire_dtype", word("fp32")}};
    auto options = plain;
    if (std::string(algorithm) == "ring")
      options.push_back({"rotation", word("whole")});
    else
      options.push_back({"gather", word("needed")});
    const Plan kv = build_plan(latent_scenario(algorithm, 4, "kv", options)),
               latent = build_plan(latent_scenario(algorithm, 4, "latent", options));
    CHECK(sent(kv, Phase::forward) * (12 + 2) == sent(latent, Phase::forward) * 4 * (8 + 8));
    CHECK(sent(kv, Phase::backward) * (12 + 2) == sent(latent, Phase::backward) * 4 * (8 + 8));
  }
}

TEST_CASE("latents: what does not go together is refused with its key") {
  Scenario s = testing::any_scenario(2, "ring");
  s.schedule = {};
  s.problem.kv_heads = s.problem.heads, s.problem.kv_latent = 12, s.problem.rope_size = 2;
  CHECK_NOTHROW((void)resolve(s));
  const auto refused = [&](const char* key, const std::function<void(Scenario&)>& change) {
    Scenario other = s;
    change(other);
    CAPTURE(key);
    require_key(other, key);
  };
  refused("problem.kv_heads", [](Scenario& x) { x.problem.kv_heads = 2; });
  refused("problem.rope_size", [](Scenario& x) { x.problem.rope_size = 8; });
  refused("problem.rope_size", [](Scenario& x) { x.problem.rope_size = 0; });
  refused("problem.rope_size", [](Scenario& x) { x.problem.kv_latent = 0; });
  refused("problem.bias", [](Scenario& x) { x.problem.bias = BiasForm::keys; });
  refused("problem.max_logit", [](Scenario& x) { x.problem.max_logit = true; });
  refused("problem.kv_sequence", [](Scenario& x) {
    x.problem.kv_sequence = 96, x.problem.kv_lengths = x.problem.kv_padded_lengths = {96, 96};
  });
  refused("schedule.tile_inputs", [](Scenario& x) {
    x.schedule.set("travels", word("latent")), x.schedule.set("tile_inputs", word("copy"));
  });
  refused("schedule.gradient_sum", [](Scenario& x) {
    x.schedule.set("travels", word("latent")), x.schedule.set("gradient_sum", word("fused"));
  });
  refused("schedule.travels", [](Scenario& x) {
    x.problem.kv_latent = x.problem.rope_size = 0, x.schedule.set("travels", word("latent"));
  });
  for (const char* algorithm : {"all_to_all", "usp"})
    refused("schedule.travels", [&](Scenario& x) {
      x.algorithm = algorithm, x.placement = {}, x.schedule.set("travels", word("latent"));
    });
}

TEST_CASE("latents: a projection that is missing, or of other heads' weights, is a finding") {
  for (const char* algorithm : {"ring", "all_gather"}) {
    CAPTURE(algorithm);
    require_message(
        changed(algorithm, OpKind::project, [](RankPlan& rank, std::size_t i) { remove_operation(rank, i); }),
        "nobody has written");
    const auto other_head = [](RankPlan& rank, std::size_t i) {
      rank.operations[i].head_begin += 1, rank.operations[i].head_end += 1;
    };
    require_message(changed(algorithm, OpKind::project, other_head), "reads key_weights in");
    require_message(changed(algorithm, OpKind::project_backward, other_head), "needs it from head 1");
    require_message(changed(algorithm, OpKind::weight_gradient, other_head), "needs it from head 1");
  }
}

TEST_CASE("latents: a gradient that is left out, or is there twice, is a finding") {
  for (const char* algorithm : {"ring", "all_gather"}) {
    CAPTURE(algorithm);
    const auto last = [&](OpKind kind, const std::function<void(RankPlan&, std::size_t)>& by) {
      Plan plan = build_plan(latent_scenario(algorithm, 3, "latent"));
      RankPlan& rank = plan.ranks[1];
      for (std::size_t i = rank.operations.size(); i-- > 0;)
        if (rank.operations[i].kind == kind) {
          by(rank, i);
          derive_edges(rank);
          return plan;
        }
      FAIL("no such operation");
      return plan;
    };
    const auto remove = [](RankPlan& rank, std::size_t i) { remove_operation(rank, i); };
    const Plan without = last(OpKind::project_backward, remove);
    CHECK_FALSE(check(without).ok());
    CHECK_FALSE(check(last(OpKind::weight_gradient, remove)).ok());
    const auto twice = [](RankPlan& rank, std::size_t i) {
      std::vector<Access> writes(rank.writes(rank.operations[i]).begin(),
                                 rank.writes(rank.operations[i]).end());
      for (Access& access : writes) access.mode = WriteMode::add;
      Operation again = rank.operations[i];
      again.writes = add_accesses(rank, writes);
      insert_operation(rank, i + 1, again);
    };
    require_message(last(OpKind::weight_gradient, twice), "that are there already");
    require_message(last(OpKind::project_backward, twice), "cover a pair twice");
  }
}

TEST_CASE("latents: weights of padding are a finding") {
  Scenario s = latent_scenario("all_gather", 3, "kv");
  s.problem.lengths = {90, 96};
  Plan plan = build_plan(resolve(s));
  for (RankPlan& rank : plan.ranks)
    for (Operation& op : rank.operations) {
      if (op.kind != OpKind::weight_gradient) continue;
      // All rows, as the projection before has them.
      for (const Operation& other : rank.operations) {
        if (other.kind != OpKind::project_backward) continue;
        std::vector<Access> reads(rank.reads(op).begin(), rank.reads(op).end());
        for (Access& access : reads) {
          View view = rank.views[access.view];
          view.ranges = rank.view_of(other, Operand::dk).ranges;
          access.view = add_view(rank, view);
        }
        op.reads = add_accesses(rank, reads);
      }
      derive_edges(rank);
    }
  require_message(plan, "sums up padding rows");
}
