// The mma kernels of dynamic mask attention on the emulator; compiled with the shims before CUDA.
#include "tests/emulator/emulated_grid.hpp"
#include "tests/emulator/masked.hpp"
//
#include "kernels/families/masked/backward_dkv.cuh"
#include "kernels/families/masked/backward_dq.cuh"
#include "kernels/families/masked/forward.cuh"

namespace cplab::kernels::cuda {

// What the kernels declare as dynamic shared memory.
alignas(1024) unsigned char masked_forward_shared[emulator::shared_bytes];
alignas(1024) unsigned char masked_dkv_shared[emulator::shared_bytes];
alignas(1024) unsigned char masked_dq_shared[emulator::shared_bytes];

}  // namespace cplab::kernels::cuda

namespace cplab::emulator {
namespace {

using namespace kernels::cuda;

// Calls run with the kernel's element type and head size.
template <class Run>
void with_shape(const DeviceView& q, const Run& run) {
  const bool wide = q.width == 128;
  if (q.dtype == kernels::DType::bf16)
    wide ? run.template operator()<__nv_bfloat16, 128>() : run.template operator()<__nv_bfloat16, 64>();
  else
    wide ? run.template operator()<__half, 128>() : run.template operator()<__half, 64>();
}

}  // namespace

void run_masked_mma(const MaskedParams& params, std::uint64_t seed) {
  with_shape(params.tile.q, [&]<class T, int D>() {
    run_grid({params.tile.work.count, params.tile.q.heads}, MaskedForwardShape<D>::threads,
             masked_forward_shared, seed, [&] { attend_masked_forward_kernel<T, D>(params); });
  });
}

void run_masked_mma(const MaskedBackwardParams& params, std::uint64_t seed) {
  with_shape(params.tile.q, [&]<class T, int D>() {
    run_grid({params.tile.by_k.count, params.tile.k.heads}, MaskedDkvShape<D>::threads, masked_dkv_shared,
             seed, [&] { attend_masked_dkv_kernel<T, D>(params); });
    run_grid({params.tile.by_q.count, params.tile.q.heads}, MaskedDqShape<D>::threads, masked_dq_shared, seed,
             [&] { attend_masked_dq_kernel<T, D>(params); });
  });
}

}  // namespace cplab::emulator
