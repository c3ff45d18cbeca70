// Products of matrices, compiled for the instructions that every x86-64 has and once more for AVX2 with FMA.
#pragma once

#include "kernels/cpu/row_matrix.hpp"

namespace cplab::kernels {

template <class T>
struct Products {
  void (*store_with_transposed)(Block<const T> a, Block<const T> b, Block<T> into);
  void (*add)(Block<const T> a, Block<const T> b, Block<T> into);
  void (*add_of_transposed)(Block<const T> a, Block<const T> b, Block<T> into);
};

}  // namespace cplab::kernels
