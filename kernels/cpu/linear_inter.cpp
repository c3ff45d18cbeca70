// What states hold for rows: each output is rows times a state, decayed by the tokens between.
#include <algorithm>

#include "kernels/cpu/linear_parts.hpp"
#include "kernels/cpu/linear_tiles.hpp"
#include "kernels/linear_checks.hpp"

namespace cplab::kernels {
namespace {

template <class T>
class InterTile {
 public:
  InterTile(TokenNumber number, const LinearInter& call) : number_(number), call_(call) {
    for (const auto* view : {&call.q, &call.k, &call.dq, &call.dk})
      if (*view) D_ = (*view)->width;
  }

  void run() {
    // States of keys lie at the left edge and reach row t after t tokens; those of queries lie at the right
    // edge and reach it after count - t.
    if (call_.out) multiply(*call_.q, *call_.out, false, false);
    if (call_.dq) multiply(*call_.dout, *call_.dq, false, true);
    if (call_.dk) multiply(*call_.v, *call_.dk, true, true);
    if (call_.dv) multiply(*call_.k, *call_.dv, true, false);
  }

 private:
  void multiply(const View& rows_view, const View& into_view, bool of_queries, bool transposed) const {
    const ViewRows rows(rows_view), into(into_view);
    const States<T> own(of_queries ? call_.dstate : call_.state, D_);
    const States<T> edges(of_queries ? call_.dcarry : call_.carry, D_);
    for (std::int64_t head = 0; head < into_view.heads; ++head) {
      const Powers<T> powers(call_.chunks.slopes[static_cast<std::size_t>(head)]);
      for (const Chunk& chunk : call_.chunks.list) {
        const std::int64_t exponent = of_queries ? chunk.right_exponent : chunk.left_exponent;
        std::optional<RowMatrix<T>> state =
            entering(own, chunk.state, edges, of_queries ? chunk.right : chunk.left, powers(exponent), head);
        if (!state && call_.write == Write::add) continue;
        if (state) round_elements(state->data(), state->size(), rows_view.dtype);
        for (std::int64_t begin = 0; begin < chunk.count; begin += token_block) {
          const std::int64_t n = std::min(token_block, chunk.count - begin);
          RowMatrix<T> sum(n, into_view.width);
          if (state) {
            const RowMatrix<T> block = gather_rows<T>(rows, chunk.row + begin, n, head);
            sum = transposed ? product_with_transposed(block, *state) : product(block, *state);
            decay_rows(sum, powers, [&](std::int64_t t) {
              const std::int64_t number = number_(begin + t);
              return of_queries ? chunk.count - number : number;
            });
          }
          write_rows(into, chunk.row + begin, head, sum, call_.write);
        }
      }
    }
    if (call_.write == Write::store) clear_other_rows(into_view, call_.chunks.list);
  }

  const TokenNumber number_;
  const LinearInter& call_;
  std::int64_t D_ = 0;
};

}  // namespace

void linear_inter_with(TokenNumber number, const LinearInter& call) {
  check_call(call);
  bool fp64 = false;
  for (const auto* view : {&call.q, &call.k, &call.v, &call.dout}) fp64 = fp64 || (*view && is_fp64(**view));
  fp64 ? InterTile<double>(number, call).run() : InterTile<float>(number, call).run();
}

void linear_inter_cpu(const LinearInter& call) {
  linear_inter_with([](std::int64_t t) { return t; }, call);
}

}  // namespace cplab::kernels
