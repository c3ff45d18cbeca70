// In which order tiles are taken, against lists written by hand.
#include "kernels/tiles/tile_order.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "kernels/tiles/heads_together.hpp"
#include "tests/kernels/packed_tiles.hpp"
#include "tests/kernels/random_tile.hpp"

namespace cplab::testing {
namespace {

using namespace kernels::cuda;
using kernels::Segment;

std::vector<std::int32_t> begins(const WorkTables& work) {
  std::vector<std::int32_t> rows;
  for (const WorkTile& tile : work.tiles) rows.push_back(tile.begin);
  return rows;
}

// The tiles of `live` cut every 128 rows, ordered.
WorkTables ordered(const std::vector<DeviceSegment>& live, std::int64_t rows, const TileWalk& walk) {
  WorkTables work = query_tiles(live, even_cuts(rows, 128), true);
  order_by_walked_rows(work, tile_times(work, equal_costs), walk);
  return work;
}

using Rows = std::vector<std::int32_t>;

}  // namespace

TEST_CASE("groups of keys") {
  const WalkedGroups three = walked_groups(packed({256, 100, 300}, true));
  CHECK(three.count == 3);
  CHECK(three.of_segment == Rows{0, 1, 2});
  CHECK(three.most_rows == 300);
  // Keys 0 to 99, 50 to 149 and 149 to 199 hang together; 200 to 249 do not, though they are listed first.
  const WalkedGroups chain = walked_groups(live_segments(std::vector<Segment>{
      {.q_begin = 0, .q_count = 10, .k_begin = 200, .k_count = 50},
      {.q_begin = 0, .q_count = 10, .k_begin = 149, .k_count = 51},
      {.q_begin = 10, .q_count = 10, .k_begin = 0, .k_count = 100},
      {.q_begin = 20, .q_count = 10, .k_begin = 50, .k_count = 100},
  }));
  CHECK(chain.count == 2);
  CHECK(chain.of_segment == Rows{1, 0, 0, 0});
  CHECK(chain.most_rows == 200);
  // Keys that a causal segment lists but no row sees do not count: rows 0 to 9 see keys 0 to 9.
  const WalkedGroups seen = walked_groups(live_segments(std::vector<Segment>{
      {.q_begin = 0, .q_count = 10, .k_begin = 0, .k_count = 100, .right = 0},
      {.q_begin = 10, .q_count = 10, .k_begin = 10, .k_count = 10},
  }));
  CHECK(seen.count == 2);
  CHECK(seen.most_rows == 10);
  CHECK(walked_groups({}).count == 0);
}

TEST_CASE("tiles that see the same keys are neighbours, and the last of all are mixed") {
  const std::vector<DeviceSegment> live = packed({256, 256, 256, 256}, true);
  const WorkTables work = query_tiles(live, even_cuts(1024, 128), true);
  CHECK(begins(work) == Rows{128, 384, 640, 896, 0, 256, 512, 768});
  // One multiprocessor: a sequence takes longer than its longest tile.
  const WorkTables alone = ordered(live, 1024, {.sms = 1});
  CHECK(begins(alone) == Rows{128, 0, 384, 256, 640, 512, 896, 768});
  CHECK(!alone.even);
  // Two: a tile of two blocks takes less than half as long again as one of one block, so that two sequences
  // are needed to give both more to do than the longest tile takes.
  CHECK(begins(ordered(live, 1024, {.sms = 2})) == Rows{128, 0, 384, 256, 640, 896, 512, 768});
  // With two heads one is enough again, but not if they are not taken together.
  CHECK(begins(ordered(live, 1024, {.heads = 2, .heads_per_group = 2, .sms = 2})) == begins(alone));
  CHECK(begins(ordered(live, 1024, {.heads = 2, .heads_per_group = 1, .sms = 2})) ==
        Rows{128, 0, 384, 256, 640, 896, 512, 768});
  CHECK(begins(ordered(live, 1024, {.sms = 100})) == begins(work));
}

TEST_CASE("tiles of keys that see the same queries are neighbours") {
  // Causal, tiles of 128 keys: a sequence's first is the longest.
  const std::vector<DeviceSegment> live = packed({256, 256, 256}, true);
  WorkTables work = key_tiles(live, even_cuts(768, 128), true);
  CHECK(begins(work) == Rows{0, 256, 512, 128, 384, 640});
  CHECK(order_by_walked_rows(work, tile_times(work, equal_costs, true), {.sms = 1}, true));
  CHECK(begins(work) == Rows{0, 128, 256, 384, 512, 640});
  CHECK(work.ending == 4);
  CHECK(order_by_walked_rows(work, tile_times(work, equal_costs, true), {.sms = 100}, true));
  CHECK(begins(work) == Rows{0, 256, 512, 128, 384, 640});
  CHECK(work.ending == 0);  // all of it
  // Two ranges of queries that see the same keys: nothing that tiles of keys share.
  const std::vector<DeviceSegment> shared = live_segments(std::vector<Segment>{
      {.q_begin = 0, .q_count = 10, .k_begin = 0, .k_count = 50},
      {.q_begin = 20, .q_count = 30, .k_begin = 0, .k_count = 50},
  });
  CHECK(walked_groups(shared).count == 1);
  CHECK(walked_groups(shared, true).count == 2);
  CHECK(walked_groups(shared, true).most_rows == 30);
}

TEST_CASE("longer sequences first, rows without keys last, a single sequence as it was") {
  const std::vector<DeviceSegment> live = packed({128, 384, 256}, true);
  CHECK(begins(ordered(live, 900, {.sms = 1})) == Rows{384, 256, 128, 640, 512, 0, 768, 896});
  const std::vector<DeviceSegment> one = packed({512}, true);
  const WorkTables work = query_tiles(one, even_cuts(600, 128), true);
  const WorkTables same = ordered(one, 600, {.sms = 1});
  CHECK(begins(same) == begins(work));
  CHECK(same.even == work.even);
  // Full masks: all tiles take equally long.
  const WorkTables full = ordered(packed({256, 256}, false), 512, {.sms = 1});
  CHECK(begins(full) == Rows{0, 128, 256, 384});
  CHECK(full.even);
}

TEST_CASE("tiles that straddle sequences are of the one of which they walk over most rows") {
  // Tiles of 192 rows: the second is of sequences 0 and 1, the third of 1 and 2, four blocks each; the fourth
  // is the rest of 2, and takes as long as the last one, two blocks, of which the ending is made. The other
  // half likewise.
  const std::vector<DeviceSegment> live = packed(std::vector<std::int64_t>(6, 256), false);
  WorkTables work = query_tiles(live, even_cuts(1536, 192), true);
  CHECK(work.even);
  order_by_walked_rows(work, tile_times(work, equal_costs), {.sms = 1});
  CHECK(begins(work) == Rows{192, 0, 384, 960, 768, 1152, 576, 1344});
  CHECK(work.ending == 6);
  CHECK(!work.even);  // four blocks take longer than two
}

TEST_CASE("any list: the same tiles, those with segments first") {
  std::mt19937 generator(1);
  for (int trial = 0; trial < 200; ++trial) {
    const std::int64_t rows = draw(generator, 1, 900);
    std::vector<std::int64_t> lengths;
    for (std::int64_t left = rows; left > 0; left -= lengths.back())
      lengths.push_back(draw(generator, 1, left));
    std::vector<DeviceSegment> live = packed(lengths, draw(generator, 0, 1) == 1);
    if (draw(generator, 0, 1) == 1) live.erase(live.begin());
    WorkTables work = query_tiles(live, even_cuts(rows, 64 * draw(generator, 1, 3)), true);
    Rows before = begins(work);
    const std::int32_t with_segments = live_tiles(work);
    order_by_walked_rows(work, tile_times(work, equal_costs), {.heads = 2, .sms = draw(generator, 1, 9)});
    CHECK(live_tiles(work) == with_segments);
    CHECK(std::all_of(work.tiles.begin() + with_segments, work.tiles.end(),
                      [](const WorkTile& tile) { return tile.count == 0; }));
    Rows after = begins(work);
    std::sort(before.begin(), before.end());
    std::sort(after.begin(), after.end());
    CHECK(before == after);
  }
}

TEST_CASE("heads side by side: more where neighbours share few keys") {
  // bf16 k and v of 128 columns: 512 bytes a row. 16384 rows are 8 MiB a head, of 32.
  const DeviceView k{
      .rows = 16384, .heads = 16, .width = 128, .dtype = kernels::DType::bf16, .listed = 16384};
  CHECK(hopper::heads_per_group(16, 16, k) == 4);
  CHECK(hopper::heads_per_group(16, 16, k, 16384) == 4);
  CHECK(hopper::heads_per_group(16, 16, k, 2048) == 8);  // 1 MiB a head, of 8
  CHECK(hopper::heads_per_group(16, 16, k, 256) == 16);
  CHECK(hopper::heads_per_group(16, 4, k, 4096) == 16);  // four query heads to a key head
  CHECK(hopper::heads_per_group(6, 6, k) == 3);          // 4 would fit, but 4 and 2 are not alike
  CHECK(hopper::heads_per_group(20, 5, k) == 12);        // 3 and 2 key heads
  // q, dout and dq in fp32: 1024 bytes a row, 16 MiB a head.
  using Order = hopper::FusedOrder;
  CHECK(hopper::fused_heads_per_group(16, 16, k, 0, Order::any) == 2);     // of 32
  CHECK(hopper::fused_heads_per_group(16, 16, k, 4096, Order::any) == 4);  // 4 MiB a head, of 16
  CHECK(hopper::fused_heads_per_group(16, 16, k, 16384, Order::any) == 2);
  CHECK(hopper::fused_heads_per_group(16, 16, k, 4096, Order::turns) == 4);
  CHECK(hopper::fused_heads_per_group(16, 16, k, 4096, Order::turns_of_uneven) == 2);  // of 8
  CHECK(hopper::fused_heads_per_group(16, 16, k, 0, Order::turns_of_uneven) == 1);     // of 16
  const DeviceView narrow{
      .rows = 16384, .heads = 32, .width = 64, .dtype = kernels::DType::bf16, .listed = 16384};
  CHECK(hopper::fused_heads_per_group(32, 32, narrow, 2048, Order::any) == 8);  // 1 MiB a head, of 8
  CHECK(hopper::fused_heads_per_group(32, 32, narrow, 2048, Order::turns_of_uneven) == 16);
  // A tile walks over four query heads, one after the other, of which some are in use at once: two in any
  // order, one in turn; at head size 64 all, unless tiles are even.
  CHECK(hopper::fused_heads_per_group(8, 32, k, 4096, Order::any) == 2);  // of 4 that fit
  CHECK(hopper::fused_heads_per_group(4, 16, k, 1024, Order::any) == 4);
  CHECK(hopper::fused_heads_per_group(5, 20, k, 3276, Order::any) == 2);  // of 5 that fit: 2, 2 and 1
  CHECK(hopper::fused_heads_per_group(8, 32, k, 4096, Order::turns) == 4);
  CHECK(hopper::fused_heads_per_group(8, 32, k, 4096, Order::turns_of_uneven) == 2);       // of 2
  CHECK(hopper::fused_heads_per_group(8, 32, narrow, 4096, Order::any) == 1);              // of 4
  CHECK(hopper::fused_heads_per_group(8, 32, narrow, 4096, Order::turns) == 8);            // of 8
  CHECK(hopper::fused_heads_per_group(8, 32, narrow, 4096, Order::turns_of_uneven) == 2);  // of 8
}

TEST_CASE("heads side by side: few where all tiles take the same time") {
  const DeviceView k{.rows = 4096, .heads = 16, .width = 128, .dtype = kernels::DType::bf16, .listed = 4096};
  CHECK(hopper::heads_per_group(16, 16, k) == 16);             // 2 MiB a head, of 32
  CHECK(hopper::heads_per_group(16, 16, k, 0, true) == 2);     // of 4
  CHECK(hopper::heads_per_group(12, 12, k, 512, true) == 12);  // 16 would fit
  CHECK(hopper::heads_per_group(20, 20, k, 512, true) == 16);  // and a group of 4
  CHECK(hopper::heads_per_group(16, 16, k, 1024, true) == 8);  // 512 KiB a head
  CHECK(hopper::heads_per_group(16, 4, k, 0, true) == 8);      // four query heads to a key head
  CHECK(hopper::heads_per_group(
            16, 16,
            {.rows = 1 << 20, .heads = 16, .width = 128, .dtype = kernels::DType::bf16, .listed = 1 << 20}, 0,
            true) == 1);

  WorkTables work;
  work.tiles = {{0, 128, 0, 1}, {128, 256, 1, 1}, {256, 384, 0, 0}};
  CHECK(are_alike(work, std::vector<double>{10, 9.5, 1}));  // a tile without segments has no say
  CHECK(!are_alike(work, std::vector<double>{10, 9, 10}));
}

}  // namespace cplab::testing
