// The gradient of the sinks: a sum over rows, head by head.
#include <cmath>
#include <limits>

#include "kernels/call_checks.hpp"
#include "kernels/cpu/cpu_tiles.hpp"
#include "kernels/cpu/view_rows.hpp"

namespace cplab::kernels {
namespace {

template <class T>
void sum_rows(const SinkGradient& call) {
  const ViewRows sink(call.sink), lse(call.lse), delta(call.delta), dsink(call.dsink);
  for (std::int64_t head = 0; head < call.sink.heads; ++head) {
    const T logit = sink.load_first<T>(0, head);
    T sum = 0;
    for (std::int64_t row = 0; row < call.lse.rows; ++row) {
      const T of_row = lse.load_first<T>(row, head);
      if (of_row == -std::numeric_limits<T>::infinity()) continue;
      sum -= std::exp(logit - of_row) * delta.load_first<T>(row, head);
    }
    dsink.store_first(0, head, sum);
  }
}

}  // namespace

void sink_gradient_cpu(const SinkGradient& call) {
  check_call(call);
  is_fp64(call.sink) ? sum_rows<double>(call) : sum_rows<float>(call);
}

}  // namespace cplab::kernels
