// Launches the linear attention kernels for Hopper.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "kernels/families/fits.hpp"
#include "kernels/families/linear/hopper/keys.cuh"
#include "kernels/families/linear/hopper/local.cuh"
#include "kernels/families/linear/hopper/state.cuh"
#include "kernels/families/linear/variants.hpp"
#include "kernels/families/parts/hopper/kernels.hpp"
#include "kernels/families/parts/hopper/tensor_map.cuh"
#include "kernels/families/parts/launch.cuh"

namespace cplab::kernels::cuda::hopper {

// Tables are set before the launch; see set_tables().
inline WalkItems walk_items(const LinearParams& call, int heads, int blocks_per_sm) {
  WalkItems items;
  items.count = call.chunks.count * heads;
  items.blocks = std::min(items.count, std::max(call.cut.multiprocessors, 1) * blocks_per_sm);
  items.heads = FastDivmod(heads);
  return items;
}

inline void set_tables(WalkItems& items, const LinearParams& call) {
  items.chunks = call.chunks.list;
  items.slopes = call.chunks.slopes;
}

template <class T>
bool stores_by_tma(const LinearParams& call, const DeviceView& view) {
  return call.write == Write::store && view.dtype == Element<T>::dtype && has_tensor_map(view);
}

// Describes a kernel with `Shape` whose thread blocks have `columns` columns of the state.
template <auto kernel, class Shape, class Storage, int columns>
KernelFunction linear_function() {
  return kernel_function<kernel, sizeof(Storage) + 1024, Claim::hopper>(
      {.threads = Shape::threads, .tile_rows = walk_rows, .tile_columns = columns, .stages = Shape::stages});
}

// The operands of local.cuh; where `transposed`, memory holds the states transposed.
struct LocalViews {
  const DeviceView &x, &y, &z, &out;
  bool transposed;
};

template <class T, int D, int E>
KernelFunction local_function() {
  return linear_function<linear_local_kernel<T, D, E>, LocalShape<D, E>, LocalStorage<D, E>, E>();
}

template <class T, int D, int E>
Launch bind_local(const LinearParams& call, const LocalViews& views) {
  using Shape = LocalShape<D, E>;
  const auto params = std::make_shared<LocalParams>();
  params->x = tensor_map(views.x, walk_rows);
  params->y = tensor_map(views.y, walk_rows);
  params->z = tensor_map(views.z, walk_rows);
  params->stores_by_tma = stores_by_tma<T>(call, views.out);
  if (params->stores_by_tma) params->out = group_map(views.out, walk_rows);
  params->out_view = views.out;
  params->items = walk_items(call, views.x.heads, Shape::blocks_per_sm);
  params->first = {call.state, call.carry, views.transposed};
  params->add = call.write == Write::add;
  return [params, &call, &out = views.out](CUstream_st* stream) {
    set_tables(params->items, call);
    params->out_view.map = out.map;
    launch_dependent(linear_local_kernel<T, D, E>, static_cast<unsigned>(params->items.blocks),
                     Shape::threads, sizeof(LocalStorage<D, E>) + 1024, stream, *params);
  };
}

template <class T, int D, int E>
KernelFunction keys_function() {
  return linear_function<linear_keys_kernel<T, D, E>, KeysShape<D, E>, KeysStorage<D, E>, E>();
}

// D >= E. `exchanged`: of a call with D < E, whose dk is what this kernel calls dv.
template <class T, int D, int E>
Launch bind_keys(const LinearParams& call, bool exchanged) {
  using Shape = KeysShape<D, E>;
  const DeviceView &dk = exchanged ? call.dv : call.dk, &dv = exchanged ? call.dk : call.dv;
  const auto params = std::make_shared<KeysParams>();
  params->q = tensor_map(exchanged ? call.dout : call.q, walk_rows);
  params->k = tensor_map(exchanged ? call.v : call.k, walk_rows);
  params->v = tensor_map(exchanged ? call.k : call.v, walk_rows);
  params->dout = tensor_map(exchanged ? call.q : call.dout, walk_rows);
  params->stores_dk_by_tma = stores_by_tma<T>(call, dk);
  params->stores_dv_by_tma = stores_by_tma<T>(call, dv);
  if (params->stores_dk_by_tma) params->dk = tensor_map(dk, walk_rows);
  if (params->stores_dv_by_tma) params->dv = tensor_map(dv, walk_rows);
  params->dk_view = dk;
  params->dv_view = dv;
  params->items = walk_items(call, call.q.heads, 1);
  params->first = {call.dstate, call.dcarry, exchanged};
  params->add = call.write == Write::add;
  return [params, &call, &dk, &dv](CUstream_st* stream) {
    set_tables(params->items, call);
    params->dk_view.map = dk.map;
    params->dv_view.map = dv.map;
    launch_dependent(linear_keys_kernel<T, D, E>, static_cast<unsigned>(params->items.blocks), Shape::threads,
                     sizeof(KeysStorage<D, E>) + 1024, stream, *params);
  };
}

template <class T, int D, int E>
Launch bind_linear_local(const LinearParams& call) {
  return bind_local<T, D, E>(call,
                             {.x = call.q, .y = call.k, .z = call.v, .out = call.out, .transposed = false});
}

template <class T, int D, int E>
Launch bind_linear_backward(const LinearParams& call) {
  const Launch dq = bind_local<T, E, D>(
      call, {.x = call.dout, .y = call.v, .z = call.k, .out = call.dq, .transposed = true});
  const Launch keys = bind_keys<T, std::max(D, E), std::min(D, E)>(call, D < E);
  return [dq, keys](CUstream_st* stream) {
    dq(stream);
    keys(stream);
  };
}

template <class T, int D, int E, Direction direction>
KernelFunction state_function() {
  return linear_function<linear_state_kernel<T, D, E, direction>, StateShape<D, E>, StateStorage<D, E>, E>();
}

template <class T, int D, int E, Direction direction>
void launch_state(const StateParams& params, CUstream_st* stream) {
  launch_dependent(linear_state_kernel<T, D, E, direction>, static_cast<unsigned>(params.items.blocks),
                   StateShape<D, E>::threads, sizeof(StateStorage<D, E>) + 1024, stream, params);
}

template <class T, int D, int E>
Launch bind_linear_state(const LinearParams& call) {
  const auto params = std::make_shared<StateParams>();
  params->y = tensor_map(call.rows, walk_rows);
  params->z = tensor_map(call.columns, walk_rows);
  params->state = call.state;
  params->items = walk_items(call, call.rows.heads, StateShape<D, E>::blocks_per_sm);
  return [params, &call](CUstream_st* stream) {
    set_tables(params->items, call);
    if (call.reverse)
      launch_state<T, D, E, Direction::reverse>(*params, stream);
    else
      launch_state<T, D, E, Direction::forward>(*params, stream);
  };
}

template <class T, int D, int E>
void add_linear_kernels(std::vector<LinearKernel>& kernels) {
  using Operation = LinearOperation;
  const auto add = [&](Operation operation, Launch (*bind)(const LinearParams&),
                       std::span<const KernelFunction> functions) {
    kernels.push_back({.name = hopper_linear_name(operation, Element<T>::dtype, D, E),
                       .bind = bind,
                       .functions = functions});
  };
  static const KernelFunction local[] = {local_function<T, D, E>()};
  add(Operation::local, bind_linear_local<T, D, E>, local);
  static const KernelFunction backward[] = {local_function<T, E, D>(),
                                            keys_function<T, std::max(D, E), std::min(D, E)>()};
  add(Operation::local_backward, bind_linear_backward<T, D, E>, backward);
  static const KernelFunction state[] = {state_function<T, D, E, Direction::forward>(),
                                         state_function<T, D, E, Direction::reverse>()};
  add(Operation::state, bind_linear_state<T, D, E>, state);
}

// instance.cu.in instantiates this.
template <int D, int E>
std::vector<LinearKernel> linear_kernels() {
  std::vector<LinearKernel> kernels;
  add_linear_kernels<__nv_bfloat16, D, E>(kernels);
  add_linear_kernels<__half, D, E>(kernels);
  return kernels;
}

}  // namespace cplab::kernels::cuda::hopper
