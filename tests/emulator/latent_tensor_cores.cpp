// The products on tensor cores on the emulator, which have dynamic shared memory; compiled with the shims
// before CUDA.
#include "tests/emulator/emulated_grid.hpp"
//
#include "kernels/families/products/prepared.cuh"
#include "kernels/families/products/tensor_core_products.cuh"

namespace cplab::kernels::cuda {

alignas(1024) unsigned char products_shared[emulator::shared_bytes];

}  // namespace cplab::kernels::cuda

namespace cplab::emulator {
namespace {

using namespace kernels::cuda;

template <class T, int a_parts, int b_parts, bool a_by_terms, bool b_by_terms>
void multiply(const Products& p, std::uint64_t seed) {
  static_assert(product_shared_bytes<T, a_parts, b_parts, a_by_terms, b_by_terms> <= 48 * 1024);
  const ProductGrid grid = grid_of(p, product_tile);
  run_grid({grid.rows, grid.columns, grid.results}, product_threads, products_shared, seed,
           [&] { kernels::cuda::multiply_on_tensor_cores<T, a_parts, b_parts, a_by_terms, b_by_terms>(p); });
}

template <class T>
void of_16_bits(const Products& p, bool a_by_terms, bool b_by_terms, std::uint64_t seed) {
  constexpr int parts = parts_of_fp32<T>;
  const Multiplier multiplier = multiplier_of(p);
  if (!a_by_terms && b_by_terms) return multiply<T, 1, 1, false, true>(p, seed);
  if (!a_by_terms)
    return multiplier == Multiplier::wide_a ? multiply<T, parts, 1, false, false>(p, seed)
                                            : multiply<T, 1, 1, false, false>(p, seed);
  return multiplier == Multiplier::wide_b ? multiply<T, 1, parts, true, true>(p, seed)
                                          : multiply<T, 1, 1, true, true>(p, seed);
}

}  // namespace

void multiply_on_tensor_cores(const Products& p, bool a_by_terms, bool b_by_terms, std::uint64_t seed) {
  has_bf16(p) ? of_16_bits<__nv_bfloat16>(p, a_by_terms, b_by_terms, seed)
              : of_16_bits<__half>(p, a_by_terms, b_by_terms, seed);
}

}  // namespace cplab::emulator
