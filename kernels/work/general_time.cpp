// Costs of the general kernels; see general_time.hpp.
#include "kernels/work/general_time.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/work/block_walks.hpp"
#include "kernels/work/measured_constants.hpp"

namespace cplab::kernels::cuda {
namespace {

double rounded_up(int number, int unit) {
  return static_cast<double>((number + unit - 1) / unit * unit);
}

constexpr double pairs_of_tile = 128 * 128;
// Costs of Hopper's tiles are of a GPU at its highest clock; those of the mma and general kernels are not.
constexpr double under_load = 1.13;

double of_sizes(const HeadSizes& sizes, double at_64, double at_128) {
  return at_64 + (at_128 - at_64) * ((sizes.key + sizes.value) / 2.0 - 64) / 64;
}

HeadSizes head_sizes_of(const View& q, const View& v) {
  return {static_cast<int>(q.width), static_cast<int>(v.width)};
}

}  // namespace

double general_us(const ChosenForward& chosen, const Attend& call, int sms) {
  const HeadSizes sizes = head_sizes_of(call.q, call.v);
  std::vector<double> times = walked_blocks(chosen.work, false, general_tile_rows);
  for (double& time : times) time *= general_costs(sizes.key, sizes.value, call.q.dtype).forward;
  return in_order_us(std::move(times), call.q.heads,
                     static_cast<std::int64_t>(measured("general_forward_blocks")), sms);
}

double general_us(const ChosenBackward& chosen, const AttendBackward& call, int sms) {
  const HeadSizes sizes = head_sizes_of(call.q, call.v);
  const GeneralCosts costs = general_costs(sizes.key, sizes.value, call.q.dtype);
  constexpr auto blocks = static_cast<std::int64_t>(measured("general_backward_blocks"));
  const auto group = static_cast<double>(call.q.heads / std::max<std::int64_t>(call.k.heads, 1));
  std::vector<double> of_queries = walked_blocks(chosen.by_q, false, general_tile_rows), of_keys;
  for (double& time : of_queries) time *= costs.dq;
  const std::vector<double> tiles = walked_blocks(chosen.by_k, true, general_tile_rows);
  for (int pass = 0; pass < costs.key_passes + costs.value_passes; ++pass)
    for (const double time : tiles)
      of_keys.push_back(time * group * (pass < costs.key_passes ? costs.dk : costs.dv));
  return in_order_us(std::move(of_queries), call.q.heads * costs.key_passes, blocks, sms) +
         in_order_us(std::move(of_keys), call.k.heads, blocks, sms);
}

GeneralCosts general_costs(int key_size, int value_size, DType dtype) {
  const bool wide = dtype == DType::fp64;
  const int columns = wide ? 64 : 128, depth = wide ? 16 : 32;
  const double D = rounded_up(key_size, depth), E = rounded_up(value_size, depth);
  GeneralCosts costs;
  costs.key_passes = (key_size + columns - 1) / columns;
  costs.value_passes = (value_size + columns - 1) / columns;
  const double slower = wide ? 2 : 1;  // half the products a cycle, twice the bytes of shared memory
  const double depth_us = slower * measured("general_backward_depth"),
               rest_us = slower * measured("general_backward_rest");
  costs.forward = costs.value_passes * slower *
                  (measured("general_forward_depth") * D + measured("general_forward_rest"));
  costs.dk = costs.dq = depth_us * (D + E) + rest_us;
  costs.dv = depth_us * D + rest_us;
  return costs;
}

double forward_flops(const HeadSizes& sizes) {
  return 2.0 * (sizes.key + sizes.value);
}
double backward_flops(const HeadSizes& sizes) {
  return 2.0 * (3 * sizes.key + 2 * sizes.value);
}

HeadSizes sizes_of(const AttendVariant& variant) {
  return {variant.head_size, variant.value_size};
}
HeadSizes sizes_of(const AttendBackwardVariant& variant) {
  return {variant.head_size, variant.value_size};
}

double general_flop_us(bool forward, const HeadSizes& sizes, DType dtype) {
  const GeneralCosts costs = general_costs(sizes.key, sizes.value, dtype);
  constexpr double pairs = 128.0 * general_tile_rows;
  return forward ? costs.forward / pairs / forward_flops(sizes)
                 : (costs.key_passes * (costs.dk + costs.dq) + costs.value_passes * costs.dv) / pairs /
                       backward_flops(sizes);
}

double mma_flop_us(bool forward, const HeadSizes& sizes) {
  return forward ? of_sizes(sizes, measured("mma_forward_64_cost"), measured("mma_forward_128_cost")) /
                       pairs_of_tile / forward_flops(sizes)
                 : of_sizes(sizes, measured("mma_backward_64_cost"), measured("mma_backward_128_cost")) /
                       pairs_of_tile / backward_flops(sizes);
}

double flop_us(const AttendVariant& variant) {
  const HeadSizes sizes = sizes_of(variant);
  if (variant.family == AttendVariant::Family::mma) return mma_flop_us(true, sizes);
  return under_load *
         of_sizes(sizes, measured("hopper_forward_64_cost_of_128_rows"),
                  measured("hopper_forward_128_cost_of_128_rows")) /
         pairs_of_tile / forward_flops(sizes);
}

double flop_us(const AttendBackwardVariant& variant) {
  const HeadSizes sizes = sizes_of(variant);
  if (variant.family == AttendBackwardVariant::Family::mma) return mma_flop_us(false, sizes);
  return under_load * of_sizes(sizes, measured("hopper_fused_64_cost"), measured("hopper_fused_128_cost")) /
         pairs_of_tile / backward_flops(sizes);
}

}  // namespace cplab::kernels::cuda
