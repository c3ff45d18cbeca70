// Which kernel takes a call of dynamic mask attention, its tiles, and what the scan of its keep mask reads.
#include "kernels/families/masked/variants.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "kernels/choice/fall_back.hpp"
#include "tests/kernels/chosen_variant.hpp"
#include "tests/kernels/tensor.hpp"
#include "tests/kernels/unread_view.hpp"

namespace cplab::testing {
namespace {

using namespace cplab::kernels;
using cuda::KeyReach;

struct MaskedCall {
  std::vector<Segment> segments = {{.q_begin = 0, .q_count = 300, .k_begin = 0, .k_count = 300, .right = 0}};
  std::vector<RowRun> columns = {{0, 300, 1}};
  View q = unread_view(300, 4, 128, DType::bf16), k = unread_view(300, 2, 128, DType::bf16);
  View lse = unread_view(300, 4, 1, DType::fp32), pairs = unread_view(300, 4, 304, DType::bf16);
  View keys = unread_view(300, 2, 1, DType::bf16);

  MaskedAttend forward(bool full = true) const {
    MaskedAttend call{.tile = {.q = q, .k = k, .v = k, .out = q, .lse = lse, .segments = segments},
                      .mask = {}};
    call.mask.bias = call.mask.keep = full ? pairs : keys;
    if (full) call.mask.columns = columns;
    return call;
  }
  MaskedAttendBackward backward(bool full = true) const {
    MaskedAttendBackward call{.tile = {.q = q,
                                       .k = k,
                                       .v = k,
                                       .dout = q,
                                       .lse = lse,
                                       .delta = lse,
                                       .dq = q,
                                       .dk = k,
                                       .dv = k,
                                       .segments = segments},
                              .mask = forward(full).mask};
    call.dbias = full ? pairs : keys;
    return call;
  }
};

}  // namespace

TEST_CASE("masked variants: tensor cores where the tile and its mask have one 16-bit dtype") {
  MaskedCall call;
  CHECK(choose_variant(call.forward(), on_hopper).variant->name == "attend masked mma bf16 128");
  CHECK(choose_variant(call.backward(), on_hopper).variant->name == "attend_backward masked mma bf16 128");
  CHECK(choose_variant(call.backward(false), on_hopper).variant->name ==
        "attend_backward masked mma bf16 128");
  // Hopper's own kernels take no mask; other GPUs have none that would be faster.
  CHECK(fall_back(call.forward(), on_hopper)->text() ==
        "not attend masked hopper bf16 128: it takes no stored bias; about 7 times slower for a FLOP");
  CHECK(!fall_back(call.forward(), on_ampere));

  MaskedAttend capped = call.forward();
  capped.mask = {};
  capped.mask.softcap = 30;
  CHECK(choose_variant(capped, on_hopper).variant->name == "attend masked hopper bf16 128");
  CHECK(!fall_back(capped, on_hopper));
  CHECK(choose_variant(capped, on_ampere).variant->name == "attend masked mma bf16 128");
  MaskedAttendBackward back = call.backward();
  back.mask = capped.mask, back.dbias.reset();
  CHECK(fall_back(back, on_hopper)
            ->text()
            .starts_with("not attend_backward masked hopper bf16 128: dq is not fp32; about "));
  back.tile.dq.dtype = DType::fp32;
  CHECK(choose_variant(back, on_hopper).variant->name == "attend_backward masked hopper bf16 128");

  MaskedAttend behind = call.forward(false);  // bias and keep mask lie behind V
  behind.tile.v.row_stride += 2;
  CHECK(!fall_back(behind, on_ampere));
  behind.tile.k.row_stride += 2;
  CHECK(fall_back(behind, on_ampere).has_value());

  MaskedAttend other = call.forward();
  other.mask.bias->dtype = DType::fp32;
  CHECK(choose_variant(other, on_hopper).variant->name == "attend masked general");
  CHECK(fall_back(other, on_hopper)->text() ==
        "not attend masked mma bf16 128: bias is not bf16; about 26 times slower for a FLOP");

  MaskedAttendBackward few = call.backward();
  few.dbias = few.mask.bias = unread_view(300, 2, 304, DType::bf16);
  CHECK(fall_back(few, on_hopper)->text() ==
        "not attend_backward masked mma bf16 128: dbias has 2 heads; about 31 times slower for a FLOP");
  few.dbias.reset();
  CHECK(!fall_back(few, on_ampere));

  MaskedAttend wide = call.forward();
  wide.tile.q.dtype = wide.tile.k.dtype = wide.tile.v.dtype = DType::fp64;
  CHECK_THROWS_AS(choose_variant(wide, on_hopper), std::invalid_argument);
}

TEST_CASE(
    "masked variants: tiles are cells, and those of keys are kept where dk or the bias gradient is stored") {
  MaskedCall call;
  const auto chosen = choose_variant(call.forward(), on_hopper);
  REQUIRE(chosen.work.tiles.size() == 5);
  for (const cuda::WorkTile& tile : chosen.work.tiles) CHECK(tile.begin % cuda::cell_rows == 0);

  call.segments = {{.q_begin = 0, .q_count = 10, .k_begin = 70, .k_count = 10}};
  MaskedAttendBackward back = call.backward(false);
  back.tile.write_dk = back.tile.write_dq = Write::add;
  CHECK(choose_variant(back, on_hopper).by_k.tiles.size() == 5);  // the bias gradient is stored
  back.write_dbias = Write::add;
  CHECK(choose_variant(back, on_hopper).by_k.tiles.size() == 1);
  CHECK(choose_variant(back, on_hopper).by_q.tiles.size() == 1);
}

// Causal, 300 rows: cell c of queries sees keys 0 .. 64 c + 63, the last one 0 .. 299.
TEST_CASE("masked variants: the scan reads what the segments show to each cell of queries") {
  MaskedCall call;
  const std::vector<KeyReach> reach = cuda::key_reaches(call.segments, 300);
  REQUIRE(reach.size() == 5);
  for (int cell = 0; cell < 5; ++cell) {
    CHECK(reach[static_cast<std::size_t>(cell)].begin == 0);
    CHECK(reach[static_cast<std::size_t>(cell)].end == std::min(300, 64 * cell + 64));
  }
  // 64 (64 + 128 + 192 + 256) + 44 x 300 = 54,160 numbers of each of 4 heads.
  CHECK(cuda::scanned_numbers(call.forward()) == 4 * 54160);
  CHECK(cuda::scanned_numbers(call.forward(false)) == 2 * 300);
  MaskedAttend none = call.forward();
  none.mask.keep.reset();
  CHECK(cuda::scanned_numbers(none) == 0);

  // A window of 10 keys to the left: queries 64 .. 127 see 54 .. 127.
  const std::vector<Segment> window = {
      {.q_begin = 0, .q_count = 128, .k_begin = 0, .k_count = 300, .left = 10, .right = 0}};
  const std::vector<KeyReach> band = cuda::key_reaches(window, 300);
  CHECK(band[1].begin == 54);
  CHECK(band[1].end == 128);
  CHECK(band[2].begin == band[2].end);
}

}  // namespace cplab::testing
