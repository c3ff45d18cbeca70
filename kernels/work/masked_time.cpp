// Costs of dynamic masks; see masked_time.hpp.
#include "kernels/work/masked_time.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/work/block_walks.hpp"
#include "kernels/work/measured_constants.hpp"

namespace cplab::kernels::cuda {
namespace {

constexpr auto blocks_at_once = static_cast<std::int64_t>(measured("masked_blocks"));

double forward_us(BiasKind bias) {
  switch (bias) {
    case BiasKind::none: return measured("masked_forward_none");
    case BiasKind::keys: return measured("masked_forward_keys");
    case BiasKind::full: break;
  }
  return measured("masked_forward_full");
}

double backward_us(BiasKind bias) {
  switch (bias) {
    case BiasKind::none: return measured("masked_backward_none");
    case BiasKind::keys: return measured("masked_backward_keys");
    case BiasKind::full: break;
  }
  return measured("masked_backward_full");
}

// Of the mma kernels, for 128 keys and 64 rows.
double products_us(bool forward, int head_size) {
  const HeadSizes sizes{head_size, head_size};
  return mma_flop_us(forward, sizes) * (forward ? forward_flops(sizes) : backward_flops(sizes)) * 128 *
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

MaskedCosts masked_costs(int head_size, BiasKind bias) {
  const double forward = forward_us(bias) + products_us(true, head_size) - products_us(true, 128);
  const double backward = backward_us(bias) + products_us(false, head_size) - products_us(false, 128);
  return {.forward = forward, .dkv = backward * 4 / 7, .dq = backward * 3 / 7};  // 4 of 7 products
}

double masked_us(const ChosenMasked& chosen, const MaskedAttend& call, int sms) {
  std::vector<double> times = walked_blocks(chosen.work, false, cell_rows);
  multiply(times, masked_costs(static_cast<int>(call.tile.q.width), bias_of(call.mask)).forward);
  return measured("launch") + in_order_us(std::move(times), call.tile.q.heads, blocks_at_once, sms);
}

double masked_us(const ChosenMaskedBackward& chosen, const MaskedAttendBackward& call, int sms) {
  const AttendBackward& tile = call.tile;
  const MaskedCosts costs = masked_costs(static_cast<int>(tile.q.width), bias_of(call.mask));
  std::vector<double> of_queries = walked_blocks(chosen.by_q, false, cell_rows),
                      of_keys = walked_blocks(chosen.by_k, true, cell_rows);
  multiply(of_queries, costs.dq);
  multiply(of_keys, costs.dkv * static_cast<double>(tile.q.heads) /
                        static_cast<double>(std::max<std::int64_t>(tile.k.heads, 1)));
  return 2 * measured("launch") + in_order_us(std::move(of_queries), tile.q.heads, blocks_at_once, sms) +
         in_order_us(std::move(of_keys), tile.k.heads, blocks_at_once, sms);
}

HeadSizes sizes_of(const MaskedVariant& variant) {
  return {variant.head_size, variant.head_size};
}
HeadSizes sizes_of(const MaskedBackwardVariant& variant) {
  return {variant.head_size, variant.head_size};
}

double flop_us(const MaskedVariant& variant, BiasKind bias) {
  return masked_costs(variant.head_size, bias).forward / (128.0 * cell_rows) /
         forward_flops(sizes_of(variant));
}
double flop_us(const MaskedBackwardVariant& variant, BiasKind bias) {
  const MaskedCosts costs = masked_costs(variant.head_size, bias);
  return (costs.dkv + costs.dq) / (128.0 * cell_rows) / backward_flops(sizes_of(variant));
}

}  // namespace cplab::kernels::cuda
