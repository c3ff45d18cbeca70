// Row-wise operations without a softmax: row_dot, copy (with cast), add, maximum, fill.
#include <cmath>
#include <cstddef>
#include <cstring>
#include <vector>

#include "kernels/call_checks.hpp"
#include "kernels/cpu/cpu_tiles.hpp"
#include "kernels/cpu/view_rows.hpp"
#include "kernels/kernels.hpp"

namespace cplab::kernels {
namespace {

// Calls visit(row, head) for every row of every head.
template <class Visit>
void for_each_row(const View& view, Visit visit) {
  for (std::int64_t row = 0; row < view.rows; ++row) {
    for (std::int64_t head = 0; head < view.heads; ++head) visit(row, head);
  }
}

template <class T>
void row_dot_rows(const View& a_view, const View& b_view, const View& into_view) {
  const ViewRows a(a_view);
  const ViewRows b(b_view);
  const ViewRows into(into_view);
  std::vector<T> row_a(static_cast<std::size_t>(a.width()));
  std::vector<T> row_b(row_a.size());
  for_each_row(into_view, [&](std::int64_t row, std::int64_t head) {
    a.load(row, head, row_a.data());
    b.load(row, head, row_b.data());
    T sum = 0;
    for (std::size_t x = 0; x < row_a.size(); ++x) sum += row_a[x] * row_b[x];
    into.store_first(row, head, sum);
  });
}

template <class T>
void cast_rows(const ViewRows& from, const ViewRows& into) {
  std::vector<T> values(static_cast<std::size_t>(from.width()));
  for_each_row(into.view(), [&](std::int64_t row, std::int64_t head) {
    from.load(row, head, values.data());
    into.store(row, head, values.data());
  });
}

template <class T>
void add_rows(const ViewRows& from, const ViewRows& into) {
  std::vector<T> sum(static_cast<std::size_t>(into.width()));
  std::vector<T> addend(sum.size());
  for_each_row(into.view(), [&](std::int64_t row, std::int64_t head) {
    into.load(row, head, sum.data());
    from.load(row, head, addend.data());
    for (std::size_t x = 0; x < sum.size(); ++x) sum[x] += addend[x];
    into.store(row, head, sum.data());
  });
}

void row_dot(const View& a, const View& b, const View& into) {
  const bool wide = any_fp64({&a, &b, &into});
  wide ? row_dot_rows<double>(a, b, into) : row_dot_rows<float>(a, b, into);
}

void copy(const View& from_view, const View& into_view) {
  const ViewRows from(from_view);
  const ViewRows into(into_view);
  if (from_view.dtype == into_view.dtype) {
    // Bits, not values: a NaN keeps its payload, and memory that was never written may be moved.
    const auto row_bytes = static_cast<std::size_t>(from_view.width) * bytes_of(from_view.dtype);
    if (row_bytes == 0) return;
    for_each_row(into_view, [&](std::int64_t row, std::int64_t head) {
      std::memmove(into.address(row, head), from.address(row, head), row_bytes);
    });
  } else if (any_fp64({&from_view, &into_view})) {
    cast_rows<double>(from, into);
  } else {
    cast_rows<float>(from, into);
  }
}

void add(const View& from_view, const View& into_view) {
  const ViewRows from(from_view);
  const ViewRows into(into_view);
  any_fp64({&from_view, &into_view}) ? add_rows<double>(from, into) : add_rows<float>(from, into);
}

template <class T>
void raise_rows(const ViewRows& from, const ViewRows& into) {
  std::vector<T> held(static_cast<std::size_t>(into.width()));
  std::vector<T> other(held.size());
  for_each_row(into.view(), [&](std::int64_t row, std::int64_t head) {
    into.load(row, head, held.data());
    from.load(row, head, other.data());
    for (std::size_t x = 0; x < held.size(); ++x)
      if (other[x] > held[x] || std::isnan(other[x])) held[x] = other[x];
    into.store(row, head, held.data());
  });
}

void maximum(const View& from_view, const View& into_view) {
  const ViewRows from(from_view);
  const ViewRows into(into_view);
  any_fp64({&from_view, &into_view}) ? raise_rows<double>(from, into) : raise_rows<float>(from, into);
}

void fill(const View& into_view, double value) {
  const ViewRows into(into_view);
  const std::vector<double> values(static_cast<std::size_t>(into_view.width), value);
  for_each_row(into_view, [&](std::int64_t row, std::int64_t head) { into.store(row, head, values.data()); });
}

}  // namespace

void rowwise_cpu(const Rowwise& operation) {
  check_call(operation);
  switch (operation.kind) {
    case Rowwise::Kind::row_dot: return row_dot(operation.a, operation.b, operation.into);
    case Rowwise::Kind::copy: return copy(operation.a, operation.into);
    case Rowwise::Kind::add: return add(operation.a, operation.into);
    case Rowwise::Kind::maximum: return maximum(operation.a, operation.into);
    case Rowwise::Kind::fill: return fill(operation.into, operation.value);
  }
}

}  // namespace cplab::kernels
