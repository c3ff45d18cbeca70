// How the kernels for Hopper are launched where tiles are few, and where they are many and short: which
// height they have, and whether warpgroups take turns.
#include <doctest/doctest.h>

#include <set>
#include <utility>
#include <vector>

#include "kernels/families/variants.hpp"
#include "kernels/tiles/measured_constants.hpp"
#include "kernels/tiles/tile_cuts.hpp"
#include "tests/kernels/backward_names.hpp"
#include "tests/kernels/chosen_variant.hpp"
#include "tests/kernels/tile_cases.hpp"

namespace cplab::testing {
namespace {

using namespace kernels;
using namespace kernels::cuda;

// Runs attention on the CPU, and notes which dtypes and ways to write would be out of turn on a GPU.
struct NotingRunner {
  std::set<std::pair<DType, Write>> out_of_turn;

  TileRunner runner() {
    TileRunner runner;
    runner.attend = [this](TileRunner::Tensors, std::int64_t, const Attend& call) {
      VariantOptions options = on_hopper;
      if (on_one_multiprocessor(call.q)) options.sms = 1, options.reserved_sms = on_hopper.sms - 1;
      if (choose_variant(call, options).work.out_of_turn) out_of_turn.insert({call.q.dtype, call.write});
      cpu_tiles().attend(call);
      return TileRun{"cpu", true};
    };
    runner.attend_backward = [](TileRunner::Tensors, std::int64_t, const AttendBackward& call) {
      cpu_tiles().attend_backward(call);
      return TileRun{"cpu", true};
    };
    return runner;
  }
};

}  // namespace

TEST_CASE("fewer rows a tile where there are few tiles") {
  // 4 tiles of 128 rows for each of 16 heads leave half of 132 multiprocessors idle.
  CHECK(forward_name({.S = 512}, on_hopper) == "attend hopper bf16 128, 64 rows");
  // Of head size 64 two thread blocks of 64 rows share a multiprocessor: 8 tiles for each of 32 heads have
  // 264 places.
  const Call few{.S = 512, .H = 32, .G = 32, .D = 64};
  CHECK(forward_name(few, on_hopper) == "attend hopper bf16 64, 64 rows");
  // They would spread over the multiprocessors that are left to others.
  VariantOptions reserving = on_hopper;
  reserving.sms -= 16;
  reserving.reserved_sms = 16;
  CHECK(forward_name(few, reserving) == "attend hopper bf16 64");
  CHECK(forward_name({.S = 128, .H = 32, .G = 32, .D = 64}, on_hopper) == "attend hopper bf16 64, 64 rows");
  CHECK(forward_name({.S = 16384}, on_hopper) == "attend hopper bf16 128");
}

// 64 tiles of 128 keys, or 128 of 64, for 132 multiprocessors.
TEST_CASE("fewer keys a tile where there are few tiles") {
  const Call few{.S = 512, .causal = false}, many{.S = 8192, .B = 2, .causal = false};
  const ChosenBackward small = chosen_backward(few), large = chosen_backward(many);
  CHECK(small.variant->name == fused_small_kernel);
  CHECK(covers(small.by_k.tiles, 512, 64));
  CHECK(small.by_k.tiles.size() == 8);
  CHECK(large.variant->name == fused_kernel);
  CHECK(large.by_k.tiles.size() == 128);
}

// Lengths in blocks of 128 keys, m more for a masked one. 256 causal rows, cut after 192: the first tile
// meets two masked blocks, its warpgroups one, one, and two of which the second is masked; the other tile is
// one warpgroup. 256 rows without a mask meet two blocks whoever they belong to.
TEST_CASE("the share of blocks that some warpgroups of their tile do not meet") {
  const double m = on_hopper.speeds()[Rate::tile_masked_block];
  Segment segment{.q_begin = 0, .q_count = 256, .k_begin = 0, .k_count = 256, .right = 0};
  const auto idle = [&](const Cuts& cuts) {
    return idle_share(query_tiles(live_segments(std::vector<Segment>{segment}), cuts, true), m);
  };
  CHECK(idle({0, 192, 256}) == doctest::Approx(1 - (6 + 4 * m) / (8 + 7 * m)));
  CHECK(idle({0, 64, 128, 192, 256}) == 0);
  segment.right = -1;
  CHECK(idle({0, 192, 256}) == 0);
  CHECK(idle_share({}, m) == 0);
  // Half of a tile of 128 rows is of one sequence, half of the next: each sees one of two blocks.
  const std::vector<Segment> two = {{.q_begin = 0, .q_count = 64, .k_begin = 0, .k_count = 128},
                                    {.q_begin = 64, .q_count = 64, .k_begin = 128, .k_count = 128}};
  CHECK(idle_share(query_tiles(live_segments(two), {0, 128}, true), m) == doctest::Approx(0.5));
}

TEST_CASE("warpgroups take no turns where tiles are many and some do not meet many of their blocks") {
  const auto out_of_turn = [](std::int64_t B, std::int64_t S, bool causal, std::int64_t D = 64) {
    return chosen_forward({.S = S, .B = B, .H = 2048 / D, .G = 2048 / D, .D = D, .causal = causal})
        .work.out_of_turn;
  };
  // As measured (the record of "out_of_turn_idle"): tiles of 192 rows hold parts of two sequences of 256, and
  // rows of one of 512 or 1024 see unequal parts of its keys.
  CHECK(out_of_turn(64, 256, false));
  CHECK(out_of_turn(64, 256, true));
  CHECK(out_of_turn(32, 512, true));
  CHECK(out_of_turn(16, 1024, true));
  CHECK(!out_of_turn(32, 512, false));
  CHECK(!out_of_turn(16, 1024, false));
  CHECK(!out_of_turn(8, 2048, true));
  CHECK(!out_of_turn(4, 512, true));  // three tiles a multiprocessor
  CHECK(!out_of_turn(64, 256, true, 128));
}

// Case 39 of `tiles` with its default seed, as on a GPU.
TEST_CASE("cases reach the forward out of turn: both dtypes, stored and merged") {
  NotingRunner noting;
  Report report;
  attend_case(report, {.seed = 1, .number = 39, .only = ""}, noting.runner());
  CHECK(report.summary());
  CHECK(noting.out_of_turn == std::set<std::pair<DType, Write>>{{DType::bf16, Write::store},
                                                                {DType::bf16, Write::merge},
                                                                {DType::fp16, Write::store},
                                                                {DType::fp16, Write::merge}});
}

}  // namespace cplab::testing
