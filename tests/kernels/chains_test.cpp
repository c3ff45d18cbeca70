// Chains of tiles of keys, for the backward kernel whose thread blocks take all that adds to the same dq.
#include "kernels/families/hopper_backward/chains.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kernels/families/hopper_backward/shape.hpp"
#include "tests/kernels/chosen_variant.hpp"
#include "tests/kernels/sequences.hpp"

namespace cplab::testing {
namespace {

using namespace kernels;
using namespace kernels::cuda;

std::optional<ChainTiles> chains_of(const Call& shape, std::span<const Segment> segments) {
  return chain_tiles(rounding(shape, segments), hopper_backward_tile_rows);
}

DqSum taken(const Call& shape, KernelChoice choice = KernelChoice::best) {
  const std::vector<Segment> segments = shape.segments();
  return choose_variant(rounding(shape, segments), with_choice(on_hopper, choice)).variant->dq;
}

}  // namespace

// At head size 64 a cell has 128 rows, and a tile 128 keys. Causal, the n-th cell of a sequence sees n tiles;
// without a mask all do. The sequence with the most pieces comes first: 9, then 6, then 1.
TEST_CASE("chains: one for every sequence, the longest first") {
  const Call shape{.S = 896, .H = 2, .G = 2, .D = 64};
  const std::vector<Segment> segments = {sequence(0, 384, true), sequence(384, 128, true),
                                         sequence(512, 384, false)};
  const auto made = chains_of(shape, segments);
  REQUIRE(made);
  REQUIRE(made->chains.chains.size() == 3);
  CHECK(made->chains.pieces == std::vector<std::int32_t>{3, 3, 3, 1, 2, 3, 1});
  const std::int64_t rows[] = {512, 0, 384}, cells[] = {3, 3, 1};
  std::int32_t tile = 0;
  for (std::size_t n = 0; n < 3; ++n) {
    const TileChain& chain = made->chains.chains[n];
    CHECK(chain.row_begin == rows[n]);
    CHECK(chain.cells == cells[n]);
    CHECK(chain.first_tile == tile);
    for (tile = chain.first_tile; tile < chain.stop_tile; ++tile) {
      CHECK(made->by_k.tiles[static_cast<std::size_t>(tile)].begin >= rows[n]);
      CHECK(made->by_k.tiles[static_cast<std::size_t>(tile)].end <= rows[n] + 128 * cells[n]);
    }
  }
  CHECK(tile == 7);
  CHECK(covers(made->by_k.tiles, 896, 128));
}

TEST_CASE("chains: none where blocks are not whole, rows see nothing, or there are too many") {
  const auto some = [](std::int64_t rows, std::vector<Segment> segments, std::int64_t heads = 1) {
    return chains_of({.S = rows, .H = heads, .G = 1, .D = 64}, segments).has_value();
  };
  CHECK(some(256, {sequence(0, 256, true)}));
  CHECK(!some(200, {sequence(0, 200, true)}));
  CHECK(!some(328, {sequence(0, 200, true), sequence(200, 128, true)}));
  CHECK(!some(384, {sequence(0, 256, true)}));  // nobody would set the last rows to 0
  CHECK(some(256 * 128, {sequence(0, 255 * 128, true), sequence(255 * 128, 128, true)}));
  CHECK(!some(256 * 128, {sequence(0, 256 * 128, true)}));  // 256 pieces of a cell
  CHECK(some(32 * 128, {sequence(0, 32 * 128, true)}, 8));  // 256 cells of a tile's heads
  CHECK(!some(33 * 128, {sequence(0, 33 * 128, true)}, 8));
}

TEST_CASE("chains are taken for the shortest sequences of head size 64") {
  CHECK(taken({.S = 256, .B = 64, .H = 32, .G = 32, .D = 64}) == DqSum::in_chains);
  CHECK(taken({.S = 256, .B = 64, .H = 32, .G = 32, .D = 64, .causal = false}) == DqSum::in_chains);
  CHECK(taken({.S = 512, .B = 32, .H = 32, .G = 32, .D = 64}) == DqSum::in_chains);
  CHECK(taken({.S = 512, .B = 32, .H = 32, .G = 32, .D = 64, .causal = false}) != DqSum::in_chains);
  CHECK(taken({.S = 512, .H = 32, .G = 32, .D = 64}) == DqSum::stored);  // few chains
  CHECK(taken({.S = 2048, .B = 8, .H = 32, .G = 32, .D = 64}) == DqSum::ordered);
  CHECK(taken({.S = 8192, .B = 2, .H = 32, .G = 32, .D = 64}) == DqSum::any_order);
  CHECK(taken({.S = 256, .B = 64}) == DqSum::stored);  // head size 128
  const Call shorts{.S = 256, .B = 64, .H = 32, .G = 32, .D = 64};
  CHECK(taken(shorts, KernelChoice::deterministic) == DqSum::in_chains);
  CHECK(taken(shorts, KernelChoice::apart) == DqSum::stored);
  // A batch of any size: tiles are not too many to be thought about.
  CHECK(taken({.S = 256, .B = 256, .H = 32, .G = 32, .D = 64}) == DqSum::in_chains);
  CHECK(taken({.S = 256, .B = 256}) == DqSum::stored);
}

}  // namespace cplab::testing
