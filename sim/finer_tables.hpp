// Measured times of what plans issue beyond the squares, curves and shifts of the other tables: how far a
// call is from those. A hardware file may have them (docs/05-cost-model.md). The simulator reads [[beside]]
// (Contentions); no prediction uses the others yet.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/plan.hpp"
#include "report/timeline.hpp"

namespace cplab {

// Where a table comes from. `origin` is measured or assumed; interpolated and extrapolated arise in use.
// `source` says why an assumed number was chosen, the other three how a measured one was taken.
struct Provenance {
  Origin origin = Origin::assumed;
  std::string tool, machine, date, source;
};

// [[form]]: attention that is no square of as many key as query heads, stored where nothing was.
struct FormPoint {
  std::int64_t batch = 0, queries = 0, keys = 0;  // rows of each of `batch` segments
  std::int64_t heads = 0, kv_heads = 0;
  double seconds = 0;
};
struct FormTable {
  OpKind kind = OpKind::attend;
  std::string variant;
  DType dtype = DType::bf16;
  std::int64_t head_size = 0;
  bool causal = false;       // aligned at the first row of both
  std::int64_t window = -1;  // keys before its own that a query sees; -1: all
  // store; merge: of out; add: of dq, dk and dv.
  WriteMode write = WriteMode::store;
  bool delta_inside = false;  // of attend_backward: the call computes delta first
  bool rounded = false;       // of attend_backward: dq comes out in dtype
  std::int64_t row_runs = 1;  // in which the query rows lie, with gaps of as many rows
  std::vector<FormPoint> points;
  Provenance provenance;
};

// [[pieces]]: a copy inside a GPU, or an exchange, of so many bytes in all in pieces that are not contiguous.
// Bytes as in curves and messages: read plus written, wire bytes sent per rank.
struct PiecesPoint {
  double bytes = 0;
  std::int64_t pieces = 1;
  double seconds = 0;
};
struct PiecesTable {
  OpKind kind = OpKind::copy;
  Transport transport = Transport::nccl;  // of exchange
  std::vector<PiecesPoint> points;
  Provenance provenance;
};

// [[beside]]: communication alone and while kernels of that class run on all GPUs; the other way round is
// [[interference]]. Bytes as in messages, ascending.
struct BesidePoint {
  double bytes = 0, alone_s = 0, beside_s = 0;
};
struct BesideTable {
  OpKind kind = OpKind::exchange;
  Transport transport = Transport::nccl;
  OpKind beside = OpKind::attend;
  std::vector<BesidePoint> points;
  Provenance provenance;
};

// [[launch]]: host time to issue one call of that kind.
struct LaunchCost {
  OpKind kind = OpKind::copy;
  Transport transport = Transport::nccl;  // of communication
  double seconds = 0;
  Provenance provenance;
};

// [[gemm]]: C[m,n] = A[m,k] B[k,n] of a library, row-major, sums in fp32.
struct GemmPoint {
  std::int64_t m = 0, n = 0, k = 0;
  double seconds = 0;
};
struct GemmTable {
  std::string library;
  DType dtype = DType::bf16;
  std::vector<GemmPoint> points;
  Provenance provenance;
};

// [cards]: one attention on each GPU of the node, alone and under load, in the order of their numbers.
struct CardSpread {
  std::vector<double> attend_s;
  Provenance provenance;
};

struct FinerTables {
  std::vector<FormTable> forms;
  std::vector<PiecesTable> pieces;
  std::vector<BesideTable> beside;
  std::vector<LaunchCost> launches;
  std::vector<GemmTable> gemms;
  CardSpread cards;
};

}  // namespace cplab
