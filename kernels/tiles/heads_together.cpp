// See heads_together.hpp.
#include "kernels/tiles/heads_together.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "kernels/tiles/measured_constants.hpp"

namespace cplab::kernels::cuda {

std::int64_t equal_groups(std::int64_t all, std::int64_t most) {
  if (all == 0) return 0;
  most = std::max<std::int64_t>(most, 1);
  const std::int64_t groups = (all + most - 1) / most;
  return (all + groups - 1) / groups;
}

namespace hopper {

namespace {

// The rows of all tiles of a head may take `of_all` bytes of the cache, or those of neighbours `of_part`.
struct CacheBytes {
  std::int64_t of_all, of_part;
  bool alike = false;      // all tiles take the same time, and groups need not be of equal size
  int walked_at_once = 1;  // of several heads that each tile walks over
  int most_heads = std::numeric_limits<int>::max();  // side by side, whatever fits
};

int heads_that_fit(int heads, int walked_heads, const DeviceView& walked, int element_bytes,
                   std::int32_t rows_together, const CacheBytes& bytes) {
  const std::int64_t row_bytes = std::int64_t{element_bytes} * walked.width;
  std::int64_t fit = std::max<std::int64_t>(bytes.of_all / (row_bytes * std::max(walked.listed, 1)), 1);
  if (rows_together > 0) fit = std::max(fit, bytes.of_part / (row_bytes * rows_together));
  const auto group = [&](std::int64_t all, std::int64_t most) {
    most = std::min<std::int64_t>(most, bytes.most_heads);
    return bytes.alike ? std::clamp<std::int64_t>(most, 1, all) : equal_groups(all, most);
  };
  // Query heads share a key head.
  return static_cast<int>(heads >= walked_heads ? group(walked_heads, fit) * (heads / walked_heads)
                                                : group(heads, fit / bytes.walked_at_once));
}

}  // namespace

int heads_per_group(int heads, int walked_heads, const DeviceView& walked, std::int32_t rows_together,
                    bool alike) {
  constexpr int two_operands = 2 + 2;
  constexpr auto few = static_cast<std::int64_t>(measured("heads_per_group_cache_alike"));
  constexpr CacheBytes bytes = {static_cast<std::int64_t>(measured("heads_per_group_cache")),
                                static_cast<std::int64_t>(measured("heads_per_group_cache_together"))};
  return heads_that_fit(heads, walked_heads, walked, two_operands, rows_together,
                        alike ? CacheBytes{few, few, true} : bytes);
}

namespace {

// A tile of all query heads of a key head walks over one after the other. Tiles of unequal length get out of
// step, and several heads are in use at once: as many as gave the fastest groups (grouped/builds.txt).
int walked_at_once(int heads, int query_heads, std::int64_t width, FusedOrder order) {
  const int all = std::max(query_heads / std::max(heads, 1), 1);
  if (order == FusedOrder::turns) return 1;
  if (width <= 64) return all;
  return order == FusedOrder::any || order == FusedOrder::any_of_alike ? (all + 1) / 2 : 1;
}

}  // namespace

FusedOrder order_of_turns(bool even, bool full) {
  return even || full ? FusedOrder::turns : FusedOrder::turns_of_uneven;
}

int fused_heads_per_group(int heads, int query_heads, const DeviceView& q, std::int32_t rows_together,
                          FusedOrder order) {
  // With q and dout alone more heads run side by side: 0.94 to 1.00 of the speed.
  constexpr int q_dout_and_dq = 2 + 2 + 4;
  constexpr auto all = static_cast<std::int64_t>(measured("heads_per_group_cache"));
  constexpr auto part = static_cast<std::int64_t>(measured("fused_heads_cache_together"));
  // In any order 16 K rows together, at both head sizes. In turn tiles of a head wait for each other, so more
  // heads side by side help: 16 MiB. Masked ones at head size 128 lose again where dq leaves the cache: half
  // of that (heads-in-turn.json).
  CacheBytes bytes = {all, part};
  constexpr auto alike_rows = static_cast<int>(measured("fused_rows_of_alike")),
                 uneven_rows = static_cast<int>(measured("fused_rows_of_uneven"));
  const bool alike = order == FusedOrder::any_of_alike, any = alike || order == FusedOrder::any;
  if (any && q.width <= 64) bytes.of_part /= 2;
  if (order == FusedOrder::turns_of_uneven && q.width > 64) bytes = {all / 2, part / 2};
  bytes.alike = alike;
  bytes.walked_at_once = walked_at_once(heads, query_heads, q.width, order);
  const int rows = std::max(rows_together > 0 ? rows_together : q.listed, 1);
  if (any) bytes.most_heads = std::max((alike ? alike_rows : uneven_rows) / rows, 1);
  return heads_that_fit(heads, query_heads, q, q_dout_and_dq, rows_together, bytes);
}

}  // namespace hopper
}  // namespace cplab::kernels::cuda
