// What the kernels of linear attention need: threads, tokens and columns of a tile; see kernel_entries.hpp.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "kernels/families/kernel_entries.hpp"
#include "kernels/families/linear/variants.hpp"

namespace cplab::kernels::cuda {
namespace {

constexpr int warpgroup = 128;

std::vector<KernelPart> hopper_parts(const LinearVariant& variant) {
  const int D = variant.key_size, E = variant.value_size;
  // Walks for out or dq: a consumer warpgroup for 64 columns of the result, `width` of them.
  const auto walk = [](std::string name, int depth, int width) {
    const int stages = width == 64 ? (depth == 64 ? 4 : 2) : (depth == 64 ? 5 : 3);
    return KernelPart{std::move(name), warpgroup * (1 + width / 64), linear_tokens, width, stages};
  };
  switch (variant.operation) {
    case LinearOperation::local: return {walk("", D, E)};
    case LinearOperation::local_backward:
      return {walk("dq", E, D),
              {"dk, dv", 3 * warpgroup, linear_tokens, std::min(D, E), D + E == 256 ? 2 : 3}};
    default: break;
  }
  const int stages = (D == 64 ? 96 : 192) * 1024 / (2 * linear_tokens * (D + E));
  const KernelPart part{"forward", warpgroup * (1 + D / 64), linear_tokens, E, stages};
  KernelPart reverse = part;
  reverse.name = "reverse";
  return {part, reverse};
}

std::vector<KernelPart> general_parts(LinearOperation operation) {
  const auto columns = [](int tokens, int width) {
    return KernelPart{std::to_string(width) + " columns", linear_threads, tokens, width, 1};
  };
  switch (operation) {
    case LinearOperation::scan:
    case LinearOperation::combine: return {{"", linear_threads, 0, 0, 0}};
    case LinearOperation::state: return {columns(32, 64), columns(32, 32)};
    default: return {columns(linear_tokens, 64), columns(linear_tokens, 32), columns(linear_tokens, 16)};
  }
}

std::vector<KernelPart> linear_mma_parts() {
  std::vector<KernelPart> parts;
  for (const int depth : {64, 128})
    for (const int columns : {32, 64})
      parts.push_back({std::to_string(depth) + " x " + std::to_string(columns) + " states", linear_threads,
                       linear_tokens, columns, 1});
  return parts;
}

// gated/launch.cuh has the same parts in the same order.
std::vector<KernelPart> gated_parts(const LinearVariant& variant) {
  const int tokens = gated_tokens(variant.dtype == DType::fp32);
  const auto part = [&](std::string name, int columns, int stages) {
    return KernelPart{std::move(name), gated_threads, tokens, columns, stages};
  };
  const KernelPart of_heads = part("blocks, a gate a head", variant.key_size, 1),
                   of_columns = part("blocks, a gate a column", variant.key_size, 1),
                   forward = part("states", gated_slice, 2),
                   reverse = part("states from the right", gated_slice, 2);
  switch (variant.operation) {
    case LinearOperation::local: return {of_heads, of_columns, forward, part("out", gated_values, 1)};
    case LinearOperation::local_backward:
      return {of_heads,
              of_columns,
              forward,
              reverse,
              part("gradients, a gate a head", gated_values, 1),
              part("gradients, a gate a column", gated_values, 1)};
    case LinearOperation::state:
      return {of_heads, of_columns, forward, reverse, {"factors", gated_threads, 0, 0, 0}};
    default: return {{"", gated_threads, 0, 0, 0}};
  }
}

std::vector<KernelEntry> entries_of(const LinearVariant& variant) {
  using Family = LinearVariant::Family;
  KernelEntry entry = entry_of(variant, name_of(variant.operation), variant.family_name());
  entry.claim = variant.sm_major == 9 ? Claim::hopper : Claim::all;
  entry.deterministic = variant.deterministic;
  switch (variant.family) {
    case Family::hopper:
      entry.features = features_of_hopper();
      return with_parts(entry, hopper_parts(variant));
    case Family::mma: entry.features = features_of_mma(); return with_parts(entry, linear_mma_parts());
    case Family::gated:
      if (variant.operation != LinearOperation::combine && variant.dtype != DType::fp32)
        entry.features = features_of_mma();
      return with_parts(entry, gated_parts(variant));
    case Family::general: break;
  }
  return with_parts(entry, general_parts(variant.operation));
}

}  // namespace

std::vector<KernelEntry> linear_entries(const KernelBuild& build) {
  std::vector<KernelEntry> all;
  for (const LinearVariant& variant : linear_variants(build))
    for (KernelEntry& entry : entries_of(variant)) all.push_back(std::move(entry));
  return all;
}

}  // namespace cplab::kernels::cuda
