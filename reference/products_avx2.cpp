// See products.hpp: compiled with AVX2 and FMA, called where the machine has them.
#define Eigen eigen_avx2
#define EIGEN_GEMM_TO_COEFFBASED_THRESHOLD 0
#include <Eigen/Core>

#define CPLAB_PRODUCTS products_avx2
#include "reference/products_of_eigen.hpp"
