// All families, the variants of a build, and which architectures have room for them; see family.hpp.
#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "kernels/families/family.hpp"
#include "kernels/families/linear/variants.hpp"
#include "kernels/families/masked/variants.hpp"

namespace cplab::kernels::cuda {

// What each family's folder defines: kernels/CMakeLists.txt writes a line for each.
#define CPLAB_FAMILY(NAME) void add_##NAME(Families&);
#include "attention_families.inc"
#undef CPLAB_FAMILY

namespace {

// The lists of the four builds, each made once.
template <class Item>
using Lists = std::array<std::vector<Item>, 4>;

std::size_t number_of(const KernelBuild& build) {
  return (build.hopper ? 1U : 0U) + (build.full ? 2U : 0U);
}

template <class Item, class List>
Lists<Item> lists_of(List list) {
  return {list(KernelBuild{false, false}), list(KernelBuild{true, false}), list(KernelBuild{false, true}),
          list(KernelBuild{true, true})};
}

template <class Variant, class Family>
std::vector<Variant> variants_of(const std::vector<const Family*>& families, const KernelBuild& build) {
  std::vector<Variant> all;
  for (const Family* family : families)
    for (Variant& variant : family->variants(build)) all.push_back(std::move(variant));
  return all;
}

std::vector<KernelEntry> entries_of(const KernelBuild& build) {
  std::vector<KernelEntry> all;
  const auto add = [&](std::vector<KernelEntry> entries) {
    for (KernelEntry& entry : entries) all.push_back(std::move(entry));
  };
  for (const AttendVariant& variant : attend_variants(build)) add(variant.family->entries(variant));
  for (const AttendBackwardVariant& variant : attend_backward_variants(build))
    add(variant.family->entries(variant));
  add(linear_entries(build));
  add(masked_entries(build));
  add(rowwise_entries());
  add(product_entries());
  return all;
}

}  // namespace

const Families& attention_families() {
  static const Families families = [] {
    Families all;
#define CPLAB_FAMILY(NAME) add_##NAME(all);
#include "attention_families.inc"
#undef CPLAB_FAMILY
    return all;
  }();
  return families;
}

std::span<const AttendVariant> attend_variants(const KernelBuild& build) {
  static const auto lists = lists_of<AttendVariant>(
      [](const KernelBuild& each) { return variants_of<AttendVariant>(attention_families().forward, each); });
  return lists[number_of(build)];
}

std::span<const AttendBackwardVariant> attend_backward_variants(const KernelBuild& build) {
  static const auto lists = lists_of<AttendBackwardVariant>([](const KernelBuild& each) {
    return variants_of<AttendBackwardVariant>(attention_families().backward, each);
  });
  return lists[number_of(build)];
}

std::vector<KernelEntry> with_parts(const KernelEntry& variant, std::vector<KernelPart> parts) {
  std::vector<KernelEntry> entries(parts.size(), variant);
  for (std::size_t n = 0; n < parts.size(); ++n) {
    entries[n].part = std::move(parts[n].name);
    entries[n].threads = parts[n].threads;
    entries[n].tile_rows = parts[n].tile_rows;
    entries[n].tile_columns = parts[n].tile_columns;
    entries[n].stages = parts[n].stages;
  }
  return entries;
}

Unmet AttendVariant::unmet(const Attend& call) const {
  return family->unmet(*this, call);
}

Unmet AttendBackwardVariant::unmet(const AttendBackward& asked) const {
  return family->unmet(*this, with_stored_dkv(asked));
}

std::span<const KernelEntry> kernel_entries(const KernelBuild& build) {
  static const auto lists = lists_of<KernelEntry>([](const KernelBuild& each) { return entries_of(each); });
  return lists[number_of(build)];
}

bool has_room(std::string_view variant, int sm_major, int sm_minor) {
  const auto gpu = std::find_if(architectures.begin(), architectures.end(), [&](const Architecture& a) {
    return a.major == sm_major && a.minor == sm_minor;
  });
  if (gpu == architectures.end()) return true;
  // Few variants do not run everywhere where their family does: these alone, by name.
  using Refused = std::vector<std::string_view>;
  static const std::array<Refused, architectures.size()> refused = [] {
    std::array<Refused, architectures.size()> all;
    for (const KernelEntry& entry : kernel_entries({.hopper = true, .full = true}))
      for (std::size_t a = 0; a < all.size(); ++a)
        if (!claims(entry.claim, architectures[a])) all[a].push_back(entry.variant);
    return all;
  }();
  const Refused& here = refused[static_cast<std::size_t>(gpu - architectures.begin())];
  return std::find(here.begin(), here.end(), variant) == here.end();
}

}  // namespace cplab::kernels::cuda
