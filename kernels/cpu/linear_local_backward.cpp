// Gradients of a chunk of linear attention with one decay a head: one sweep to the right for dq, which reads
// states of keys, and one to the left for dk and dv, which read states of queries. Nothing is kept between.
#include <algorithm>

#include "kernels/cpu/linear_parts.hpp"
#include "kernels/cpu/linear_tiles.hpp"
#include "kernels/linear_checks.hpp"

namespace cplab::kernels {
namespace {

template <class T>
class LocalBackwardTile {
 public:
  explicit LocalBackwardTile(const LinearLocalBackward& call)
      : call_(call),
        q_(call.q),
        k_(call.k),
        v_(call.v),
        dout_(call.dout),
        dq_(call.dq),
        dk_(call.dk),
        dv_(call.dv),
        state_(call.state, call.q.width),
        carry_(call.carry, call.q.width),
        dstate_(call.dstate, call.q.width),
        dcarry_(call.dcarry, call.q.width),
        final_(call.final_state, call.q.width),
        D_slices_{call.q.width, call.chunks.work == ChunkWork::sliced},
        E_slices_{call.v.width, call.chunks.work == ChunkWork::sliced} {}

  void run() {
    for (std::int64_t head = 0; head < call_.q.heads; ++head) {
      const Powers<T> powers(call_.chunks.slopes[static_cast<std::size_t>(head)]);
      final_.clear(head);
      for (const Chunk& chunk : call_.chunks.list) {
        sweep_right(chunk, head, powers);
        sweep_left(chunk, head, powers);
      }
    }
    if (call_.write == Write::add) return;
    for (const View* view : {&call_.dq, &call_.dk, &call_.dv}) clear_other_rows(*view, call_.chunks.list);
  }

 private:
  using State = std::optional<RowMatrix<T>>;

  struct Block {
    RowMatrix<T> q, k, v, dout;
  };
  Block load(std::int64_t row, std::int64_t n, std::int64_t head) const {
    return {gather_rows<T>(q_, row, n, head), gather_rows<T>(k_, row, n, head),
            gather_rows<T>(v_, row, n, head), gather_rows<T>(dout_, row, n, head)};
  }

  void sweep_right(const Chunk& chunk, std::int64_t head, const Powers<T>& powers) {
    State state = entering(state_, chunk.state, carry_, chunk.left, powers(chunk.left_exponent), head);
    for (std::int64_t begin = 0; begin < chunk.count; begin += token_block) {
      const std::int64_t n = std::min(token_block, chunk.count - begin), row = chunk.row + begin;
      const Block b = load(row, n, head);
      RowMatrix<T> dq(n, b.k.cols());
      for (std::int64_t s = 0; s < E_slices_.count(); ++s) {
        RowMatrix<T> part = product(logit_gradients(b, s, powers), b.k);
        if (state) {
          RowMatrix<T> passed = product_with_transposed(
              columns(b.dout, E_slices_, s), rounded_elements(columns(*state, E_slices_, s), call_.q.dtype));
          decay_rows(passed, powers, [](std::int64_t t) { return t; });
          part += passed;
        }
        add_part(part, call_.dq.dtype, dq);
      }
      write_rows(dq_, row, head, dq, call_.write);
      if (begin + n == chunk.count) continue;
      if (!state) state.emplace(b.k.cols(), b.v.cols());
      advance_keys(*state, b.k, b.v, powers, call_.k.dtype);
    }
  }

  void sweep_left(const Chunk& chunk, std::int64_t head, const Powers<T>& powers) {
    State state = entering(dstate_, chunk.state, dcarry_, chunk.right, powers(chunk.right_exponent), head);
    const bool leaves = final_.given() && chunk.left >= 0;
    const std::int64_t last = chunk.count == 0 ? -1 : (chunk.count - 1) / token_block * token_block;
    for (std::int64_t begin = last; begin >= 0; begin -= token_block) {
      const std::int64_t n = std::min(token_block, chunk.count - begin), row = chunk.row + begin;
      const Block b = load(row, n, head);
      RowMatrix<T> dk = key_gradients(b, state, powers), dv = value_gradients(b, state, powers);
      write_rows(dk_, row, head, dk, call_.write);
      write_rows(dv_, row, head, dv, call_.write);
      if (begin == 0 && !leaves) continue;
      if (!state) state.emplace(b.q.cols(), b.dout.cols());
      advance_queries(*state, b.q, b.dout, powers, call_.q.dtype);
    }
    if (!leaves) return;
    if (!state) state.emplace(call_.q.width, call_.v.width);
    final_.store(chunk.left, head, *state);
  }

  RowMatrix<T> key_gradients(const Block& b, const State& state, const Powers<T>& powers) const {
    const std::int64_t n = b.k.rows();
    RowMatrix<T> dk(n, b.k.cols());
    for (std::int64_t s = 0; s < E_slices_.count(); ++s) {
      RowMatrix<T> part = product_of_transposed(logit_gradients(b, s, powers), b.q);
      if (state) {
        RowMatrix<T> passed = product_with_transposed(
            columns(b.v, E_slices_, s), rounded_elements(columns(*state, E_slices_, s), call_.q.dtype));
        decay_rows(passed, powers, [n](std::int64_t t) { return n - t; });
        part += passed;
      }
      add_part(part, call_.dk.dtype, dk);
    }
    return dk;
  }

  RowMatrix<T> value_gradients(const Block& b, const State& state, const Powers<T>& powers) const {
    const std::int64_t n = b.v.rows();
    RowMatrix<T> dv(n, b.v.cols());
    for (std::int64_t s = 0; s < D_slices_.count(); ++s) {
      RowMatrix<T> pairs = product_with_transposed(columns(b.q, D_slices_, s), columns(b.k, D_slices_, s));
      decay_pairs(pairs, powers, call_.v.dtype);
      RowMatrix<T> part = product_of_transposed(pairs, b.dout);
      if (state) {
        RowMatrix<T> passed = product(
            columns(b.k, D_slices_, s),
            rounded_elements(state->middle_rows(D_slices_.begin(s), D_slices_.size(s)), call_.q.dtype));
        decay_rows(passed, powers, [n](std::int64_t t) { return n - t; });
        part += passed;
      }
      add_part(part, call_.dv.dtype, dv);
    }
    return dv;
  }

  // dS of one slice of E.
  RowMatrix<T> logit_gradients(const Block& b, std::int64_t s, const Powers<T>& powers) const {
    RowMatrix<T> ds = product_with_transposed(columns(b.dout, E_slices_, s), columns(b.v, E_slices_, s));
    decay_pairs(ds, powers, call_.v.dtype);
    return ds;
  }

  static RowMatrix<T> columns(const RowMatrix<T>& rows, const Slices& slices, std::int64_t s) {
    return rows.columns(slices.begin(s), slices.size(s));
  }

  void add_part(RowMatrix<T>& part, DType dtype, RowMatrix<T>& into) const {
    if (D_slices_.sliced) round_elements(part.data(), part.size(), dtype);
    into += part;
  }

  const LinearLocalBackward& call_;
  ViewRows q_, k_, v_, dout_, dq_, dk_, dv_;
  States<T> state_, carry_, dstate_, dcarry_, final_;
  Slices D_slices_, E_slices_;
};

}  // namespace

void linear_local_backward_cpu(const LinearLocalBackward& call) {
  check_call(call);
  if (call.log_decay) return local_backward_by_tokens(call);
  is_fp64(call.q) ? LocalBackwardTile<double>(call).run() : LocalBackwardTile<float>(call).run();
}

}  // namespace cplab::kernels
