// See row_matrix.hpp; which of the two sets of products the machine can execute.
#define EIGEN_GEMM_TO_COEFFBASED_THRESHOLD 0
#include <Eigen/Core>

#define CPLAB_PRODUCTS everywhere
#include "kernels/cpu/products_of_eigen.hpp"

namespace cplab::kernels {

#ifdef CPLAB_PRODUCTS_AVX2
namespace avx2 {
extern const Products<float> of_floats;
extern const Products<double> of_doubles;
}  // namespace avx2
#endif

namespace {

bool has_avx2() {
#ifdef CPLAB_PRODUCTS_AVX2
  static const bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return has;
#else
  return false;
#endif
}

template <class T>
const Products<T>& products() {
  constexpr bool floats = sizeof(T) == sizeof(float);
#ifdef CPLAB_PRODUCTS_AVX2
  if (has_avx2()) {
    if constexpr (floats)
      return avx2::of_floats;
    else
      return avx2::of_doubles;
  }
#endif
  if constexpr (floats)
    return everywhere::of_floats;
  else
    return everywhere::of_doubles;
}

}  // namespace

template <class T>
void store_product_with_transposed(Block<const T> a, Block<const T> b, Block<T> into) {
  products<T>().store_with_transposed(a, b, into);
}
template <class T>
void add_product(Block<const T> a, Block<const T> b, Block<T> into) {
  products<T>().add(a, b, into);
}
template <class T>
void add_product_of_transposed(Block<const T> a, Block<const T> b, Block<T> into) {
  products<T>().add_of_transposed(a, b, into);
}

using Floats = Block<const float>;
using Doubles = Block<const double>;
template void store_product_with_transposed(Floats, Floats, Block<float>);
template void add_product(Floats, Floats, Block<float>);
template void add_product_of_transposed(Floats, Floats, Block<float>);
template void store_product_with_transposed(Doubles, Doubles, Block<double>);
template void add_product(Doubles, Doubles, Block<double>);
template void add_product_of_transposed(Doubles, Doubles, Block<double>);

}  // namespace cplab::kernels
