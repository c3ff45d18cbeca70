// A chunk of linear attention with one decay a head, block by block: the pairs of a block are computed one by
// one, what lies before it reaches it through the state at its left edge (Lightning Attention 2, 2401.04658).
#include <algorithm>

#include "kernels/cpu/linear_parts.hpp"
#include "kernels/cpu/linear_tiles.hpp"
#include "kernels/linear_checks.hpp"

namespace cplab::kernels {
namespace {

template <class T>
class LocalTile {
 public:
  explicit LocalTile(const LinearLocal& call)
      : call_(call),
        q_(call.q),
        k_(call.k),
        v_(call.v),
        out_(call.out),
        state_(call.state, call.q.width),
        carry_(call.carry, call.q.width),
        final_(call.final_state, call.q.width),
        slices_{call.q.width, call.chunks.work == ChunkWork::sliced} {}

  void run() {
    for (std::int64_t head = 0; head < call_.q.heads; ++head) {
      const Powers<T> powers(call_.chunks.slopes[static_cast<std::size_t>(head)]);
      final_.clear(head);
      for (const Chunk& chunk : call_.chunks.list) walk(chunk, head, powers);
    }
    if (call_.write == Write::store) clear_other_rows(call_.out, call_.chunks.list);
  }

 private:
  void walk(const Chunk& chunk, std::int64_t head, const Powers<T>& powers) {
    std::optional<RowMatrix<T>> state =
        entering(state_, chunk.state, carry_, chunk.left, powers(chunk.left_exponent), head);
    const bool leaves = final_.given() && chunk.right >= 0;
    for (std::int64_t begin = 0; begin < chunk.count; begin += token_block) {
      const std::int64_t n = std::min(token_block, chunk.count - begin), row = chunk.row + begin;
      const RowMatrix<T> k = gather_rows<T>(k_, row, n, head), v = gather_rows<T>(v_, row, n, head);
      RowMatrix<T> out = block(gather_rows<T>(q_, row, n, head), k, v, state, powers);
      write_rows(out_, row, head, out, call_.write);
      if (begin + n == chunk.count && !leaves) continue;
      if (!state) state.emplace(k.cols(), v.cols());
      advance_keys(*state, k, v, powers, call_.k.dtype);
    }
    if (!leaves) return;
    if (!state) state.emplace(call_.q.width, call_.v.width);
    final_.store(chunk.right, head, *state);
  }

  RowMatrix<T> block(const RowMatrix<T>& q, const RowMatrix<T>& k, const RowMatrix<T>& v,
                     const std::optional<RowMatrix<T>>& state, const Powers<T>& powers) const {
    RowMatrix<T> out(q.rows(), v.cols());
    for (std::int64_t s = 0; s < slices_.count(); ++s) {
      const std::int64_t first = slices_.begin(s), size = slices_.size(s);
      const RowMatrix<T> part_q = q.columns(first, size);
      RowMatrix<T> pairs = product_with_transposed(part_q, k.columns(first, size));
      decay_pairs(pairs, powers, call_.v.dtype);
      RowMatrix<T> part = product(pairs, v);
      if (state) {
        RowMatrix<T> passed =
            product(part_q, rounded_elements(state->middle_rows(first, size), call_.q.dtype));
        decay_rows(passed, powers, [](std::int64_t t) { return t; });
        part += passed;
      }
      if (slices_.sliced) round_elements(part.data(), part.size(), call_.out.dtype);
      out += part;
    }
    return out;
  }

  const LinearLocal& call_;
  ViewRows q_, k_, v_, out_;
  States<T> state_, carry_, final_;
  Slices slices_;
};

}  // namespace

void linear_local_cpu(const LinearLocal& call) {
  check_call(call);
  if (call.log_decay) return local_by_tokens(call);
  is_fp64(call.q) ? LocalTile<double>(call).run() : LocalTile<float>(call).run();
}

}  // namespace cplab::kernels
