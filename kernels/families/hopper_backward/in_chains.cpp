// One thread block takes all tiles of keys that add to the same rows of dq (chains.hpp): for the shortest
// sequences. It stores the first piece of a cell, adds the others, and rounds dq itself.
#include <numeric>

#include "kernels/families/call_tables.hpp"
#include "kernels/families/compiled_head_sizes.hpp"
#include "kernels/families/hopper_backward/chains.hpp"
#include "kernels/families/hopper_backward/family.hpp"
#include "kernels/families/hopper_backward/shape.hpp"
#include "kernels/families/hopper_backward/turns.hpp"
#include "kernels/families/names.hpp"

namespace cplab::kernels::cuda {

std::string hopper_backward_chains_name(DType dtype, int head_size) {
  return "attend_backward hopper chains" + of_sizes(dtype, head_size);
}

namespace {

// Every tile reads the rows of Q, dO and dq that it walks over, and writes dq.
double memory_of_chains_us(const ChosenBackward& chosen, const AttendBackward& call, const Rates& rates) {
  double rows = 0;
  for (const std::int32_t pieces : chosen.chains.pieces)
    rows += pieces * dq_cell_rows(chosen.variant->head_size);
  const auto element = static_cast<double>(2 * bytes_of(call.q.dtype) + 2 * bytes_of(call.dq.dtype));
  return rows * static_cast<double>(call.q.heads * call.q.width) * element /
         rates[Rate::hopper_chains_memory_bytes_s] / us;
}

class InChains final : public HopperBackward {
 public:
  InChains() : HopperBackward(DqSum::in_chains) {}

  std::vector<AttendBackwardVariant> variants(const KernelBuild& build) const override {
    std::vector<AttendBackwardVariant> all;
    if (!build.hopper) return all;
    for (const DType dtype : {DType::bf16, DType::fp16})
      all.push_back(variant(hopper_backward_chains_name(dtype, 64), dtype, 64, hopper_backward_tile_rows));
    return all;
  }

  Unmet unmet(const AttendBackwardVariant& variant, const AttendBackward& call) const override {
    if (const Unmet unmet = hopper::unmet_backward_chains_hopper(call, variant.dtype, variant.head_size))
      return unmet;
    if (chain_tiles(call, variant.tile_rows)) return {};
    return Misfit{"", "blocks of queries are not all whole, or sequences are too long"};
  }

  ChosenBackward tiles(const AttendBackwardVariant& variant, const AttendBackward& call,
                       const VariantOptions&) const override {
    ChainTiles made = chain_tiles(call, variant.tile_rows).value();
    return {&variant, {}, std::move(made.by_k), row_spaces(call), std::move(made.chains)};
  }

  void order(ChosenBackward&, const AttendBackward&, const VariantOptions&) const override {}

  void set_parameters(AttendBackwardParams& params, CallTables& tables, const ChosenBackward& chosen,
                      const AttendBackward& launched) const override {
    params.chains.count = static_cast<std::int32_t>(chosen.chains.chains.size());
    tables.point<TileChain>(params.chains.chains, chosen.chains.chains);
    tables.point<std::int32_t>(params.chains.pieces, chosen.chains.pieces);
    if (launched.rounded_dq) tables.set(params.rounded_dq, *launched.rounded_dq, &chosen.spaces->q);
  }

 protected:
  double tile_us(const ChosenBackward&, const AttendBackward&, const Rates& rates) const override {
    return rates[Rate::hopper_chains_d64_us];
  }

  double all_tiles_us(const ChosenBackward& chosen, const AttendBackward& call, const TileExtras& extras,
                      const VariantOptions& options) const override {
    const Rates& rates = options.speeds();
    const std::vector<double> of_tiles =
        tiles_us(chosen.by_k, same_costs(rates, tile_us(chosen, call, rates)), true, extras);
    std::vector<double> times;
    for (const TileChain& chain : chosen.chains.chains)
      times.push_back(
          std::accumulate(of_tiles.begin() + chain.first_tile, of_tiles.begin() + chain.stop_tile, 0.0));
    const TileWalk walk = walk_of_keys(key_tile_heads(call, *chosen.variant), options.sms);
    return std::max(makespan(times, walk), memory_of_chains_us(chosen, call, rates)) +
           rates[Rate::hopper_chains_end_us];
  }

  TileExtras extras(const ChosenBackward& chosen, const AttendBackward& call,
                    const Rates& rates) const override {
    TileExtras extras = HopperBackward::extras(chosen, call, rates);
    extras.beyond.reset();  // fitted with that of all tiles
    return extras;
  }
};

}  // namespace

const AttendBackwardFamily& hopper_backward_in_chains() {
  static const InChains family;
  return family;
}

}  // namespace cplab::kernels::cuda
