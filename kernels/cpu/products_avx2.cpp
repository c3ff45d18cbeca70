// See products.hpp: compiled with AVX2 and FMA, called where the machine has them.
#define Eigen eigen_avx2_of_tiles
#define EIGEN_GEMM_TO_COEFFBASED_THRESHOLD 0
#include <Eigen/Core>

#define CPLAB_PRODUCTS avx2
#include "kernels/cpu/products_of_eigen.hpp"
