// What the kernels of dynamic mask attention need; see kernel_entries.hpp.
#include <utility>
#include <vector>

#include "kernels/families/family.hpp"
#include "kernels/families/general/costs.hpp"
#include "kernels/families/kernel_entries.hpp"
#include "kernels/families/masked/variants.hpp"

namespace cplab::kernels::cuda {
namespace {

template <class Variant>
KernelEntry masked_entry(const Variant& variant, std::string_view kind) {
  KernelEntry entry = entry_of(variant, kind, variant.family_name());
  if (variant.on_tensor_cores()) entry.features = features_of_mma();
  return entry;
}

// Of Hopper's kernels: those of the plain variant, of which one instance is there for either way in which
// warpgroups take turns.
std::vector<KernelEntry> changed_entries(std::vector<KernelEntry> plain, const std::string& name,
                                         bool forward) {
  if (forward) {
    plain.resize(1);
    plain.front().part.clear();
  }
  for (KernelEntry& entry : plain) entry.variant = name;
  return plain;
}

std::vector<KernelEntry> entries_of(const MaskedVariant& variant) {
  if (variant.plain != nullptr)
    return changed_entries(variant.plain->family->entries(*variant.plain), variant.name, true);
  const int keys = variant.on_tensor_cores() ? cell_rows : general_tile_rows;
  return with_parts(masked_entry(variant, "attend"), {{"", 128, variant.tile_rows, keys, 1}});
}

std::vector<KernelEntry> entries_of(const MaskedBackwardVariant& variant) {
  if (variant.plain != nullptr)
    return changed_entries(variant.plain->family->entries(*variant.plain), variant.name, false);
  const KernelEntry entry = masked_entry(variant, "attend_backward");
  const int rows = variant.tile_rows;
  if (variant.on_tensor_cores())
    return with_parts(entry, {{"dk, dv", 128, cell_rows, rows, 2}, {"dq", 128, rows, cell_rows, 2}});
  const KernelPart part{"dk, dv", 128, rows, rows, 1};
  std::vector<KernelPart> parts(5, part);
  parts[1].name = "dq";
  parts[2].name = "dbias of keys";
  parts[3].name = "dbias of pairs";
  parts[4].name = "dbias of a table";
  return with_parts(entry, std::move(parts));
}

std::vector<KernelEntry> scan_entries() {
  return with_parts({.variant = "mask_scan", .kind = "mask_scan", .family = "rows", .dtype = DType::bf16},
                    {{"pairs vector", 256, 0, 0, 0},
                     {"pairs", 256, 0, 0, 0},
                     {"keys", 256, 0, 0, 0},
                     {"transpose", 32, 0, 0, 0}});
}

std::vector<KernelEntry> selection_entries(DType dtype, const char* part) {
  return with_parts({.variant = "select_keys", .kind = "select_keys", .family = "rows", .dtype = dtype},
                    {{part, 256, 0, 0, 0}});
}

}  // namespace

std::vector<KernelEntry> masked_entries(const KernelBuild& build) {
  std::vector<KernelEntry> all;
  const auto add = [&](std::vector<KernelEntry> entries) {
    for (KernelEntry& entry : entries) all.push_back(std::move(entry));
  };
  for (const MaskedVariant& variant : masked_variants(build)) add(entries_of(variant));
  for (const MaskedBackwardVariant& variant : masked_backward_variants(build)) add(entries_of(variant));
  add(scan_entries());
  add(selection_entries(DType::fp32, "fp32"));
  add(selection_entries(DType::fp64, "fp64"));
  return all;
}

}  // namespace cplab::kernels::cuda
