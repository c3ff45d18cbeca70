// Buffers as lists of numbers; see buffer_image.hpp.
#include "exec/buffer_image.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "exec/bind.hpp"
#include "kernels/kernels.hpp"
#include "plan/layout.hpp"

namespace cplab {

namespace {

// Calls visit(element, at) for every element in the order of [slots, rows, heads, width]; `element` counts
// from the first of the buffer.
template <class Visit>
void for_each_element(const Buffer& b, Visit visit) {
  std::size_t at = 0;
  for (std::int64_t slot = 0; slot < b.slots; ++slot) {
    for (std::int64_t row = 0; row < b.rows; ++row) {
      for (std::int64_t head = 0; head < b.heads; ++head) {
        for (std::int64_t column = 0; column < b.width;) {
          const Plane plane = plane_of(b, column);
          std::int64_t element = element_of(b, slot, row, head, column);
          for (; column < plane.begin + plane.width; ++column) visit(element++, at++);
        }
      }
    }
  }
}

}  // namespace

const Buffer* find_buffer(const Plan& plan, int rank, std::string_view name) {
  if (rank < 0 || static_cast<std::size_t>(rank) >= plan.ranks.size()) {
    throw BadPlan(FindingKind::unmatched, rank, "", "", "the plan has no rank " + std::to_string(rank));
  }
  const RankPlan& of = plan.ranks[static_cast<std::size_t>(rank)];
  const auto found =
      std::find_if(of.buffers.begin(), of.buffers.end(), [&](const Buffer& b) { return b.name == name; });
  return found == of.buffers.end() ? nullptr : &*found;
}

const Buffer& require_buffer(const Plan& plan, int rank, std::string_view name) {
  const Buffer* buffer = find_buffer(plan, rank, name);
  if (buffer == nullptr) {
    throw BadPlan(FindingKind::unmatched, rank, "", std::string(name),
                  "rank " + std::to_string(rank) + " has no buffer " + std::string(name));
  }
  return *buffer;
}

void store_buffer(const Buffer& b, DType nominal, std::span<const double> values, std::byte* memory) {
  if (static_cast<std::int64_t>(values.size()) != b.slots * b.rows * b.heads * b.width) {
    throw std::invalid_argument("buffer " + b.name + " does not have " + std::to_string(values.size()) +
                                " elements");
  }
  const kernels::DType dtype = kernel_dtype(b.role, nominal);
  for_each_element(b, [&](std::int64_t element, std::size_t at) {
    kernels::store_element(memory, dtype, element, values[at]);
  });
}

std::vector<double> load_buffer(const Buffer& b, DType nominal, const std::byte* memory) {
  const kernels::DType dtype = kernel_dtype(b.role, nominal);
  std::vector<double> values(static_cast<std::size_t>(b.slots * b.rows * b.heads * b.width));
  for_each_element(b, [&](std::int64_t element, std::size_t at) {
    values[at] = kernels::load_element(memory, dtype, element);
  });
  return values;
}

}  // namespace cplab
