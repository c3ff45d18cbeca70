// Which product takes which operands, and launches; see products.hpp.
#include "kernels/families/products/products.hpp"

#include <algorithm>
#include <cstdint>

#include "kernels/families/products/plain_products.cuh"
#include "kernels/families/products/prepared.cuh"
#include "kernels/families/products/tensor_core_products.cuh"

namespace cplab::kernels::cuda {
namespace {

void launch(void (*kernel)(Products), const Products& p, int tile, int threads, int shared_bytes,
            CUstream_st* stream) {
  const ProductGrid grid = grid_of(p, tile);
  if (grid.empty()) return;
  const dim3 blocks(static_cast<unsigned>(grid.rows), static_cast<unsigned>(grid.columns),
                    static_cast<unsigned>(grid.results));
  kernel<<<blocks, static_cast<unsigned>(threads), static_cast<unsigned>(shared_bytes), stream>>>(p);
}

template <bool a_by_terms, bool b_by_terms>
void multiply(const Products& p, CUstream_st* stream) {
  const auto on_tensor_cores = [&]<class T, int a_parts, int b_parts>() {
    launch(multiply_on_tensor_cores<T, a_parts, b_parts, a_by_terms, b_by_terms>, p, product_tile,
           product_threads, product_shared_bytes<T, a_parts, b_parts, a_by_terms, b_by_terms>, stream);
  };
  const auto of_16_bits = [&]<class T>() {
    // Latents and weights have the problem's dtype; gradients of K and V, which fp32 may be, are of a where
    // rows are projected back, and of b where weights are differentiated.
    if (multiplier_of(p) == Multiplier::same) return on_tensor_cores.template operator()<T, 1, 1>();
    if constexpr (!a_by_terms && !b_by_terms) on_tensor_cores.template operator()<T, parts_of_fp32<T>, 1>();
    if constexpr (a_by_terms && b_by_terms) on_tensor_cores.template operator()<T, 1, parts_of_fp32<T>>();
  };
  const Multiplier multiplier = multiplier_of(p);
  const bool known = multiplier == Multiplier::same ||
                     (multiplier == Multiplier::wide_a && !a_by_terms && !b_by_terms) ||
                     (multiplier == Multiplier::wide_b && a_by_terms && b_by_terms);
  if (known)
    return has_bf16(p) ? of_16_bits.template operator()<__nv_bfloat16>()
                       : of_16_bits.template operator()<__half>();
  launch(has_fp64(p) ? multiply_plainly<double, a_by_terms, b_by_terms>
                     : multiply_plainly<float, a_by_terms, b_by_terms>,
         p, plain_tile, plain_threads, 0, stream);
}

void launch_columns(void (*kernel)(SharedColumns), SharedColumns p, std::int64_t numbers,
                    CUstream_st* stream) {
  constexpr std::int64_t most_blocks = 1 << 16;
  if (numbers == 0) return;
  const std::int64_t blocks = std::min(most_blocks, (numbers + plain_threads - 1) / plain_threads);
  p.threads = blocks * plain_threads;
  kernel<<<static_cast<unsigned>(blocks), plain_threads, 0, stream>>>(p);
}

}  // namespace

void launch_project(const ProjectParams& params, CUstream_st* stream) {
  multiply<false, true>(prepared(params), stream);
  const SharedColumns columns = shared_columns(params);
  launch_columns(params.k.dtype == DType::fp64 ? share_columns<double> : share_columns<float>, columns,
                 std::int64_t{params.k.rows} * params.k.heads * columns.shared.width, stream);
}

void launch_project_backward(const ProjectBackwardParams& params, CUstream_st* stream) {
  multiply<false, false>(prepared(params), stream);
  const SharedColumns columns = shared_columns(params);
  launch_columns(params.dk.dtype == DType::fp64 ? sum_columns<double> : sum_columns<float>, columns,
                 std::int64_t{params.dk.rows} * columns.shared.width, stream);
}

void launch_weight_gradient(const WeightGradientParams& params, CUstream_st* stream) {
  multiply<true, true>(prepared(params), stream);
}

namespace {

constexpr KernelShape tensor_core_shape{
    .threads = product_threads, .tile_rows = product_tile, .tile_columns = product_tile, .stages = 1};
constexpr KernelShape plain_shape{
    .threads = plain_threads, .tile_rows = plain_tile, .tile_columns = plain_tile, .stages = 1};
constexpr KernelShape columns_shape{.threads = plain_threads};

template <class T, int a_parts, int b_parts, bool a_by_terms, bool b_by_terms>
KernelFunction tensor_core_function() {
  return kernel_function<multiply_on_tensor_cores<T, a_parts, b_parts, a_by_terms, b_by_terms>,
                         product_shared_bytes<T, a_parts, b_parts, a_by_terms, b_by_terms>>(
      tensor_core_shape);
}

template <class T, bool a_by_terms, bool b_by_terms>
KernelFunction plain_function() {
  return kernel_function<multiply_plainly<T, a_by_terms, b_by_terms>>(plain_shape);
}

}  // namespace

std::span<const NamedKernel> product_kernels() {
  using bf16 = __nv_bfloat16;
  using fp16 = __half;
  constexpr int of_bf16 = parts_of_fp32<bf16>, of_fp16 = parts_of_fp32<fp16>;
  static const NamedKernel kernels[] = {
      {"project", "bf16", tensor_core_function<bf16, 1, 1, false, true>()},
      {"project", "fp16", tensor_core_function<fp16, 1, 1, false, true>()},
      {"project", "fp32", plain_function<float, false, true>()},
      {"project", "fp64", plain_function<double, false, true>()},
      {"project", "shared columns fp32", kernel_function<share_columns<float>>(columns_shape)},
      {"project", "shared columns fp64", kernel_function<share_columns<double>>(columns_shape)},
      {"project_backward", "bf16", tensor_core_function<bf16, 1, 1, false, false>()},
      {"project_backward", "bf16 and fp32", tensor_core_function<bf16, of_bf16, 1, false, false>()},
      {"project_backward", "fp16", tensor_core_function<fp16, 1, 1, false, false>()},
      {"project_backward", "fp16 and fp32", tensor_core_function<fp16, of_fp16, 1, false, false>()},
      {"project_backward", "fp32", plain_function<float, false, false>()},
      {"project_backward", "fp64", plain_function<double, false, false>()},
      {"project_backward", "shared columns fp32", kernel_function<sum_columns<float>>(columns_shape)},
      {"project_backward", "shared columns fp64", kernel_function<sum_columns<double>>(columns_shape)},
      {"weight_gradient", "bf16", tensor_core_function<bf16, 1, 1, true, true>()},
      {"weight_gradient", "bf16 and fp32", tensor_core_function<bf16, 1, of_bf16, true, true>()},
      {"weight_gradient", "fp16", tensor_core_function<fp16, 1, 1, true, true>()},
      {"weight_gradient", "fp16 and fp32", tensor_core_function<fp16, 1, of_fp16, true, true>()},
      {"weight_gradient", "fp32", plain_function<float, true, true>()},
      {"weight_gradient", "fp64", plain_function<double, true, true>()},
  };
  return kernels;
}

}  // namespace cplab::kernels::cuda
