// Rules that no machine breaks, over drawn pairs of scenarios.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>

#include "sim/attention_variant.hpp"
#include "tests/properties/drawn_scenarios.hpp"

using namespace cplab;
using namespace cplab::testing;

namespace {

constexpr double eps = 1e-9;

struct Count { int pairs = 0, broken = 0; double worst = 0; };
std::map<std::string, Count> counts;
bool listing = std::getenv("CPLAB_RULES_LIST") != nullptr;

// a must not be below b: relative shortfall.
void need(const std::string& rule, double a, double b, const std::function<std::string()>& text, double tol = eps) {
  Count& c = counts[rule];
  ++c.pairs;
  if (a >= b * (1 - tol)) return;
  ++c.broken;
  c.worst = std::max(c.worst, 1 - a / b);
  if (listing) std::cout << rule << " | short " << 100 * (1 - a / b) << " % | " << a * 1e6 << " < " << b * 1e6 << " us | " << text() << "\n";
}

std::string first_ops(const Priced& p) {
  std::string text;
  int n = 0;
  for (std::size_t i = 0; i < p.kernels[0].size() && n < 6; ++i) {
    if (p.kernels[0][i].seconds <= 0) continue;
    ++n;
    text += (p.names[0][i].empty() ? std::string(name(p.plan.ranks[0].operations[i].kind)) : "[" + std::string(p.names[0][i]) + " M " + std::to_string(p.tiles[0][i] * 1e6) + "]") + " " + std::to_string(p.kernels[0][i].seconds * 1e6) + " ";
  }
  return text;
}

struct Pair {
  const char* rule;
  Scenario longer;  // must not be faster than the drawn one
};

void compare(const std::string& rule, const Drawn& d, const Scenario& slow, const Scenario& fast, const Machine* fast_machine = nullptr) {
  const Machine& machine = *d.machine;
  const Machine& other = fast_machine ? *fast_machine : machine;
  const Priced a = priced(slow, machine), b = priced(fast, other);
  const auto text = [&] { return options_of({slow, &machine}) + " || " + options_of({fast, &other}) + " tiles ratio " + std::to_string(a.longest_tiles_s() / b.longest_tiles_s()) + " :: " + first_ops(a) + " :: " + first_ops(b); };
  need(rule + " kernels", a.longest_s(), b.longest_s(), text);
  need(rule + " by tiles", a.longest_s() / b.longest_s(), std::min(1.0, a.longest_tiles_s() / b.longest_tiles_s()), text);
  need(rule + " time", simulated_s(a, machine), simulated_s(b, other), text);
}

}  // namespace

TEST_CASE("rules") {
  const char* n_text = std::getenv("CPLAB_RULES_N");
  const int N = n_text ? std::atoi(n_text) : 300;
  const char* seed_text = std::getenv("CPLAB_RULES_SEED");
  Random random(seed_text ? std::atoi(seed_text) : 1);
  std::map<std::string, int> families;
  for (int n = 0; n < N; ++n) {
    const Drawn d = draw(random, 0, 3) == 0 ? draw_one_rank(random) : draw_scenario(random);
    ++families[d.scenario.algorithm];
    const Problem& p = d.scenario.problem;
    const auto attempt = [&](const std::string& rule, const std::function<void(Scenario&)>& change, bool changed_is_slow) {
      Scenario other = d.scenario;
      change(other);
      try {
        other = changed(other);
      } catch (const ScenarioError&) {
        ++counts["refused " + rule].pairs;
        return;
      }
      try {
        compare(rule, d, changed_is_slow ? other : d.scenario, changed_is_slow ? d.scenario : other);
      } catch (const std::exception& e) {
        std::cout << "threw " << e.what() << " " << options_of(d) << "\n";
      }
    };
    const bool softmax = p.attention != Attention::linear;
    {
      Priced self = priced(d.scenario, *d.machine);
      const double t = simulated_s(self, *d.machine);
      const auto text = [&] { return options_of(d) + " :: " + first_ops(self); };
      const double link = d.machine->hardware.node.link_bytes_s;
      double most = 0, sent = 0;
      for (std::size_t r = 0; r < self.kernels.size(); ++r) {
        std::map<int, double> lanes;
        double bytes = 0;
        const RankPlan& rank = self.plan.ranks[r];
        for (std::size_t i = 0; i < self.kernels[r].size(); ++i) {
          const Operation& op = rank.operations[i];
          lanes[static_cast<int>(op.lane.kind) * 256 + op.lane.index] += self.kernels[r][i].seconds;
          if (is_communication(op.kind)) { bytes += static_cast<double>(op.bytes); continue; }
          if (op.kind == OpKind::host_sync) continue;
          const double s = self.kernels[r][i].seconds;
          need("launch floor", s, d.machine->hardware.gpu.least_kernel_s, text);
          double peak = 0;
          for (const auto& [of, flops] : d.machine->hardware.gpu.peak_flops) if (of == name(p.dtype)) peak = flops;
          if (has_square_points(op.kind) && peak > 0) need("peak", s, op.flops / peak, [&]{ return std::string(name(op.kind)) + " " + text(); });
        }
        for (const auto& [lane, s] : lanes) most = std::max(most, s);
        sent = std::max(sent, bytes);
      }
      need("time above compute", t, most, text);
      need("time above bytes", t, sent / link, text);
      if (d.scenario.parallel.world() == 1) {
        // one launch, then kernels back to back
        const HostSpec& host = d.machine->hardware.host;
        const double launch = host.kernel_launch_s + host.launch_latency_s;
        need("P = 1 not below kernels", t, self.longest_s() + launch, text);
        need("P = 1 not above kernels", self.longest_s() + launch * static_cast<double>(self.kernels[0].size()), t, text);
      }
    }
    attempt("S + 1", [](Scenario& s) {
      std::vector<std::int64_t> lengths = s.problem.lengths;
      for (auto& l : lengths) ++l;
      set_lengths(s.problem, lengths);
    }, true);
    attempt("S + 128 P", [](Scenario& s) {
      std::vector<std::int64_t> lengths = s.problem.lengths;
      for (auto& l : lengths) l += 128 * s.parallel.ranks;
      set_lengths(s.problem, lengths);
    }, true);
    if (softmax && p.causal && p.window.left < 0) attempt("full >= causal", [](Scenario& s) { s.problem.causal = false; }, true);
    if (softmax && p.window.left >= 0) {
      attempt("window <= none", [](Scenario& s) { s.problem.window = {}; }, true);
      Scenario none = d.scenario;
      none.problem.window = {};
      const std::int64_t with = priced(d.scenario, *d.machine).peak_bytes, without = priced(changed(none), *d.machine).peak_bytes;
      need("window memory", static_cast<double>(without), static_cast<double>(with), [&] { return options_of(d); });
    }
    if (!p.packed) attempt("batch x 2", [](Scenario& s) {
      set_lengths(s.problem, std::vector<std::int64_t>(2 * s.problem.lengths.size(), s.problem.sequence));
    }, true);
    if (!p.packed) {
      Scenario twice = d.scenario;
      set_lengths(twice.problem, std::vector<std::int64_t>(2 * p.lengths.size(), p.sequence));
      twice = changed(twice);
      const Priced half = priced(d.scenario, *d.machine), whole = priced(twice, *d.machine);
      const auto text = [&] { return options_of(d) + " :: " + first_ops(half) + " :: " + first_ops(whole); };
      need("two halves >= whole kernels", 2 * half.longest_s(), whole.longest_s(), text);
      need("two halves >= whole time", 2 * simulated_s(half, *d.machine), simulated_s(whole, *d.machine), text);
      // Each kernel: no more than the whole, one launch and one wave of tiles.
      for (std::size_t i = 0; half.kernels[0].size() == whole.kernels[0].size() && i < half.kernels[0].size(); ++i) {
        const KernelCost &h = half.kernels[0][i], &w = whole.kernels[0][i];
        if (h.seconds <= 0) continue;
        const double wave = w.seconds / w.waves;
        need("whole + launch + wave >= two halves", w.seconds + d.machine->hardware.gpu.least_kernel_s + wave, 2 * h.seconds, [&]{ return std::string(name(half.plan.ranks[0].operations[i].kind)) + " waves " + std::to_string(h.waves) + "/" + std::to_string(w.waves) + " " + text(); });
      }
    }
    if (softmax && p.kv_heads > 1) {
      attempt(p.direction == Direction::forward ? "half the key heads forward" : "half the key heads both", [](Scenario& s) { s.problem.kv_heads /= 2; }, false);
    }
    for (const char* key : {"gradient_wire_dtype", "state_wire_dtype"}) {
      if (!d.scenario.schedule.find(key)) continue;
      Scenario fp32 = d.scenario, nominal = d.scenario;
      fp32.schedule.set(key, std::string("fp32"));
      nominal.schedule.set(key, std::string("nominal"));
      try { compare(std::string(key) + (d.scenario.parallel.ranks == 1 ? " P=1" : ""), d, changed(fp32), changed(nominal)); }
      catch (const ScenarioError&) {}
    }
    if (p.packed && d.scenario.placement != "hybrid") {
      for (bool up : {true, false}) {
        const std::string rule = std::string("document order ") + (d.scenario.parallel.ranks == 1 ? "P=1" : "P>1");
        Scenario s = d.scenario;
        auto lengths = s.problem.lengths;
        std::sort(lengths.begin(), lengths.end());
        if (up) std::reverse(lengths.begin(), lengths.end());
        set_lengths(s.problem, lengths);
        compare(rule, d, s, d.scenario);
      }
    }
    {
      Hardware faster = d.machine->hardware;
      const std::int64_t what = draw(random, 0, 5);
      const char* names[] = {"copy x 2", "link x 2", "messages / 2", "tables / 2", "host / 2", "sms x 2"};
      if (what == 0) faster.gpu.copy_bytes_s *= 2;
      if (what == 1) faster.node.link_bytes_s *= 2;
      if (what == 2) for (auto& m : faster.messages) { for (auto& q : m.points) q.seconds /= 2; m.link_bytes_s = 2 * (m.link_bytes_s > 0 ? m.link_bytes_s : faster.link_bytes_s(m.path)); }
      if (what == 2) faster.node.link_bytes_s *= 2, faster.network.nic_bytes_s *= 2;
      if (what == 3) for (auto& k : faster.kernels) { for (auto& q : k.points) q.seconds /= 2; for (auto& q : k.curve) q.seconds /= 2; }
      if (what == 3) for (auto& [of, flops] : faster.gpu.peak_flops) flops *= 2;
      if (what == 4) { HostSpec& h = faster.host; for (double* t : {&h.kernel_launch_s, &h.communication_launch_s, &h.copy_launch_s, &h.launch_latency_s, &h.dependency_s, &h.sync_s}) *t /= 2; }
      if (what == 5) faster.gpu.sms *= 2;
      try {
        const Machine other(d.machine->name, faster);
        compare(std::string("hardware ") + names[what], d, d.scenario, d.scenario, &other);
      } catch (const std::exception& e) { std::cout << "hw threw " << names[what] << " " << e.what() << "\n"; }
    }
  }
  int pairs = 0, broken = 0;
  for (const auto& [rule, c] : counts) {
    std::printf("%-45s %6d pairs %5d broken worst %.2f %%\n", rule.c_str(), c.pairs, c.broken, 100 * c.worst);
    if (rule.find("refused") == std::string::npos) pairs += c.pairs, broken += c.broken;
  }
  std::printf("%d pairs %d broken %.2f %%\n", pairs, broken, 100.0 * broken / pairs);
  for (const auto& [family, c] : families) std::printf("%s %d  ", family.c_str(), c);
  std::printf("\n");
}
