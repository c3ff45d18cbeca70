// The products for latents on the emulator; compiled with the shims before CUDA.
#define CPLAB_EMULATED_STATIC_SHARED
#include "tests/emulator/latent_products.hpp"
#include "tests/emulator/emulated_grid.hpp"
//
#include "kernels/families/products/plain_products.cuh"
#include "kernels/families/products/prepared.cuh"

namespace cplab::emulator {

// latent_tensor_cores.cpp
void multiply_on_tensor_cores(const kernels::cuda::Products&, bool a_by_terms, bool b_by_terms,
                              std::uint64_t seed);

namespace {

using namespace kernels::cuda;

unsigned char no_shared[1];

template <class T, bool a_by_terms, bool b_by_terms>
void plainly(const Products& p, std::uint64_t seed) {
  const ProductGrid grid = grid_of(p, plain_tile);
  run_grid({grid.rows, grid.columns, grid.results}, plain_threads, no_shared, seed,
           [&] { multiply_plainly<T, a_by_terms, b_by_terms>(p); });
}

template <bool a_by_terms, bool b_by_terms>
void multiply(const Products& p, std::uint64_t seed) {
  if (multiplier_of(p) != Multiplier::plain)
    multiply_on_tensor_cores(p, a_by_terms, b_by_terms, seed);
  else if (has_fp64(p))
    plainly<double, a_by_terms, b_by_terms>(p, seed);
  else
    plainly<float, a_by_terms, b_by_terms>(p, seed);
}

// In two thread blocks, which have more than one number for each thread.
template <class Kernel>
void columns(SharedColumns p, std::uint64_t seed, Kernel kernel) {
  p.threads = 2 * plain_threads;
  run_grid({2}, plain_threads, no_shared, seed, [&] { kernel(p); });
}

}  // namespace

void run_project(const ProjectParams& params, std::uint64_t seed) {
  multiply<false, true>(prepared(params), seed);
  const bool fp64 = params.k.dtype == kernels::DType::fp64;
  columns(shared_columns(params), seed,
          [&](const SharedColumns& p) { fp64 ? share_columns<double>(p) : share_columns<float>(p); });
}

void run_project_backward(const ProjectBackwardParams& params, std::uint64_t seed) {
  multiply<false, false>(prepared(params), seed);
  const bool fp64 = params.dk.dtype == kernels::DType::fp64;
  columns(shared_columns(params), seed,
          [&](const SharedColumns& p) { fp64 ? sum_columns<double>(p) : sum_columns<float>(p); });
}

void run_weight_gradient(const WeightGradientParams& params, std::uint64_t seed) {
  multiply<true, true>(prepared(params), seed);
}

}  // namespace cplab::emulator
