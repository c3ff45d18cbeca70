// What the kernels for Hopper that change scores take beside the parameters of attention: a softcap, slopes
// of alibi, and where the rows of a segment are. Plain host code.
//
//   z = s - slope |t - p|     x = tanh(inner z), or z
//
// in units in which the score of a pair is s = q.k; what x is multiplied by for exp2 is the kernel's
// scale_log2: softcap log2(e), or scale log2(e).
#pragma once

#include <cstdint>

namespace cplab::kernels::cuda {

struct ScoreParams {
  const float* slopes = nullptr;         // of each query head, over the scale; null: no alibi
  const std::int32_t* shifts = nullptr;  // of each segment of the list: t - p of key row 0 and query row 0
  std::int32_t step = 1;                 // of positions, from row to row, of keys and of queries
  float inner = 0;                       // scale / softcap; 0: no softcap
  float limit = 0;                       // of |z| where tanh is the polynomial of small arguments
  float terms[5] = {};                   // tanh(inner z) = z (terms[0] + terms[1] z^2 + ...)
  float twice_log2 = 0;                  // 2 inner log2(e)
  float scale_log2 = 0;                  // what x is multiplied by
  float inverse_log2 = 0;                // 1 / scale_log2
};

}  // namespace cplab::kernels::cuda
