// What the products for latents need; see kernel_entries.hpp.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/families/kernel_entries.hpp"

namespace cplab::kernels::cuda {
namespace {

struct Part {
  std::string_view name;
  DType dtype;
};

// In the order of product_kernels(). Of gradients in fp32 beside 16 bits: bf16 and fp32.
std::vector<Part> parts_of(std::string_view kind) {
  std::vector<Part> all{{"bf16", DType::bf16}, {"fp16", DType::fp16}};
  if (kind != "project")
    all = {{"bf16", DType::bf16},
           {"bf16 and fp32", DType::bf16},
           {"fp16", DType::fp16},
           {"fp16 and fp32", DType::fp16}};
  all.insert(all.end(), {{"fp32", DType::fp32}, {"fp64", DType::fp64}});
  if (kind != "weight_gradient")
    all.insert(all.end(), {{"shared columns fp32", DType::fp32}, {"shared columns fp64", DType::fp64}});
  return all;
}

}  // namespace

std::vector<KernelEntry> product_entries() {
  std::vector<KernelEntry> all;
  for (const std::string_view kind : {"project", "project_backward", "weight_gradient"})
    for (const auto& [name, dtype] : parts_of(kind)) {
      const bool on_tensor_cores = dtype == DType::bf16 || dtype == DType::fp16;
      const int tile = on_tensor_cores ? 128 : name.starts_with("shared") ? 0 : 64;
      KernelEntry entry{.variant = std::string(kind), .kind = kind, .family = "products", .dtype = dtype};
      if (on_tensor_cores) entry.features = {"mma_sync"};
      for (KernelEntry& each : with_parts(entry, {{std::string(name), 256, tile, tile, tile > 0 ? 1 : 0}}))
        all.push_back(std::move(each));
    }
  return all;
}

}  // namespace cplab::kernels::cuda
