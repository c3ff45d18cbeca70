// Costs of dynamic masks; see masked_time.hpp.
#include "kernels/families/masked/costs.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/families/family.hpp"
#include "kernels/families/mma/tiles.hpp"
#include "kernels/tiles/block_walks.hpp"

namespace cplab::kernels::cuda {
namespace {

// Thread blocks of a multiprocessor (scenarios/compiled/full.json).
constexpr std::int64_t blocks_at_once = 2;

double forward_us(BiasKind bias, const Rates& rates) {
  switch (bias) {
    case BiasKind::none: return rates[Rate::masked_forward_none_us];
    case BiasKind::keys: return rates[Rate::masked_forward_keys_us];
    case BiasKind::full: break;
  }
  return rates[Rate::masked_forward_full_us];
}

double backward_us(BiasKind bias, const Rates& rates) {
  switch (bias) {
    case BiasKind::none: return rates[Rate::masked_backward_none_us];
    case BiasKind::keys: return rates[Rate::masked_backward_keys_us];
    case BiasKind::full: break;
  }
  return rates[Rate::masked_backward_full_us];
}

// Of the mma kernels, for 128 keys and 64 rows.
double products_us(bool forward, int head_size, const Rates& rates) {
  const HeadSizes sizes{head_size, head_size};
  return mma_flop_us(forward, sizes, rates) * (forward ? forward_flops(sizes) : backward_flops(sizes)) * 128 *
         cell_rows;
}

void multiply(std::vector<double>& times, double cost) {
  for (double& time : times) time *= cost;
}

}  // namespace

BiasKind bias_of(const PairMask& mask) {
  if (!mask.bias) return BiasKind::none;
  return mask.columns.empty() ? BiasKind::keys : BiasKind::full;
}

MaskedCosts masked_costs(int head_size, BiasKind bias, const Rates& rates) {
  const double forward =
      forward_us(bias, rates) + products_us(true, head_size, rates) - products_us(true, 128, rates);
  const double backward =
      backward_us(bias, rates) + products_us(false, head_size, rates) - products_us(false, 128, rates);
  return {.forward = forward, .dkv = backward * 4 / 7, .dq = backward * 3 / 7};  // 4 of 7 products
}

double changed_longer(const MaskedAttend& call, const Rates& rates) {
  return call.mask.softcap > 0 ? rates[Rate::masked_hopper_forward_softcap] : 1;
}
double changed_longer(const MaskedAttendBackward& call, const Rates& rates) {
  return call.mask.softcap > 0 ? rates[Rate::masked_hopper_backward_softcap] : 1;
}

double masked_us(const ChosenMasked& chosen, const MaskedAttend& call, int sms, const Rates& rates) {
  std::vector<double> times = walked_blocks(chosen.work, false, cell_rows);
  multiply(times, masked_costs(static_cast<int>(call.tile.q.width), bias_of(call.mask), rates).forward);
  return rates[Rate::launch_us] + in_order_us(std::move(times), call.tile.q.heads, blocks_at_once, sms);
}

double masked_us(const ChosenMaskedBackward& chosen, const MaskedAttendBackward& call, int sms,
                 const Rates& rates) {
  const AttendBackward& tile = call.tile;
  const MaskedCosts costs = masked_costs(static_cast<int>(tile.q.width), bias_of(call.mask), rates);
  std::vector<double> of_queries = walked_blocks(chosen.by_q, false, cell_rows),
                      of_keys = walked_blocks(chosen.by_k, true, cell_rows);
  multiply(of_queries, costs.dq);
  multiply(of_keys, costs.dkv * static_cast<double>(tile.q.heads) /
                        static_cast<double>(std::max<std::int64_t>(tile.k.heads, 1)));
  return 2 * rates[Rate::launch_us] + in_order_us(std::move(of_queries), tile.q.heads, blocks_at_once, sms) +
         in_order_us(std::move(of_keys), tile.k.heads, blocks_at_once, sms);
}

double flop_us(const MaskedVariant& variant, BiasKind bias, const Rates& rates) {
  if (variant.plain != nullptr) return variant.plain->family->flop_us(*variant.plain, rates);
  return masked_costs(variant.head_size, bias, rates).forward / (128.0 * cell_rows) /
         forward_flops(variant.sizes());
}
double flop_us(const MaskedBackwardVariant& variant, BiasKind bias, const Rates& rates) {
  if (variant.plain != nullptr) return variant.plain->family->flop_us(*variant.plain, rates);
  const MaskedCosts costs = masked_costs(variant.head_size, bias, rates);
  return (costs.dkv + costs.dq) / (128.0 * cell_rows) / backward_flops(variant.sizes());
}

}  // namespace cplab::kernels::cuda
