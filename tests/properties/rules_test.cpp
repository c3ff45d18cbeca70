// Rules that no machine breaks, over drawn pairs of scenarios of all families: more work takes no less time,
// better hardware no more. Where a kernel that exists breaks one, that is said with the rule, counted apart,
// and bounded; CPLAB_RULES_LIST=1 lists such pairs, and those that are broken, as options of the command
// line.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "sim/wave_times.hpp"
#include "tests/properties/drawn_scenarios.hpp"

using namespace cplab;
using namespace cplab::testing;

namespace {

// Sums of the same doubles in another order.
constexpr double rounding = 1e-9;

// Why a pair may break a rule.
enum class Reason {
  // Only the whole time does: something waits for something else, and the order of what is ready changed. All
  // kernels together obey.
  scheduling,
  // The tiles that the launch cuts say so. A block of 128 keys of which some are masked takes 1.41 times as
  // long as a whole one, and a last one that is partial as long as that: a causal tile of one block is longer
  // than a full one, 65 rows may be cut better than 64.
  tiles,
  // Another kernel takes one of the two calls. Both were chosen by the model of tiles, from which the
  // measured
  // times of kernels differ by some percent, some more than others; or rows in a dynamic mask are not aligned
  // for a kernel on tensor cores.
  other_kernel,
  // The same, and one of the two is a kernel for few queries.
  few_queries,
  // Causal squares of short sequences were measured slower than full ones (cuDNN, 512 tokens: 12.3 and 11.5
  // us), and 8 batches at once longer than 8 times one (cuDNN's backward, 2048 tokens: 1.09 times).
  measured,
  // The tokens of all ranks together take no less: those that a placement fills up with lie elsewhere.
  placement,
  // Tiles that add to gradients in the dtype of K are one for each key head: query heads that share one are
  // taken one after the other.
  key_heads,
};
constexpr const char* reason_names[] = {"scheduling", "tiles",     "other kernel", "few queries",
                                        "measured",   "placement", "key heads"};

// Of one rule. `facts`: what is asked of one scenario, and never broken; else pairs of scenarios.
struct Tally {
  bool facts = false;
  int asked = 0, broken = 0;
  std::map<Reason, int> explained;
};

// How far the ratios at the points of our tables lie apart where the model of tiles does not change: from one
// number of tiles to another, and from one mask to the other (0.84 and 0.88).
constexpr double ratio_of_points = 0.01, ratio_of_masks = 0.05;

std::vector<std::string_view> taken(const Priced& p) {
  std::vector<std::string_view> names;
  for (const auto& rank : p.ranks)
    for (const PricedKernel& kernel : rank)
      if (!kernel.taken.empty()) names.push_back(kernel.taken);
  return names;
}

bool takes_few_queries(const Priced& p) {
  return std::ranges::any_of(taken(p),
                             [](std::string_view name) { return name.starts_with("attend decode"); });
}

bool alike_but_masks(const KernelTable& a, const KernelTable& b) {
  return a.kind == b.kind && a.dtype == b.dtype && a.head_size == b.head_size && a.variant == b.variant;
}

// By how much a table's causal squares take longer than full ones of as many tokens, without their launches,
// at most; 1: not at all.
double causal_over_full(const Hardware& hardware) {
  double most = 1;
  for (const KernelTable& causal : hardware.kernels)
    for (const KernelTable& full : hardware.kernels) {
      if (!has_square_points(causal.kind) || !alike_but_masks(causal, full) || !causal.causal || full.causal)
        continue;
      WaveTimes times(full, hardware, hardware.burst.speed);
      for (const KernelTable& other : hardware.kernels)
        if (has_square_points(other.kind) && times.takes(other)) times.add(other);
      for (const KernelPoint& a : causal.points)
        for (const KernelPoint& b : full.points)
          if (a.sequence == b.sequence && a.batch == b.batch && a.heads == b.heads)
            most = std::max(most, (a.seconds - times.launch_s()) / (b.seconds - times.launch_s()));
    }
  return most;
}

// By how much a batch takes longer than its sequences do in smaller ones, at most; 1: not at all.
double batch_over_parts(const Hardware& hardware) {
  double most = 1;
  for (const KernelTable& large : hardware.kernels)
    for (const KernelTable& small : hardware.kernels) {
      if (!has_square_points(large.kind) || !alike_but_masks(large, small) || large.causal != small.causal)
        continue;
      for (const KernelPoint& a : large.points)
        for (const KernelPoint& b : small.points)
          if (a.sequence == b.sequence && a.heads == b.heads && a.batch > b.batch)
            most = std::max(
                most, a.seconds / b.seconds * static_cast<double>(b.batch) / static_cast<double>(a.batch));
    }
  return most;
}

class Rules {
 public:
  std::map<std::string, Tally> tallies;

  // `least` is not above `time`, both in seconds.
  void need(const std::string& rule, const Drawn& d, double time, double least) {
    Tally& tally = tallies[rule];
    tally.facts = true;
    ++tally.asked;
    if (time >= least * (1 - rounding)) return;
    ++tally.broken;
    list(rule, "broken", d, time, least);
  }

  // `more` takes no less time than `less`. `masks`: they differ by their masks.
  void compare(const std::string& rule, const Drawn& d, const Scenario& more, const Scenario& less,
               bool masks = false) {
    const Priced slow = priced(more, *d.machine), fast = priced(less, *d.machine);
    compare(rule, d, slow, fast, *d.machine, masks);
  }
  void compare(const std::string& rule, const Drawn& d, const Priced& slow, const Priced& fast,
               const Machine& of_fast, bool masks = false) {
    ++tallies[rule].asked;
    const double a = slow.kernels_s(), b = fast.kernels_s();
    if (a < b * (1 - rounding)) {
      explain(rule, d, slow, fast, masks);
      return;
    }
    const double slow_s = simulated_s(slow, *d.machine), fast_s = simulated_s(fast, of_fast);
    if (slow_s < fast_s * (1 - rounding)) note(rule, Reason::scheduling, d, slow_s, fast_s);
  }

  // Broken for a reason.
  void note(const std::string& rule, Reason reason, const Drawn& d, double time, double least) {
    ++tallies[rule].explained[reason];
    list(rule, reason_names[static_cast<std::size_t>(reason)], d, time, least);
  }

 private:
  void explain(const std::string& rule, const Drawn& d, const Priced& slow, const Priced& fast, bool masks) {
    const double a = slow.kernels_s(), b = fast.kernels_s();
    const double by_tiles = std::min(1.0, slow.kernels_s(true) / fast.kernels_s(true));
    const double apart = 1 - (masks ? ratio_of_masks : ratio_of_points);
    if (taken(slow) != taken(fast)) {
      const bool few = takes_few_queries(slow) || takes_few_queries(fast);
      return note(rule, few ? Reason::few_queries : Reason::other_kernel, d, a, b);
    }
    if (has_tiles(slow) && a >= b * by_tiles * apart) return note(rule, Reason::tiles, d, a, b);
    if (waves(fast) > waves(slow)) return note(rule, Reason::tiles, d, a, b);
    if (all_ranks_s(slow) >= all_ranks_s(fast)) return note(rule, Reason::placement, d, a, b);
    if (masks && a * causal_over_full(d.machine->hardware) >= b) return note(rule, Reason::measured, d, a, b);
    ++tallies[rule].broken;
    list(rule, "broken", d, a, b);
  }
  static bool has_tiles(const Priced& p) {
    return std::any_of(p.ranks.front().begin(), p.ranks.front().end(),
                       [](const PricedKernel& kernel) { return kernel.tiles_s > 0; });
  }
  static double all_ranks_s(const Priced& p) {
    double sum = 0;
    for (const auto& rank : p.ranks)
      for (const PricedKernel& kernel : rank) sum += kernel.cost.seconds;
    return sum;
  }
  static int waves(const Priced& p) {
    int sum = 0;
    for (const auto& rank : p.ranks)
      for (const PricedKernel& kernel : rank) sum += kernel.cost.waves;
    return sum;
  }
  static void list(const std::string& rule, const char* why, const Drawn& d, double time, double least) {
    if (std::getenv("CPLAB_RULES_LIST") != nullptr)
      std::cout << rule << " | " << why << " | " << 100 * (1 - time / least) << " % | " << 1e6 * time << " < "
                << 1e6 * least << " us | " << options_of(d) << "\n";
  }
};

using Change = std::function<void(Scenario&)>;

// Nothing where the family refuses it.
std::optional<Scenario> changed_by(const Drawn& d, const Change& change) {
  Scenario other = d.scenario;
  change(other);
  try {
    return changed(std::move(other));
  } catch (const ScenarioError&) {
    return {};
  }
}

void longer(Scenario& s, std::int64_t tokens) {
  std::vector<std::int64_t> lengths = s.problem.lengths;
  for (std::int64_t& length : lengths) length += tokens;
  set_lengths(s.problem, std::move(lengths));
}

// ---- Of one scenario.

double peak_flops_s(const Drawn& d) {
  for (const auto& [of, flops_s] : d.machine->hardware.gpu.peak_flops)
    if (of == name(d.scenario.problem.dtype)) return flops_s;
  return std::numeric_limits<double>::infinity();
}

// No kernel takes less than an empty one, or than the shortest of its own tables.
double launch_floor_s(const Hardware& hardware, OpKind kind) {
  double least = hardware.gpu.least_kernel_s;
  if (has_chunk_points(kind)) least = std::min(least, hardware.linear.floor_s);
  for (const KernelTable& table : hardware.kernels) {
    if (table.kind != kind) continue;
    for (const KernelPoint& point : table.points) least = std::min(least, point.seconds);
    for (const CurvePoint& point : table.curve) least = std::min(least, point.seconds);
  }
  return least;
}

void hold_to_machine(Rules& rules, const Drawn& d) {
  const Hardware& hardware = d.machine->hardware;
  const Priced p = priced(d.scenario, *d.machine);
  const double time_s = simulated_s(p, *d.machine);
  double computed_s = 0, sent_bytes = 0;
  for (std::size_t r = 0; r < p.ranks.size(); ++r) {
    std::map<int, double> lanes;
    for (const PricedKernel& kernel : p.ranks[r]) {
      const Operation& op = *kernel.op;
      lanes[static_cast<int>(op.lane.kind) * 256 + op.lane.index] += kernel.cost.seconds;
      rules.need("launch floor", d, kernel.cost.seconds, launch_floor_s(hardware, op.kind));
      if (has_square_points(op.kind)) rules.need("peak", d, kernel.cost.seconds, op.flops / peak_flops_s(d));
    }
    for (const auto& [lane, seconds] : lanes) computed_s = std::max(computed_s, seconds);
    double sent = 0;
    for (const Operation& op : p.plan.ranks[r].operations)
      if (is_communication(op.kind)) sent += static_cast<double>(op.bytes);
    sent_bytes = std::max(sent_bytes, sent);
  }
  rules.need("no less than compute alone", d, time_s, computed_s);
  rules.need("no less than its bytes", d, time_s, sent_bytes / hardware.node.link_bytes_s);
  if (p.plan.ranks.size() > 1) return;
  // One rank: a launch, then kernels, of which none is issued later than its own launch allows.
  const HostSpec& host = hardware.host;
  const double launch_s = host.kernel_launch_s + host.launch_latency_s;
  rules.need("one rank: its kernels", d, time_s, p.kernels_s() + launch_s);
  rules.need("one rank: no more than its kernels", d,
             p.kernels_s() + launch_s * static_cast<double>(p.ranks[0].size()), time_s);
}

// ---- Of two.

void more_work(Rules& rules, const Drawn& d) {
  const Problem& p = d.scenario.problem;
  const auto no_faster = [&](const std::string& rule, const Change& change, bool masks = false) {
    if (const auto more = changed_by(d, change)) rules.compare(rule, d, *more, d.scenario, masks);
  };
  no_faster("a token more", [](Scenario& s) { longer(s, 1); });
  no_faster("128 tokens a rank more", [](Scenario& s) { longer(s, 128 * s.parallel.ranks); });
  if (p.attention == Attention::linear) return;
  if (p.causal && p.window.left < 0)
    no_faster(
        "full, not causal", [](Scenario& s) { s.problem.causal = false; }, true);
  if (p.window.left < 0) return;
  const Change without = [](Scenario& s) { s.problem.window = {}; };
  no_faster("no window", without, true);
  // A ring whose rows travel only where they are needed keeps what comes home apart (dkv_home), and goes back
  // from K and V that it receives again.
  const bool homecoming = d.scenario.algorithm == "ring" && d.scenario.schedule.is_word("rotation", "needed");
  if (const auto wide = changed_by(d, without); wide && !homecoming)
    rules.need("memory without a window", d, static_cast<double>(priced(*wide, *d.machine).peak_bytes),
               static_cast<double>(priced(d.scenario, *d.machine).peak_bytes));
}

// Where queries travel the wire carries dq: tiles that store it in the problem's dtype are another kernel
// than those that add to it in fp32. And a call is of the queries of several members with the keys of one: of
// as many shapes as there are members, for which a library's tables of squares were not made.
bool queries_travel(const Scenario& s) {
  return s.algorithm == "pass_q" || s.algorithm == "mesh" || s.algorithm == "tree" || s.algorithm == "helix";
}

// Two calls of half the batch, kernel by kernel: no less than one of the whole, and no more than that, a
// launch and a wave. A wave takes as long as its longest tile, of a causal square twice the mean, and twice
// that where a multiprocessor has two (dynamic masks); a launch of one wave is all of it.
void halves(Rules& rules, const Drawn& d) {
  if (d.scenario.problem.packed || queries_travel(d.scenario)) return;
  const auto twice = changed_by(d, [](Scenario& s) {
    set_lengths(s.problem, std::vector<std::int64_t>(2 * s.problem.lengths.size(), s.problem.sequence));
  });
  if (!twice) return;
  const Priced half = priced(d.scenario, *d.machine), whole = priced(*twice, *d.machine);
  rules.compare("batch x 2", d, whole, half, *d.machine);
  if (half.ranks[0].size() != whole.ranks[0].size() || taken(half) != taken(whole)) return;
  for (std::size_t i = 0; i < half.ranks[0].size(); ++i) {
    const PricedKernel &h = half.ranks[0][i], &w = whole.ranks[0][i];
    // A ring whose rows travel in parts cuts them at sequences: half of three are two and one.
    if (!has_square_points(h.op->kind) || w.op->flops != 2 * h.op->flops) continue;
    const double two_s = 2 * h.cost.seconds;
    const double apart = h.tiles_s > 0 ? 1 - ratio_of_points : 1 / batch_over_parts(d.machine->hardware);
    const double by_tiles = h.tiles_s > 0 ? std::min(1.0, 2 * h.tiles_s / w.tiles_s) : 1;
    rules.need("two halves", d, two_s, w.cost.seconds * by_tiles * apart);
    const int longest = d.scenario.problem.attention == Attention::dynamic_mask ? 4 : 2;
    const double wave_s = h.cost.seconds * std::min(1.0, 1.0 * longest / h.cost.waves);
    rules.need("no more than a launch and a wave more", d,
               w.cost.seconds / (h.tiles_s > 0 ? apart : 1) + d.machine->hardware.gpu.least_kernel_s + wave_s,
               two_s);
  }
}

// Fewer key heads are fewer bytes. Tiles of keys of the backward are one for each of them (key_tile_heads()),
// where gradients are not summed in fp32: fewer of them may take longer, which is the kernel's. So only the
// forward is compared, and of the backward a library's, whose tables know nothing of key heads. With fewer
// key heads than ranks these are sent to several, which is more launches.
void fewer_key_heads(Rules& rules, const Drawn& d) {
  const Problem& p = d.scenario.problem;
  const bool library = p.attention == Attention::softmax && !d.machine->hardware.kernels_of.empty();
  if (p.attention == Attention::linear || (p.has_backward() && !library)) return;
  if (p.kv_heads < 2 * d.scenario.parallel.ranks) return;
  const auto fewer = changed_by(d, [](Scenario& s) { s.problem.kv_heads /= 2; });
  if (!fewer) return;
  const Priced all = priced(d.scenario, *d.machine), half = priced(*fewer, *d.machine);
  rules.compare("half the key heads", d, all, half, *d.machine);
}

// Rounding is a launch of its own, of 2 us or more: where little is sent that is not won back. Of everything
// else there is no more.
void narrow_wire(Rules& rules, const Drawn& d) {
  for (const char* key : {"gradient_wire_dtype", "state_wire_dtype"}) {
    if (d.scenario.schedule.find(key) == nullptr) continue;
    const auto wide = changed_by(d, [&](Scenario& s) { s.schedule.set(key, std::string("fp32")); });
    const auto narrow = changed_by(d, [&](Scenario& s) { s.schedule.set(key, std::string("nominal")); });
    if (!wide || !narrow) continue;
    const Priced a = priced(*wide, *d.machine), b = priced(*narrow, *d.machine);
    const std::string rule = std::string(key) + " nominal" + (a.ranks.size() == 1 ? ", one rank" : "");
    const double all_s = a.kernels_s(), without_casts_s = b.kernels_s(false, false);
    const bool grouped = d.scenario.problem.heads > d.scenario.problem.kv_heads;
    if (all_s < without_casts_s && grouped && a.ranks.size() > 1)
      rules.note(rule, Reason::key_heads, d, all_s, without_casts_s);
    else if (all_s < without_casts_s && queries_travel(d.scenario))
      rules.note(rule, Reason::other_kernel, d, all_s, without_casts_s);
    else
      rules.need(rule, d, all_s, without_casts_s);
  }
}

void document_order(Rules& rules, const Drawn& d) {
  if (!d.scenario.problem.packed || d.scenario.parallel.world() > 1) return;
  std::vector<std::int64_t> lengths = d.scenario.problem.lengths;
  std::sort(lengths.begin(), lengths.end());
  for (const bool ascending : {true, false}) {
    if (!ascending) std::reverse(lengths.begin(), lengths.end());
    const auto ordered = changed_by(d, [&](Scenario& s) { set_lengths(s.problem, lengths); });
    rules.compare("documents in another order", d, *ordered, d.scenario);
  }
}

void better_hardware(Rules& rules, const Drawn& d, Random& random) {
  const Hardware& hardware = d.machine->hardware;
  const auto twice = [](double value) { return std::to_string(2 * value); };
  HardwareOverrides changes{{"gpu.copy_bytes_s", twice(hardware.gpu.copy_bytes_s)},
                            {"node.link_bytes_s", twice(hardware.node.link_bytes_s)},
                            {"host.kernel_launch_s", std::to_string(hardware.host.kernel_launch_s / 2)},
                            {"host.copy_launch_s", std::to_string(hardware.host.copy_launch_s / 2)},
                            {"host.launch_latency_s", std::to_string(hardware.host.launch_latency_s / 2)}};
  if (!hardware.network.fabric.empty())
    changes.emplace_back("network.nic_bytes_s", twice(hardware.network.nic_bytes_s));
  const auto& change = one_of(random, changes);
  const Machine better = changed_machine(*d.machine, {change});
  rules.compare("better " + change.first, d, priced(d.scenario, *d.machine), priced(d.scenario, better),
                better);
}

constexpr int draws = 900;

void hold(const std::map<std::string, Tally>& tallies) {
  int pairs = 0, broken = 0, explained = 0, few_queries = 0;
  for (const auto& [rule, tally] : tallies) {
    std::string line = std::to_string(tally.asked) + " asked, " + std::to_string(tally.broken) + " broken";
    for (const auto& [reason, count] : tally.explained) {
      line += ", " + std::to_string(count) + " " + reason_names[static_cast<std::size_t>(reason)];
      (reason == Reason::few_queries ? few_queries : explained) += count;
    }
    MESSAGE(rule << ": " << line);
    CAPTURE(rule);
    if (tally.facts) CHECK(tally.broken == 0);
    if (!tally.facts) pairs += tally.asked, broken += tally.broken;
  }
  MESSAGE(pairs << " pairs, " << broken << " broken, " << explained << " for a reason");
  CHECK(broken <= 0.003 * pairs);
  CHECK(explained <= 0.07 * pairs);
  CHECK(few_queries <= 0.01 * pairs);
}

void draw_and_compare(int count, std::uint64_t seed) {
  Rules rules;
  Random random(seed);
  for (int n = 0; n < count; ++n) {
    const Drawn d = draw(random, 0, 3) == 0 ? draw_one_rank(random) : draw_scenario(random);
    INFO(options_of(d));
    hold_to_machine(rules, d);
    more_work(rules, d);
    halves(rules, d);
    fewer_key_heads(rules, d);
    narrow_wire(rules, d);
    document_order(rules, d);
    better_hardware(rules, d, random);
  }
  hold(rules.tallies);
}

}  // namespace

TEST_CASE("long: rules of drawn pairs") {
  draw_and_compare(draws, 20261129);
}

TEST_CASE("nightly: rules of twenty times as many pairs, of another seed") {
  draw_and_compare(20 * draws, 20261130);
}
