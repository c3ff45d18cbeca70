// See products.hpp: compiled with AVX2 and FMA, called where the machine has them.
#define Eigen eigen_avx2
#define CPLAB_PRODUCTS products_avx2
#include "reference/products_of_eigen.hpp"
