// What the row-wise kernels need; see kernel_entries.hpp.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/families/kernel_entries.hpp"

namespace cplab::kernels::cuda {
namespace {

int threads_of(std::string_view kind) {
  if (kind == "convolve") return 128;
  return kind == "sink_gradient" || kind == "filter_gradient" ? 512 : 256;
}

// Copies and fills move bits, in units of so many bytes; all others compute, "2 bytes": from operands of that
// size. "vector": memory is moved in 16 bytes.
std::vector<std::pair<std::string, DType>> parts_of(std::string_view kind) {
  if (kind == "copy" || kind == "fill")
    return {{"2 bytes", DType::bf16},
            {"4 bytes", DType::fp32},
            {"8 bytes", DType::fp64},
            {"16 bytes", DType::fp32}};
  if (kind == "merge_lse" || kind == "maximum" || threads_of(kind) != 256)
    return {{"fp32", DType::fp32}, {"fp64", DType::fp64}};
  std::vector<std::pair<std::string, DType>> parts = {{"fp32", DType::fp32},
                                                      {"fp32 vector", DType::fp32},
                                                      {"fp64", DType::fp64},
                                                      {"fp64 vector", DType::fp64}};
  if (kind == "row_dot")
    parts.insert(parts.begin() + 2,
                 {{"2 bytes vector", DType::fp32}, {"2 bytes vector, and zeros", DType::fp32}});
  return parts;
}

}  // namespace

std::vector<KernelEntry> rowwise_entries() {
  std::vector<KernelEntry> all;
  for (const std::string_view kind : {"row_dot", "merge", "merge_lse", "rescale", "copy", "cast", "add",
                                      "maximum", "fill", "sink_gradient", "convolve", "filter_gradient"})
    for (auto& [name, dtype] : parts_of(kind)) {
      const KernelEntry entry{.variant = std::string(kind), .kind = kind, .family = "rows", .dtype = dtype};
      for (KernelEntry& each : with_parts(entry, {{std::move(name), threads_of(kind), 0, 0, 0}}))
        all.push_back(std::move(each));
    }
  return all;
}

}  // namespace cplab::kernels::cuda
