// The short convolution before Q, K and V, its adjoint, and the gradient of its factors.
#include <algorithm>
#include <vector>

#include "kernels/cpu/linear_parts.hpp"
#include "kernels/cpu/linear_tiles.hpp"
#include "kernels/linear_checks.hpp"

namespace cplab::kernels {
namespace {

// Rows of one head's chunk by their distance from its first one, with those of the halo on one side of it.
template <class T>
class Neighbours {
 public:
  // `behind`: the halo's rows are behind the chunk.
  Neighbours(const ViewRows& rows, const ViewRows* halo, const Chunk& chunk, std::int64_t beside, bool behind,
             std::int64_t head)
      : first_(behind ? 0 : -beside), width_(rows.width()), values_((chunk.count + beside) * width_) {
    for (std::int64_t t = 0; t < chunk.count; ++t) rows.load(chunk.row + t, head, at(t));
    for (std::int64_t n = 0; n < beside; ++n)
      halo->load(chunk.state + n, head, at(behind ? chunk.count + n : n - beside));
  }
  bool has(std::int64_t t) const {
    return t >= first_ && (t - first_) * width_ < static_cast<std::int64_t>(values_.size());
  }
  T* at(std::int64_t t) { return values_.data() + (t - first_) * width_; }
  const T* at(std::int64_t t) const { return values_.data() + (t - first_) * width_; }

 private:
  std::int64_t first_, width_;
  std::vector<T> values_;
};

template <class T>
std::vector<T> filter_of(const View& view, std::int64_t head) {
  std::vector<T> factors(static_cast<std::size_t>(view.width));
  ViewRows(view).load(0, head, factors.data());
  return factors;
}

template <class T>
void convolve_rows(const Convolve& call) {
  const ViewRows from(call.from), into(call.into);
  std::optional<ViewRows> halo;
  if (call.halo) halo.emplace(*call.halo);
  const std::int64_t width = call.from.width, W = call.filter.width / std::max<std::int64_t>(width, 1);
  std::vector<T> sum(static_cast<std::size_t>(width));
  for (std::int64_t head = 0; head < call.from.heads; ++head) {
    const std::vector<T> factors = filter_of<T>(call.filter, head);
    for (const Chunk& chunk : call.chunks.list) {
      const Neighbours<T> rows(from, halo ? &*halo : nullptr, chunk, halo_rows(call, chunk), call.reverse,
                               head);
      for (std::int64_t t = 0; t < chunk.count; ++t) {
        std::ranges::fill(sum, T{0});
        for (std::int64_t far = W - 1; far >= 0; --far) {  // tokens between
          const std::int64_t of = call.reverse ? t + far : t - far;
          if (!rows.has(of)) continue;
          const T* x = rows.at(of);
          for (std::int64_t d = 0; d < width; ++d)
            sum[static_cast<std::size_t>(d)] += factors[static_cast<std::size_t>(d * W + W - 1 - far)] * x[d];
        }
        into.store(chunk.row + t, head, sum.data());
      }
    }
  }
  clear_other_rows(call.into, call.chunks.list);
}

template <class T>
void differentiate_filter(const FilterGradient& call) {
  const ViewRows from(call.from), dout(call.dout), dfilter(call.dfilter);
  std::optional<ViewRows> halo;
  if (call.halo) halo.emplace(*call.halo);
  const std::int64_t width = call.from.width, W = call.dfilter.width / std::max<std::int64_t>(width, 1);
  std::vector<T> x(static_cast<std::size_t>(width));
  for (std::int64_t head = 0; head < call.from.heads; ++head) {
    std::vector<T> sum(static_cast<std::size_t>(call.dfilter.width));
    for (const Chunk& chunk : call.chunks.list) {
      const Neighbours<T> rows(dout, halo ? &*halo : nullptr, chunk, halo_rows(call, chunk), true, head);
      for (std::int64_t t = 0; t < chunk.count; ++t) {
        from.load(chunk.row + t, head, x.data());
        for (std::int64_t far = 0; far < W && rows.has(t + far); ++far) {
          const T* g = rows.at(t + far);
          for (std::int64_t d = 0; d < width; ++d)
            sum[static_cast<std::size_t>(d * W + W - 1 - far)] += x[static_cast<std::size_t>(d)] * g[d];
        }
      }
    }
    dfilter.store(0, head, sum.data());
  }
}

}  // namespace

void convolve_cpu(const Convolve& call) {
  check_call(call);
  is_fp64(call.from) ? convolve_rows<double>(call) : convolve_rows<float>(call);
}

void filter_gradient_cpu(const FilterGradient& call) {
  check_call(call);
  is_fp64(call.from) ? differentiate_filter<double>(call) : differentiate_filter<float>(call);
}

}  // namespace cplab::kernels
