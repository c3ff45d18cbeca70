// One dtype and head size of the Hopper kernels as functions; for translation units with the shims before
// CUDA.
#pragma once

#include <algorithm>
#include <stdexcept>

#include "kernels/work/fits.hpp"
#include "tests/emulator/hopper.hpp"
#include "tests/emulator/shim/device.hpp"
//
#include "kernels/cuda/hopper/attend_backward_fused.cuh"
#include "kernels/cuda/hopper/attend_backward_hopper.cuh"
#include "kernels/cuda/hopper/attend_hopper.cuh"

namespace cplab::kernels::cuda::hopper {

// What the kernels declare as dynamic shared memory.
alignas(1024) inline unsigned char attend_hopper_shared[emulator::shared_bytes];
alignas(1024) inline unsigned char gradient_hopper_shared[emulator::shared_bytes];
alignas(1024) inline unsigned char fused_hopper_shared[emulator::shared_bytes];

}  // namespace cplab::kernels::cuda::hopper

namespace cplab::emulator {

namespace hopper = kernels::cuda::hopper;
using hopper::Part;

template <class T, int D, int W>
void run_attend(const kernels::cuda::AttendParams& call, const Launch& launch) {
  using Shape = hopper::HopperAttendShape<D, W>;
  static_assert(sizeof(hopper::HopperAttendMemory<D, W>) + 1024 <= shared_bytes - 1024);
  if (call.work.count == 0 || call.q.heads == 0) return;  // not launched
  hopper::HopperAttendParams params;
  params.call = call;
  params.q = {call.q, 64};
  params.k = {call.k, Shape::keys};
  params.v = {call.v, Shape::keys};
  params.stores_tiles = hopper::stores_tiles(call);
  params.out = {call.out, 64};
  params.scale_log2 = hopper::scale_log2(call.scale);
  params.order =
      hopper::TileOrder(call.work.count, call.q.heads, std::min(launch.heads_per_group, call.q.heads),
                        call.q.heads / call.k.heads);
  params.blocks = std::min(launch.multiprocessors, params.order.tiles);
  std::int32_t counter = 0;
  if (launch.takes_by_counter) params.counter = &counter;
  Machine machine(launch.seed, launch.late_copies);
  emulated_threads = Shape::threads;
  for (int block = 0; block < params.blocks; ++block)
    machine.run(Shape::threads, static_cast<unsigned>(block), hopper::attend_hopper_shared,
                [&] { hopper::attend_hopper_kernel<T, D, W>(params); });
  if (counter != 0) throw std::runtime_error("the counter of tiles is not ready for the next launch");
}

template <class T, int D, Part... parts>
void run_attend_backward(const kernels::cuda::AttendBackwardParams& call, const Launch& launch) {
  hopper::HopperBackwardParams params;
  params.call = call;
  params.q = {call.q, 64};
  params.k = {call.k, 64};
  params.v = {call.v, 64};
  params.dout = {call.dout, 64};
  const int group = call.q.heads / call.k.heads;
  params.q_order =
      hopper::TileOrder(call.by_q.count, call.q.heads, std::min(launch.heads_per_group, call.q.heads), group);
  params.k_order =
      hopper::TileOrder(call.by_k.count, call.k.heads, std::min(launch.heads_per_group, call.k.heads), group);
  params.scale_log2 = hopper::scale_log2(call.scale);
  Machine machine(launch.seed, launch.late_copies);
  const auto run = [&]<Part part>() {
    static_assert(sizeof(hopper::GradientMemory<D, part>) + 1024 <= shared_bytes - 1024);
    emulated_threads = hopper::GradientShape<D, part>::threads;
    const int blocks = part == Part::dq ? call.by_q.count * call.q.heads : call.by_k.count * call.k.heads;
    for (int block = 0; block < blocks; ++block)
      machine.run(emulated_threads, static_cast<unsigned>(block), hopper::gradient_hopper_shared,
                  [&] { hopper::gradient_hopper_kernel<T, D, part>(params); });
  };
  (run.template operator()<parts>(), ...);
}

template <class T, int D>
void run_attend_backward_fused(const kernels::cuda::AttendBackwardParams& call, const Launch& launch) {
  static_assert(sizeof(hopper::FusedMemory<D>) + 1024 <= shared_bytes - 1024);
  hopper::FusedParams params;
  params.call = call;
  params.q = {call.q, 64};
  params.k = {call.k, 64};
  params.v = {call.v, 64};
  params.dout = {call.dout, 64};
  params.dq = {call.dq, 64, 64};
  params.dk = {call.dk, 16};
  params.dv = {call.dv, 16};
  if (hopper::writes_tiles(call))
    params.key_rows =
        call.dk.dtype == kernels::DType::fp32 ? hopper::KeyRows::sums : hopper::KeyRows::rounded;
  params.reduces_tiles = hopper::reduces_tiles(call);
  const int group = call.q.heads / call.k.heads;
  params.shares_keys = hopper::shares_keys(call);
  params.heads_of_tile = params.shares_keys ? 1 : group;
  const int units = call.q.heads / params.heads_of_tile;
  params.order = hopper::TileOrder(call.by_k.live, units, std::min(launch.heads_per_group, units), group);
  params.blocks = std::min(launch.multiprocessors, params.order.tiles);
  params.scale_log2 = hopper::scale_log2(call.scale);
  std::int32_t counter = 0;
  if (launch.takes_by_counter) params.counter = &counter;
  Machine machine(launch.seed, launch.late_copies);
  emulated_threads = hopper::FusedShape<D>::threads;
  for (int block = 0; block < params.blocks; ++block)
    machine.run(emulated_threads, static_cast<unsigned>(block), hopper::fused_hopper_shared,
                [&] { hopper::attend_backward_fused_kernel<T, D>(params); });
  if (counter != 0) throw std::runtime_error("the counter of tiles is not ready for the next launch");
}

template <class T, int D>
EmulatedKernels emulated_kernels() {
  constexpr int most = D == 64 ? 3 : 2;  // warpgroups of the forward
  EmulatedKernels kernels{{},
                          hopper::GradientShape<D, Part::dq>::rows,
                          hopper::GradientShape<D, Part::dk_dv>::rows,
                          run_attend_backward<T, D, Part::dk_dv, Part::dq>,
                          run_attend_backward_fused<T, D>};
  kernels.attend.push_back({64 * most, run_attend<T, D, most>});
  kernels.attend.push_back({64, run_attend<T, D, 1>});
  if constexpr (most == 3) kernels.attend.push_back({128, run_attend<T, D, 2>});
  return kernels;
}

}  // namespace cplab::emulator
