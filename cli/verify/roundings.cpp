// Roundings to nominal, counted along the plan; see roundings.hpp.
#include "cli/verify/roundings.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "cli/verify/state_casts.hpp"

namespace cplab {

namespace {

// Follows the tensors of one rank; `family[buffer]` says which result a buffer holds.
class RoundingCounter {
 public:
  explicit RoundingCounter(const RankPlan& rank) : rank_(rank) {
    family_.assign(rank.buffers.size(), none);
    for (const Operation& op : rank_.operations) spread(op);
    // Again: in a ring what a buffer holds is known only after operations that precede its first use.
    for (const Operation& op : rank_.operations) spread(op);
    for (const Operation& op : rank_.operations) count(op);
  }

  Roundings result(std::string_view output, std::uint8_t family) const {
    const auto found = std::find_if(rank_.buffers.begin(), rank_.buffers.end(),
                                    [&](const Buffer& b) { return b.name == output; });
    if (found == rank_.buffers.end()) return {};
    return result(static_cast<double>(found->rows * found->heads * found->width), family);
  }
  Roundings result(double elements, std::uint8_t family) const {
    Roundings r = sums_[family];
    r.running = elements > 0 ? r.running / elements : 0;
    r.casts = elements > 0 ? r.casts / elements : 0;
    return r;
  }

  static constexpr std::uint8_t none = 0, out = 1, dq = 2, dkv = 3, dlatent = 4;

 private:
  const View& view(const Access& access) const { return rank_.views[access.view]; }
  bool is_nominal(const View& v) const { return rank_.buffers[v.buffer].role == Role::nominal; }

  void join(const View& v, std::uint8_t family) {
    if (family != none && family_[v.buffer] == none) family_[v.buffer] = family;
  }

  // Convolutions are beyond the results that are counted: what they make of gradients is rounded once, which
  // cli/verify/convolved_inputs.hpp knows.
  void spread(const Operation& op) {
    if (is_convolution(op.kind)) return;
    for (const Access& access : rank_.writes(op)) {
      if (access.operand == Operand::out) join(view(access), out);
      if (access.operand == Operand::dq || access.operand == Operand::rounded_dq) join(view(access), dq);
      if (access.operand == Operand::dk || access.operand == Operand::dv ||
          access.operand == Operand::rounded_dk || access.operand == Operand::rounded_dv)
        join(view(access), dkv);
      if (access.operand == Operand::dlatent || access.operand == Operand::drope_key)
        join(view(access), dlatent);
      const Access* from = rank_.find(op, Operand::from);
      if (access.operand == Operand::into && from && !is_communication(op.kind))
        join(view(access), family_[view(*from).buffer]);
    }
    if (!is_communication(op.kind)) return;
    // All ranks do the same, so what is received is the same result as what is sent at that place of the
    // list.
    std::vector<std::uint8_t> sent;
    std::vector<const View*> received;
    for (const Part& part : rank_.parts_of(op)) {
      const View& v = rank_.views[part.view];
      part.send ? sent.push_back(family_[v.buffer]) : received.push_back(&v);
    }
    for (std::size_t i = 0; i < std::min(sent.size(), received.size()); ++i) join(*received[i], sent[i]);
  }

  void count(const Operation& op) {
    for (const Part& part : rank_.parts_of(op)) {
      if (op.kind == OpKind::reduce_scatter && !part.send) add_running(rank_.views[part.view]);
    }
    for (const Access& access : rank_.writes(op)) {
      const View& v = view(access);
      const std::uint8_t family = family_[v.buffer];
      if (family == none) continue;
      if (access.operand == Operand::rounded_dq) {  // of the sum, as by a cast
        sums_[family].casts += static_cast<double>(element_count(rank_, v));
        continue;
      }
      const bool tile = op.kind == OpKind::attend || op.kind == OpKind::attend_backward ||
                        op.kind == OpKind::project_backward || is_linear(op.kind);
      // dk and dv are one tile, rounded or not.
      const bool again = access.operand == Operand::dv || access.operand == Operand::drope_key ||
                         access.operand == Operand::rounded_dk || access.operand == Operand::rounded_dv;
      if (tile && !again) sums_[family].tile_count += 1;
      if (!is_nominal(v)) continue;
      if (op.chunk_work == ChunkWork::sliced) sums_[family].sliced = true;
      if (access.mode != WriteMode::store || op.kind == OpKind::merge) {
        add_running(v);
      } else if (tile) {
        sums_[family].tiles = true;
      } else if (op.kind == OpKind::cast) {
        sums_[family].casts += static_cast<double>(element_count(rank_, v));
      }
    }
  }

  void add_running(const View& v) {
    if (!is_nominal(v)) return;
    sums_[family_[v.buffer]].running += static_cast<double>(element_count(rank_, v));
    sums_[family_[v.buffer]].operations += 1;
  }

  const RankPlan& rank_;
  std::vector<std::uint8_t> family_;  // by buffer
  std::array<Roundings, 5> sums_;
};

Roundings larger(const Roundings& a, const Roundings& b) {
  return {a.tiles || b.tiles,         std::max(a.running, b.running),
          std::max(a.casts, b.casts), std::max(a.tile_count, b.tile_count),
          a.sliced || b.sliced,       std::max(a.operations, b.operations)};
}

}  // namespace

void add_declared(const DeclaredSums& sums, PlanRoundings& roundings) {
  const auto add = [](double additions, Roundings& to) {
    to.running += additions;
    to.operations += additions;
  };
  add(sums.out, roundings.out);
  add(sums.dq, roundings.dq);
  add(sums.dkv, roundings.dkv);
}

PlanRoundings count_roundings(const Plan& plan) {
  PlanRoundings total;
  if (plan.scenario.problem.dtype == DType::fp64) return total;
  for (const RankPlan& rank : plan.ranks) {
    const RoundingCounter counter(rank);
    total.out = larger(total.out, counter.result("out", RoundingCounter::out));
    total.dq = larger(total.dq, counter.result("dq", RoundingCounter::dq));
    const Problem& p = plan.scenario.problem;
    if (p.has_latent()) {
      const auto latents = std::ranges::find(rank.buffers, "latent", &Buffer::name);
      if (latents == rank.buffers.end()) continue;
      const std::int64_t row = p.heads * (p.head_size + p.value_size);
      total.dkv =
          larger(total.dkv, counter.result(static_cast<double>(latents->rows * row), RoundingCounter::dkv));
      total.dlatent = larger(total.dlatent, counter.result("dlatent", RoundingCounter::dlatent));
    } else {
      total.dkv = larger(total.dkv, counter.result("dkv", RoundingCounter::dkv));
    }
  }
  if (plan.scenario.problem.attention == Attention::linear) total.state_casts = count_state_casts(plan);
  return total;
}

}  // namespace cplab
