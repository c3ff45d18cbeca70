// dk and dv of grouped heads, which a tile may sum in a wide dtype before it rounds them.
#include <cstdint>

#include "algorithms/core/builder.hpp"
#include "algorithms/core/builder_pools.hpp"
#include "algorithms/core/defaults.hpp"
#include "algorithms/core/options.hpp"

namespace cplab {

Box Builder::dkv_sums(Lane lane, const Box& dk, std::int64_t query_heads, WriteMode mode) {
  const Problem& p = problem();
  const HeadRange heads = dk.problem_heads();
  const std::int64_t rows = declared(dk).rows;
  // A user who has sums travel in the problem's dtype wants the memory.
  const bool narrow = scenario_.schedule.is_word("gradient_wire_dtype", "nominal");
  const bool rounds = mode == WriteMode::store && declared(dk).role == Role::nominal && has_wide() &&
                      wide_accumulator(scenario_.schedule) && !narrow && p.attention == Attention::softmax;
  const bool empty = dk.row_list().empty();  // a tile that sees no keys
  const bool sums = query_heads > heads.count() && defaults::tiles_sum_dkv(rows * heads.count());
  if (!rounds || empty || !sums) return {};
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
