// Tiles of few queries whose keys go to several thread blocks: the cut against brute force over all pairs,
// and which calls are cut so.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "kernels/choice/choose.hpp"
#include "kernels/families/decode/shape.hpp"
#include "kernels/families/family.hpp"
#include "kernels/tiles/split_tiles.hpp"
#include "tests/kernels/random_tile.hpp"

namespace cplab::testing {
namespace {

using namespace kernels::cuda;
using kernels::Attend;
using kernels::rows_first;
using kernels::Segment;

bool sees(const DeviceSegment& s, std::int64_t i, std::int64_t j) {
  return i >= s.q_begin && i < s.q_end && j >= s.k_begin && j < s.k_end && j >= i + s.low && j <= i + s.high;
}

// How often each pair is live in the segments, of rows begin .. end - 1.
void count_pairs(std::vector<int>& pairs, std::span<const DeviceSegment> segments, std::int64_t begin,
                 std::int64_t end, std::int64_t nk) {
  for (const DeviceSegment& segment : segments)
    for (std::int64_t i = begin; i < end; ++i)
      for (std::int64_t j = 0; j < nk; ++j)
        pairs[static_cast<std::size_t>(i * nk + j)] += sees(segment, i, j) ? 1 : 0;
}

std::vector<int> pairs_of(const WorkTables& work, std::int64_t nq, std::int64_t nk) {
  std::vector<int> pairs(static_cast<std::size_t>(nq * nk));
  for (const WorkTile& tile : work.tiles)
    count_pairs(pairs,
                std::span(work.segments)
                    .subspan(static_cast<std::size_t>(tile.first), static_cast<std::size_t>(tile.count)),
                tile.begin, tile.end, nk);
  return pairs;
}

// Blocks of so many keys that a tile walks over.
std::int64_t blocks_of(const WorkTables& work, const WorkTile& tile, std::int64_t keys) {
  std::int64_t all = 0;
  for (std::int32_t n = tile.first; n < tile.first + tile.count; ++n) {
    const DeviceSegment& s = work.segments[static_cast<std::size_t>(n)];
    const std::int64_t first = std::max(tile.begin, s.q_begin), last = std::min(tile.end, s.q_end) - 1;
    const std::int64_t begin = std::max<std::int64_t>(s.k_begin, first + s.low),
                       end = std::min<std::int64_t>(s.k_end, last + s.high + 1);
    all += std::max<std::int64_t>(end - begin + keys - 1, 0) / keys;
  }
  return all;
}

Attend few_queries(std::span<const Segment> segments, std::int64_t queries, std::int64_t keys,
                   std::int64_t heads, std::int64_t key_heads, const HeadSizes& sizes,
                   kernels::DType dtype = kernels::DType::bf16) {
  return {.q = rows_first(nullptr, dtype, queries, heads, sizes.key),
          .k = rows_first(nullptr, dtype, keys, key_heads, sizes.key),
          .v = rows_first(nullptr, dtype, keys, key_heads, sizes.value),
          .out = rows_first(nullptr, dtype, queries, heads, sizes.value),
          .lse = rows_first(nullptr, kernels::DType::fp32, queries, heads, 1),
          .segments = segments};
}

constexpr VariantOptions hopper{.sm_major = 9, .sms = 132, .build = {}};

std::string name_of_kernel(std::int64_t queries, std::int64_t keys, std::int64_t heads,
                           std::int64_t key_heads, const HeadSizes& sizes,
                           const VariantOptions& options = hopper) {
  const Segment all{.q_count = queries, .k_count = keys, .offset = keys - queries, .right = 0};
  return choose_variant(few_queries({&all, 1}, queries, keys, heads, key_heads, sizes), options)
      .variant->name;
}

}  // namespace

TEST_CASE("pieces of keys hold every live pair once, and rows follow each other") {
  std::mt19937 generator(11);
  int several = 0;
  for (int trial = 0; trial < 300; ++trial) {
    const std::int64_t nq = draw(generator, 1, 40), nk = draw(generator, 1, 300);
    const std::vector<DeviceSegment> live = live_segments(random_segments(generator, nq, nk));
    const KeySplit split{.queries = draw(generator, 1, 16),
                         .keys = 16 << draw(generator, 0, 2),
                         .least_blocks = draw(generator, 1, 3),
                         .tile_blocks = draw(generator, 1, 4),
                         .at_once = draw(generator, 1, 200)};
    const bool keep_empty = draw(generator, 0, 1) == 1;
    const WorkTables work = split_tiles(live, nq, keep_empty, split);
    CAPTURE(trial);
    std::vector<int> expected(static_cast<std::size_t>(nq * nk));
    count_pairs(expected, live, 0, nq, nk);
    REQUIRE(pairs_of(work, nq, nk) == expected);
    std::vector<int> rows(static_cast<std::size_t>(nq));
    std::vector<SplitRows> split_to = split_rows(work);
    several += split_to.empty() ? 0 : 1;
    std::int32_t next = 0;
    for (const SplitRows& each : split_to) {
      REQUIRE(each.first == next);
      next += each.count;
      for (std::int32_t n = each.first; n < next; ++n) {
        const WorkTile& tile = work.tiles[static_cast<std::size_t>(n)];
        REQUIRE((tile.begin == each.begin && tile.end == each.end));
        if (each.count > 1) REQUIRE(blocks_of(work, tile, split.keys) >= split.least_blocks);
      }
      for (std::int32_t i = each.begin; i < each.end; ++i) ++rows[static_cast<std::size_t>(i)];
    }
    if (!split_to.empty()) {
      REQUIRE(next == static_cast<std::int32_t>(work.tiles.size()));
      for (const int times : rows) REQUIRE((keep_empty ? times == 1 : times <= 1));
      const auto blocks = static_cast<std::int64_t>(work.tiles.size()) * split.tile_blocks;
      const auto tiles = static_cast<std::int64_t>(split_to.size()) * split.tile_blocks;
      REQUIRE(blocks <= std::max(split.at_once + tiles, tiles));
    }
  }
  CHECK(several > 50);
}

TEST_CASE("one query against 1M keys: as many pieces as thread blocks at once, alike") {
  const Segment all{.q_count = 1, .k_count = 1 << 20, .offset = (1 << 20) - 1, .right = 0};
  const WorkTables work = split_tiles(live_segments({&all, 1}), 1, true,
                                      {.queries = 4, .keys = 64, .tile_blocks = 8, .at_once = 396});
  REQUIRE(work.tiles.size() == 49);  // 392 thread blocks; 50 pieces would be 400
  for (const WorkTile& tile : work.tiles) {
    const std::int64_t blocks = blocks_of(work, tile, 64);  // 16384 in all
    CHECK((blocks == 334 || blocks == 335));
  }
}

TEST_CASE("query heads of a key head are rows of a tile") {
  const auto is = [](const PackedHeads& packed, int heads, int parts, int queries) {
    return packed.heads == heads && packed.parts == parts && packed.queries == queries;
  };
  CHECK(is(packed_heads(32, 8, 16), 4, 1, 4));
  CHECK(is(packed_heads(128, 1, 64), 64, 2, 1));
  CHECK(is(packed_heads(128, 1, 16), 16, 8, 1));
  CHECK(is(packed_heads(40, 1, 16), 16, 3, 1));  // the last part has 8 heads
  CHECK(is(packed_heads(9, 3, 64), 3, 1, 21));
}

TEST_CASE("few queries against many keys are split, others are not") {
  const HeadSizes latents{576, 512};
  CHECK(name_of_kernel(1, 1 << 17, 32, 8, {128, 128}) == "attend decode bf16 128");
  CHECK(name_of_kernel(4, 1 << 17, 32, 8, {64, 64}) == "attend decode bf16 64");
  CHECK(name_of_kernel(1, 1 << 17, 128, 1, latents) == "attend decode bf16 576x512, 64 rows");
  CHECK(name_of_kernel(1, 1 << 17, 16, 1, latents) == "attend decode bf16 576x512");
  CHECK(name_of_kernel(4096, 4096, 16, 1, latents) == "attend decode bf16 576x512, 64 rows");
  CHECK(name_of_kernel(8192, 8192, 32, 8, {128, 128}) == "attend hopper bf16 128");
  VariantOptions ampere = hopper;
  ampere.sm_major = 8;
  CHECK(name_of_kernel(1, 1 << 17, 32, 8, {128, 128}, ampere) == "attend decode bf16 128");
  CHECK(name_of_kernel(100, 1 << 17, 32, 8, {128, 128}, ampere) == "attend mma bf16 128");
  CHECK(name_of_kernel(1, 1 << 17, 16, 1, latents, ampere) == "attend general");
}

TEST_CASE("each variant of the family says what it needs, and there is room for it") {
  for (const AttendVariant& variant : attend_variants({})) {
    if (variant.family->name() != "decode") continue;
    const HeadSizes sizes = variant.sizes();
    CAPTURE(variant.name);
    const int together = decode_blocks_together(sizes, variant.tile_rows);
    CHECK(together >= 1);
    const std::vector<KernelEntry> entries = variant.family->entries(variant);
    REQUIRE(entries.size() == 2);
    CHECK(entries[0].threads == 32 * decode_warps(sizes, variant.tile_rows));
    const BlockNeeds needs{.threads = entries[0].threads,
                           .registers = 65536 / (together * entries[0].threads) / 8 * 8 > 255
                                            ? 255
                                            : 65536 / (together * entries[0].threads) / 8 * 8,
                           .shared_bytes = decode_shared_bytes(sizes, variant.tile_rows, entries[0].stages)};
    CHECK(occupancy(architectures.back(), needs).blocks >= together);
  }
}

}  // namespace cplab::testing
