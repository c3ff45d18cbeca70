// The tile operations of linear attention (LASP, Lightning, gated linear attention, delta rules): what is
// computed inside a chunk of tokens, the states that carry the rest, and how states combine. One header for
// every device, as kernels.hpp is for softmax attention, whose views and contract hold here too.
//
// Per head, with lambda = exp(-slope): S_i = lambda S_{i-1} + k_i^T v_i (D x E), out_i = q_i S_i. No scale,
// no normaliser, the diagonal included. Its gradients, with g = dout: R_j = lambda R_{j+1} + q_j^T g_j, dq_i
// = g_i S_i^T, dk_j = v_j R_j^T, dv_j = k_j R_j.
//
// An edge is the place between two tokens; edge p lies before token p. A state at edge p is
//   of keys     S(p) = sum over tokens j <  p of lambda^(p - j) k_j^T v_j: what later queries read,
//   of queries  R(p) = sum over tokens i >= p of lambda^(i - p) q_i^T g_i: what earlier keys read.
// So query i >= p sees S(p) times lambda^(i - p), and key j < p sees R(p) times lambda^(p - j). Going from
// edge p to edge p + n (of queries: p - n) multiplies by lambda^n. Factors are exp(-slope * n) with n an
// integer, never a quotient and never a product of factors.
//
// A view of states has n * D rows, H heads and width E: rows [s D, (s + 1) D) are state s. States, factors
// and sums are fp32 (fp64 for fp64); a state is rounded to the dtype of q before it is multiplied with rows,
// as tensor-core kernels do. Rows that are scaled by their power before they go into a state may be rounded
// to their dtype again: the CPU does that, as tensor cores would.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "kernels/kernels.hpp"

namespace cplab::kernels {

// `count` consecutive tokens of one sequence, at the compact rows [row, row + count). What lies beyond the
// tokens of the rank reaches it through two edges, the left and the right one of the rank's piece of the
// sequence.
struct Chunk {
  std::int64_t row = 0;
  std::int64_t count = 0;
  std::int32_t state = -1;  // its own state in operands that hold one for every chunk; -1: none
  // The state at the left (right) edge of the piece, in operands that hold one for every piece; -1: the
  // sequence begins (ends) in this rank and nothing passes. The exponents are the tokens between.
  std::int32_t left = -1, right = -1;
  std::int64_t left_exponent = 0, right_exponent = 0;
  bool resets = false;  // nothing passes between this chunk and the one before it in the list
};

// How the work is cut: a choice of the plan, which changes time and rounding and never the result.
// blocked (the default): a thread block for every chunk, or for parts of it.
// serial (lasp_naive): a thread block for every (piece, head, 32 columns of E), which walks all of its
// tokens. sliced (lasp_fuse): a thread block for every (piece, head, 64 columns of E, 64 rows of D),
// likewise; partial outputs of the slices are rounded to the dtype of out and then summed.
enum class ChunkWork : std::uint8_t { blocked, serial, sliced };

// What all calls have: chunks, a slope for every head of the views, the cut. For transitions that differ from
// token to token, log_decay [rows,H,D] holds the logarithms g <= 0 of the factors of the D columns
// ([rows,H,1] that of one factor for all), and beta [rows,H,1] the strengths of delta rules: S_t = (I -
// beta_t k_t^T k_t) diag(exp g_t) S_{t-1} + beta_t k_t^T v_t (without beta: S_t = diag(exp g_t) S_{t-1} +
// k_t^T v_t). Both fp32 (fp64 for fp64); slopes are then not used. There S(p) includes no factor of token p:
// the factors of a chunk act on what comes from its left, S(right edge) = T S(left edge) + S_own, R(left
// edge) = T^T R(right edge) + R_own.
struct Chunks {
  std::span<const Chunk> list;
  std::span<const double> slopes;
  ChunkWork work = ChunkWork::blocked;
};

// out (store or add): each row its chunk's own tokens up to itself, and where given what its chunk's `state`
// (at the chunk's left edge) and its `left` state (in `carry`) hold. Stored rows in no chunk become 0.
// final_state (store): the states at the right edges, of all chunks by their `right`, and of what enters at
// the left where state or carry is given. It needs chunks that are whole pieces. Final states that no chunk
// names become 0, here and below.
struct LinearLocal {
  View q, k, v;
  std::optional<View> log_decay = {}, beta = {}, state = {}, carry = {};
  View out;
  std::optional<View> final_state = {};
  Chunks chunks;
  Write write = Write::store;
};

// dq, dk, dv (store or add, each its own) of the same: state and carry as above, dstate (at the chunk's right
// edge) and dcarry (by `right`) the states of queries from there on. final_state: of queries, at the left
// edges. dlog_decay and dbeta (store): where log_decay and beta are given, of their shapes.
struct LinearLocalBackward {
  View q, k, v, dout;
  std::optional<View> log_decay = {}, beta = {}, state = {}, carry = {}, dstate = {}, dcarry = {};
  View dq, dk, dv;
  std::optional<View> dlog_decay = {}, dbeta = {}, final_state = {};
  Chunks chunks;
  Write write = Write::store;  // of dq, dk and dv
};

// The state of every chunk's own tokens, zero before them: of keys at its right edge (rows = k, columns = v),
// or `reverse`: of queries at its left edge (rows = q, columns = dout). States that no chunk names stay as
// they are; chunks without tokens give 0. transition (store): T of every chunk, D rows and D columns (one
// column where there is no beta: the factors of the D columns).
struct LinearState {
  View rows, columns;
  std::optional<View> k = {};  // reverse with beta: the keys, which R passes on its way
  std::optional<View> log_decay = {}, beta = {};
  View state;
  std::optional<View> transition = {};
  Chunks chunks;
  bool reverse = false;
};

// In place: what were the own states of a run of chunks (from one that resets up to the next that does)
// becomes what the chunks before it in the run hold at its left edge (reverse: the chunks after it, at its
// right edge). final_state (store): for each `right` (reverse: `left`), the sum over the chunks that name it
// of their own states, decayed by right_exponent (left_exponent).
// sums_only: state is read, and final_state alone is written.
struct LinearScan {
  View state;
  std::optional<View> final_state = {};
  Chunks chunks;
  bool reverse = false;
  bool sums_only = false;
};

// into[s] = lambda^count from[s] (store), or that added to it (add), for the chunk whose state is s, in the
// dtype of sums; where the chunk resets, from counts as 0. transition: T_s from[s] (reverse: T_s^T from[s])
// in place of the power. from may hold transitions (store, with a transition): T_s from[s] is what the tokens
// of both do, those of from first; reverse only where transitions are of columns, in either order. As states
// they have D columns, or 1, and where the chunk resets, 0 is stored. The views may hold a part of the D rows
// of every state, the same part of both: they have n times as many rows as a state has in them, n states
// being named. from may be of another dtype than into.
struct LinearCombine {
  View from, into;
  std::optional<View> transition = {};
  Chunks chunks;
  Write write = Write::add;
  bool reverse = false;
};

// What states hold for rows, without any pair of tokens of one chunk: out += q S. At least one of the states
// is given, as in LinearLocal; an output whose states are absent gets nothing. Four products, each where its
// output is given:
//   out  (store or add)  from q with state, carry         dq  from dout with state, carry (transposed)
//   dk   from v with dstate, dcarry (transposed)          dv  from k with dstate, dcarry
struct LinearInter {
  std::optional<View> q = {}, k = {}, v = {}, dout = {};
  std::optional<View> state = {}, carry = {}, dstate = {}, dcarry = {};
  std::optional<View> out = {}, dq = {}, dk = {}, dv = {};
  Chunks chunks;
  Write write = Write::add;
};

// The short convolution before Q, K or V (from, into, halo [rows,H,D]; filter [1,H,D W], W factors for each
// column). into_t = sum over i < W of filter_i from_(t - W + 1 + i), of the chunk's tokens and of those
// before it that are rows of the halo: rows [state, state + left_exponent), in their order. reverse: its
// adjoint, into_t = sum of filter_i from_(t + W - 1 - i), with the tokens behind the chunk: rows [state,
// state + right_exponent). What is no row counts as 0. Sums run in the dtype of sums and are rounded once;
// rows in no chunk become 0.
struct Convolve {
  View from, filter;
  std::optional<View> halo = {};
  View into;
  Chunks chunks;  // without slopes
  bool reverse = false;
};

// dfilter_i = sum over the tokens of all chunks of from_t dout_(t + W - 1 - i) (store), with halo rows of
// dout as in a reverse convolution. The same bits in every run.
struct FilterGradient {
  View from, dout;
  std::optional<View> halo = {};
  View dfilter;
  Chunks chunks;
};

// How many halo rows are a chunk's.
inline std::int64_t halo_rows(const Convolve& call, const Chunk& chunk) {
  return call.reverse ? chunk.right_exponent : chunk.left_exponent;
}
inline std::int64_t halo_rows(const FilterGradient&, const Chunk& chunk) {
  return chunk.right_exponent;
}

// The table a device offers.
struct LinearTiles {
  void (*local)(const LinearLocal&);
  void (*local_backward)(const LinearLocalBackward&);
  void (*state)(const LinearState&);
  void (*scan)(const LinearScan&);
  void (*combine)(const LinearCombine&);
  void (*inter)(const LinearInter&);
  void (*convolve)(const Convolve&);
  void (*filter_gradient)(const FilterGradient&);
};

// Correct tiles on the CPU (Eigen): every transition and every dtype. Each throws std::invalid_argument,
// before it writes anything, if shapes, chunks, slopes or write modes do not fit together.
const LinearTiles& cpu_linear_tiles();

// Tiles with a bug of LASP's, for `verify --inject`; nullptr if the name is unknown.
//  decay-division: scan makes exclusive states of inclusive ones by exp(+slope count) (inclusive - own), in
//  the type of sums: 0 * inf where slope count > 88.7 (fp64: 709.8), no digits left long before.
//  exclusive-without-undecay: the same without the factor.
//  bf16-index: inter takes the number of a token in its chunk from bf16, which has no odd numbers above 256.
//  bf16-state: local and local_backward round final_state to bf16.
const LinearTiles* faulty_cpu_linear_tiles(const char* name);

}  // namespace cplab::kernels
