// Calls of linear attention to be timed; see loads.hpp.
#include <algorithm>

#include "calibrate/loads.hpp"
#include "kernels/linear.hpp"

namespace cplab::measure {
namespace {

using kernels::Chunk;
using kernels::DType;
using kernels::View;
using kernels::Write;

constexpr std::int64_t line = 256;

View rows_first(DType dtype, std::int64_t rows, std::int64_t heads, std::int64_t columns) {
  return {nullptr, dtype, rows, heads, columns, heads * columns, columns, {}};
}

std::int64_t bytes_of(const View& v) {
  return v.rows * v.heads * v.width * static_cast<std::int64_t>(kernels::bytes_of(v.dtype));
}

// One sequence in chunks that all pass to the next.
std::vector<Chunk> chunks_of(const ChunkShape& shape) {
  std::vector<Chunk> chunks;
  for (std::int64_t at = 0; at < shape.tokens; at += shape.chunk) {
    const std::int64_t count = std::min(shape.chunk, shape.tokens - at);
    chunks.push_back(
        {at, count, static_cast<std::int32_t>(chunks.size()), 0, 0, at, shape.tokens - at - count, at == 0});
  }
  return chunks;
}

}  // namespace

Load::Load(const DeviceMemory& arena, std::int64_t l2_bytes, const ChunkShape& shape) : arena_(arena) {
  const std::vector<Chunk> chunks = chunks_of(shape);
  std::vector<double> slopes;  // 2^-1 ... 2^-8, as ALiBi has them for 8 heads
  for (std::int64_t h = 0; h < shape.heads; ++h)
    slopes.push_back(1.0 / static_cast<double>(std::int64_t{2} << h % 8));
  const kernels::Chunks on{chunks, slopes, kernels::ChunkWork::blocked};
  const auto count = static_cast<std::int64_t>(chunks.size());
  const View keys = rows_first(DType::bf16, shape.tokens, shape.heads, shape.key_size);
  const View values = rows_first(DType::bf16, shape.tokens, shape.heads, shape.value_size);
  const View state = rows_first(DType::fp32, count * shape.key_size, shape.heads, shape.value_size);
  const View edge = rows_first(DType::fp32, shape.key_size, shape.heads, shape.value_size);
  const auto has = [&](const char* name) {
    return std::find(shape.states.begin(), shape.states.end(), name) != shape.states.end();
  };
  const std::int64_t set_bytes = 4 * (bytes_of(keys) + line) + 3 * (bytes_of(values) + line) +
                                 2 * (bytes_of(state) + bytes_of(edge) + 2 * line);
  const auto place = [&](View v) {
    v.data = take(bytes_of(v));
    return v;
  };
  const auto place_if = [&](const char* name, const View& v) {
    return has(name) ? std::optional<View>(place(v)) : std::nullopt;
  };
  const int sets = sets_for(set_bytes, set_bytes / 2, l2_bytes);
  for (int set = 0; set < sets; ++set) {
    if (shape.kind == "local") {
      timed_.push_back(calls_.add(kernels::LinearLocal{.q = place(keys),
                                                       .k = place(keys),
                                                       .v = place(values),
                                                       .state = place_if("state", state),
                                                       .carry = place_if("carry", edge),
                                                       .out = place(values),
                                                       .chunks = on}));
    } else if (shape.kind == "local_backward") {
      timed_.push_back(calls_.add(kernels::LinearLocalBackward{.q = place(keys),
                                                               .k = place(keys),
                                                               .v = place(values),
                                                               .dout = place(values),
                                                               .state = place_if("state", state),
                                                               .carry = place_if("carry", edge),
                                                               .dstate = place_if("dstate", state),
                                                               .dcarry = place_if("dcarry", edge),
                                                               .dq = place(keys),
                                                               .dk = place(keys),
                                                               .dv = place(values),
                                                               .chunks = on}));
    } else if (shape.kind == "state") {
      timed_.push_back(calls_.add(kernels::LinearState{.rows = place(keys),
                                                       .columns = place(values),
                                                       .state = place(state),
                                                       .chunks = on,
                                                       .reverse = has("dstate")}));
    } else if (shape.kind == "scan") {
      timed_.push_back(calls_.add(kernels::LinearScan{.state = place(state), .chunks = on}));
      bytes_ = 2 * static_cast<double>(bytes_of(state));
    } else if (shape.kind == "combine") {
      timed_.push_back(
          calls_.add(kernels::LinearCombine{.from = place(state), .into = place(state), .chunks = on}));
      bytes_ = 3 * static_cast<double>(bytes_of(state));
    } else if (shape.kind == "inter" && !has("dstate")) {
      timed_.push_back(calls_.add(kernels::LinearInter{.q = place(keys),
                                                       .state = place_if("state", state),
                                                       .carry = place_if("carry", edge),
                                                       .out = place(values),
                                                       .chunks = on}));
    } else if (shape.kind == "inter") {
      timed_.push_back(calls_.add(kernels::LinearInter{.k = place(keys),
                                                       .v = place(values),
                                                       .dout = place(values),
                                                       .state = place_if("state", state),
                                                       .carry = place_if("carry", edge),
                                                       .dstate = place_if("dstate", state),
                                                       .dcarry = place_if("dcarry", edge),
                                                       .dq = place(keys),
                                                       .dk = place(keys),
                                                       .dv = place(values),
                                                       .chunks = on}));
    } else {
      throw Error("no such kind of linear attention: " + shape.kind);
    }
  }
  operands_ = "bf16, states fp32";
}

}  // namespace cplab::measure
