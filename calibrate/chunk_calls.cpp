// Forms and operands; see chunk_calls.hpp.
#include "calibrate/chunk_calls.hpp"

#include <algorithm>
#include <stdexcept>

namespace cplab::measure {

std::int64_t bytes_of(const kernels::View& v) {
  return v.rows * v.heads * v.width * static_cast<std::int64_t>(kernels::bytes_of(v.dtype));
}

namespace {

using kernels::Chunk;
using kernels::ChunkWork;
using kernels::DType;
using kernels::View;

using Names = std::vector<std::string>;

bool holds(const Names& names, const char* name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Views that have memory, each asked for once.
class Operands {
 public:
  Operands(const ChunkShape& shape, std::int64_t chunks, const Take& take)
      : shape_(shape),
        take_(take),
        keys_(rows_first(nullptr, DType::bf16, shape.tokens, shape.heads, shape.key_size)),
        values_(rows_first(nullptr, DType::bf16, shape.tokens, shape.heads, shape.value_size)),
        state_(rows_first(nullptr, DType::fp32, chunks * shape.key_size, shape.heads, shape.value_size)),
        edge_(rows_first(nullptr, DType::fp32, shape.key_size, shape.heads, shape.value_size)) {}

  View keys() const { return placed(keys_); }
  View values() const { return placed(values_); }
  View state() const { return placed(state_); }
  std::optional<View> states_if(const char* name) const { return placed_if(shape_.states, name, state_); }
  std::optional<View> edge_if(const char* name) const { return placed_if(shape_.states, name, edge_); }
  std::optional<View> keys_if(bool given) const { return given ? std::optional(keys()) : std::nullopt; }
  std::optional<View> values_if(bool given) const { return given ? std::optional(values()) : std::nullopt; }

 private:
  View placed(View v) const {
    v.data = take_(bytes_of(v));
    return v;
  }
  std::optional<View> placed_if(const Names& names, const char* name, const View& v) const {
    return holds(names, name) ? std::optional(placed(v)) : std::nullopt;
  }

  const ChunkShape& shape_;
  const Take& take_;
  View keys_, values_, state_, edge_;
};

kernels::LinearInter inter_call(const ChunkShape& shape, const Operands& operands,
                                const kernels::Chunks& on) {
  const auto gives = [&](const char* name) { return holds(shape.results, name); };
  const bool out = gives("out"), dq = gives("dq"), dk = gives("dk"), dv = gives("dv");
  if (!out && !dq && !dk && !dv) throw std::invalid_argument("inter without a result");
  return {.q = operands.keys_if(out),
          .k = operands.keys_if(dv),
          .v = operands.values_if(dk),
          .dout = operands.values_if(dq),
          .state = operands.states_if("state"),
          .carry = operands.edge_if("carry"),
          .dstate = operands.states_if("dstate"),
          .dcarry = operands.edge_if("dcarry"),
          .out = operands.values_if(out),
          .dq = operands.keys_if(dq),
          .dk = operands.keys_if(dk),
          .dv = operands.values_if(dv),
          .chunks = on};
}

constexpr std::int64_t block_tokens = 256;

}  // namespace

ChunkShape ChunkForm::shape(std::int64_t tokens, std::int64_t value_size) const {
  ChunkShape shape{kind, states, results, cut, tokens, 16, 128, value_size, 0};
  if (length == Length::blocks) shape.chunk = block_tokens;
  if (length == Length::waves) shape.chunk = tokens / (value_size > 64 ? 8 : 16);
  return shape;
}

const std::vector<ChunkForm>& chunk_forms() {
  using enum ChunkWork;
  using enum ChunkForm::Length;
  const Names gradients{"dq", "dk", "dv"}, all{"state", "carry", "dstate", "dcarry"};
  const Names first{"state", "dstate", "dcarry"}, last{"state", "carry", "dstate"};  // ranks
  static const std::vector<ChunkForm> forms{
      {"local", sliced, whole, {"carry", "final_state"}, {}},
      {"local_backward", sliced, whole, {"carry", "dcarry", "final_state"}, {}},
      {"local", serial, whole, {"final_state"}, {}},
      {"local_backward", serial, whole, {"final_state"}, {}},
      {"inter", serial, whole, {"carry"}, {"out"}},
      {"inter", serial, whole, {"carry"}, {"dq"}},
      {"inter", serial, whole, {"dcarry"}, {"dk"}},
      {"inter", serial, whole, {"dcarry"}, {"dv"}},
      {"local", blocked, blocks, {}, {}},
      {"local_backward", blocked, blocks, {}, {}},
      {"state", blocked, blocks, {"state"}, {}},
      {"state", blocked, blocks, {"dstate"}, {}},
      {"inter", blocked, blocks, {"state", "carry"}, {"out"}},
      {"inter", blocked, blocks, all, gradients},
      {"local", blocked, waves, {}, {}},
      {"local_backward", blocked, waves, {}, {}},
      {"local", blocked, waves, {"state"}, {}},
      {"local", blocked, waves, {"state", "carry"}, {}},
      {"local_backward", blocked, waves, first, {}},
      {"local_backward", blocked, waves, last, {}},
      {"local_backward", blocked, waves, all, {}},
      {"state", blocked, waves, {"state"}, {}},
      {"state", blocked, waves, {"dstate"}, {}},
      {"inter", blocked, waves, {"state"}, {"out"}},
      {"inter", blocked, waves, {"state", "carry"}, {"out"}},
      {"inter", blocked, waves, first, gradients},
      {"inter", blocked, waves, last, gradients},
      {"inter", blocked, waves, all, gradients}};
  return forms;
}

const std::vector<ChunkForm>& scan_forms() {
  using enum ChunkForm::Length;
  static const std::vector<ChunkForm> forms{
      {"scan", ChunkWork::blocked, blocks, {"state"}, {}},
      {"scan", ChunkWork::blocked, blocks, {"state", "final_state"}, {}},
      {"scan", ChunkWork::blocked, blocks, {"dstate"}, {}},
      {"scan", ChunkWork::blocked, blocks, {"dstate", "final_state"}, {}}};
  return forms;
}

ChunkLists::ChunkLists(const ChunkShape& shape) {
  const std::int64_t length = shape.chunk > 0 ? shape.chunk : shape.tokens;
  for (std::int64_t at = 0; at < shape.tokens; at += length) {
    const std::int64_t count = std::min(length, shape.tokens - at);
    chunks.push_back(
        {at, count, static_cast<std::int32_t>(chunks.size()), 0, 0, at, shape.tokens - at - count, at == 0});
  }
  for (std::int64_t h = 0; h < shape.heads; ++h)
    slopes.push_back(1.0 / static_cast<double>(std::int64_t{2} << h % 8));
}

ChunkCall chunk_call(const ChunkShape& shape, const ChunkLists& lists, const Take& take) {
  const kernels::Chunks on{lists.chunks, lists.slopes, shape.cut};
  const Operands operands(shape, static_cast<std::int64_t>(lists.chunks.size()), take);
  const bool reverse = holds(shape.states, "dstate");
  if (shape.kind == "local")
    return kernels::LinearLocal{.q = operands.keys(),
                                .k = operands.keys(),
                                .v = operands.values(),
                                .state = operands.states_if("state"),
                                .carry = operands.edge_if("carry"),
                                .out = operands.values(),
                                .final_state = operands.edge_if("final_state"),
                                .chunks = on};
  if (shape.kind == "local_backward")
    return kernels::LinearLocalBackward{.q = operands.keys(),
                                        .k = operands.keys(),
                                        .v = operands.values(),
                                        .dout = operands.values(),
                                        .state = operands.states_if("state"),
                                        .carry = operands.edge_if("carry"),
                                        .dstate = operands.states_if("dstate"),
                                        .dcarry = operands.edge_if("dcarry"),
                                        .dq = operands.keys(),
                                        .dk = operands.keys(),
                                        .dv = operands.values(),
                                        .final_state = operands.edge_if("final_state"),
                                        .chunks = on};
  if (shape.kind == "state")
    return kernels::LinearState{.rows = operands.keys(),
                                .columns = operands.values(),
                                .state = operands.state(),
                                .chunks = on,
                                .reverse = reverse};
  if (shape.kind == "scan")
    return kernels::LinearScan{.state = operands.state(),
                               .final_state = operands.edge_if("final_state"),
                               .chunks = on,
                               .reverse = reverse};
  if (shape.kind == "combine")
    return kernels::LinearCombine{.from = operands.state(), .into = operands.state(), .chunks = on};
  if (shape.kind == "inter") return inter_call(shape, operands, on);
  throw std::invalid_argument("no such kind of linear attention: " + shape.kind);
}

std::int64_t operand_bytes(const ChunkShape& shape) {
  constexpr std::int64_t line = 256;
  std::int64_t sum = 0;
  chunk_call(shape, ChunkLists(shape), [&](std::int64_t bytes) -> char* {
    sum += (bytes + line - 1) / line * line;
    return nullptr;
  });
  return sum;
}

}  // namespace cplab::measure
