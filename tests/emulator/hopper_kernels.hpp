// One dtype and head size of the Hopper kernels as functions; for translation units with the shims before
// CUDA.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <type_traits>

#include "kernels/families/fits.hpp"
#include "kernels/families/hopper_backward/shape.hpp"
#include "kernels/families/hopper_forward/shape.hpp"
#include "kernels/tiles/heads_together.hpp"
#include "kernels/tiles/masked_params.hpp"
#include "tests/emulator/grid.hpp"
#include "tests/emulator/hopper.hpp"
#include "tests/emulator/shim/device.hpp"
//
#include "kernels/families/hopper_backward/dq_sum_chains.cuh"
#include "kernels/families/hopper_backward/dq_sum_ordered.cuh"
#include "kernels/families/hopper_backward/dq_sum_unordered.cuh"
#include "kernels/families/hopper_backward/kernel.cuh"
#include "kernels/families/hopper_backward/params.cuh"
#include "kernels/families/hopper_backward_apart/kernel.cuh"
#include "kernels/families/hopper_backward_apart/params.cuh"
#include "kernels/families/hopper_forward/kernel.cuh"
#include "kernels/families/hopper_forward/params.cuh"

namespace cplab::kernels::cuda::hopper {

// What the kernels declare as dynamic shared memory.
alignas(1024) inline unsigned char forward_shared[emulator::shared_bytes];
alignas(1024) inline unsigned char deterministic_shared[emulator::shared_bytes];
alignas(1024) inline unsigned char fused_shared[emulator::shared_bytes];

}  // namespace cplab::kernels::cuda::hopper

namespace cplab::emulator {

namespace hopper = kernels::cuda::hopper;

// scores: of the instance that changes them, else nothing.
template <class T, int D, int W, bool in_turns, class... Scores>
void run_attend_with(const kernels::cuda::AttendParams& call, const Launch& launch, const Scores&... scores) {
  constexpr bool changes = sizeof...(Scores) > 0;
  using Shape = hopper::ForwardShape<D, W>;
  static_assert(sizeof(hopper::ForwardStorage<D, W>) + 1024 <= shared_bytes - 1024);
  if (call.work.count == 0 || call.q.heads == 0) return;  // not launched
  hopper::ForwardParamsOf<changes> params;
  static_cast<hopper::ForwardParams&>(params) =
      hopper::forward_params<D, W>(call, std::min(launch.heads_per_group, call.q.heads));
  ((params.scores = scores, params.scale_log2 = scores.scale_log2), ...);
  params.blocks = std::min(launch.multiprocessors, params.scheduler.tiles);
  std::int32_t counter = 0;
  if (launch.takes_by_counter) params.counter = &counter;
  Machine machine(launch.seed, launch.late_copies);
  emulated_threads = Shape::threads;
  for (int block = 0; block < params.blocks; ++block)
    machine.run(Shape::threads, static_cast<unsigned>(block), hopper::forward_shared,
                [&] { hopper::attend_forward_kernel<T, D, W, in_turns, changes>(params); });
  if (counter != 0) throw std::runtime_error("the counter of tiles is not ready for the next launch");
}

template <class T, int D, int W, bool in_turns = hopper::ForwardShape<D, W>::ping_pong>
void run_attend(const kernels::cuda::AttendParams& call, const Launch& launch) {
  run_attend_with<T, D, W, in_turns>(call, launch);
}

template <class T, int D>
void run_changed_attend(const kernels::cuda::MaskedParams& call, const Launch& launch) {
  constexpr int W = kernels::cuda::hopper_forward_warpgroups(D);
  run_attend_with<T, D, W, hopper::ForwardShape<D, W>::ping_pong>(call.tile, launch, call.scores);
}

template <class T, class Shape>
void run_attend_backward_deterministic(const kernels::cuda::AttendBackwardParams& call,
                                       const Launch& launch) {
  static_assert(sizeof(hopper::DeterministicStorage<Shape>) + 1024 <= shared_bytes - 1024);
  auto params = hopper::deterministic_params<Shape>(
      call, {std::min(launch.heads_per_group, call.k.heads), std::min(launch.heads_per_group, call.q.heads)});
  params.blocks = std::min(launch.multiprocessors, params.tiles());
  std::int32_t counter = 0;
  if (launch.takes_by_counter) params.counter = &counter;
  Machine machine(launch.seed, launch.late_copies);
  emulated_threads = Shape::threads;
  for (int block = 0; block < params.blocks; ++block)
    machine.run(emulated_threads, static_cast<unsigned>(block), hopper::deterministic_shared,
                [&] { hopper::attend_backward_deterministic_kernel<T, Shape>(params); });
  if (counter != 0) throw std::runtime_error("the counter of tiles is not ready for the next launch");
}

template <class T, class Shape, class... Scores>
void run_attend_backward_fused_with(const kernels::cuda::AttendBackwardParams& call, const Launch& launch,
                                    const Scores&... scores) {
  static_assert(sizeof(hopper::FusedStorage<Shape>) <= shared_bytes - 1024);
  if constexpr (!Shape::adds_tiles)
    if (hopper::dkv_write(call) == hopper::DkvWrite::added_tiles)
      return run_attend_backward_fused_with<T, typename Shape::Adding>(call, launch, scores...);
  using DqSum = typename Shape::DqSum;
  auto params =
      hopper::fused_params<T, Shape>(call, std::min(launch.heads_per_group, hopper::units_of_heads(call)));
  ((params.scores = scores, params.scale_log2 = scores.scale_log2), ...);
  params.blocks = std::min(launch.multiprocessors, params.scheduler.tiles);
  std::int32_t counter = 0;
  if (launch.takes_by_counter || DqSum::always_draws) params.counter = &counter;
  emulated_threads = Shape::threads;
  const auto kernel = [&] { hopper::attend_backward_fused_kernel<T, Shape>(params); };
  if (DqSum::always_draws) {  // its thread blocks wait for each other
    run_together({.seed = launch.seed, .late_copies = launch.late_copies, .resident = launch.resident},
                 emulated_threads, params.blocks, hopper::fused_shared, kernel);
  } else {
    Machine machine(launch.seed, launch.late_copies);
    for (int block = 0; block < params.blocks; ++block)
      machine.run(emulated_threads, static_cast<unsigned>(block), hopper::fused_shared, kernel);
  }
  if (counter != 0) throw std::runtime_error("the counter of tiles is not ready for the next launch");
}

template <class T, class Shape>
void run_attend_backward_fused(const kernels::cuda::AttendBackwardParams& call, const Launch& launch) {
  run_attend_backward_fused_with<T, Shape>(call, launch);
}

template <class T, int D>
void run_changed_attend_backward(const kernels::cuda::MaskedBackwardParams& call, const Launch& launch) {
  using Shape = hopper::FusedShape<D, hopper::UnorderedDqSum, false, 2, true>;
  run_attend_backward_fused_with<T, Shape>(call.tile, launch, call.scores);
}

template <class T, int D, int most>
void add_forward(EmulatedKernels& kernels) {
  kernels.attend.push_back({64 * most, false, run_attend<T, D, most>});
  if constexpr (kernels::cuda::hopper_forward_goes_out_of_turn(D, most))
    kernels.attend.push_back({64 * most, true, run_attend<T, D, most, false>});
  if constexpr (most > kernels::cuda::hopper_forward_least_warpgroups(D))
    add_forward<T, D, most - 1>(kernels);
}

template <class T, int D>
EmulatedKernels emulated_kernels_with_backward() {
  using kernels::cuda::hopper_backward_tile_rows;
  static_assert(hopper::DeterministicShape<D>::rows == hopper_backward_tile_rows &&
                hopper::FusedShape<D, hopper::UnorderedDqSum>::keys == hopper_backward_tile_rows);
  EmulatedKernels kernels{{},
                          hopper_backward_tile_rows,
                          run_attend_backward_deterministic<T, hopper::DeterministicShape<D>>,
                          run_attend_backward_fused<T, hopper::FusedShape<D, hopper::UnorderedDqSum>>,
                          run_attend_backward_fused<T, hopper::FusedShape<D, hopper::OrderedDqSum>>,
                          nullptr,
                          nullptr};
  if constexpr (D == 128)
    kernels.attend_backward_64_keys =
        run_attend_backward_fused<T, hopper::FusedShape<D, hopper::UnorderedDqSum, false, 1>>;
  if constexpr (D == 64)
    kernels.attend_backward_chains =
        run_attend_backward_fused<T, hopper::FusedShape<D, hopper::ChainedDqSum>>;
  add_forward<T, D, kernels::cuda::hopper_forward_warpgroups(D)>(kernels);
  kernels.changed_attend = run_changed_attend<T, D>;
  kernels.changed_attend_backward = run_changed_attend_backward<T, D>;
  return kernels;
}

template <kernels::DType dtype, int D>
EmulatedKernels emulated_kernels() {
  using T = std::conditional_t<dtype == kernels::DType::bf16, __nv_bfloat16, __half>;
  if constexpr (D > 128) {
    EmulatedKernels kernels{};
    kernels.backward_rows = hopper::DeterministicShape<D>::rows;
    kernels.attend_backward_deterministic =
        run_attend_backward_deterministic<T, hopper::DeterministicShape<D>>;
    add_forward<T, D, kernels::cuda::hopper_forward_warpgroups(D)>(kernels);
    return kernels;
  } else {
    return emulated_kernels_with_backward<T, D>();
  }
}

}  // namespace cplab::emulator
