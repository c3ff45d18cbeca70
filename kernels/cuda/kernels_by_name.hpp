// Kernels by the name of their variant: what kernel_table.cpp, linear_table.cpp and masked_table.cpp share.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace cplab::kernels::cuda {

template <class Kernel>
using Table = std::map<std::string, Kernel, std::less<>>;

template <class Kernel>
void add(Table<Kernel>& table, std::vector<Kernel> kernels) {
  for (Kernel& kernel : kernels) {
    std::string name = kernel.name;
    table.emplace(std::move(name), std::move(kernel));
  }
}

// Throws std::logic_error if a variant has no kernel or a kernel no variant.
template <class Kernel, class Variant>
void require_same_names(const Table<Kernel>& table, std::span<const Variant> variants) {
  for (const Variant& variant : variants)
    if (!table.contains(variant.name)) throw std::logic_error(variant.name + ": a variant without a kernel");
  if (table.size() != variants.size()) throw std::logic_error("a kernel without a variant");
}

}  // namespace cplab::kernels::cuda
