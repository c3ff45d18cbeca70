// See products.hpp.
#include "reference/products.hpp"

#define EIGEN_GEMM_TO_COEFFBASED_THRESHOLD 0
#include <Eigen/Core>

#define CPLAB_PRODUCTS products_everywhere
#include "reference/products_of_eigen.hpp"

namespace cplab::reference {

#ifdef CPLAB_PRODUCTS_AVX2
extern const Products products_avx2;
#endif

const Products& products() {
#ifdef CPLAB_PRODUCTS_AVX2
  static const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (avx2) return products_avx2;
#endif
  return products_everywhere;
}

}  // namespace cplab::reference
