// Times of the forward kernel with each tile height forced, as JSON, for fitting their costs. CudaCalls
// takes the height that an earlier fit calls fastest, so calls are prepared here, without it. And of the
// fused backward with either of its tiles, for which CudaCalls cuts nothing but whole tiles.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "kernels/cuda/kernel_table.hpp"
#include "kernels/families/family.hpp"
#include "kernels/families/parts/cuda_error.hpp"
#include "kernels/tiles/work_list.hpp"
#include "tests/gpu/attention_problem.hpp"
#include "tests/gpu/gpu_tile.hpp"

namespace cplab::testing {
namespace {

using kernels::Attend;
using kernels::DeviceMemory;
using namespace kernels::cuda;

template <class Item>
DeviceMemory in_device_memory(std::span<const Item> items) {
  DeviceMemory memory(items.size_bytes());
  memory.copy_in(std::as_bytes(items));
  return memory;
}

template <class Item>
Item* begin_of(const DeviceMemory& memory) {
  return reinterpret_cast<Item*>(memory.data());
}

// A call that stores, by this variant.
class Forced {
 public:
  Forced(const AttendVariant& variant, const Attend& call)
      : Forced(variant, call,
               query_tiles(live_segments(call.segments), even_cuts(call.q.rows, variant.tile_rows), true)) {}
  Forced(const Forced&) = delete;
  Forced& operator=(const Forced&) = delete;

  std::int32_t rows() const { return rows_; }
  int together() const { return together_; }

  // Of a call.
  double seconds(int repeats, const DeviceMemory& busy) const {
    const auto queue = [&](kernels::CudaStream stream) {
      for (int repeat = 0; repeat < repeats; ++repeat) {
        launch_(stream);
        require_cuda(cudaGetLastError(), "launch");
      }
    };
    return kernels::seconds_hidden(queue, busy) / repeats;
  }

 private:
  static DeviceView device(const View& view) { return device_view(view, row_map(view)); }

  Forced(const AttendVariant& variant, const Attend& call, const WorkTables& work)
      : rows_(variant.tile_rows),
        together_(variant.family->blocks_together(variant)),
        tiles_(in_device_memory<WorkTile>(work.tiles)),
        segments_(in_device_memory<DeviceSegment>(work.segments)),
        counter_(in_device_memory<std::int32_t>(std::vector<std::int32_t>{0})),
        params_{
            .q = device(call.q),
            .k = device(call.k),
            .v = device(call.v),
            .out = device(call.out),
            .lse = device(call.lse),
            .work = {.tiles = begin_of<WorkTile>(tiles_),
                     .segments = begin_of<DeviceSegment>(segments_),
                     .count = static_cast<std::int32_t>(work.tiles.size())},
            .scale = call.scale,
            .multiprocessors = device_sms(),
            .tile_counter = variant.counts_tiles && !work.even ? begin_of<std::int32_t>(counter_) : nullptr},
        launch_(kernel_of(variant).bind(params_)) {}

  std::int32_t rows_;
  int together_;
  DeviceMemory tiles_, segments_, counter_;
  AttendParams params_;
  Launch launch_;
};

// A backward that adds to dq, in fp32, and rounds dk and dv: what is left of a whole call without its
// row-wise kernels.
class ForcedBackward {
 public:
  ForcedBackward(const AttendBackwardVariant& variant, const kernels::AttendBackward& call)
      : keys_(variant.tile_rows), calls_(kernels::CallOptions{.only = variant.name}) {
    numbers_ = {calls_.add(call)};
    tables_.emplace(calls_.table_bytes());
    calls_.upload(tables_->data());
  }

  std::int32_t rows() const { return keys_; }
  static int together() { return 1; }

  double seconds(int repeats, const DeviceMemory& busy) const {
    return kernels::seconds_hidden(calls_, numbers_, repeats, busy) / repeats;
  }

 private:
  std::int32_t keys_;
  kernels::CudaCalls calls_;
  std::vector<std::size_t> numbers_;
  std::optional<DeviceMemory> tables_;
};

struct HeightShape {
  std::int64_t B, S, H, D;
};

// The median seconds of each call, in the order of `all`. Every round has an order of its own.
template <class Call>
std::vector<double> medians(const std::vector<std::unique_ptr<Call>>& all, int repeats,
                            const DeviceMemory& busy) {
  constexpr std::size_t rounds = 9;
  std::vector<std::vector<double>> seconds(all.size());
  std::vector<std::size_t> order(all.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::mt19937 generator(1);
  for (const auto& forced : all) forced->seconds(1, busy);
  for (std::size_t round = 0; round < rounds; ++round) {
    std::shuffle(order.begin(), order.end(), generator);
    for (const std::size_t n : order) seconds[n].push_back(all[n]->seconds(repeats, busy));
  }
  std::vector<double> middle;
  for (std::vector<double>& its : seconds) {
    std::sort(its.begin(), its.end());
    middle.push_back(its[rounds / 2]);
  }
  return middle;
}

// `rows`: what a tile's height is called.
template <class Call>
void print_medians(const HeightShape& shape, bool causal, const char* rows,
                   const std::vector<std::unique_ptr<Call>>& all, double flops, const DeviceMemory& busy,
                   bool& first) {
  const std::vector<double> seconds = medians(all, flops > 4e11 ? 2 : 8, busy);
  for (std::size_t n = 0; n < all.size(); ++n) {
    std::printf(
        "%s\n {\"batch\": %lld, \"sequence\": %lld, \"heads\": %lld, \"head_size\": %lld, \"causal\": %s, "
        "\"%s\": %d, \"together\": %d, \"seconds\": %.6g}",
        first ? "" : ",", static_cast<long long>(shape.B), static_cast<long long>(shape.S),
        static_cast<long long>(shape.H), static_cast<long long>(shape.D), causal ? "true" : "false", rows,
        all[n]->rows(), all[n]->together(), seconds[n]);
    std::fflush(stdout);
    first = false;
  }
}

AttentionProblem problem_of(const HeightShape& shape, bool causal) {
  const std::vector<std::int64_t> lengths(static_cast<std::size_t>(shape.B), shape.S);
  return AttentionProblem({.q_rows = shape.B * shape.S,
                           .k_rows = shape.B * shape.S,
                           .heads = shape.H,
                           .kv_heads = shape.H,
                           .width = shape.D},
                          sequences(lengths, causal));
}

void time_shape(const HeightShape& shape, bool causal, const DeviceMemory& busy, bool& first) {
  const AttentionProblem problem = problem_of(shape, causal);
  const Attend call = problem.forward();
  std::vector<std::unique_ptr<Forced>> all;
  for (const AttendVariant& variant : attend_variants(built_kernels()))
    if (variant.sm_major == device_major() && variant.fits(call))
      all.push_back(std::make_unique<Forced>(variant, call));
  print_medians(shape, causal, "rows", all, problem.flops(), busy, first);
}

void time_backward_shape(const HeightShape& shape, bool causal, const DeviceMemory& busy, bool& first) {
  const AttentionProblem problem = problem_of(shape, causal);
  const Operand dq(kernels::DType::fp32, shape.B * shape.S, shape.H, shape.D);
  kernels::AttendBackward call = problem.backward(kernels::Write::add);
  call.dq = dq.view();
  std::vector<std::unique_ptr<ForcedBackward>> all;
  for (const AttendBackwardVariant& variant : attend_backward_variants(built_kernels()))
    if (variant.dq == DqSum::any_order && variant.sm_major == device_major() && variant.fits(call))
      all.push_back(std::make_unique<ForcedBackward>(variant, call));
  print_medians(shape, causal, "keys", all, problem.backward_flops(), busy, first);
}

}  // namespace

void time_backward_heights() {
  const DeviceMemory busy(std::size_t{2} << 30);
  bool first = true;
  std::printf("[");
  for (const HeightShape& shape :
       {HeightShape{1, 256, 16, 128}, HeightShape{1, 512, 16, 128}, HeightShape{1, 1024, 16, 128},
        HeightShape{1, 2048, 16, 128}, HeightShape{1, 4096, 16, 128}, HeightShape{2, 512, 16, 128},
        HeightShape{2, 1024, 16, 128}, HeightShape{4, 512, 16, 128}, HeightShape{8, 2048, 16, 128},
        HeightShape{2, 8192, 16, 128}, HeightShape{64, 256, 16, 128}, HeightShape{1, 1024, 32, 128}})
    for (const bool causal : {false, true}) time_backward_shape(shape, causal, busy, first);
  std::printf("\n]\n");
}

void time_heights() {
  const DeviceMemory busy(std::size_t{2} << 30);
  bool first = true;
  std::printf("[");
  for (const std::int64_t D : {64, 128}) {
    const std::int64_t H = 2048 / D;
    for (const HeightShape& shape :
         {HeightShape{1, 512, H, D}, HeightShape{1, 1024, H, D}, HeightShape{1, 2048, H, D},
          HeightShape{1, 4096, H, D}, HeightShape{8, 2048, H, D}, HeightShape{2, 8192, H, D},
          HeightShape{1, 16384, H, D}, HeightShape{16, 1024, H, D}, HeightShape{32, 512, H, D},
          HeightShape{64, 256, H, D}})
      for (const bool causal : {false, true}) time_shape(shape, causal, busy, first);
  }
  std::printf("\n]\n");
}

}  // namespace cplab::testing
