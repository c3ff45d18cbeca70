// Is what the checker accepts right? Plans written by hand and plans of every algorithm, with anything in
// them changed at random: views, rows, strides, columns, parts, collectives, groups, lanes, buffers. What the
// checker accepts is executed in several random orders, twice over with the same inputs, and compared with
// the reference. A mutant escapes if its numbers are wrong, if the executor refuses it or hangs, or if the
// checker says that it lost track.
//   build/release/plan_mutants [COUNT [FIRST_SEED]] [--algorithm NAME]
//   build/release/plan_mutants --write DIR      right plans of two ranks, for `verify --plan` on GPUs
// Prints how each kind of mutation was judged, and every mutant that escaped.
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <utility>

#include "algorithms/core/build.hpp"
#include "algorithms/core/list.hpp"
#include "check/check.hpp"
#include "cli/verify/verify.hpp"
#include "report/plan_json.hpp"
#include "tests/grid/arguments.hpp"
#include "tests/grid/draw_options.hpp"
#include "tests/hand_plans/attention_plans.hpp"
#include "tests/hand_plans/collective_plans.hpp"
#include "tests/hand_plans/linear_plans.hpp"
#include "tests/hand_plans/mutations.hpp"
#include "tests/hand_plans/replica_plans.hpp"
#include "tests/scenarios/any_scenario.hpp"

using namespace cplab;

namespace {

constexpr std::uint64_t orders = 5;

Plan built(const Algorithm& algorithm, std::uint64_t which, DType dtype) {
  Scenario s;
  Problem& p = s.problem;
  s.parallel.ranks = static_cast<std::int64_t>(2 + which % 2);
  const std::size_t placements = algorithm.placements.size();
  s.placement = algorithm.placements[(placements - which % placements) % placements];
  p.causal = which % 2 == 0;
  p.packed = which % 5 == 0;
  p.batch = p.packed ? 0 : 1;
  p.sequence = p.packed ? 0 : 8 * s.parallel.ranks;
  p.lengths = p.packed ? std::vector<std::int64_t>{13, 4, 9} : std::vector<std::int64_t>{p.sequence};
  p.padded_lengths = p.packed ? std::vector<std::int64_t>{16, 4, 9} : p.lengths;
  p.format = p.packed ? Format::thd : Format::bshd;
  p.heads = 4, p.kv_heads = 2, p.head_size = 8, p.value_size = 4;
  p.dtype = dtype;
  p.scale = 0.35;
  testing::suit(p, std::string(algorithm.name));
  if (which % 4 == 3 && p.attention == Attention::linear) p.direction = Direction::forward;
  if (which % 3 == 2 && p.attention == Attention::softmax) {
    Scenario masked = s;
    masked.problem.attention = Attention::dynamic_mask;
    masked.problem.bias = which % 2 == 0 ? BiasForm::keys : BiasForm::full;
    try {
      return build_plan(testing::draw_options(std::move(masked), algorithm, testing::scattered(which)));
    } catch (const ScenarioError&) {  // it has no dynamic masks
    }
  }
  if (which % 6 == 1 && p.attention == Attention::softmax) {
    Scenario traded = s;
    constexpr Transition transitions[] = {Transition::decay, Transition::head, Transition::matrix};
    traded.problem.transition = transitions[which / 6 % std::size(transitions)];
    testing::take_attention(traded.problem, Attention::linear);
    if (const std::string placement = testing::placement_for_linear_too(algorithm); !placement.empty()) {
      if (which % 12 == 1) traded.placement = placement;
      try {
        return build_plan(testing::draw_options(std::move(traded), algorithm, testing::scattered(which)));
      } catch (const ScenarioError&) {  // not in this placement
      }
    }
  }
  p.max_logit = which % 7 % 2 == 1 && p.attention == Attention::softmax;
  return build_plan(testing::draw_options(std::move(s), algorithm, testing::scattered(which)));
}

Plan replicated(std::uint64_t which, DType dtype) {
  using hand::Home;
  constexpr hand::Replicas shapes[] = {
      {4, 2, 4, 2, Home::exchange},    {8, 2, 4, 2, Home::all_reduce}, {6, 3, 2, 3, Home::reduce_scatter},
      {4, 1, 2, 3, Home::exchange, 1}, {12, 4, 3, 2, Home::exchange},  {8, 1, 2, 3, Home::reduce_scatter, 2}};
  hand::Replicas what = shapes[which % std::size(shapes)];
  what.dtype = dtype;
  return hand::replicated(what);
}

// Linear attention: chunks of several sequences, every scan, every transition.
Plan linear(std::uint64_t which, DType dtype) {
  constexpr auto both = Direction::forward_backward;
  switch (which % 8) {
    case 0:
      return hand::chunked(3, {7, 5, 9}, which % 16 == 0 ? both : Direction::forward, "contiguous", 2, dtype);
    case 1: return hand::chunked(3, {7, 5, 9}, both, "stream", 2, dtype);
    case 2: return hand::chunked(2, {1, 12}, both, "stream", 100, dtype);
    case 3: return hand::affine(3, 11, which % 16 == 3 ? Transition::column : Transition::head, dtype);
    case 4: return hand::affine(3, 11, Transition::matrix, dtype);
    case 5:
      return hand::scanned(4, 15, which % 16 == 5 ? both : Direction::forward, hand::swap_form(), dtype);
    case 6: return hand::scanned(4, 15, both, hand::pipelined_slices(2), dtype);
    default: return hand::scanned(5, 15, both, hand::brent_kung_and_shift(), dtype);
  }
}

// Sixteen in twenty are written by hand; the others take the algorithms in turn.
Plan plan_of(std::uint64_t seed, const Algorithm* only) {
  const DType dtype = seed % 4 == 3 ? DType::bf16 : DType::fp64;
  switch (seed % 20) {
    case 0: return hand::ring(3, 4, hand::Merge::incremental, Direction::forward_backward, dtype);
    case 1: return hand::ring(3, 4, hand::Merge::deferred, Direction::forward_backward, dtype);
    case 2: return hand::gathered(3, 4, dtype);
    case 3: return hand::in_place(3, 4, dtype);
    case 4:
    case 5: return hand::traded(4, dtype);
    case 6:
    case 7: return hand::reduced(4, dtype);
    case 8:
    case 9: return hand::permuted(6, dtype);
    case 10:
    case 11: return replicated(seed / 20, dtype);
    case 12: return hand::raised(3, dtype);
    case 13:
    case 14:
    case 15: return linear(seed / 20 * 3 + seed % 20 - 13, dtype);
    default: {
      const std::uint64_t n = only ? 1 : algorithms().size(), turn = seed / 20;
      return built(only ? *only : algorithms()[turn % n], turn / n, dtype);
    }
  }
}

// Writes plan files for either transport; copy engines carry exchange and all_to_all only.
void write_plans(const std::string& folder) {
  const auto write = [&](Plan plan, const std::string& name, bool over_copy) {
    for (const Transport transport : {Transport::nccl, Transport::copy}) {
      if (transport == Transport::copy && !over_copy) continue;
      for (RankPlan& rank : plan.ranks)
        for (Operation& op : rank.operations) op.transport = transport;
      std::ofstream file(folder + "/" + name + "-" + std::string(cplab::name(transport)) + ".json");
      write_plan_json(file, plan, {}, {});
    }
  };
  constexpr DType dtype = DType::bf16;
  write(hand::ring(2, 70, hand::Merge::deferred, Direction::forward_backward, dtype), "ring", true);
  write(hand::gathered(2, 70, dtype), "gathered", false);
  write(hand::in_place(2, 70, dtype), "in-place", false);
  write(hand::traded(70, dtype), "traded", true);
  write(hand::permuted(71, dtype), "permuted", true);
  write(hand::replicated({6, 3, 2, 35, hand::Home::exchange, 0, dtype}), "replicated", false);
}

std::string judge(std::uint64_t seed, const Algorithm* only, std::string& text) {
  Plan plan = plan_of(seed, only);
  text = hand::mutate_anything(plan, seed);
  const CheckResult checked = check(plan);
  for (const Finding& f : checked.findings)
    if (f.message.find("lost track") != std::string::npos) return "ESCAPED: the checker lost track";
  if (!checked.ok()) return "checker: " + std::string(name(checked.findings.front().kind));
  const Inputs inputs = random_inputs(plan.scenario.problem, seed);
  for (std::uint64_t order = 0; order < orders; ++order) {
    VerifyOptions options;
    options.execution.order = {order > 0, seed + order};
    options.execution.iterations = 2;
    options.execution.keep_log = false;
    options.execution.timeout_s = 30;
    const VerifyResult result = verify(plan, inputs, options);
    if (!result.ok())
      return "ESCAPED: accepted, but " + std::string(name(result.findings.front().kind)) + " " +
             result.findings.front().operation + ": " + result.findings.front().message;
  }
  return "accepted, and right in every order tried";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--write") {
    write_plans(argv[2]);
    return 0;
  }
  const auto [only, numbers] = testing::algorithm_and_numbers(argc, argv, {1000, 1});
  const std::uint64_t count = numbers[0], first = numbers[1];
  std::map<std::string, std::map<std::string, int>> table;  // kind of mutation -> verdict -> how many
  int escaped = 0, accepted = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    std::string text, verdict;
    try {
      verdict = judge(seed, only, text);
    } catch (const std::exception& error) {
      verdict = std::string("ESCAPED: ") + error.what();
    }
    const bool out = verdict.rfind("ESCAPED", 0) == 0;
    const std::size_t colon = text.rfind(": ");
    ++table[colon == std::string::npos ? text : text.substr(colon + 2)][out ? "ESCAPED" : verdict];
    accepted += verdict.rfind("accepted", 0) == 0;
    escaped += out;
    if (out)
      std::printf("seed %llu: %s: %s\n", static_cast<unsigned long long>(seed), text.c_str(),
                  verdict.c_str());
  }
  for (const auto& [kind, verdicts] : table) {
    std::printf("%s\n", kind.c_str());
    for (const auto& [verdict, n] : verdicts) std::printf("  %5d  %s\n", n, verdict.c_str());
  }
  std::printf("%llu mutants, %d accepted and right, %d escaped\n", static_cast<unsigned long long>(count),
              accepted, escaped);
  return escaped ? 1 : 0;
}
