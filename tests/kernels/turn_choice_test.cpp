// Where tiles of the backward add to dq in turn, and where other kernels are taken, without a GPU.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "kernels/families/hopper_backward/family.hpp"
#include "tests/kernels/backward_names.hpp"
#include "tests/kernels/chosen_variant.hpp"
#include "tests/kernels/square_call.hpp"

namespace cplab::testing {
namespace {

using namespace kernels;
using namespace kernels::cuda;

// Of a call that rounds dq.
std::string name_of_rounding(std::int64_t B, std::int64_t S, bool causal, const VariantOptions& options) {
  const Call call{.S = S, .B = B, .causal = causal};
  const std::vector<Segment> segments = call.segments();
  return choose_variant(rounding(call, segments), options).variant->name;
}

// Of one that has dq in fp32.
std::string name_of_sums(std::int64_t B, std::int64_t S) {
  const Call call{.S = S, .B = B};
  const std::vector<Segment> segments = call.segments();
  return choose_variant(backward(call, segments), with_same_bits(on_hopper)).variant->name;
}

}  // namespace

// Who was faster on an H100: h100-2026-11-26-backward-kernels.jsonl in scenarios/measured, its part
// 2026-11-26/sequences/kernels-128.
TEST_CASE("the same bits in every run: the shortest sequences go to tiles apart, others are added in turn") {
  const VariantOptions same = with_same_bits(on_hopper);
  CHECK(name_of_rounding(32, 512, true, same) == ordered_kernel);
  CHECK(name_of_rounding(24, 768, true, same) == ordered_kernel);
  CHECK(name_of_rounding(16, 1024, false, same) == ordered_kernel);
  CHECK(name_of_rounding(1, 2048, false, same) == ordered_kernel);
  CHECK(name_of_rounding(4, 2048, true, same) == ordered_kernel);
  CHECK(name_of_rounding(32, 2048, true, same) == ordered_kernel);
  CHECK(name_of_rounding(1, 4096, true, same) == ordered_kernel);
  CHECK(name_of_rounding(4, 4096, false, same) == ordered_kernel);
  CHECK(name_of_rounding(2, 8192, true, same) == ordered_kernel);
  CHECK(name_of_rounding(1, 512, false, same) == apart_kernel);
  CHECK(name_of_rounding(1, 1024, true, same) == apart_kernel);
  CHECK(name_of_rounding(1, 1024, false, same) == apart_kernel);  // in turn all tiles of a head queue
  CHECK(name_of_rounding(64, 256, false, same) == apart_kernel);
  // However many tiles there are.
  CHECK(name_of_sums(32, 2048) == ordered_kernel);
  CHECK(name_of_sums(1, 32768) == ordered_kernel);
}

TEST_CASE("any bits: short sequences, mostly causal, are added in turn all the same: nobody sets dq to 0") {
  CHECK(name_of_rounding(32, 512, true, on_hopper) == ordered_kernel);
  CHECK(name_of_rounding(16, 1024, true, on_hopper) == ordered_kernel);
  CHECK(name_of_rounding(16, 1024, false, on_hopper) == ordered_kernel);
  CHECK(name_of_rounding(1, 2048, true, on_hopper) == ordered_kernel);
  CHECK(name_of_rounding(32, 2048, true, on_hopper) == ordered_kernel);
  CHECK(name_of_rounding(1, 1024, false, on_hopper) == fused_kernel);
  CHECK(name_of_rounding(1, 2048, false, on_hopper) == fused_kernel);
  CHECK(name_of_rounding(8, 2048, false, on_hopper) == fused_kernel);
  CHECK(name_of_rounding(1, 4096, false, on_hopper) == fused_kernel);
  CHECK(name_of_rounding(2, 8192, true, on_hopper) == fused_kernel);
  // Sequences of 2032 rows are no whole cells of 64: dq is set to 0 then, and turns cost more.
  CHECK(name_of_rounding(8, 2048, true, on_hopper) == ordered_kernel);
  CHECK(name_of_rounding(8, 2032, true, on_hopper) == fused_kernel);
}

// Tiles of 128 keys, the longest of a sequence first. In any order 8 heads are side by side (16 MiB of 1 KiB
// a row): a sequence has 8.7 times the work of its longest tile, all heads 70 times, so two sequences are
// mixed until all of 132 multiprocessors have more to do than that. In turn 4 heads are side by side, and
// there are to be 66 multiprocessors.
TEST_CASE("tiles of keys are taken by sequences, and the last two sequences together") {
  for (const std::string kernel : {fused_kernel, ordered_kernel}) {
    CAPTURE(kernel);
    VariantOptions only = on_hopper;
    only.only = kernel;
    const Call call{.S = 2048, .B = 8};
    const std::vector<Segment> segments = call.segments();
    const ChosenBackward chosen = choose_variant(rounding(call, segments), only);
    REQUIRE(chosen.by_k.tiles.size() == 128);
    CHECK(chosen.by_k.ending == 96);
    CHECK(chosen.by_k.rows_together == 2048);
    CHECK(!chosen.by_k.even);
    for (int n = 0; n < 96; ++n) CHECK(chosen.by_k.tiles[static_cast<std::size_t>(n)].begin == 128 * n);
    CHECK(chosen.by_k.tiles[96].begin == 6 * 2048);
    CHECK(chosen.by_k.tiles[97].begin == 7 * 2048);
    CHECK(fused_heads_together(chosen, rounding(call, segments), on_hopper.sms) ==
          (kernel == ordered_kernel ? 4 : 8));
    CHECK(chosen.variant->family->stores_first_dq(chosen, rounding(call, segments)) ==
          (kernel == ordered_kernel));
  }
}

TEST_CASE("full masks: the list stays as it was cut, in turn with heads side by side") {
  VariantOptions only = on_hopper;
  only.only = ordered_kernel;
  const Call call{.S = 2048, .B = 8, .causal = false};
  const std::vector<Segment> segments = call.segments();
  const ChosenBackward chosen = choose_variant(rounding(call, segments), only);
  CHECK(chosen.by_k.even);
  CHECK(chosen.by_k.ending == 0);
  CHECK(chosen.by_k.rows_together == 2048);
  CHECK(fused_heads_together(chosen, rounding(call, segments), on_hopper.sms) == 8);
  // Sequences of several lengths: 16 MiB a head, of 32. With masks it would be of 16, and one head.
  const std::vector<Segment> two = {{.q_count = 2048, .k_count = 2048},
                                    {.q_begin = 2048, .q_count = 14336, .k_begin = 2048, .k_count = 14336}};
  const Call packed{.S = 16384, .causal = false};
  const ChosenBackward uneven = choose_variant(rounding(packed, two), only);
  CHECK(!uneven.by_k.even);
  CHECK(uneven.by_k.rows_together == 14336);
  CHECK(fused_heads_together(uneven, rounding(packed, two), on_hopper.sms) == 2);
}

// Nobody reads the keys: their gradients are 0, and there is nothing to walk over.
TEST_CASE("no query heads") {
  const Call call{.S = 256, .H = 0, .G = 2};
  const std::vector<Segment> segments = call.segments();
  for (const VariantOptions& options : {on_hopper, with_same_bits(on_hopper)})
    CHECK(choose_variant(backward(call, segments), options).by_k.tiles.size() == 2);
}

}  // namespace cplab::testing
