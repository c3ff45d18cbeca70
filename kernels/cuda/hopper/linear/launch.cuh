// Launching the linear attention kernels for Hopper.
#pragma once

#include <algorithm>

#include "kernels/cuda/hopper/linear/keys.cuh"
#include "kernels/cuda/hopper/linear/local.cuh"
#include "kernels/cuda/hopper/linear/state.cuh"
#include "kernels/cuda/hopper/parts/tensor_map.cuh"
#include "kernels/cuda/parts/launch.cuh"

namespace cplab::kernels::cuda::hopper {

template <class T, int D, int E, Direction direction>
void launch_local(const LocalParams& params, CUstream_st* stream) {
  if (params.items.count == 0) return;
  launch_dependent(linear_local_kernel<T, D, E, direction>, static_cast<unsigned>(params.items.blocks),
                   LocalShape<D, E>::threads, sizeof(LocalStorage<D, E>) + 1024, stream, params);
}

template <class T, int D, int E, Direction direction>
void launch_state(const StateParams& params, CUstream_st* stream) {
  if (params.items.count == 0) return;
  launch_dependent(linear_state_kernel<T, D, E, direction>, static_cast<unsigned>(params.items.blocks),
                   StateShape<D, E>::threads, sizeof(StateStorage<D, E>) + 1024, stream, params);
}

template <class T, int D, int E>
void launch_keys(const KeysParams& params, CUstream_st* stream) {
  if (params.items.count == 0) return;
  launch_dependent(linear_keys_kernel<T, D, E>, static_cast<unsigned>(params.items.blocks),
                   KeysShape<D, E>::threads, sizeof(KeysStorage<D, E>) + 1024, stream, params);
}

}  // namespace cplab::kernels::cuda::hopper
