// Results of an attention kernel against CPU tiles, on some of its rows: a whole call would take the CPU
// minutes. Views here lie in host memory.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/kernels.hpp"

namespace cplab::kernels::tune {

struct RowSample {
  std::int64_t rows = 24;   // of each place: the first rows, the last, and some from the middle
  std::int64_t groups = 2;  // key heads, with all their query heads: the first and the last
  std::uint64_t seed = 1;   // where the middle is
};

// Largest relative error (L2 norms, of one tensor, head and place) that rounding explains. Products of bf16
// are exact in fp32; P and dS are rounded to the dtype before the second product (2^-9 relative for bf16, one
// standard deviation about half of that), results once more. Kernels and tiles round different numbers, in
// another order, so that errors do not cancel: 2 x 2^-9 x a few. What it must not explain: a block of 64 keys
// of 65536 that is missing, which is a relative error of about sqrt(64/65536) = 3e-2.
double largest_error(DType dtype);

// `call` as the kernel had it: inputs, and in out, lse (dq, dk, dv; delta is computed again from out, if the
// call had that) what it wrote; `before` the same views
// with what was there before (read where the call adds or merges). Empty: it is right; else what is wrong:
// "out: relative error 0.31 in head 2, rows 0 to 23".
std::string wrong_rows(const Attend& call, const Attend& before, const RowSample& sample = {});
std::string wrong_rows(const AttendBackward& call, const AttendBackward& before,
                       const RowSample& sample = {});

// Two results of a call: the same limits, for every head and every 128 rows; NaN anywhere is wrong.
std::string difference(const View& result, const View& other, const char* tensor, double limit);

}  // namespace cplab::kernels::tune
