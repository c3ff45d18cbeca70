// Reductions over the ranks of a group; see collectives.hpp.
#include "exec/cpu/collectives.hpp"

#include <cmath>

namespace cplab {

namespace {

void maximum(const kernels::View& from, const kernels::View& into) {
  const std::int64_t count = into.rows * into.heads * into.width;
  for (std::int64_t i = 0; i < count; ++i) {
    const double a = kernels::load_element(into.data, into.dtype, i);
    const double b = kernels::load_element(from.data, from.dtype, i);
    if (b > a || std::isnan(b)) kernels::store_element(into.data, into.dtype, i, b);
  }
}

}  // namespace

StagedTensor::StagedTensor(Device& device, const kernels::View& from, Lane lane)
    : memory_(static_cast<std::size_t>(from.rows * from.heads * from.width) * kernels::bytes_of(from.dtype)) {
  view_.data = memory_.data();
  view_.dtype = from.dtype;
  view_.rows = from.rows;
  view_.heads = from.heads;
  view_.width = from.width;
  view_.row_stride = from.heads * from.width;
  view_.head_stride = from.width;
  device.move(from, view_, lane);
}

void reduce_in_order(Device& device, Lane lane, Reduction reduction,
                     const std::vector<const StagedTensor*>& parts, const kernels::View& into) {
  if (parts.empty()) return;
  const StagedTensor sum(device, parts.front()->view(), lane);
  for (std::size_t i = 1; i < parts.size(); ++i) {
    if (reduction == Reduction::max) {
      maximum(parts[i]->view(), sum.view());
    } else {
      device.launch(kernels::Rowwise{kernels::Rowwise::Kind::add, parts[i]->view(), {}, sum.view(), 0}, lane);
    }
  }
  device.move(sum.view(), into, lane);
}

}  // namespace cplab
