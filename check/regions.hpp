// What a buffer holds, symbolically: every slot is cut into columns (heads x width), every column into runs
// of rows with one value. Values move row by row; what a run of rows means is told by its value.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "check/model.hpp"

namespace cplab::checking {

enum class Holds : std::uint8_t {
  nothing,
  q,
  k,
  v,
  dout,       // an input's rows
  out,        // partial result: keys `set`, normalised by the LSE of `norm`
  lse,        // of keys `set`
  delta,      // of complete out and dout
  dq,         // keys `set`
  dk,         // queries `set`, of all query heads of the key head or of some (HeadSets)
  dv,         // likewise
  max_logit,  // maximum over the pairs `set` of PairSets; one row, whose id is 0
  log_decay,  // of linear attention: inputs' rows
  beta,
  bias,  // of dynamic mask attention: inputs' rows, of queries or of keys
  keep,
  dbias,       // as dq or as dk and dv: the problem's form of biases says which
  dlog_decay,  // complete as they are computed
  dbeta,
  state,       // of the keys `set`, decayed to `edge`; rows are numbered by D
  dstate,      // of the queries `set`, likewise
  transition,  // of the tokens `set`, which follow each other; rows are numbered by D
  sink,        // parameters: one row, whose id is 0
  bias_table,
  dsink,   // of the queries `set`; one row, whose id is 0
  dtable,  // of the pairs `set` of PairSets; likewise
  latent,  // inputs' rows, which are of one head
  rope_key,
  dlatent,  // as dk and dv, of all query heads in the place of a group
  drope_key,
  key_weights,  // parameters
  value_weights,
  dkey_weights,  // of the pairs `set` of PairSets, in which keys have the place of queries; likewise
  dvalue_weights,
  raw_q,  // inputs' rows, before a convolution makes q, k and v of them
  raw_k,
  raw_v,
  draw_q,  // complete as they are computed
  draw_k,
  draw_v,
  conv_q,  // parameters
  conv_k,
  conv_v,
  dconv_q,  // of the tokens `set`; one row, whose id is 0
  dconv_k,
  dconv_v,
  zero,            // an empty partial of anything but lse and max_logit
  minus_infinity,  // an empty lse or max_logit
  constant,        // another number
  unknown,         // the result of something wrong that was reported: never without a finding
};
std::string_view name(Holds);

// Row r of the buffer holds what belongs to row id r + shift (Stretch in check/coverage.hpp); likewise for
// the tensor's head and column.
struct Value {
  Holds holds = Holds::nothing;
  std::int32_t head_shift = 0;   // tensor head = buffer head + head_shift
  std::int32_t width_shift = 0;  // tensor column = buffer column + width_shift
  std::uint32_t set = 0;         // id in Sets; of gradients of keys in HeadSets, of max_logit, dtable and
                                 // gradients of weights in PairSets
  std::uint32_t norm = 0;
  std::uint32_t writer = none;  // index into the rank's writes, to find values nobody reads
  std::int64_t shift = 0;
  std::int64_t edge = 0;  // of states: the id of the token that it lies before
  bool operator==(const Value&) const = default;

  static Value unknown() {
    Value value;
    value.holds = Holds::unknown;
    return value;
  }

  // Belongs to particular rows. Zero, minus infinity, constants and the unknown are the same for every row.
  bool located() const { return holds != Holds::nothing && holds < Holds::zero; }
};

struct Piece {
  std::int64_t begin = 0, end = 0;  // rows of the buffer
  Value value;
};

struct Column {
  std::int32_t head_begin = 0, head_end = 0, width_begin = 0, width_end = 0;
  std::vector<Piece> pieces;  // ascending, disjoint; rows in none hold nothing
};

// Rows [first, first + count) of a view, in its order; `row` is the buffer row of the first, further ones
// follow by `step`. The value's shifts are those of the buffer it was read from.
struct Run {
  std::int64_t first = 0, count = 0;
  std::int64_t row = 0, step = 1;
  Value value;
  std::int64_t id() const { return row + value.shift; }  // of the first row; the next is id() + step
  bool same_rows(const Run& other) const {
    return id() == other.id() && (count == 1 || other.count == 1 || step == other.step);
  }
};
using Runs = std::vector<Run>;

// How much the symbolic run may keep: rows that are strided or permuted are kept one by one, and a small file
// can name very many.
class Budget {
 public:
  // Throws PlanTooLarge. `pieces` more, or fewer if negative.
  void keep(std::int64_t pieces);
  // Throws PlanTooLarge where one operation would look at too many pairs of stretches of rows.
  static void compare(std::int64_t x, std::int64_t y);

 private:
  std::int64_t pieces_ = 0;
};

class Region {  // one slot
 public:
  void shape(std::int32_t heads, std::int32_t width) { columns_.assign(1, {0, heads, 0, width, {}}); }
  bool shaped() const { return !columns_.empty(); }
  std::vector<Column>& columns() { return columns_; }

  // Cuts columns so that none crosses the border of heads x width.
  void align(std::int32_t head_begin, std::int32_t head_end, std::int32_t width_begin, std::int32_t width_end,
             Budget&);

 private:
  void cut(std::int32_t Column::*begin, std::int32_t Column::*end, std::int32_t at, Budget&);
  std::vector<Column> columns_;
};

// The rows of `box` as they lie in a column; rows that hold nothing come as runs of nothing.
void read_rows(const Column&, const Box&, Runs&);

// Replaces the rows of `box` in a column by `runs`, which cover the view. The rows keep their ids; head_shift
// and width_shift must be those of this buffer already.
void write_rows(Column&, const Box&, const Runs&, Budget&);

// Cuts two lists of runs over the same rows at the borders of both and calls visit(a, b, first, count) for
// each piece; a and b are the runs, clipped to it.
Run advanced(const Run&, std::int64_t first);
inline Run clipped(const Run& run, std::int64_t first, std::int64_t end) {
  Run part = advanced(run, first);
  part.count = end - first;
  return part;
}
template <class Visit>
void zip(const Runs& a, const Runs& b, Visit visit) {
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const std::int64_t first = std::max(a[i].first, b[j].first);
    const std::int64_t a_end = a[i].first + a[i].count, b_end = b[j].first + b[j].count;
    const std::int64_t end = std::min(a_end, b_end);
    if (first < end) visit(clipped(a[i], first, end), clipped(b[j], first, end), first, end - first);
    if (a_end == end) ++i;
    if (b_end == end) ++j;
  }
}

}  // namespace cplab::checking
