// Calls of linear attention to be timed, without a GPU: which of them plans make, and their operands.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "kernels/linear.hpp"

namespace cplab::measure {

// One sequence in chunks of `chunk` tokens (0: it is one chunk). `kind` as plans name it: local,
// local_backward, state, scan, combine, inter. `states`: its operands that are states; combine needs none
// named. `results` of inter: out, dq, dk or dv, or the last three.
struct ChunkShape {
  std::string kind;
  std::vector<std::string> states, results;
  kernels::ChunkWork cut = kernels::ChunkWork::blocked;
  std::int64_t tokens = 0, heads = 0, key_size = 0, value_size = 0, chunk = 0;
};

// What a class is asked for with: its cut, its chunks and its operands.
struct ChunkForm {
  // whole: the sequence is one chunk (lasp_naive, lasp_cache, lasp_fuse); blocks: 256 tokens
  // (lasp_fuse_parallel, a scan's states too); waves: about as many thread blocks of a chunk and a head as
  // run at once (algorithms/core/defaults.cpp, whose default this is at 16 heads and 132 multiprocessors).
  enum class Length : std::uint8_t { whole, blocks, waves };
  std::string kind;
  kernels::ChunkWork cut = kernels::ChunkWork::blocked;
  Length length = Length::blocks;
  std::vector<std::string> states, results;

  ChunkShape shape(std::int64_t tokens, std::int64_t value_size) const;  // 16 heads, D = 128
};
// local, local_backward, state and inter; scans apart, whose time goes by their states.
const std::vector<ChunkForm>& chunk_forms();
const std::vector<ChunkForm>& scan_forms();

using ChunkCall = std::variant<kernels::LinearLocal, kernels::LinearLocalBackward, kernels::LinearState,
                               kernels::LinearScan, kernels::LinearCombine, kernels::LinearInter>;

// The chunks and slopes of a shape, which its calls point at.
struct ChunkLists {
  explicit ChunkLists(const ChunkShape&);
  std::vector<kernels::Chunk> chunks;
  std::vector<double> slopes;  // 2^-1 ... 2^-8, as ALiBi has them for 8 heads
};

// Operands are bf16, states fp32, rows first as in plans; `take` gives memory of so many bytes for each. The
// lists must outlive the call. Throws std::invalid_argument for a kind or result that there is not.
using Take = std::function<char*(std::int64_t bytes)>;
ChunkCall chunk_call(const ChunkShape&, const ChunkLists&, const Take&);

// Of a view without gaps.
std::int64_t bytes_of(const kernels::View&);

// Of all operands, each in whole lines of 256 bytes.
std::int64_t operand_bytes(const ChunkShape&);

}  // namespace cplab::measure
