// Kernels that take any head size and dtype, on ordinary cores.
#include <algorithm>
#include <utility>

#include "kernels/call_checks.hpp"
#include "kernels/families/family.hpp"
#include "kernels/families/general/costs.hpp"
#include "kernels/families/tile_seconds.hpp"
#include "kernels/tiles/block_walks.hpp"

namespace cplab::kernels::cuda {
namespace {

// Thread blocks of a multiprocessor: as many as the compiler's registers leave room for
// (scenarios/compiled/full.json).
constexpr std::int64_t forward_blocks = 3, backward_blocks = 4;

template <class Call>
Unmet unmet_of(const Call& call, DType accumulator) {
  const bool has_fp64 = any_fp64({&call.q, &call.k, &call.v});
  if (has_fp64 == (accumulator == DType::fp64)) return {};
  return Misfit{"", accumulator == DType::fp64 ? "nothing is fp64" : "an operand is fp64"};
}

// One for sums in fp32, and in a full build one for sums in fp64.
template <class Variant, class Family>
std::vector<Variant> variants_of(const Family* family, std::string (*name)(DType), const KernelBuild& build) {
  std::vector<Variant> all;
  for (const DType accumulator : {DType::fp32, DType::fp64})
    if (accumulator == DType::fp32 || build.full)
      all.push_back({.name = name(accumulator),
                     .family = family,
                     .rank = Rank::general,
                     .dtype = accumulator,
                     .tile_rows = general_tile_rows});
  return all;
}

void multiply(std::vector<double>& times, double cost) {
  for (double& time : times) time *= cost;
}

class GeneralForward final : public AttendFamily {
 public:
  std::string_view name() const override { return "general"; }

  std::vector<AttendVariant> variants(const KernelBuild& build) const override {
    return variants_of<AttendVariant, AttendFamily>(this, general_forward_name, build);
  }

  std::vector<KernelEntry> entries(const AttendVariant& variant) const override {
    KernelEntry entry = entry_of(variant, "attend", name());
    entry.threads = 128;
    entry.tile_rows = variant.tile_rows;
    entry.tile_columns = 32;
    entry.stages = 1;
    return {entry};
  }

  Unmet unmet(const AttendVariant& variant, const Attend& call) const override {
    return unmet_of(call, variant.dtype);
  }

  ChosenForward tiles(const AttendVariant& variant, const Attend& call,
                      const VariantOptions&) const override {
    return even_tiles(variant, call);
  }

  PredictedTime time(const ChosenForward& chosen, const Attend& call,
                     const VariantOptions& options) const override {
    const Rates& rates = options.speeds();
    std::vector<double> times = walked_blocks(chosen.work, false, general_tile_rows);
    multiply(times, general_costs(head_sizes(call.q, call.v), call.q.dtype, rates).forward);
    const double tiles = in_order_us(std::move(times), call.q.heads, forward_blocks, options.sms);
    return {us * (rates[Rate::launch_us] + tiles), us * (rates[Rate::launch_us] + memory_us(call, rates))};
  }

  double flop_us(const AttendVariant& variant, const Rates& rates) const override {
    return general_flop_us(true, variant.sizes(), variant.dtype, rates);
  }
};

class GeneralBackward final : public AttendBackwardFamily {
 public:
  std::string_view name() const override { return "general"; }

  std::vector<AttendBackwardVariant> variants(const KernelBuild& build) const override {
    return variants_of<AttendBackwardVariant, AttendBackwardFamily>(this, general_backward_name, build);
  }

  std::vector<KernelEntry> entries(const AttendBackwardVariant& variant) const override {
    KernelEntry dkv = entry_of(variant, "attend_backward", name());
    dkv.threads = 128;
    dkv.stages = 1;
    KernelEntry dq = dkv;
    dkv.part = "dk, dv";
    dkv.tile_rows = 32;
    dkv.tile_columns = variant.tile_rows;
    dq.part = "dq";
    dq.tile_rows = variant.tile_rows;
    dq.tile_columns = 32;
    return {dkv, dq};
  }

  Unmet unmet(const AttendBackwardVariant& variant, const AttendBackward& call) const override {
    return unmet_of(call, variant.dtype);
  }

  ChosenBackward tiles(const AttendBackwardVariant& variant, const AttendBackward& call,
                       const VariantOptions& options) const override {
    const CallRows rows(call, false);
    return backward_cut(variant, rows, key_problem(rows, call), call, options);
  }

  PredictedTime time(const ChosenBackward& chosen, const AttendBackward& asked,
                     const VariantOptions& options) const override {
    const Rates& rates = options.speeds();
    const AttendBackward call = as_launched(asked, chosen);
    const double tiles = rates[Rate::launch_us] + both_launches_us(chosen, call, options) +
                         casts_us(chosen, asked, call, rates);
    const double memory = memory_us(call, rates);
    return {us * (rates[Rate::launch_us] + tiles), us * (rates[Rate::launch_us] + memory)};
  }

  double flop_us(const AttendBackwardVariant& variant, const Rates& rates) const override {
    return general_flop_us(false, variant.sizes(), variant.dtype, rates);
  }

 private:
  // Thread blocks are taken in the order of the lists by multiprocessors that hold several at once.
  static double both_launches_us(const ChosenBackward& chosen, const AttendBackward& call,
                                 const VariantOptions& options) {
    const GeneralCosts costs = general_costs(head_sizes(call.q, call.v), call.q.dtype, options.speeds());
    const auto group = static_cast<double>(call.q.heads / std::max<std::int64_t>(call.k.heads, 1));
    std::vector<double> of_queries = walked_blocks(chosen.by_q, false, general_tile_rows), of_keys;
    multiply(of_queries, costs.dq);
    const std::vector<double> tiles = walked_blocks(chosen.by_k, true, general_tile_rows);
    for (int pass = 0; pass < costs.key_passes + costs.value_passes; ++pass)
      for (const double time : tiles)
        of_keys.push_back(time * group * (pass < costs.key_passes ? costs.dk : costs.dv));
    return in_order_us(std::move(of_queries), call.q.heads * costs.key_passes, backward_blocks, options.sms) +
           in_order_us(std::move(of_keys), call.k.heads, backward_blocks, options.sms);
  }
};

}  // namespace

void add_general(Families& families) {
  static const GeneralForward forward;
  static const GeneralBackward backward;
  families.forward.push_back(&forward);
  families.backward.push_back(&backward);
}

}  // namespace cplab::kernels::cuda
