// A random problem of linear attention on a GPU, its tensors, and the checks of its results.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tests/gpu/gpu_tile.hpp"
#include "tests/gpu/linear_oracle.hpp"

namespace cplab::testing {

using kernels::Chunk;
using kernels::ChunkWork;
using kernels::Write;

class LinearProblem {
 public:
  LinearProblem(Report& report, const CaseName& name, bool has_fp64);

 protected:
  // What a walk of one result needs beside its operands: which states enter and leave.
  struct Edges {
    const Tensor* own = nullptr;    // states of chunks, at the edge where the walk begins
    const Tensor* carry = nullptr;  // of the edges of pieces
    bool reverse = false, transposed = false;
  };

  struct Result {
    const char* name;
    const Tensor *a, *b, *c;
    const Tensor *gpu, *before;
    Edges edges;
    const Tensor* final_state = nullptr;
    bool pairs = true;  // false: only what enters
  };

  void draw_slopes();
  // Pieces of one to five chunks, rows in no chunk between them. States, and edges, in a random order.
  void draw_chunks();
  // The pieces as single chunks, with final states that differ.
  std::vector<Chunk> whole_pieces() const;
  // Some states are not there, where that is allowed.
  std::vector<Chunk> with_missing_states(std::vector<Chunk> chunks);
  // Operands of tokens: NaN in rows of no chunk.
  Tensor tokens(std::int64_t width);
  bool in_chunk(std::int64_t row) const;
  // States: NaN where `named` has no such number.
  Tensor states(std::int64_t count, const std::vector<std::int32_t>& named, DType dtype);
  static std::vector<std::int32_t> numbers(const std::vector<Chunk>& chunks, std::int32_t Chunk::*which);
  Tensor result(std::int64_t width, Write write);
  Tensor poisoned_states(std::int64_t count);
  // States that enter a chunk, [width of a][width of c].
  Sums entering(const Chunk& chunk, const Edges& edges, std::int64_t head) const;
  // Additions that a term of a result goes through: the score or the row of a state, 64 tokens, and a state
  // for every 64 tokens of the chunk; 16 for powers and the like.
  double terms(std::int64_t summed, std::int64_t count) const;
  void check(const std::string& variant, const Result& r, const std::vector<Chunk>& chunks, Write write);
  // Numbers of which dtype stand for a row that a kernel has scaled by its power: linear.hpp lets it be one
  // of q's, as in the kernels for Hopper. Those on tensor cores of any GPU have two; the general ones none.
  struct ScaledRows {
    DType dtype;
    int numbers;
  };
  ScaledRows scaled_rows(const std::string& variant) const;
  // NaN comes out as infinity.
  double states_off(const Tensor& states, std::int32_t number, const Sums& expected, std::int64_t head,
                    std::int64_t count, ScaledRows scaled) const;
  // Final states that no chunk names become 0.
  void check_unnamed(const std::string& variant, const Tensor& states,
                     const std::vector<std::int32_t>& named);
  std::vector<Sum> rows_times_state(const Tensor& a, const Chunk& chunk, const Sums& state, std::int64_t head,
                                    bool reverse, std::int64_t Y) const;

  bool toss() { return std::uniform_int_distribution<int>(0, 1)(generator_) == 0; }
  Write toss_write() { return toss() ? Write::store : Write::add; }

  Report& report_;
  std::mt19937 generator_;
  std::int64_t D_ = 0, E_ = 0, heads_ = 0, rows_ = 0, shift_ = 0, gap_unit_ = 1, long_ = 0;
  std::int32_t pieces_ = 0;
  DType nominal_ = DType::fp32, wide_ = DType::fp32;
  ChunkWork work_ = ChunkWork::blocked;
  std::vector<double> slopes_;
  std::vector<Chunk> chunks_;
  std::string where_;
};

}  // namespace cplab::testing
