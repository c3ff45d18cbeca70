// Some rows of a call, computed again by CPU tiles; see sampled_rows.hpp.
#include "kernels/tune/sampled_rows.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

namespace cplab::kernels::tune {
namespace {

struct Range {
  std::int64_t begin = 0, end = 0;
  std::int64_t count() const { return end - begin; }
};

// Physical row of every row of a view.
std::vector<std::int64_t> physical_rows(const View& view) {
  std::vector<std::int64_t> rows;
  rows.reserve(static_cast<std::size_t>(view.rows));
  if (view.runs.empty())
    for (std::int64_t row = 0; row < view.rows; ++row) rows.push_back(row);
  for (const RowRun& run : view.runs)
    for (std::int64_t n = 0; n < run.count; ++n) rows.push_back(run.begin + n * run.step);
  return rows;
}

// Rows and heads of a view as a compact tensor [rows, heads, width] of its own.
class Part {
 public:
  Part() = default;
  Part(const View& from, Range rows, Range heads) : dtype_(from.dtype), width_(from.width) {
    rows_ = rows.count();
    heads_ = heads.count();
    const std::size_t size = bytes_of(dtype_), line = size * static_cast<std::size_t>(width_);
    data_.resize(line * static_cast<std::size_t>(rows_ * heads_));
    const std::vector<std::int64_t> physical = physical_rows(from);
    std::byte* into = data_.data();
    for (std::int64_t row = rows.begin; row < rows.end; ++row)
      for (std::int64_t head = heads.begin; head < heads.end; ++head, into += line) {
        const std::int64_t element =
            physical[static_cast<std::size_t>(row)] * from.row_stride + head * from.head_stride;
        std::memcpy(into, static_cast<const std::byte*>(from.data) + static_cast<std::size_t>(element) * size,
                    line);
      }
  }

  View view() { return rows_first(data_.data(), dtype_, rows_, heads_, width_); }

 private:
  std::vector<std::byte> data_;
  DType dtype_ = DType::fp32;
  std::int64_t rows_ = 0, heads_ = 0, width_ = 0;
};

// The segments' pairs with queries in `rows`, which are counted from its first.
std::vector<Segment> of_queries(std::span<const Segment> all, Range rows) {
  std::vector<Segment> some;
  for (const Segment& s : all) {
    const std::int64_t low = std::max(s.q_begin, rows.begin),
                       high = std::min(s.q_begin + s.q_count, rows.end);
    if (low >= high) continue;
    Segment cut = s;
    cut.q_begin = low - rows.begin;
    cut.q_count = high - low;
    cut.offset += low - s.q_begin;  // query i of the cut is query i + low - q_begin of the segment
    some.push_back(cut);
  }
  return some;
}

// The same for keys.
std::vector<Segment> of_keys(std::span<const Segment> all, Range rows) {
  std::vector<Segment> some;
  for (const Segment& s : all) {
    const std::int64_t low = std::max(s.k_begin, rows.begin),
                       high = std::min(s.k_begin + s.k_count, rows.end);
    if (low >= high) continue;
    Segment cut = s;
    cut.k_begin = low - rows.begin;
    cut.k_count = high - low;
    cut.offset -= low - s.k_begin;  // j - (i + offset) with j = j of the cut + low - k_begin
    some.push_back(cut);
  }
  return some;
}

std::vector<Range> places(std::int64_t rows, const RowSample& sample) {
  if (rows <= 3 * sample.rows) return {{0, rows}};
  std::mt19937_64 random(sample.seed);
  const std::int64_t middle =
      std::uniform_int_distribution<std::int64_t>(sample.rows, rows - 2 * sample.rows)(random);
  return {{0, sample.rows}, {middle, middle + sample.rows}, {rows - sample.rows, rows}};
}

std::vector<Range> groups_of(std::int64_t groups, const RowSample& sample) {
  std::vector<Range> some;
  if (groups > 0) some.push_back({0, 1});
  if (groups > 1 && sample.groups > 1) some.push_back({groups - 1, groups});
  return some;
}

Range queries_of(Range groups, std::int64_t heads, std::int64_t all_groups) {
  const std::int64_t each = heads / all_groups;
  return {groups.begin * each, groups.end * each};
}

// What a place of a tensor is called in a message: where its rows and heads begin in the whole.
struct Where {
  const char* tensor;
  Range rows;
  std::int64_t first_head = 0;
};

std::string compared(const View& result, const View& right, const Where& where, double limit) {
  const std::vector<std::int64_t> of_result = physical_rows(result), of_right = physical_rows(right);
  for (std::int64_t head = 0; head < result.heads; ++head) {
    double error = 0, norm = 0;
    bool as_infinite = true;
    for (std::int64_t row = 0; row < result.rows; ++row)
      for (std::int64_t x = 0; x < result.width; ++x) {
        const auto at = [&](const View& view, const std::vector<std::int64_t>& rows) {
          return load_element(
              view.data, view.dtype,
              rows[static_cast<std::size_t>(row)] * view.row_stride + head * view.head_stride + x);
        };
        const double a = at(result, of_result), b = at(right, of_right);
        if (std::isinf(b) || std::isinf(a)) {  // lse of a row that sees nothing
          as_infinite = as_infinite && a == b;
          continue;
        }
        error += (a - b) * (a - b);
        norm += b * b;
      }
    const double relative = norm > 0 ? std::sqrt(error / norm) : error == 0 ? 0 : 1;  // NaN: 1
    if (as_infinite && relative <= limit) continue;                                   // NaN is not
    return std::string(where.tensor) + ": relative error " +
           (as_infinite ? std::to_string(relative) : "infinite") + " in head " +
           std::to_string(where.first_head + head) + ", rows " + std::to_string(where.rows.begin) + " to " +
           std::to_string(where.rows.end - 1);
  }
  return {};
}

}  // namespace

double largest_error(DType dtype) {
  switch (dtype) {
    case DType::bf16: return 1.0 / 64;
    case DType::fp16: return 1.0 / 512;
    case DType::fp32: return 1e-5;
    case DType::fp64: break;
  }
  return 1e-12;
}

std::string wrong_rows(const Attend& call, const Attend& before, const RowSample& sample) {
  const double limit = largest_error(call.q.dtype);
  const Range keys{0, call.k.rows};
  for (const Range group : groups_of(call.k.heads, sample)) {
    const Range heads = queries_of(group, call.q.heads, call.k.heads);
    Part k(call.k, keys, group), v(call.v, keys, group);
    for (const Range rows : places(call.q.rows, sample)) {
      Part q(call.q, rows, heads), out(before.out, rows, heads), lse(before.lse, rows, heads);
      Part its_out(call.out, rows, heads), its_lse(call.lse, rows, heads);
      const std::vector<Segment> segments = of_queries(call.segments, rows);
      const Attend part{.q = q.view(),
                        .k = k.view(),
                        .v = v.view(),
                        .out = out.view(),
                        .lse = lse.view(),
                        .segments = segments,
                        .scale = call.scale,
                        .write = call.write};
      cpu_tiles().attend(part);
      std::string wrong = compared(its_out.view(), part.out, {"out", rows, heads.begin}, limit);
      if (wrong.empty()) wrong = compared(its_lse.view(), part.lse, {"lse", rows, heads.begin}, limit);
      if (!wrong.empty()) return wrong;
    }
  }
  return {};
}

namespace {

// Gradients of some rows: those of dq, or those of dk and dv, with all rows of the other side.
std::string wrong_gradients(const AttendBackward& call, const AttendBackward& before, Range groups,
                            Range rows, bool by_key) {
  const Range heads = queries_of(groups, call.q.heads, call.k.heads);
  const Range of_q = by_key ? Range{0, call.q.rows} : rows, of_k = by_key ? rows : Range{0, call.k.rows};
  Part q(call.q, of_q, heads), k(call.k, of_k, groups), v(call.v, of_k, groups), dout(call.dout, of_q, heads),
      lse(call.lse, of_q, heads), delta(call.delta, of_q, heads);
  Part dq(before.dq, of_q, heads), dk(before.dk, of_k, groups), dv(before.dv, of_k, groups);
  const std::vector<Segment> segments =
      by_key ? of_keys(call.segments, rows) : of_queries(call.segments, rows);
  AttendBackward part{.q = q.view(),
                      .k = k.view(),
                      .v = v.view(),
                      .dout = dout.view(),
                      .lse = lse.view(),
                      .delta = delta.view(),
                      .dq = dq.view(),
                      .dk = dk.view(),
                      .dv = dv.view(),
                      .segments = segments,
                      .scale = call.scale,
                      .write_dq = call.write_dq,
                      .write_dk = call.write_dk};
  std::optional<Part> out;
  if (call.out) part.out = out.emplace(*call.out, of_q, heads).view();  // delta is then computed here, too
  cpu_tiles().attend_backward(part);
  const double limit = largest_error(call.q.dtype);
  const View& final_dq = call.rounded_dq ? *call.rounded_dq : call.dq;
  if (!by_key) return compared(Part(final_dq, rows, heads).view(), part.dq, {"dq", rows, heads.begin}, limit);
  const View& final_dk = call.rounded_dk ? *call.rounded_dk : call.dk;
  const View& final_dv = call.rounded_dv ? *call.rounded_dv : call.dv;
  const std::string wrong =
      compared(Part(final_dk, rows, groups).view(), part.dk, {"dk", rows, groups.begin}, limit);
  if (!wrong.empty()) return wrong;
  return compared(Part(final_dv, rows, groups).view(), part.dv, {"dv", rows, groups.begin}, limit);
}

}  // namespace

std::string wrong_rows(const AttendBackward& call, const AttendBackward& before, const RowSample& sample) {
  for (const Range groups : groups_of(call.k.heads, sample))
    for (const bool by_key : {false, true})
      for (const Range rows : places(by_key ? call.k.rows : call.q.rows, sample)) {
        std::string wrong = wrong_gradients(call, before, groups, rows, by_key);
        if (!wrong.empty()) return wrong;
      }
  return {};
}

std::string difference(const View& result, const View& other, const char* tensor, double limit) {
  constexpr std::int64_t block = 128;
  const auto rows_of = [](const View& view, Range rows) { return Part(view, rows, {0, view.heads}); };
  for (std::int64_t begin = 0; begin < result.rows; begin += block) {
    const Range rows{begin, std::min(begin + block, result.rows)};
    Part a = rows_of(result, rows), b = rows_of(other, rows);
    std::string wrong = compared(a.view(), b.view(), {tensor, rows, 0}, limit);
    if (!wrong.empty()) return wrong;
  }
  return {};
}

}  // namespace cplab::kernels::tune
