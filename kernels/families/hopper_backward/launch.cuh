// Launches the fused backward kernel.
#pragma once

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <vector>

#include "kernels/families/elementwise/elementwise.hpp"
#include "kernels/families/fits.hpp"
#include "kernels/families/hopper_backward/dq_sum_chains.cuh"
#include "kernels/families/hopper_backward/dq_sum_ordered.cuh"
#include "kernels/families/hopper_backward/dq_sum_unordered.cuh"
#include "kernels/families/hopper_backward/kernel.cuh"
#include "kernels/families/hopper_backward/params.cuh"
#include "kernels/families/parts/hopper/kernels.hpp"
#include "kernels/families/parts/launch.cuh"

namespace cplab::kernels::cuda::hopper {

// The dynamic shared memory of a launch: 1024 bytes more than needed, where there is room, in case shared
// memory does not begin at a multiple of 1024.
template <class Shape>
constexpr std::int64_t fused_shared_bytes = std::min<std::int64_t>(sizeof(FusedStorage<Shape>) + 1024,
                                                                   most_shared_bytes);

template <class T, class Shape>
Launch bind_backward_fused(const AttendBackwardParams& call) {
  using DqSum = typename Shape::DqSum;
  if constexpr (!Shape::adds_tiles)
    if (dkv_write(call) == DkvWrite::added_tiles) return bind_backward_fused<T, typename Shape::Adding>(call);
  if (!DqSum::stores_first(call) && call.write_dq == Write::store && !call.dq_is_zero)
    throw std::logic_error("a backward kernel was to add to dq, which nobody sets to 0");
  const auto params = std::make_shared<typename Shape::Params>(
      fused_params<T, Shape>(call, DqSum::heads_together(call, units_of_heads(call))));
  params->blocks = std::min(std::max(call.multiprocessors, 1), params->scheduler.tiles);
  return [params, &call](CUstream_st* stream) {
    params->call = call;
    params->counter =
        DqSum::always_draws || params->blocks < params->scheduler.tiles ? call.tile_counter : nullptr;
    if (needs_zeroed_dkv(call) && !call.dkv_is_zero) {
      params->call.follows_preparation = false;
      launch_fill(call.zeroed_dk, 0, stream);
      launch_fill(call.zeroed_dv, 0, stream);
    }
    if (params->blocks == 0) return;
    launch_dependent(attend_backward_fused_kernel<T, Shape>, static_cast<unsigned>(params->blocks),
                     Shape::threads, static_cast<std::size_t>(fused_shared_bytes<Shape>), stream, *params);
  };
}

template <class T, class Shape>
KernelFunction fused_function() {
  return kernel_function<attend_backward_fused_kernel<T, Shape>, fused_shared_bytes<Shape>, Claim::hopper>(
      {.threads = Shape::threads,
       .tile_rows = Shape::queries,
       .tile_columns = Shape::keys,
       .stages = Shape::stages});
}

template <class T, int D, class DqSum, int consumers = 2>
AttendBackwardKernel backward_fused_kernel() {
  using Shape = FusedShape<D, DqSum, false, consumers>;
  static_assert(Shape::keys ==
                (consumers == 2 ? hopper_backward_tile_rows : hopper_backward_small_tile_rows));
  static const KernelFunction functions[] = {fused_function<T, Shape>(),
                                             fused_function<T, typename Shape::Adding>()};
  return {.name = DqSum::kernel_name(Element<T>::dtype, D, Shape::keys),
          .bind = bind_backward_fused<T, Shape>,
          .functions = functions};
}

// instance.cu.in instantiates this.
template <int D>
std::vector<AttendBackwardKernel> backward_fused_kernels() {
  return {backward_fused_kernel<__nv_bfloat16, D, UnorderedDqSum>(),
          backward_fused_kernel<__half, D, UnorderedDqSum>(),
          backward_fused_kernel<__nv_bfloat16, D, OrderedDqSum>(),
          backward_fused_kernel<__half, D, OrderedDqSum>()};
}

// instance_64_keys.cu instantiates this.
template <int D>
std::vector<AttendBackwardKernel> backward_fused_64_keys_kernels() {
  return {backward_fused_kernel<__nv_bfloat16, D, UnorderedDqSum, 1>(),
          backward_fused_kernel<__half, D, UnorderedDqSum, 1>()};
}

// instance_chains.cu instantiates this.
template <int D>
std::vector<AttendBackwardKernel> backward_chains_kernels() {
  return {backward_fused_kernel<__nv_bfloat16, D, ChainedDqSum>(),
          backward_fused_kernel<__half, D, ChainedDqSum>()};
}

}  // namespace cplab::kernels::cuda::hopper
