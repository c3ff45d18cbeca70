// Variants of attention; see attention_variant.hpp.
#include "sim/attention_variant.hpp"

#include <algorithm>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

namespace cplab {
namespace {

using kernels::cuda::AttendBackwardVariant;
using kernels::cuda::AttendVariant;

constexpr kernels::cuda::KernelBuild every_kernel{.hopper = true, .full = true};

KernelFamily family_of(const AttendVariant& variant) {
  switch (variant.family) {
    case AttendVariant::Family::hopper: return KernelFamily::hopper;
    case AttendVariant::Family::mma: return KernelFamily::mma;
    case AttendVariant::Family::general: break;
  }
  return KernelFamily::general;
}

KernelFamily family_of(const AttendBackwardVariant& variant) {
  switch (variant.family) {
    case AttendBackwardVariant::Family::hopper_fused:
    case AttendBackwardVariant::Family::hopper_ordered:  // the same products; neither measured nor chosen yet
      return KernelFamily::hopper;
    case AttendBackwardVariant::Family::hopper_deterministic: return KernelFamily::hopper_deterministic;
    case AttendBackwardVariant::Family::mma: return KernelFamily::mma;
    case AttendBackwardVariant::Family::general: break;
  }
  return KernelFamily::general;
}

template <class Variant>
KernelFamily family_named(std::span<const Variant> variants, std::string_view name) {
  const auto found =
      std::find_if(variants.begin(), variants.end(), [&](const Variant& v) { return v.name == name; });
  return found == variants.end() ? KernelFamily::foreign : family_of(*found);
}

bool is_portable(KernelFamily family) {
  return family == KernelFamily::mma || family == KernelFamily::general;
}

template <class Call>
AttentionVariant chosen(const Call& call, const kernels::cuda::VariantOptions& options) {
  const auto& variant = *kernels::cuda::choose_variant(call, options).variant;
  return {variant.name, family_of(variant), kernels::cuda::fall_back(call, options)};
}

// What the choice of a variant depends on: shapes, strides, alignment, rows, segments and how results are
// written.
std::vector<std::int64_t> key_of(const Operation& op, const std::vector<kernels::View*>& views,
                                 std::span<const kernels::Segment> segments) {
  std::vector<std::int64_t> key{static_cast<std::int64_t>(op.kind)};
  constexpr std::uintptr_t alignment = 16;
  for (const kernels::View* view : views) {
    key.insert(key.end(),
               {static_cast<std::int64_t>(view->dtype), view->rows, view->heads, view->width,
                view->row_stride, view->head_stride,
                static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(view->data) % alignment),
                static_cast<std::int64_t>(view->runs.size())});
    for (const kernels::RowRun& run : view->runs) key.insert(key.end(), {run.begin, run.count, run.step});
  }
  for (const kernels::Segment& s : segments)
    key.insert(key.end(), {s.q_begin, s.q_count, s.k_begin, s.k_count, s.offset, s.left, s.right});
  return key;
}

}  // namespace

KernelFamily family_of(const KernelTable& table) {
  return table.kind == OpKind::attend
             ? family_named(kernels::cuda::attend_variants(every_kernel), table.variant)
             : family_named(kernels::cuda::attend_backward_variants(every_kernel), table.variant);
}

// mma: the tables of h200x4-measured.toml and h200x4-hopper.toml from 8K tokens on. Deterministic: 5 products
// instead of 7 (measured 0.69 to 0.77, docs/08-hopper.md). general: 2.7 TFLOP/s where Hopper's have 350 and
// 230 (bench.txt of the H100's record).
double relative_speed(OpKind kind, KernelFamily family) {
  const bool forward = kind == OpKind::attend;
  switch (family) {
    case KernelFamily::foreign:
    case KernelFamily::hopper: return 1;
    case KernelFamily::hopper_deterministic: return 5.0 / 7;
    case KernelFamily::mma: return forward ? 0.54 : 0.43;
    case KernelFamily::general: break;
  }
  return forward ? 0.008 : 0.012;
}

AttentionVariants::AttentionVariants(const Hardware& hardware) : gpu_(hardware.gpu) {
  const auto all_portable = [&](OpKind kind) {
    bool any = false;
    for (const KernelTable& table : hardware.kernels) {
      if (table.kind != kind) continue;
      any = true;
      if (!is_portable(family_of(table))) return false;
    }
    return any;
  };
  hopper_forward_ = !all_portable(OpKind::attend);
  hopper_backward_ = !all_portable(OpKind::attend_backward);
}

kernels::cuda::VariantOptions AttentionVariants::options(OpKind kind, std::int64_t reserved_sms,
                                                         bool fp64) const {
  const bool hopper = kind == OpKind::attend ? hopper_forward_ : hopper_backward_;
  return {.sm_major = gpu_.sm_major,
          .sms = static_cast<int>(std::max<std::int64_t>(gpu_.sms - reserved_sms, 1)),
          .build = {.hopper = hopper, .full = fp64}};
}

const AttentionVariant& AttentionVariants::of(const CallConverter& calls, const Operation& op,
                                              std::int64_t reserved_sms) {
  PlacedCall placed = calls.calls(op).front();
  const std::vector<kernels::View*> views = views_of(placed.call);
  // Kernels ask how operands are aligned; whoever allocates buffers aligns them for all.
  for (std::size_t i = 0; i < views.size(); ++i)
    views[i]->data = reinterpret_cast<void*>(static_cast<std::uintptr_t>(placed.places[i].byte));
  const auto* forward = std::get_if<kernels::Attend>(&placed.call);
  const auto* backward = std::get_if<kernels::AttendBackward>(&placed.call);
  std::vector<std::int64_t> key = key_of(op, views, forward ? forward->segments : backward->segments);
  key.push_back(reserved_sms);
  const auto known = std::find_if(remembered_.begin(), remembered_.end(),
                                  [&](const Remembered& r) { return r.call == key; });
  if (known != remembered_.end()) return known->variant;
  const bool fp64 = std::any_of(views.begin(), views.end(), [](const kernels::View* view) {
    return view->dtype == kernels::DType::fp64;
  });
  const kernels::cuda::VariantOptions by = options(op.kind, reserved_sms, fp64);
  try {
    Remembered& entry = remembered_[next_remembered_++ % remembered_.size()];
    entry.call.clear();  // in case that no kernel takes the call
    entry.variant = forward ? chosen(*forward, by) : chosen(*backward, by);
    entry.call = std::move(key);
    return entry.variant;
  } catch (const std::invalid_argument& error) {
    throw HardwareError("kernel", "class=" + std::string(name(op.kind)), error.what());
  }
}

}  // namespace cplab
