// Times of linear attention for another program; see serve_linear() in gpu_tile.hpp.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/gpu/attention_problem.hpp"
#include "tests/gpu/gpu_tile.hpp"

namespace cplab::testing {
namespace {

using kernels::Chunk;
using kernels::CudaCalls;
using kernels::DeviceMemory;

// [rows, heads, width] that a call writes before it is read.
class Result {
 public:
  Result(DType dtype, std::int64_t rows, std::int64_t heads, std::int64_t width)
      : memory_(static_cast<std::size_t>(rows * heads * width) * kernels::bytes_of(dtype)),
        view_(kernels::rows_first(memory_.data(), dtype, rows, heads, width)) {}
  const View& view() const { return view_; }

 private:
  DeviceMemory memory_;
  View view_;
};

// One sequence of `tokens` on one rank, in chunks, with the slopes of Lightning attention's first layer.
class ServedLinear {
 public:
  ServedLinear(std::int64_t tokens, std::int64_t H, std::int64_t D, std::int64_t E, std::int64_t chunk_tokens)
      : chunks_(list_of(tokens, chunk_tokens)),
        slopes_(slopes_of(H)),
        q_(DType::bf16, tokens, H, D, 1),
        k_(DType::bf16, tokens, H, D, 2),
        v_(DType::bf16, tokens, H, E, 3),
        dout_(DType::bf16, tokens, H, E, 4),
        out_(DType::bf16, tokens, H, E),
        dq_(DType::bf16, tokens, H, D),
        dk_(DType::bf16, tokens, H, D),
        dv_(DType::bf16, tokens, H, E),
        state_(DType::fp32, std::ssize(chunks_) * D, H, E),
        dstate_(DType::fp32, std::ssize(chunks_) * D, H, E) {
    const kernels::Chunks chunks{.list = chunks_, .slopes = slopes_};
    add("state", kernels::LinearState{
                     .rows = k_.view(), .columns = v_.view(), .state = state_.view(), .chunks = chunks});
    add("scan", kernels::LinearScan{.state = state_.view(), .chunks = chunks});
    add("local", kernels::LinearLocal{.q = q_.view(),
                                      .k = k_.view(),
                                      .v = v_.view(),
                                      .state = state_.view(),
                                      .out = out_.view(),
                                      .chunks = chunks});
    add("reverse_state", kernels::LinearState{.rows = q_.view(),
                                              .columns = dout_.view(),
                                              .state = dstate_.view(),
                                              .chunks = chunks,
                                              .reverse = true});
    add("reverse_scan", kernels::LinearScan{.state = dstate_.view(), .chunks = chunks, .reverse = true});
    add("local_backward", kernels::LinearLocalBackward{.q = q_.view(),
                                                       .k = k_.view(),
                                                       .v = v_.view(),
                                                       .dout = dout_.view(),
                                                       .state = state_.view(),
                                                       .dstate = dstate_.view(),
                                                       .dq = dq_.view(),
                                                       .dk = dk_.view(),
                                                       .dv = dv_.view(),
                                                       .chunks = chunks});
    parts_["forward"] = {parts_["state"][0], parts_["scan"][0], parts_["local"][0]};
    parts_["backward"] = {parts_["reverse_state"][0], parts_["reverse_scan"][0], parts_["local_backward"][0]};
    tables_.emplace(calls_.table_bytes());
    calls_.upload(tables_->data());
    kernels::launch_and_wait(calls_, parts_["forward"]);
    kernels::launch_and_wait(calls_, parts_["backward"]);
  }

  double seconds(const std::string& part, int repeats, const DeviceMemory& memory) const {
    return kernels::seconds_hidden(calls_, parts_.at(part), repeats, memory) / repeats;
  }
  std::string variant(const std::string& part) const { return calls_.variant(parts_.at(part).back()); }

 private:
  static std::vector<Chunk> list_of(std::int64_t tokens, std::int64_t chunk_tokens) {
    std::vector<Chunk> chunks;
    for (std::int64_t at = 0; at < tokens; at += chunk_tokens)
      chunks.push_back({.row = at,
                        .count = std::min(chunk_tokens, tokens - at),
                        .state = static_cast<std::int32_t>(chunks.size())});
    return chunks;
  }
  static std::vector<double> slopes_of(std::int64_t H) {
    std::vector<double> slopes;
    for (std::int64_t h = 0; h < H; ++h)
      slopes.push_back(std::exp2(-8 * static_cast<double>(h + 1) / static_cast<double>(H)));
    return slopes;
  }
  template <class Call>
  void add(const char* part, const Call& call) {
    parts_[part] = {calls_.add(call)};
  }

  std::vector<Chunk> chunks_;
  std::vector<double> slopes_;
  Operand q_, k_, v_, dout_;
  Result out_, dq_, dk_, dv_, state_, dstate_;
  CudaCalls calls_{kernel_choice};
  std::map<std::string, std::vector<std::size_t>> parts_;
  std::optional<DeviceMemory> tables_;
};

}  // namespace

void serve_linear() {
  const DeviceMemory memory(std::size_t{2} << 30);
  std::unique_ptr<ServedLinear> served;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string command, part;
    std::int64_t tokens = 0, H = 0, D = 0, E = 0, chunk_tokens = 0;
    int repeats = 0;
    words >> command;
    if (command == "linear" && words >> tokens >> H >> D >> E >> chunk_tokens && chunk_tokens > 0) {
      served.reset();
      served = std::make_unique<ServedLinear>(tokens, H, D, E, chunk_tokens);
      std::cout << "ok" << std::endl;
    } else if (command == "part" && words >> part >> repeats && repeats > 0 && served) {
      std::cout << served->seconds(part, repeats, memory) << ' ' << served->variant(part) << std::endl;
    } else if (command == "end") {
      served.reset();
      std::cout << "ok" << std::endl;
    } else {
      throw std::invalid_argument("not understood: " + line);
    }
  }
}

}  // namespace cplab::testing
