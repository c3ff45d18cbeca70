// Costs of the general kernels; see general_time.hpp.
#include "kernels/work/general_time.hpp"

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

}  // namespace

GeneralCosts general_costs(int key_size, int value_size, DType dtype) {
  const bool wide = dtype == DType::fp64;
  const int columns = wide ? 64 : 128, depth = wide ? 16 : 32;
  const double D = rounded_up(key_size, depth), E = rounded_up(value_size, depth);
  const double of_keys = rounded_up(key_size, columns) / columns,
               of_values = rounded_up(value_size, columns) / columns;
  // fp64: half the products a cycle, twice the bytes of shared memory; a result has half the columns.
  const double slower = wide ? 2 : 1;
  const double a = slower * measured("general_depth"),
               b = slower * measured("general_columns") * columns / 128,
               softmax = slower * measured("general_softmax");
  return {.forward = of_values * (a * D + b + softmax),
          .keys = of_keys * (a * (D + E) + b) + of_values * (a * D + b),
          .queries = of_keys * (a * (D + E) + b)};
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
                 : (costs.keys + costs.queries) / pairs / backward_flops(sizes);
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
