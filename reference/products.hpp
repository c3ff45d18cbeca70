// Products of small matrices in double, Eigen's, compiled for the instructions that every x86-64 has and once
// more for AVX2 with FMA; the machine decides which is called. Beside them the exponentials of rows.
#pragma once

#include <cstdint>

namespace cplab::reference {

// Rows of somebody's matrix, `stride` elements apart.
template <class T>
struct Rows {
  T* data;
  std::int64_t rows, cols, stride;

  T* row(std::int64_t i) const { return data + i * stride; }
  Rows from(std::int64_t first, std::int64_t count) const { return {row(first), count, cols, stride}; }
  operator Rows<const T>() const { return {data, rows, cols, stride}; }
};

struct Products {
  // into = a b^T
  void (*store_with_transposed)(Rows<const double> a, Rows<const double> b, Rows<double> into);
  void (*store_floats_with_transposed)(Rows<const float> a, Rows<const float> b, Rows<float> into);
  // into += a b and a^T b
  void (*add)(Rows<const double> a, Rows<const double> b, Rows<double> into);
  void (*add_of_transposed)(Rows<const double> a, Rows<const double> b, Rows<double> into);
  void (*add_floats)(Rows<const float> a, Rows<const float> b, Rows<float> into);
  void (*add_floats_of_transposed)(Rows<const float> a, Rows<const float> b, Rows<float> into);
  // x = exp(x - shift), and their sum
  double (*exponentials)(double* x, std::int64_t count, double shift);
  void (*float_exponentials)(float* x, std::int64_t count, float shift);
};

// The fastest that this machine can execute.
const Products& products();

}  // namespace cplab::reference
