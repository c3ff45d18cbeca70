// Walks a view in message order by runs of equal pieces; see pieces.hpp.
#include "derive/pieces.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "plan/layout.hpp"

namespace cplab {

namespace {

// Joins what touches the piece before it.
class Pieces {
 public:
  explicit Pieces(std::vector<Piece>* list) : list_(list) {}

  // `count` pieces of `bytes`, at offset, offset + stride, ...
  void add(std::int64_t offset, std::int64_t bytes, std::int64_t count, std::int64_t stride) {
    if (bytes <= 0 || count <= 0) return;
    if (stride == bytes) {
      bytes *= count;
      count = 1;
    }
    const bool joins = count_ > 0 && offset == end_;
    count_ += count - (joins ? 1 : 0);
    end_ = offset + (count - 1) * stride + bytes;
    if (list_ == nullptr) return;
    std::int64_t i = 0;
    if (joins) {
      list_->back().bytes += bytes;
      i = 1;
    }
    for (; i < count; ++i) list_->push_back({offset + i * stride, bytes});
  }

  // What comes next does not touch what came before, wherever it lies.
  void part() { end_ = -1; }

  std::int64_t count() const { return count_; }

 private:
  std::vector<Piece>* list_;
  std::int64_t count_ = 0;
  std::int64_t end_ = 0;  // of the piece before
};

// The columns [begin, end) of one slot, which lie in one plane.
void add_plane(const RankPlan& plan, const View& view, std::int64_t slot, std::int64_t begin,
               std::int64_t end, std::int64_t element, Pieces& pieces) {
  const Buffer& buffer = plan.buffers[view.buffer];
  const std::int64_t line = plane_of(buffer, begin).width * element;  // one row of one head
  const std::int64_t bytes = (end - begin) * element;
  const std::int64_t heads = view.head_end - view.head_begin;
  const auto offset = [&](std::int64_t row, std::int64_t head) {
    return element_of(buffer, slot, row, head, begin) * element;
  };
  const auto rows = plan.rows_of(view);
  if (buffer.layout == Layout::heads_first) {
    for (std::int64_t head = view.head_begin; head < view.head_end; ++head)
      for (const RowRange& r : rows) pieces.add(offset(r.begin, head), bytes, r.count, r.step * line);
    return;
  }
  for (const RowRange& r : rows) {
    if (bytes == line || heads == 1) {  // the heads of a row touch
      pieces.add(offset(r.begin, view.head_begin), heads * bytes, r.count, r.step * buffer.heads * line);
      continue;
    }
    for (std::int64_t i = 0; i < r.count; ++i)
      pieces.add(offset(r.begin + i * r.step, view.head_begin), bytes, heads, line);
  }
}

void add_view(const RankPlan& plan, const View& view, DType nominal, Pieces& pieces) {
  const Buffer& buffer = plan.buffers[view.buffer];
  const std::int64_t element = element_bytes(buffer.role, nominal);
  const std::int64_t border = std::clamp<std::int64_t>(buffer.planes, view.width_begin, view.width_end);
  if (view.head_begin >= view.head_end) return;
  for (std::int64_t slot = view.slot_begin; slot < view.slot_end; ++slot) {
    for (const auto& [begin, end] : {std::array<std::int64_t, 2>{view.width_begin, border},
                                     std::array<std::int64_t, 2>{border, view.width_end}}) {
      if (buffer.apart) pieces.part();
      if (begin < end) add_plane(plan, view, slot, begin, end, element, pieces);
    }
  }
}

}  // namespace

std::vector<Piece> contiguous_pieces(const RankPlan& plan, const View& view, DType nominal) {
  std::vector<Piece> list;
  Pieces pieces(&list);
  add_view(plan, view, nominal, pieces);
  return list;
}

std::int64_t count_contiguous_pieces(const RankPlan& plan, const View& view, DType nominal) {
  Pieces pieces(nullptr);
  add_view(plan, view, nominal, pieces);
  return pieces.count();
}

void cut_alike(std::vector<std::vector<Piece>>& lists) {
  const bool whole = std::all_of(lists.begin(), lists.end(), [](const auto& l) { return l.size() <= 1; });
  if (whole) return;
  std::vector<std::vector<Piece>> out(lists.size());
  struct At {
    std::size_t piece = 0;
    std::int64_t done = 0;  // bytes of it
  };
  std::vector<At> at(lists.size());
  while (!lists.empty() && at[0].piece < lists[0].size()) {
    std::int64_t bytes = std::numeric_limits<std::int64_t>::max();
    for (std::size_t l = 0; l < lists.size(); ++l)
      bytes = std::min(bytes, lists[l].at(at[l].piece).bytes - at[l].done);
    for (std::size_t l = 0; l < lists.size(); ++l) {
      const Piece& piece = lists[l][at[l].piece];
      out[l].push_back({piece.offset + at[l].done, bytes});
      at[l].done += bytes;
      if (at[l].done == piece.bytes) at[l] = {at[l].piece + 1, 0};
    }
  }
  lists = std::move(out);
}

std::vector<StridedPieces> strided_pieces(const std::vector<Piece>& from, const std::vector<Piece>& into) {
  std::vector<StridedPieces> all;
  const auto fits = [](std::int64_t stride, std::int64_t bytes) {
    return stride >= bytes && stride <= most_stride;
  };
  for (std::size_t i = 0; i < from.size(); ++i) {
    const std::int64_t bytes = from[i].bytes;
    if (!all.empty() && all.back().bytes == bytes) {
      StridedPieces& last = all.back();
      const std::int64_t from_stride = from[i].offset - (last.from + (last.count - 1) * last.from_stride);
      const std::int64_t into_stride = into[i].offset - (last.into + (last.count - 1) * last.into_stride);
      const bool first = last.count == 1;
      if (fits(from_stride, bytes) && fits(into_stride, bytes) &&
          (first || (from_stride == last.from_stride && into_stride == last.into_stride))) {
        last.from_stride = from_stride;
        last.into_stride = into_stride;
        ++last.count;
        continue;
      }
    }
    all.push_back({from[i].offset, into[i].offset, bytes, 1, bytes, bytes});
  }
  return all;
}

}  // namespace cplab
