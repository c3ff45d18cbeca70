// Kernel calls to be timed, on as many sets of operands as do not fit into L2 together.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "calibrate/chunk_calls.hpp"
#include "calibrate/device.hpp"
#include "kernels/cuda.hpp"

namespace cplab::measure {

// Attention as one call of `batch` segments of queries x keys; see FormTable (sim/finer_tables.hpp).
// `updates`: out in fp32 is merged into; dq, dk and dv are added to.
struct FormShape {
  bool backward = false;
  std::int64_t batch = 1, queries = 0, keys = 0, heads = 0, kv_heads = 0, head_size = 0;
  bool causal = false, updates = false, delta_inside = false, rounded = false;
  std::int64_t window = -1, row_runs = 1;
};

// A copy of bf16 rows that reads and writes about `bytes`, read from so many pieces.
struct PiecesShape {
  std::int64_t bytes = 0, pieces = 1;
};

// Operands are views into an arena of random data, which must outlive the load.
class Load {
 public:
  // attend or attend_backward, bf16 in and out, fp32 lse, delta and gradients, rows first as in plans.
  Load(const DeviceMemory& arena, std::int64_t l2_bytes, const AttentionShape& shape, bool backward);
  // row_dot, merge, copy, cast, add or fill that reads and writes about `bytes`; the operands' dtypes are
  // those of plans in bf16.
  Load(const DeviceMemory& arena, std::int64_t l2_bytes, const std::string& kind, std::int64_t bytes);

  Load(const DeviceMemory& arena, std::int64_t l2_bytes, const FormShape& shape, int reserved_sms = 0);
  Load(const DeviceMemory& arena, std::int64_t l2_bytes, const PiecesShape& shape);

  // bf16, states fp32; throws Error if they do not fit into the arena once.
  Load(const DeviceMemory& arena, std::int64_t l2_bytes, const ChunkShape& shape);

  // Uploads the tables, fills the operands with random data and, for a backward pass, computes its lse, out
  // and delta. Waits. To be called once, and when another load has used the arena since.
  void prepare(std::uint64_t seed, CudaStream stream);
  void queue(std::int64_t index, CudaStream stream) const;

  // Read plus written, as Operation::bytes; elementwise kinds and combine only.
  double bytes() const { return bytes_; }
  const std::string& operands() const { return operands_; }
  std::string variant() const { return calls_.variant(timed_.front()); }
  static std::int64_t arena_bytes() { return std::int64_t{7} << 28; }  // enough for 32768 x 16 x 128

 private:
  char* take(std::int64_t bytes);
  int sets_for(std::int64_t set_bytes, std::int64_t touched_bytes, std::int64_t l2_bytes) const;
  void add_elementwise(const std::string& kind, std::int64_t rows);

  const DeviceMemory& arena_;
  std::int64_t used_ = 0;
  double bytes_ = 0;
  std::string operands_;
  kernels::CudaCalls calls_;
  std::vector<std::size_t> before_, timed_;
  std::unique_ptr<DeviceMemory> tables_;
};

}  // namespace cplab::measure
