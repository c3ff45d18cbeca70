// States of chunks: of their own tokens, the scan over the chunks of a rank, and one combined with another.
#include <algorithm>

#include "kernels/cpu/linear_parts.hpp"
#include "kernels/cpu/linear_tiles.hpp"
#include "kernels/linear_checks.hpp"

namespace cplab::kernels {
namespace {

template <class T>
RowMatrix<T> own_state(const LinearState& call, const ViewRows& rows, const ViewRows& columns,
                       const Chunk& chunk, std::int64_t head, const Powers<T>& powers) {
  RowMatrix<T> state(rows.width(), columns.width());
  const std::int64_t blocks = (chunk.count + token_block - 1) / token_block;
  for (std::int64_t i = 0; i < blocks; ++i) {
    const std::int64_t begin = (call.reverse ? blocks - 1 - i : i) * token_block;
    const std::int64_t n = std::min(token_block, chunk.count - begin);
    const RowMatrix<T> values = gather_rows<T>(columns, chunk.row + begin, n, head);
    RowMatrix<T> scaled = gather_rows<T>(rows, chunk.row + begin, n, head);
    if (call.reverse)
      advance_queries(state, std::move(scaled), values, powers, call.rows.dtype);
    else
      advance_keys(state, std::move(scaled), values, powers, call.rows.dtype);
  }
  return state;
}

template <class T>
void own_states(const LinearState& call) {
  const ViewRows rows(call.rows), columns(call.columns);
  const States<T> into(call.state, call.rows.width), transitions(call.transition, call.rows.width);
  for (std::int64_t head = 0; head < call.rows.heads; ++head) {
    const Powers<T> powers(call.chunks.slopes[static_cast<std::size_t>(head)]);
    for (const Chunk& chunk : call.chunks.list) {
      into.store(chunk.state, head, own_state(call, rows, columns, chunk, head, powers));
      if (!transitions.given()) continue;
      transitions.store(chunk.state, head, RowMatrix<T>(rows.width(), 1, powers(chunk.count)));
    }
  }
}

template <class T>
void scan(const LinearScan& call) {
  const std::int64_t count = state_count(call);
  if (count == 0) {
    for (std::int64_t head = 0; head < call.state.heads; ++head) States<T>(call.final_state, 1).clear(head);
    return;
  }
  const std::int64_t D = call.state.rows / count;
  const States<T> states(call.state, D), final_states(call.final_state, D);
  std::vector<Chunk> chunks(call.chunks.list.begin(), call.chunks.list.end());
  if (call.reverse) std::reverse(chunks.begin(), chunks.end());
  const RowMatrix<T> zero(D, call.state.width);
  for (std::int64_t head = 0; head < call.state.heads; ++head) {
    const Powers<T> powers(call.chunks.slopes[static_cast<std::size_t>(head)]);
    const std::int64_t edges = final_states.given() ? call.final_state->rows / D : 0;
    std::vector<RowMatrix<T>> sums(static_cast<std::size_t>(edges), zero);
    RowMatrix<T> run = zero;  // what the chunks behind hold at this one's edge
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      const Chunk& chunk = chunks[i];
      // `resets` cuts before its chunk in list order, so after it in reverse.
      if (call.reverse ? i > 0 && chunks[i - 1].resets : chunk.resets) run = zero;
      RowMatrix<T> own = states.load(chunk.state, head);
      if (!call.sums_only) states.store(chunk.state, head, run);
      run *= powers(chunk.count);
      run += own;
      const std::int32_t edge = call.reverse ? chunk.left : chunk.right;
      if (edge < 0 || edges == 0) continue;
      own *= powers(call.reverse ? chunk.left_exponent : chunk.right_exponent);
      sums[static_cast<std::size_t>(edge)] += own;
    }
    for (std::int64_t edge = 0; edge < edges; ++edge)
      final_states.store(edge, head, sums[static_cast<std::size_t>(edge)]);
  }
}

// T state, or T^T state; a T of one column is diagonal.
template <class T>
RowMatrix<T> passed(const RowMatrix<T>& transition, RowMatrix<T> state, bool transposed) {
  if (transition.cols() > 1)
    return transposed ? product_of_transposed(transition, state) : product(transition, state);
  for (std::int64_t d = 0; d < state.rows(); ++d)
    for (std::int64_t e = 0; e < state.cols(); ++e) state.row(d)[e] *= transition.row(d)[0];
  return state;
}

template <class T>
void combine(const LinearCombine& call) {
  const std::int64_t count = state_count(call);
  if (count == 0) return;
  const std::int64_t D = call.into.rows / count;
  const States<T> from(call.from, D), into(call.into, D), transitions(call.transition, D);
  for (std::int64_t head = 0; head < call.into.heads; ++head) {
    for (const Chunk& chunk : call.chunks.list) {
      if (chunk.resets && call.write == Write::add) continue;
      RowMatrix<T> sum(D, call.into.width);
      if (!chunk.resets) {
        sum = from.load(chunk.state, head);
        if (transitions.given())
          sum = passed(transitions.load(chunk.state, head), std::move(sum), call.reverse);
        else
          sum *= Powers<T>(call.chunks.slopes[static_cast<std::size_t>(head)])(chunk.count);
      }
      if (call.write == Write::add) sum += into.load(chunk.state, head);
      into.store(chunk.state, head, sum);
    }
  }
}

}  // namespace

void linear_state_cpu(const LinearState& call) {
  check_call(call);
  if (call.log_decay) return state_by_tokens(call);
  is_fp64(call.rows) ? own_states<double>(call) : own_states<float>(call);
}

void linear_scan_cpu(const LinearScan& call) {
  check_call(call);
  is_fp64(call.state) ? scan<double>(call) : scan<float>(call);
}

void linear_combine_cpu(const LinearCombine& call) {
  check_call(call);
  is_fp64(call.into) ? combine<double>(call) : combine<float>(call);
}

}  // namespace cplab::kernels
