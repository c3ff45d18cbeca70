// See live_mask.hpp.
#include "check/live_mask.hpp"

#include <algorithm>

#include "check/coverage.hpp"

namespace cplab::checking {
namespace {

// Of a line the tokens at positions [begin, end): i from `first` on.
struct Range {
  std::int64_t first = 0, count = 0;
};
Range range_of(const Line& line, std::int64_t begin, std::int64_t end) {
  const std::int64_t first = std::max<std::int64_t>(0, -floor_of(line.position - begin, line.stride));
  const std::int64_t last = std::min(line.count - 1, floor_of(end - 1 - line.position, line.stride));
  return {first, std::max<std::int64_t>(0, last - first + 1)};
}

}  // namespace

LiveMask::Block LiveMask::Block::common(const Block& o) const {
  return {std::max(q_begin, o.q_begin), std::min(q_end, o.q_end), std::max(k_begin, o.k_begin),
          std::min(k_end, o.k_end),     std::max(low, o.low),     std::min(high, o.high)};
}

LiveMask::LiveMask(const Problem& p)
    : nothing_(p.only_rectangles),
      window_{std::min(p.window.left, far), p.causal ? 0 : std::min(p.window.right, far)},
      chunk_(p.chunk),
      prefix_(p.prefix) {
  is_window_ = !nothing_ && chunk_ == 0 && prefix_ == 0 && p.groups.empty() && p.rectangles.empty();
  if (is_window_) return;
  sequences_.resize(p.lengths.size());
  for (const auto& [begin, end] : p.groups) add(p, {begin, end, begin, end, MaskRectangle::Form::full});
  for (const MaskRectangle& r : p.rectangles) add(p, r);
  for (Sequence& s : sequences_) {
    std::ranges::sort(s.added, {}, &Block::q_begin);
    std::int64_t most = -far;
    for (const Block& block : s.added) s.q_end.push_back(most = std::max(most, block.q_end));
  }
}

// To every dense sequence, or to the packed one whose tokens it names.
void LiveMask::add(const Problem& p, const MaskRectangle& r) {
  std::int64_t q = 0, k = 0;  // where the sequence begins
  for (std::size_t b = 0; b < sequences_.size(); ++b) {
    const bool cross = !p.kv_lengths.empty();
    const std::int64_t queries = p.lengths[b], keys = cross ? p.kv_lengths[b] : queries;
    const std::int64_t first_at = cross && p.align == Diagonal::bottom_right ? keys - queries : 0;
    if (r.q_begin >= q && r.q_end <= q + queries && r.k_begin >= k && r.k_end <= k + keys) {
      Block block{r.q_begin - q + first_at, r.q_end - q + first_at, r.k_begin - k, r.k_end - k, -far, far};
      if (r.form == MaskRectangle::Form::causal) block.high = block.k_end - block.q_end;
      if (r.form == MaskRectangle::Form::inverse_causal) block.low = block.k_begin - block.q_begin;
      sequences_[b].added.push_back(block);
    }
    if (!p.packed) continue;
    q += p.padded_lengths[b];
    k += cross ? p.kv_padded_lengths[b] : p.padded_lengths[b];
  }
}

std::int64_t LiveMask::count_in(const Block& block, const Line& q, const Line& k, std::int64_t low,
                                std::int64_t high) {
  const Range rows = range_of(q, block.q_begin, block.q_end),
              columns = range_of(k, block.k_begin, block.k_end);
  if (rows.count == 0 || columns.count == 0) return 0;
  const std::int64_t apart = k.position - q.position, shift = columns.first - rows.first;
  low = std::max(low, -floor_of(apart - block.low, q.stride));
  high = std::min(high, floor_of(block.high - apart, q.stride));
  return pairs_in_band(rows.count, columns.count, low - shift, high - shift);
}

std::vector<LiveMask::Block> LiveMask::allowed(const Line& q, const Line& k) const {
  if (nothing_) return {};
  const Block window{
      -far, far, -far, far, window_.left < 0 ? -far : -window_.left, window_.right < 0 ? far : window_.right};
  if (chunk_ == 0) return {window};
  const std::int64_t q_last = q.position + (q.count - 1) * q.stride,
                     k_last = k.position + (k.count - 1) * k.stride;
  std::vector<Block> chunks;
  for (std::int64_t c = std::max({std::int64_t{0}, floor_of(q.position, chunk_), k.position / chunk_});
       c <= std::min(floor_of(q_last, chunk_), k_last / chunk_); ++c)
    chunks.push_back({c * chunk_, (c + 1) * chunk_, c * chunk_, (c + 1) * chunk_, window.low, window.high});
  return chunks;
}

// With A what mask, window and chunks allow, B the prefix and R a group or rectangle:
// |A or B or R| = |A| + |B| - |A and B| + |R| - |A and R| - |B and R| + |A and B and R|.
std::int64_t LiveMask::count(std::uint32_t sequence, const Line& q, const Line& k, std::int64_t low,
                             std::int64_t high) const {
  if (q.count <= 0 || k.count <= 0) return 0;
  const auto in = [&](const Block& block) { return count_in(block, q, k, low, high); };
  const std::vector<Block> blocks = allowed(q, k);
  const auto beside = [&](const Block& block) {  // of the block what A has not got
    std::int64_t pairs = in(block);
    for (const Block& a : blocks) pairs -= in(block.common(a));
    return pairs;
  };
  const Block prefix{-far, far, 0, prefix_, -far, far};
  std::int64_t sum = 0;
  for (const Block& a : blocks) sum += in(a);
  if (prefix_ > 0) sum += beside(prefix);
  const Sequence& s = sequences_[sequence];
  const std::int64_t q_last = q.position + (q.count - 1) * q.stride;
  const auto first = std::ranges::upper_bound(s.q_end, q.position);
  for (auto i = static_cast<std::size_t>(first - s.q_end.begin()); i < s.added.size(); ++i) {
    const Block& r = s.added[i];
    if (r.q_begin > q_last) break;
    if (r.k_end <= k.position || r.k_begin > k.position + (k.count - 1) * k.stride) continue;
    sum += beside(r) - (prefix_ > 0 ? beside(r.common(prefix)) : 0);
  }
  return sum;
}

}  // namespace cplab::checking
