// The tile operations every device implements, behind one plain header that depends on nothing. calls/ turns
// operations of a plan into these, exec/bind adds the addresses.
//
// Shapes: rows x heads x width. q, dq [nq,H,D]; k, dk [nk,G,D]; v, dv [nk,G,E]; out, dout [nq,H,E];
// lse, delta [nq,H,1]; max_logit, sink [1,H,1]. H is a multiple of G; query head h reads key/value head h /
// (H/G). Rows are compact: row i of a View is row i of the operation, wherever it lies in memory.
//
// Contract shared by all devices:
//  - no device memory is allocated (CPU tiles use small scratch of their own); nothing outside the views is
//    touched; no stored row is left unwritten;
//  - views that are written overlap no other view of the operation;
//  - what a view held before a `store` never reaches the result, not even NaN times zero;
//  - a row without a visible key gives out = 0 and lse = -inf;
//  - lse is the natural logarithm and includes the scale;
//  - sums run in fp32 for bf16, fp16 and fp32 operands, in fp64 for fp64. P and dS are rounded to the
//    dtype of v and k before the second product, as tensor-core kernels do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace cplab::kernels {

enum class DType : std::uint8_t { fp64, fp32, bf16, fp16 };

std::size_t bytes_of(DType dtype);

// How a written view combines with what was there. `merge` is the softmax merge and needs (out, lse).
enum class Write : std::uint8_t { store, add, merge };

// `count` rows: begin, begin + step, begin + 2*step, ...
struct RowRun {
  std::int64_t begin = 0;
  std::int64_t count = 0;
  std::int64_t step = 1;
};

// Element (row, head, x) lies at data + (physical_row * row_stride + head * head_stride + x) elements,
// where physical_row follows from `runs` (compact rows in order), or is the row itself if runs is empty.
// Strides are in elements; width is contiguous.
struct View {
  void* data = nullptr;
  DType dtype = DType::fp32;
  std::int64_t rows = 0;
  std::int64_t heads = 0;
  std::int64_t width = 0;
  std::int64_t row_stride = 0;
  std::int64_t head_stride = 0;
  std::span<const RowRun> runs;
};

// [rows, heads, width] without gaps.
inline View rows_first(void* data, DType dtype, std::int64_t rows, std::int64_t heads, std::int64_t width) {
  return {data, dtype, rows, heads, width, heads * width, width, {}};
}

// A run of query rows against a run of key rows, both compact. With i, j counted inside the runs and
// d = j - (i + offset), query i sees key j iff (left < 0 or d >= -left) and (right < 0 or d <= right).
// Negative left/right: unlimited. Causal with aligned runs: offset 0, left -1, right 0.
// A query row may occur in several segments of one list (with disjoint keys); rows in none see no key.
struct Segment {
  std::int64_t q_begin = 0;
  std::int64_t q_count = 0;
  std::int64_t k_begin = 0;
  std::int64_t k_count = 0;
  std::int64_t offset = 0;
  std::int64_t left = -1;
  std::int64_t right = -1;
};

struct Attend {
  View q, k, v;
  View out, lse;
  std::span<const Segment> segments;
  double scale = 1;
  // store: out and lse become this tile's. merge: they become the softmax merge of what they held (a
  // partial result, lse possibly -inf, then out is not read) and this tile; rows that see no key here
  // stay bit-identical.
  Write write = Write::store;
  // Where asked for: becomes, for every head, the maximum of what it held and of scale * q.k over the pairs
  // of this tile, in the dtype of sums. Only pairs of the segments count.
  std::optional<View> max_logit = {};
  // One more logit of every row, whose value is 0: it counts in lse, and out is the smaller for it; of a row
  // that sees no key it is all there is, but for merge, which leaves such a row alone. In the dtype of sums;
  // max_logit does not look at it.
  std::optional<View> sink = {};
};

// lse is final, and so is delta, unless the call computes it (out): P = exp(scale q.k - lse), dS = P (dout.v
// - delta), dq += scale dS k, dk += scale dS^T q, dv += P^T dout. store: rows of the view without a
// contribution become 0; add: they stay bit-identical. `write_dk` holds for dk and dv both; they sum over the
// H/G query heads of a group. rounded_dq: if given, dq comes out there, in the dtype of q. dq, which is no
// narrower, is then what it may be summed in: with `add` it is read, and afterwards nobody may ask what it
// holds. rounded_dk, rounded_dv: both or neither, with store alone; likewise for dk and dv, in the dtypes of
// k and v. out: if given, the call first computes delta, as row_dot of dout and out, and writes it. What it
// prepares besides, such as zeros in dq, can then be done by the same launch.
struct AttendBackward {
  View q, k, v, dout, lse, delta;
  View dq, dk, dv;
  std::span<const Segment> segments;
  double scale = 1;
  Write write_dq = Write::store;
  Write write_dk = Write::store;
  std::optional<View> rounded_dq = {};
  std::optional<View> rounded_dk = {}, rounded_dv = {};
  std::optional<View> out = {};
};

// dsink[h] = -sum over the rows of exp(sink[h] - lse) delta, of final lse and delta: what a sink's share of a
// row is, times what the row lost by it. Rows whose lse is -inf have none, and their delta is not read. All
// in the dtype of sums; lse, delta [n,H,1], sink, dsink [1,H,1]. The same bits in every run.
struct SinkGradient {
  View sink, lse, delta;
  View dsink;
};

// K and V from latents (MLA). latent [n,1,C], rope_key [n,1,R]; k [n,H,X+R], v [n,H,E]; key_weights [1,H,C X]
// and value_weights [1,H,C E] are a matrix for each head, row by row: k[h] = [latent key_weights[h],
// rope_key] and v[h] = latent value_weights[h], rounded once. Sums run in the dtype of sums, as they do in
// the gradients: dlatent = sum_h dk[h][0, X) key_weights[h]^T + dv[h] value_weights[h]^T and drope_key =
// sum_h dk[h][X, X+R); dkey_weights[h] = latent^T dk[h][0, X) and dvalue_weights[h] = latent^T dv[h].
struct Project {
  View latent, rope_key, key_weights, value_weights;
  View k, v;
};
struct ProjectBackward {
  View dk, dv, key_weights, value_weights;
  View dlatent, drope_key;
  Write write = Write::store;  // of both, store or add
};
struct WeightGradient {
  View latent, dk, dv;
  View dkey_weights, dvalue_weights;
  Write write = Write::store;  // of both, store or add
};

// Softmax merge of two partial results over disjoint keys, in place into (into_out, into_lse):
// M = max(a, b), lse = M + log1p(exp(min - M)), out = out_a exp(a - lse) + out_b exp(b - lse).
// Both -inf: lse = -inf, out = 0. One -inf: that side's out is not read.
struct Merge {
  View part_out, part_lse;
  View into_out, into_lse;
};

// lse = log(exp(lse) + exp(part)), the same careful form, for the deferred merge.
struct MergeLse {
  View part_lse;
  View into_lse;
};

// into_out (store or add) part_out * exp(part_lse - final_lse); a part whose lse is -inf adds 0 unread.
struct Rescale {
  View part_out, part_lse, final_lse;
  View into_out;
  Write write = Write::add;
};

// Operations of elements, row by row and in one form; a kind reads as many of a and b as sources() says.
//   row_dot  into[row,h,0] = sum_x a[row,h,x] b[row,h,x]
//   copy     into = a; also casts (round to nearest even)
//   add      into += a, summed in fp32 (fp64), rounded once
//   maximum  into = max(into, a), of one dtype; NaN if either is
//   fill     into = value
struct Rowwise {
  enum class Kind : std::uint8_t { row_dot, copy, add, maximum, fill };
  Kind kind = Kind::copy;
  View a, b;
  View into;
  double value = 0;
  int sources() const { return kind == Kind::row_dot ? 2 : kind == Kind::fill ? 0 : 1; }
};

// The table a device offers. CPU faults replace single entries ("substitute tiles").
struct Tiles {
  void (*attend)(const Attend&);
  void (*attend_backward)(const AttendBackward&);
  void (*merge)(const Merge&);
  void (*merge_lse)(const MergeLse&);
  void (*rescale)(const Rescale&);
  void (*rowwise)(const Rowwise&);
  void (*sink_gradient)(const SinkGradient&);
  void (*project)(const Project&);
  void (*project_backward)(const ProjectBackward&);
  void (*weight_gradient)(const WeightGradient&);

  void row_dot(const View& a, const View& b, const View& into) const {
    rowwise({Rowwise::Kind::row_dot, a, b, into, 0});
  }
  void copy(const View& from, const View& into) const { rowwise({Rowwise::Kind::copy, from, {}, into, 0}); }
  void add(const View& from, const View& into) const { rowwise({Rowwise::Kind::add, from, {}, into, 0}); }
  void fill(const View& into, double value) const { rowwise({Rowwise::Kind::fill, {}, {}, into, value}); }
};

// Correct tiles on the CPU (Eigen). Each throws std::invalid_argument, before it writes anything, if shapes,
// row runs, segments or write modes do not fit together. Views need no alignment.
const Tiles& cpu_tiles();

// Tiles with a bug that really shipped, for `verify --inject`; nullptr if the name is unknown.
//  naive-merge: lse = a + log(1 + exp(b - a)), which overflows for b - a > 88 in fp32 (EasyContext#14).
//  nominal-accumulator: merge rounds the running out to the dtype of part_out at every step.
//  maxlogit-zero-offset: which rows count for max_logit is told as if the first segment began at row 0.
//  no-zero-fill: attend_backward leaves rows of dk and dv alone that no query sees.
const Tiles* faulty_cpu_tiles(const char* name);

// One element, for tensors in and out of global order: exact widening, round to nearest even back.
double load_element(const void* data, DType dtype, std::int64_t index);
void store_element(void* data, DType dtype, std::int64_t index, double value);

}  // namespace cplab::kernels
