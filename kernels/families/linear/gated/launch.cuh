// Which kernels a call of linear attention with transitions of every token is, of one element type.
#pragma once

#include <string>
#include <utility>

#include "kernels/families/linear/gated/gated.hpp"
#include "kernels/families/linear/gated/gradients.cuh"
#include "kernels/families/linear/gated/prepare.cuh"
#include "kernels/families/linear/gated/rows.cuh"
#include "kernels/families/linear/gated/walk.cuh"
#include "kernels/families/parts/launch.cuh"

namespace cplab::kernels::cuda::gated {

template <class T, int D>
class Launches {
 public:
  static void local(const GatedParams& p, CUstream_st* stream) {
    prepare(p, stream);
    forward(p, stream);
    by_block(gated_rows<T, D>, gated_rows_bytes(D, element), p, stream);
  }
  static void local_backward(const GatedParams& p, CUstream_st* stream) {
    prepare(p, stream);
    GatedParams states = p;  // of keys; it is states of queries that leave
    states.leaving.data = nullptr;
    forward(states, stream);
    reverse(p, stream);
    if (p.log_decay.width == 1)
      by_block(gated_gradients<T, D, false>, gated_gradients_bytes(D, element, false), p, stream);
    else
      by_block(gated_gradients<T, D, true>, gated_gradients_bytes(D, element, true), p, stream);
  }
  static void state(const GatedParams& p, CUstream_st* stream) {
    prepare(p, stream);
    if (p.q.data != nullptr || p.dout.data != nullptr) return reverse(p, stream);
    forward(p, stream);
    if (p.transition.data != nullptr && p.beta.data == nullptr)
      launch_dependent(gated_factors<D>, static_cast<unsigned>(p.chunk_count * p.heads), gated_threads, 0,
                       stream, p);
  }

  static std::vector<LinearKernel> kernels(const std::string& names) {
    static const KernelFunction of_local[] = {prepares<false>(), prepares<true>(), walks<false>(), reads()};
    static const KernelFunction of_backward[] = {prepares<false>(),       prepares<true>(),
                                                 walks<false>(),          walks<true>(),
                                                 differentiates<false>(), differentiates<true>()};
    static const KernelFunction of_state[] = {
        prepares<false>(), prepares<true>(), walks<false>(), walks<true>(),
        kernel_function<gated_factors<D>, 0, Claim::hopper>({.threads = gated_threads})};
    const std::string of_this = " gated " + names + " " + std::to_string(D);
    return {named<local>("linear_local" + of_this, of_local),
            named<local_backward>("linear_local_backward" + of_this, of_backward),
            named<state>("linear_state" + of_this, of_state)};
  }

 private:
  static constexpr std::int64_t element = sizeof(T);
  template <auto launch>
  static LinearKernel named(std::string name, std::span<const KernelFunction> functions) {
    return {
        .name = std::move(name), .functions = functions, .bind_gated = bind_parameters<launch, GatedParams>};
  }
  using Kernel = void (*)(GatedParams);

  static void by_block(Kernel kernel, std::int64_t bytes, const GatedParams& p, CUstream_st* stream) {
    if (p.cut.blocks == 0) return;
    launch_dependent(kernel, static_cast<unsigned>(p.cut.blocks * p.heads), gated_threads,
                     static_cast<std::size_t>(bytes), stream, p);
  }
  static void prepare(const GatedParams& p, CUstream_st* stream) {
    if (p.log_decay.width == 1)
      by_block(gated_prepare<T, D, false>, gated_prepare_bytes(D, element, false), p, stream);
    else
      by_block(gated_prepare<T, D, true>, gated_prepare_bytes(D, element, true), p, stream);
  }
  static void forward(const GatedParams& p, CUstream_st* stream) {
    walk(gated_walk<T, D, false>, p.cut.value_slices + p.cut.transition_slices,
         gated_walk_bytes(D, element, false), p, stream);
  }
  static void reverse(const GatedParams& p, CUstream_st* stream) {
    walk(gated_walk<T, D, true>, p.cut.value_slices, gated_walk_bytes(D, element, true), p, stream);
  }
  static void walk(Kernel kernel, int slices, std::int64_t bytes, const GatedParams& p, CUstream_st* stream) {
    launch_dependent(kernel, static_cast<unsigned>(p.chunk_count * p.heads * slices), gated_threads,
                     static_cast<std::size_t>(bytes), stream, p);
  }

  static constexpr int C = tokens_of<T>;
  template <bool column>
  static KernelFunction prepares() {
    return kernel_function<gated_prepare<T, D, column>, gated_prepare_bytes(D, element, column),
                           Claim::hopper>({gated_threads, C, D, 1});
  }
  template <bool reverse>
  static KernelFunction walks() {
    return kernel_function<gated_walk<T, D, reverse>, gated_walk_bytes(D, element, reverse), Claim::hopper>(
        {gated_threads, C, gated_slice, 2});
  }
  static KernelFunction reads() {
    return kernel_function<gated_rows<T, D>, gated_rows_bytes(D, element), Claim::hopper>(
        {gated_threads, C, gated_values, 1});
  }
  template <bool column>
  static KernelFunction differentiates() {
    return kernel_function<gated_gradients<T, D, column>, gated_gradients_bytes(D, element, column),
                           Claim::hopper>({gated_threads, C, gated_values, 1});
  }
};

template <class T>
std::vector<LinearKernel> kernels_of(const std::string& names) {
  std::vector<LinearKernel> all = Launches<T, 64>::kernels(names);
  for (LinearKernel& kernel : Launches<T, 128>::kernels(names)) all.push_back(std::move(kernel));
  return all;
}

}  // namespace cplab::kernels::cuda::gated
