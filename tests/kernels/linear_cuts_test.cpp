// Which kernel takes a call of linear attention, and how it is cut into thread blocks, without a GPU.
#include "kernels/tiles/linear_cuts.hpp"

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/families/linear/variants.hpp"
#include "tests/kernels/chosen_variant.hpp"
#include "tests/kernels/unread_view.hpp"

namespace cplab::testing {
namespace {

using namespace kernels;
using namespace kernels::cuda;

// Two sequences of 512 tokens in chunks of 256, or each in one.
struct LinearCalls {
  std::int64_t H = 12, D = 128, E = 64;
  DType dtype = DType::bf16;
  std::int64_t chunk_tokens = 256;
  ChunkWork work = ChunkWork::blocked;
  std::vector<double> slopes = std::vector<double>(12, 0.5);
  std::vector<Chunk> list = {};

  Chunks chunks() {
    list.clear();
    for (std::int64_t row = 0; row < 1024; row += chunk_tokens)
      list.push_back({.row = row,
                      .count = chunk_tokens,
                      .state = static_cast<std::int32_t>(row / chunk_tokens),
                      .resets = row % 512 == 0});
    return {.list = list, .slopes = slopes, .work = work};
  }
  LinearLocal local() {
    const View q = unread_view(1024, H, D, dtype), v = unread_view(1024, H, E, dtype);
    return {.q = q, .k = q, .v = v, .out = v, .chunks = chunks()};
  }
  LinearLocalBackward backward() {
    const View q = unread_view(1024, H, D, dtype), v = unread_view(1024, H, E, dtype);
    return {.q = q, .k = q, .v = v, .dout = v, .dq = q, .dk = q, .dv = v, .chunks = chunks()};
  }
};

constexpr VariantOptions portable_kernels = with_choice(on_ampere, KernelChoice::portable);

}  // namespace

TEST_CASE("local: blocked, serial and sliced are cut as their papers' kernels are") {
  LinearCalls problem;
  ChosenLinear chosen = choose_variant(problem.local(), portable_kernels);
  CHECK(chosen.variant->name == "linear_local mma bf16");
  CHECK(chosen.cut.columns == 64);
  CHECK(chosen.cut.thread_blocks == 4 * 12);  // chunks, heads: 64 columns of E are all of them

  problem.chunk_tokens = 512;
  problem.work = ChunkWork::serial;  // lasp_naive: (B H, E / 32)
  CHECK(choose_variant(problem.local(), portable_kernels).cut.thread_blocks == 2 * 12 * (64 / 32));
  problem.work = ChunkWork::sliced;  // lasp_fuse: (D / 64, E / 64, B H)
  chosen = choose_variant(problem.local(), portable_kernels);
  CHECK(chosen.cut.thread_blocks == 2 * 12 * (128 / 64) * (64 / 64));
  CHECK(chosen.cut.counters == chosen.cut.thread_blocks);
  chosen = choose_variant(problem.backward(), portable_kernels);
  CHECK(chosen.cut.thread_blocks == 2 * 12 * (128 / 64) * (64 / 64));
  CHECK(chosen.cut.counters == 3 * chosen.cut.thread_blocks);
}

TEST_CASE("backward: blocked work has a part for 64 columns of each gradient") {
  LinearCalls problem;
  const ChosenLinear chosen = choose_variant(problem.backward(), portable_kernels);
  CHECK(chosen.variant->name == "linear_local_backward mma bf16");
  CHECK(chosen.cut.parts == 128 / 64 + 128 / 64 + 64 / 64);
  CHECK(chosen.cut.shared_bytes <= linear_shared_limit);
}

TEST_CASE("tensor cores take whole 16 bytes of one dtype, the general kernels the rest") {
  const auto name = [](LinearCalls problem) {
    return choose_variant(problem.local(), portable_kernels).variant->name;
  };
  CHECK(name({.dtype = DType::fp16}) == "linear_local mma fp16");
  CHECK(name({.D = 40}) == "linear_local mma bf16");
  CHECK(name({.D = 42}) == "linear_local general fp32");
  CHECK(name({.D = 192}) == "linear_local general fp32");
  CHECK(name({.dtype = DType::fp32}) == "linear_local general fp32");
  LinearCalls problem;
  LinearLocal call = problem.local();
  call.k.dtype = DType::fp16;
  CHECK(choose_variant(call, portable_kernels).variant->name == "linear_local general fp32");
  // 512 tokens of both kernels are cut alike.
  problem.work = ChunkWork::serial;
  const LinearCut mma = choose_variant(problem.backward(), portable_kernels).cut;
  problem.dtype = DType::fp32;
  CHECK(choose_variant(problem.backward(), portable_kernels).cut.thread_blocks == mma.thread_blocks);
}

TEST_CASE("Hopper's kernels take blocked work of their sizes whose rows TMA can read") {
  const auto taken = [&](const auto& call) {
    return choose_variant(call, on_hopper).variant->family == LinearVariant::Family::hopper;
  };
  LinearCalls problem;
  const ChosenLinear chosen = choose_variant(problem.local(), on_hopper);
  CHECK(chosen.variant->name == "linear_local hopper bf16 128x64");
  CHECK(chosen.cut.thread_blocks == 4 * 12);  // chunks, heads
  CHECK(chosen.cut.multiprocessors == 132);
  CHECK(taken(problem.backward()));
  LinearLocal call = problem.local();
  const View states = unread_view(4 * 128, 12, 64, DType::fp32);
  call.state = states;
  CHECK(taken(call));
  call.out.dtype = DType::fp32;  // results may be of any dtype of theirs, anywhere
  call.out.row_stride += 1;
  CHECK(taken(call));
  call.state->row_stride += 1;
  CHECK_FALSE(taken(call));
  call = problem.local();
  call.q.row_stride += 4;  // 8 bytes
  CHECK_FALSE(taken(call));
  call = problem.local();
  call.final_state = states;
  CHECK_FALSE(taken(call));
  CHECK_FALSE(choose_variant(problem.local(), portable_kernels).variant->family ==
              LinearVariant::Family::hopper);
  problem.D = 192;
  CHECK_FALSE(taken(problem.local()));
  problem.D = 128;
  problem.work = ChunkWork::serial;
  CHECK_FALSE(taken(problem.local()));
}

TEST_CASE("serial work gives every part columns of all gradients") {
  LinearCalls problem{.D = 40, .E = 128, .dtype = DType::fp32};
  problem.work = ChunkWork::serial;
  const LinearCut cut = choose_variant(problem.backward(), portable_kernels).cut;
  CHECK(cut.parts == 4);
  CHECK(cut.value_columns == 32);
  CHECK(cut.key_columns * cut.parts >= 40);
  CHECK(cut.key_columns % cut.columns == 0);
}

TEST_CASE("large heads take fewer columns at a time, too large ones are refused") {
  LinearCalls problem{.D = 448, .E = 448};
  CHECK(choose_variant(problem.local(), portable_kernels).cut.columns == 32);
  problem = {.D = 960, .E = 960};
  CHECK(choose_variant(problem.local(), portable_kernels).cut.columns == 16);
  CHECK(choose_variant(problem.backward(), portable_kernels).cut.shared_bytes <= linear_shared_limit);
  problem = {.D = 1024, .E = 16};
  CHECK_THROWS_AS(choose_variant(problem.local(), portable_kernels), std::invalid_argument);
}

TEST_CASE("fp64 has kernels in full builds only") {
  LinearCalls problem{.dtype = DType::fp64};
  CHECK_THROWS_AS(choose_variant(problem.local(), portable_kernels), std::invalid_argument);
  VariantOptions full = portable_kernels;
  full.build.full = true;
  CHECK(choose_variant(problem.local(), full).variant->name == "linear_local general fp64");
}

TEST_CASE("a transition of every token has kernels for Hopper, of head sizes of keys up to 128") {
  LinearCalls problem;
  const auto with_gates = [&](std::int64_t D, DType dtype) {
    problem.D = D, problem.dtype = dtype;
    LinearLocal call = problem.local();
    call.log_decay = unread_view(1024, 12, D, DType::fp32);
    return call;
  };
  CHECK_THROWS_AS(choose_variant(with_gates(128, DType::bf16), portable_kernels), std::invalid_argument);
  VariantOptions hopper = on_hopper;
  CHECK(choose_variant(with_gates(128, DType::bf16), hopper).variant->name == "linear_local gated bf16 128");
  CHECK(choose_variant(with_gates(40, DType::fp32), hopper).variant->name == "linear_local gated fp32 64");
  CHECK_THROWS_AS(choose_variant(with_gates(129, DType::bf16), hopper), std::invalid_argument);
  CHECK_THROWS_AS(choose_variant(with_gates(128, DType::fp64), hopper), std::invalid_argument);
  // Without gates the kernels of a decay take it, as before.
  problem = {};
  CHECK(choose_variant(problem.local(), hopper).variant->family != LinearVariant::Family::gated);
}

TEST_CASE(
    "a transition of every token: blocks of 64 tokens, and arrays between kernels that do not overlap") {
  LinearCalls problem{.E = 80, .chunk_tokens = 512};
  LinearLocalBackward call = problem.backward();
  call.log_decay = call.beta = unread_view(1024, 12, 1, DType::fp32);
  const GatedCut cut = gated_cut_of(call);
  CHECK(cut.tokens == 64);
  CHECK(cut.blocks == 16);
  CHECK(cut.D == 128);
  CHECK(cut.E == 128);
  CHECK(cut.value_slices == 4);
  CHECK(gated_first_blocks(call.chunks.list, 64) == std::vector<std::int32_t>{0, 8, 16});
  // Of each array its elements for a block and head, times 2 bytes, and 4 for the sums of logarithms.
  const std::int64_t rows = 64 * 128, pairs = 64 * 64, states = 128 * 128;
  CHECK(cut.scratch.bytes == 16 * 12 * (2 * (5 * rows + 2 * pairs + 2 * states) + 4 * 128));
  CHECK(cut.scratch.scores < 0);
  call.beta.reset();
  CHECK(gated_cut_of(call).scratch.erase < 0);
}

TEST_CASE("inter: blocked work cuts chunks every 64 tokens, and these know where they lie") {
  LinearCalls problem{.chunk_tokens = 128};
  problem.list = {{.row = 3, .count = 130, .state = 0, .left = 1, .left_exponent = 7},
                  {.row = 133, .count = 0}};
  const std::vector<DeviceChunk> parts = short_chunks(problem.list);
  REQUIRE(parts.size() == 3);
  CHECK(parts[2].row == 3 + 128);
  CHECK(parts[2].count == 2);
  CHECK(parts[1].before == 64);
  CHECK(parts[1].after == 2);
  CHECK(parts[1].left_exponent == 7);
}

TEST_CASE("scan: runs are groups of their own unless they name one final state") {
  // Runs {0, 1}, {2}, {3, 4}: the first and the last end in state 5, whose sum has two stretches.
  const std::vector<Chunk> chunks = {{.count = 1, .state = 0, .right = 5, .resets = true},
                                     {.count = 1, .state = 1, .right = 5},
                                     {.count = 1, .state = 2, .right = 6, .resets = true},
                                     {.count = 1, .state = 3, .right = -1, .resets = true},
                                     {.count = 1, .state = 4, .right = 5}};
  const ScanChunks apart = scan_chunks(chunks, false, false);
  CHECK(apart.groups == std::vector<std::int32_t>{0, 2, 3, 5});
  const ScanChunks joined = scan_chunks(chunks, true, false);
  CHECK(joined.groups == std::vector<std::int32_t>{0, 4, 5});
  const auto flags = [&](std::size_t n) { return joined.chunks[n].flags; };
  CHECK(flags(0) == (DeviceChunk::resets | DeviceChunk::sum_begins));
  CHECK(flags(1) == DeviceChunk::sum_ends);
  CHECK(flags(2) == DeviceChunk::resets);
  CHECK(flags(3) == (DeviceChunk::sum_begins | DeviceChunk::sum_ends | DeviceChunk::sum_adds));
  CHECK(flags(4) == (DeviceChunk::resets | DeviceChunk::sum_begins | DeviceChunk::sum_ends));
  // From the right: the last chunk of a run comes first and has nothing behind it.
  const ScanChunks reverse = scan_chunks(chunks, false, true);
  CHECK(reverse.chunks[0].state == 1);
  CHECK(reverse.chunks[0].flags == DeviceChunk::resets);
  CHECK(reverse.chunks[1].state == 0);
  CHECK(reverse.chunks[1].flags == 0);
}

TEST_CASE("rows in no chunk") {
  const std::vector<Chunk> chunks = {{.row = 5, .count = 3}, {.row = 1, .count = 2}, {.row = 4, .count = 0}};
  const std::vector<RowRun> rows = rows_in_no_chunk(chunks, 10);
  REQUIRE(rows.size() == 3);
  CHECK((rows[0].begin == 0 && rows[0].count == 1));
  CHECK((rows[1].begin == 3 && rows[1].count == 2));
  CHECK((rows[2].begin == 8 && rows[2].count == 2));
}

}  // namespace cplab::testing
