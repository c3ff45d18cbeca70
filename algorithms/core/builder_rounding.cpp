// dk and dv of grouped heads, which a tile may sum in a wide dtype before it rounds them.
#include <cstdint>

#include "algorithms/core/builder.hpp"
#include "algorithms/core/builder_pools.hpp"
#include "algorithms/core/options.hpp"

namespace cplab {

// A kernel has two ways to the dk and dv of a key head that several query heads read: a thread block takes
// all of these, one after the other, and stores what it has summed in registers; or each has a thread block
// of its own, which adds to sums in memory. With few key heads the first leaves multiprocessors without work
// (8 heads on 1, 8192 tokens, causal: 215 TFLOP/s on an H100, where the second has 580). Which is faster the
// kernels decide, call by call; the plan makes room for the sums. Tiles of many keys are enough for any GPU,
// and need none: that bounds the room, at 256 MiB with head size 128.
Box Builder::dkv_sums(Lane lane, const Box& dk, std::int64_t query_heads, WriteMode mode) {
  constexpr std::int64_t enough_keys = 256 * 1024;  // 2048 tiles of 128, all heads together
  const Problem& p = problem();
  const HeadRange heads = dk.problem_heads();
  const std::int64_t rows = declared(dk).rows;
  // Who has sums travel in the problem's dtype wants the memory.
  const bool narrow = scenario_.schedule.is_word("gradient_wire_dtype", "nominal");
  const bool rounds = mode == WriteMode::store && declared(dk).role == Role::nominal && has_wide() &&
                      wide_accumulator(scenario_.schedule) && !narrow && p.attention == Attention::softmax;
  const bool empty = dk.row_list().empty();  // a tile that sees no keys
  if (!rounds || empty || query_heads <= heads.count() || rows * heads.count() >= enough_keys) return {};
  const Layout layout = declared(dk).layout;
  for (const Pools::DkvSums& made : pools_->dkv_sums)
    if (made.lane == lane && made.rows == rows && made.heads.begin == heads.begin &&
        made.heads.end == heads.end && made.layout == layout)
      return made.box.rows(dk.row_list());
  const Box box = buffer({"dkv_sum", Role::wide, Category::working, 1, rows, heads.count(),
                          p.head_size + p.value_size, p.head_size, layout, heads.begin});
  pools_->dkv_sums.push_back({lane, rows, heads, layout, box});
  return box.rows(dk.row_list());  // as dk lies: kernels want all that has rows of keys alike
}

}  // namespace cplab
