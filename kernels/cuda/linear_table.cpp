// Gathers the kernels of linear attention; see linear_table.hpp.
#include "kernels/cuda/linear_table.hpp"

#include <map>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "kernels/cuda/linear/linear.hpp"

namespace cplab::kernels::cuda {
namespace {

using Table = std::map<std::string, LinearKernel, std::less<>>;

void add(Table& table, std::vector<LinearKernel> kernels) {
  for (LinearKernel& kernel : kernels) {
    std::string name = kernel.name;
    table.emplace(std::move(name), std::move(kernel));
  }
}

// A family for one machine adds its kernels here, as in kernel_table.cpp.
Table make_table() {
  Table table;
  add(table, linear_walk_kernels());
  add(table, linear_state_kernels());
  add(table, linear_scan_kernels());
  const std::span<const LinearVariant> variants = linear_variants(built_kernels());
  for (const LinearVariant& variant : variants)
    if (!table.contains(variant.name)) throw std::logic_error(variant.name + ": a variant without a kernel");
  if (table.size() != variants.size())
    throw std::logic_error("a kernel of linear attention without a variant");
  return table;
}

}  // namespace

const LinearKernel& kernel_of(const LinearVariant& variant) {
  static const Table table = make_table();
  return table.at(variant.name);
}

}  // namespace cplab::kernels::cuda
