// Products of matrices, head by head: keys and values from latents, and the way back of their gradients
// (kernels.hpp: Project, ProjectBackward, WeightGradient). Operands of 16 bits are multiplied on tensor cores
// with sums in fp32; gradients of K and V in fp32 beside them are taken apart into 16-bit numbers that add up
// to them. All else is multiplied in fp32, or in fp64 where a view is fp64. The same bits in every run.
#pragma once

#include <span>

#include "kernels/families/elementwise/elementwise.hpp"
#include "kernels/tiles/params.hpp"

struct CUstream_st;

namespace cplab::kernels::cuda {

struct ProjectParams {
  DeviceView latent, rope_key, key_weights, value_weights, k, v;
};

struct ProjectBackwardParams {
  DeviceView dk, dv, key_weights, value_weights, dlatent, drope_key;
  Write write = Write::store;
};

struct WeightGradientParams {
  DeviceView latent, dk, dv, dkey_weights, dvalue_weights;
  Write write = Write::store;
};

// Each queues what it takes, or nothing if there are no results; cudaGetLastError says whether it went.
void launch_project(const ProjectParams& params, CUstream_st* stream);
void launch_project_backward(const ProjectBackwardParams& params, CUstream_st* stream);
void launch_weight_gradient(const WeightGradientParams& params, CUstream_st* stream);

std::span<const NamedKernel> product_kernels();  // all of them

}  // namespace cplab::kernels::cuda
