// Costs of the general kernels; see costs.hpp.
#include "kernels/families/general/costs.hpp"

namespace cplab::kernels::cuda {
namespace {

double rounded_up(int number, int unit) {
  return static_cast<double>((number + unit - 1) / unit * unit);
}

}  // namespace

std::string general_forward_name(DType accumulator) {
  return accumulator == DType::fp64 ? "attend general fp64" : "attend general";
}

std::string general_backward_name(DType accumulator) {
  return accumulator == DType::fp64 ? "attend_backward general fp64" : "attend_backward general";
}

GeneralCosts general_costs(const HeadSizes& sizes, DType dtype, const Rates& rates) {
  const bool wide = dtype == DType::fp64;
  const int columns = wide ? 64 : 128, depth = wide ? 16 : 32;
  const double D = rounded_up(sizes.key, depth), E = rounded_up(sizes.value, depth);
  GeneralCosts costs;
  costs.key_passes = (sizes.key + columns - 1) / columns;
  costs.value_passes = (sizes.value + columns - 1) / columns;
  const double slower = wide ? 2 : 1;  // half the products a cycle, twice the bytes of shared memory
  const double depth_us = slower * rates[Rate::general_backward_depth_us],
               rest_us = slower * rates[Rate::general_backward_rest_us];
  costs.forward = costs.value_passes * slower *
                  (rates[Rate::general_forward_depth_us] * D + rates[Rate::general_forward_rest_us]);
  costs.dk = costs.dq = depth_us * (D + E) + rest_us;
  costs.dv = depth_us * D + rest_us;
  return costs;
}

double general_flop_us(bool forward, const HeadSizes& sizes, DType dtype, const Rates& rates) {
  const GeneralCosts costs = general_costs(sizes, dtype, rates);
  constexpr double pairs = 128.0 * general_tile_rows;
  return forward ? costs.forward / pairs / forward_flops(sizes)
                 : (costs.key_passes * (costs.dk + costs.dq) + costs.value_passes * costs.dv) / pairs /
                       backward_flops(sizes);
}

}  // namespace cplab::kernels::cuda
