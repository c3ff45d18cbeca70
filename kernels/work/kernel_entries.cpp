// The table of kernels; see kernel_entries.hpp.
#include "kernels/work/kernel_entries.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/work/linear_variants.hpp"
#include "kernels/work/masked_variants.hpp"

namespace cplab::kernels::cuda {
namespace {

using Features = std::vector<std::string_view>;
using Entries = std::vector<KernelEntry>;

const Features tiles_by_tma_persistent = {"wgmma", "tma", "warp_specialized", "persistent"};
const Features tiles_by_cp_async = {"mma_sync", "cp_async"};

constexpr int warpgroup = 128;

template <class Variant>
Claim claim_of(const Variant& variant) {
  return variant.sm_major == 9 ? Claim::hopper : Claim::all;
}

// One function of a variant.
struct Part {
  std::string name;
  int threads, tile_rows, tile_columns, stages;
};

void add(Entries& all, const KernelEntry& variant, std::vector<Part> parts) {
  for (Part& part : parts) {
    KernelEntry& entry = all.emplace_back(variant);
    entry.part = std::move(part.name);
    entry.threads = part.threads;
    entry.tile_rows = part.tile_rows;
    entry.tile_columns = part.tile_columns;
    entry.stages = part.stages;
  }
}

void add(Entries& all, const AttendVariant& variant) {
  using Family = AttendVariant::Family;
  const int D = variant.head_size, rows = variant.tile_rows;
  KernelEntry entry{.variant = variant.name,
                    .kind = "attend",
                    .family = "general",
                    .dtype = variant.dtype,
                    .key_size = D,
                    .value_size = variant.value_size,
                    .claim = claim_of(variant)};
  switch (variant.family) {
    case Family::hopper: {
      entry.family = "hopper";
      entry.features = tiles_by_tma_persistent;
      Part part{"", warpgroup * (1 + rows / 64), rows, 128, hopper_forward_stages(D, rows / 64)},
          other = part;
      if (!variant.goes_out_of_turn) return add(all, entry, {part});
      part.name = "in turns", other.name = "out of turn";
      return add(all, entry, {part, other});
    }
    case Family::mma:
      entry.family = "mma";
      entry.features = tiles_by_cp_async;
      return add(all, entry, {{"", 128, rows, 64, 1}});
    case Family::general: return add(all, entry, {{"", 128, rows, 32, 1}});
  }
}

void add(Entries& all, const AttendBackwardVariant& variant) {
  using Family = AttendBackwardVariant::Family;
  const int D = variant.head_size, rows = variant.tile_rows;
  KernelEntry entry{.variant = variant.name,
                    .kind = "attend_backward",
                    .family = "hopper",
                    .dtype = variant.dtype,
                    .key_size = D,
                    .value_size = variant.value_size,
                    .claim = claim_of(variant),
                    .deterministic = variant.deterministic};
  const bool ordered = variant.family == Family::hopper_ordered;
  switch (variant.family) {
    case Family::hopper_fused:
    case Family::hopper_ordered:
    case Family::hopper_chains: {
      entry.features = tiles_by_tma_persistent;
      entry.features.emplace_back("reduce_add");
      if (ordered) entry.features.emplace_back("turns");
      if (variant.in_chains) entry.features.emplace_back("chains");
      Part part{"", warpgroup * (1 + rows / 64), D == 64 ? 128 : 64, rows, rows == 64 ? 3 : 2}, adding = part;
      part.name = "dk, dv stored", adding.name = "dk, dv added";
      return add(all, entry, {part, adding});
    }
    case Family::hopper_deterministic:
      entry.features = tiles_by_tma_persistent;
      return add(all, entry, {{"", 3 * warpgroup, D == 64 ? 128 : 64, rows, D == 64 ? 3 : 2}});
    case Family::mma: {
      entry.family = "mma";
      entry.features = tiles_by_cp_async;
      const HeadSizes sizes{D, variant.value_size};
      entry.claim = mma_dkv_claim(sizes, variant.small_tiles);
      add(all, entry,
          {{"dk, dv", mma_dkv_threads(sizes, variant.small_tiles),
            mma_backward_queries(sizes, variant.small_tiles), rows, 2}});
      entry.claim = mma_dq_claim(D, rows);
      return add(all, entry, {{"dq", mma_dq_threads(D, rows), rows, mma_dq_keys(D), 2}});
    }
    case Family::general:
      entry.family = "general";
      return add(all, entry, {{"dk, dv", 128, 32, rows, 1}, {"dq", 128, rows, 32, 1}});
  }
}

std::vector<Part> hopper_parts(const LinearVariant& variant) {
  const int D = variant.key_size, E = variant.value_size;
  // Walks for out or dq: a consumer warpgroup for 64 columns of the result, `width` of them.
  const auto walk = [](std::string name, int depth, int width) {
    const int stages = width == 64 ? (depth == 64 ? 4 : 2) : (depth == 64 ? 5 : 3);
    return Part{std::move(name), warpgroup * (1 + width / 64), linear_tokens, width, stages};
  };
  switch (variant.operation) {
    case LinearOperation::local: return {walk("", D, E)};
    case LinearOperation::local_backward:
      return {walk("dq", E, D),
              {"dk, dv", 3 * warpgroup, linear_tokens, std::min(D, E), D + E == 256 ? 2 : 3}};
    default: break;
  }
  const int stages = (D == 64 ? 96 : 192) * 1024 / (2 * linear_tokens * (D + E));
  const Part part{"forward", warpgroup * (1 + D / 64), linear_tokens, E, stages};
  Part reverse = part;
  reverse.name = "reverse";
  return {part, reverse};
}

std::vector<Part> general_parts(LinearOperation operation) {
  const auto columns = [](int tokens, int width) {
    return Part{std::to_string(width) + " columns", linear_threads, tokens, width, 1};
  };
  switch (operation) {
    case LinearOperation::scan:
    case LinearOperation::combine: return {{"", linear_threads, 0, 0, 0}};
    case LinearOperation::state: return {columns(32, 64), columns(32, 32)};
    default: return {columns(linear_tokens, 64), columns(linear_tokens, 32), columns(linear_tokens, 16)};
  }
}

std::vector<Part> linear_mma_parts() {
  std::vector<Part> parts;
  for (const int depth : {64, 128})
    for (const int columns : {32, 64})
      parts.push_back({std::to_string(depth) + " x " + std::to_string(columns) + " states", linear_threads,
                       linear_tokens, columns, 1});
  return parts;
}

void add(Entries& all, const LinearVariant& variant) {
  using Family = LinearVariant::Family;
  KernelEntry entry{.variant = variant.name,
                    .kind = name_of(variant.operation),
                    .family = "general",
                    .dtype = variant.dtype,
                    .key_size = variant.key_size,
                    .value_size = variant.value_size,
                    .claim = claim_of(variant),
                    .deterministic = variant.deterministic};
  switch (variant.family) {
    case Family::hopper:
      entry.family = "hopper";
      entry.features = tiles_by_tma_persistent;
      return add(all, entry, hopper_parts(variant));
    case Family::mma:
      entry.family = "mma";
      entry.features = tiles_by_cp_async;
      return add(all, entry, linear_mma_parts());
    case Family::general: return add(all, entry, general_parts(variant.operation));
  }
}

template <class Variant>
KernelEntry masked_entry(const Variant& variant, std::string_view kind) {
  const bool mma = variant.family == Variant::Family::mma;
  return {.variant = variant.name,
          .kind = kind,
          .family = mma ? "mma" : "general",
          .dtype = variant.dtype,
          .key_size = variant.head_size,
          .value_size = variant.head_size,
          .features = mma ? tiles_by_cp_async : Features{}};
}

void add(Entries& all, const MaskedVariant& variant) {
  const int keys = variant.family == MaskedVariant::Family::mma ? cell_rows : general_tile_rows;
  add(all, masked_entry(variant, "attend"), {{"", 128, variant.tile_rows, keys, 1}});
}

void add(Entries& all, const MaskedBackwardVariant& variant) {
  const KernelEntry entry = masked_entry(variant, "attend_backward");
  const int rows = variant.tile_rows;
  if (variant.family == MaskedBackwardVariant::Family::mma)
    return add(all, entry, {{"dk, dv", 128, cell_rows, rows, 2}, {"dq", 128, rows, cell_rows, 2}});
  const Part part{"dk, dv", 128, rows, rows, 1};
  std::vector<Part> parts(4, part);
  parts[1].name = "dq";
  parts[2].name = "dbias of keys";
  parts[3].name = "dbias of pairs";
  add(all, entry, std::move(parts));
}

void add_mask_scans(Entries& all) {
  add(all, {.variant = "mask_scan", .kind = "mask_scan", .family = "rows", .dtype = DType::bf16},
      {{"pairs vector", 256, 0, 0, 0},
       {"pairs", 256, 0, 0, 0},
       {"keys", 256, 0, 0, 0},
       {"transpose", 32, 0, 0, 0}});
  add(all, {.variant = "select_keys", .kind = "select_keys", .family = "rows"}, {{"fp32", 256, 0, 0, 0}});
  add(all, {.variant = "select_keys", .kind = "select_keys", .family = "rows", .dtype = DType::fp64},
      {{"fp64", 256, 0, 0, 0}});
}

// Copies and fills move bits, in units of so many bytes; all others compute, "2 bytes": from operands of that
// size. "vector": memory is moved in 16 bytes.
void add_row_wise(Entries& all, std::string_view kind) {
  const bool moves_bits = kind == "copy" || kind == "fill";
  const bool one_element = kind == "merge_lse" || kind == "maximum";
  std::vector<std::pair<std::string, DType>> parts;
  if (moves_bits)
    parts = {{"2 bytes", DType::bf16},
             {"4 bytes", DType::fp32},
             {"8 bytes", DType::fp64},
             {"16 bytes", DType::fp32}};
  else if (one_element)
    parts = {{"fp32", DType::fp32}, {"fp64", DType::fp64}};
  else
    parts = {{"fp32", DType::fp32},
             {"fp32 vector", DType::fp32},
             {"fp64", DType::fp64},
             {"fp64 vector", DType::fp64}};
  if (kind == "row_dot")
    parts.insert(parts.begin() + 2,
                 {{"2 bytes vector", DType::fp32}, {"2 bytes vector, and zeros", DType::fp32}});
  for (auto& [name, dtype] : parts)
    add(all, {.variant = std::string(kind), .kind = kind, .family = "rows", .dtype = dtype},
        {{std::move(name), 256, 0, 0, 0}});
}

Entries list(const KernelBuild& build) {
  Entries all;
  for (const AttendVariant& variant : attend_variants(build)) add(all, variant);
  for (const AttendBackwardVariant& variant : attend_backward_variants(build)) add(all, variant);
  for (const LinearVariant& variant : linear_variants(build)) add(all, variant);
  for (const MaskedVariant& variant : masked_variants(build)) add(all, variant);
  for (const MaskedBackwardVariant& variant : masked_backward_variants(build)) add(all, variant);
  add_mask_scans(all);
  for (const std::string_view kind :
       {"row_dot", "merge", "merge_lse", "rescale", "copy", "cast", "add", "maximum", "fill"})
    add_row_wise(all, kind);
  return all;
}

}  // namespace

std::span<const KernelEntry> kernel_entries(const KernelBuild& build) {
  static const std::array<Entries, 4> lists = {
      list({.hopper = false, .full = false}), list({.hopper = true, .full = false}),
      list({.hopper = false, .full = true}), list({.hopper = true, .full = true})};
  return lists[(build.hopper ? 1U : 0U) + (build.full ? 2U : 0U)];
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
