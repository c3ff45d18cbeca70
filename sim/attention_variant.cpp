// Variants of attention; see attention_variant.hpp.
#include "sim/attention_variant.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "kernels/choice/choose.hpp"
#include "kernels/families/family.hpp"
#include "kernels/families/general/costs.hpp"
#include "kernels/families/masked/costs.hpp"
#include "kernels/families/mma/tiles.hpp"
#include "sim/known_operation.hpp"

namespace cplab {
namespace {

using kernels::cuda::AttendBackwardVariant;
using kernels::cuda::AttendVariant;

constexpr kernels::cuda::KernelBuild every_kernel{.hopper = true, .full = true};

KernelFamily family_of(std::string_view name) {
  if (name == "hopper") return KernelFamily::hopper;
  if (name == "decode") return KernelFamily::decode;
  return name == "mma" ? KernelFamily::mma : KernelFamily::general;
}
template <class Variant>
KernelFamily family_of(const Variant& variant) {
  if constexpr (requires { variant.family_name(); })
    return family_of(variant.family_name());
  else
    return family_of(variant.family->name());
}

// The variant of that name; null: it is not ours.
template <class Variant>
const Variant* variant_named(std::span<const Variant> variants, std::string_view name) {
  const auto found =
      std::find_if(variants.begin(), variants.end(), [&](const Variant& v) { return v.name == name; });
  return found == variants.end() ? nullptr : &*found;
}

template <class Variant>
KernelFamily family_named(std::span<const Variant> variants, std::string_view name) {
  const Variant* variant = variant_named(variants, name);
  return variant == nullptr ? KernelFamily::foreign : family_of(*variant);
}

// The segments of a call of any attention.
std::span<const kernels::Segment> segments_of(const KernelCall& call) {
  return std::visit(
      [](const auto& c) -> std::span<const kernels::Segment> {
        if constexpr (requires { c.tile.segments; })
          return c.tile.segments;
        else if constexpr (requires { c.segments; })
          return c.segments;
        else
          return {};
      },
      call);
}

bool is_portable(KernelFamily family) {
  return family == KernelFamily::mma || family == KernelFamily::general;
}

double tiles_of(const kernels::cuda::ChosenForward& chosen, const kernels::Attend& call) {
  return static_cast<double>(chosen.work.tiles.size()) *
         static_cast<double>(chosen.variant->family->tile_heads(*chosen.variant, call));
}
double tiles_of(const kernels::cuda::ChosenBackward& chosen, const kernels::AttendBackward& call) {
  const kernels::AttendBackward launched = kernels::cuda::as_launched(call, chosen);
  return static_cast<double>(chosen.by_k.tiles.size()) *
         static_cast<double>(kernels::cuda::key_tile_heads(launched, *chosen.variant));
}

// Of a call that a general kernel takes; of dynamic mask attention as if all cells were computed.
template <class Tile>
void model_general(Tile tile, kernels::cuda::VariantOptions options, AttentionVariant& result) {
  const bool forward = std::is_same_v<Tile, kernels::Attend>;
  const kernels::DType accumulator =
      tile.q.dtype == kernels::DType::fp64 ? kernels::DType::fp64 : kernels::DType::fp32;
  const std::string name = forward ? kernels::cuda::general_forward_name(accumulator)
                                   : kernels::cuda::general_backward_name(accumulator);
  options.only = name;
  options.build = every_kernel;
  if constexpr (!std::is_same_v<Tile, kernels::Attend>) {  // casts and delta count apart
    tile.rounded_dq.reset();
    tile.rounded_dk.reset();
    tile.rounded_dv.reset();
    tile.out.reset();
  }
  const auto taken = kernels::cuda::choose_variant(tile, options);
  result.tiles_s = kernels::cuda::predicted_seconds(taken, tile, options);
  result.tiles = tiles_of(taken, tile);
  result.by_model = true;
}

template <class Chosen, class Call>
double masked_tiles(const Chosen& chosen, const Call& call) {
  if constexpr (requires { chosen.work; })
    return static_cast<double>(chosen.work.tiles.size()) * static_cast<double>(call.tile.q.heads);
  else
    return static_cast<double>(chosen.by_k.tiles.size()) * static_cast<double>(call.tile.k.heads);
}

// Families that have tables, if times are asked for.
using Timed = std::optional<std::span<const std::pair<OpKind, KernelFamily>>>;

// `sms`: all that the GPU has; options.sms of them are to be used.
template <class Call>
AttentionVariant chosen(const Call& call, const kernels::cuda::VariantOptions& options, int sms,
                        const Timed& timed, OpKind kind) {
  AttentionVariant result;
  const auto taken = kernels::cuda::choose_variant(call, options);
  result.name = taken.variant->name;
  result.family = family_of(*taken.variant);
  if constexpr (requires { taken.variant->sums_dq(); })
    result.by_other_tiles = !taken.variant->family->has_times_of_its_name();
  result.adds_by_tma = result.family == KernelFamily::hopper && !result.by_other_tiles;
  if constexpr (requires { call.rounded_dq; }) {
    result.casts_dq = kernels::cuda::casts_dq(taken, call);
    result.casts_dkv = kernels::cuda::casts_dkv(taken, call);
    result.computes_delta = call.out.has_value();
  }
  result.fall_back = kernels::cuda::fall_back(call, options);
  if (!timed) return result;
  kernels::cuda::VariantOptions whole = options;
  whole.sms = sms;
  const bool has_table =
      std::find(timed->begin(), timed->end(), std::pair{kind, result.family}) != timed->end();
  if constexpr (requires { taken.changed; }) {
    if (taken.changed) {
      result.longer = kernels::cuda::changed_longer(call, options.speeds());
      result.changes_scores = true;
      if (!has_table) return result;
      result.tiles_s = kernels::cuda::predicted_seconds(taken.changed->chosen, call.tile, whole);
      result.tiles = tiles_of(taken.changed->chosen, call.tile);
      return result;
    }
    if (result.family == KernelFamily::mma) {  // no table is of a mask
      result.tiles_s = kernels::cuda::masked_us(taken, call, sms, options.speeds()) * 1e-6;
      result.tiles = masked_tiles(taken, call);
      result.by_model = true;
      return result;
    }
  }
  if constexpr (std::is_same_v<Call, kernels::Attend>) {
    if (result.family == KernelFamily::decode) {
      result.tiles_s = kernels::cuda::predicted_seconds(taken, call, whole);
      result.tiles = std::min(tiles_of(taken, call), static_cast<double>(sms));  // all begin together
      result.by_model = true;
      return result;
    }
  }
  if (!has_table) {
    if (result.family != KernelFamily::general) return result;
    if constexpr (requires { call.tile.segments; })
      model_general(call.tile, whole, result);
    else
      model_general(call, whole, result);
    return result;
  }
  if constexpr (requires { kernels::cuda::predicted_seconds(taken, call, options); }) {
    auto launched = call;
    if constexpr (requires { call.rounded_dq; }) {
      launched = kernels::cuda::as_launched(call, taken);
      if (result.casts_dq) launched.rounded_dq.reset();
      if (result.casts_dkv) launched = kernels::cuda::with_summed_dkv(launched);
    }
    result.tiles_s = kernels::cuda::predicted_seconds(taken, launched, whole);
    result.tiles = tiles_of(taken, call);
  }
  return result;
}

// Why a build without the full set of kernels refuses the call.
template <class Call>
std::string refusal(const Call& call, kernels::cuda::VariantOptions options) {
  options.build.full = false;
  try {
    (void)kernels::cuda::choose_variant(call, options);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return {};
}

template <class Call>
PointTiles tiles_of_call(const Call& call, const kernels::cuda::VariantOptions& options) {
  const auto chosen = kernels::cuda::choose_variant(call, options);
  return {kernels::cuda::predicted_seconds(chosen, call, options), tiles_of(chosen, call)};
}

}  // namespace

// What a choice depends on beside the call: of the hardware, all that AttentionVariants read.
struct ChoosingMachine {
  int sms = 0, sm_major = 0, sm_minor = 0;
  kernels::ChoiceWay way = kernels::ChoiceWay::table;
  const kernels::cuda::MeasuredChoices* measured = nullptr;
  bool hopper = true, full = false, hopper_forward = true, hopper_backward = true;
  std::array<double, kernels::cuda::rate_count> rates{};
  std::vector<std::pair<OpKind, KernelFamily>> timed;
  bool operator==(const ChoosingMachine&) const = default;
};

class KnownVariants {
 public:
  explicit KnownVariants(ChoosingMachine of) : machine(std::move(of)) {}
  const ChoosingMachine machine;
  std::unordered_map<Digest, AttentionVariant, Digest::Hash> by_call;
};

KernelFamily family_of(const KernelTable& table) {
  return table.kind == OpKind::attend
             ? family_named(kernels::cuda::attend_variants(every_kernel), table.variant)
             : family_named(kernels::cuda::attend_backward_variants(every_kernel), table.variant);
}

bool takes_library(const Hardware& hardware, OpKind kind) {
  bool ours = false, portable = false;
  for (const KernelTable& table : hardware.kernels) {
    if (table.kind != kind) continue;
    const KernelFamily family = family_of(table);
    ours |= family != KernelFamily::foreign;
    portable |= is_portable(family);
  }
  if (hardware.data_sheet && !ours) return true;
  constexpr int behind_hopper = 10;
  const bool of_another_gpu = hardware.curve_sm_major > 0 && hardware.curve_sm_major != hardware.gpu.sm_major;
  return hardware.gpu.sm_major >= behind_hopper && (!portable || of_another_gpu);
}

// calibrate/loads.cpp makes the same calls: rows first, gradients in fp32, dq added to.
PointTiles point_tiles(const KernelTable& table, const KernelPoint& point, const Hardware& hardware,
                       int sms) {
  const GpuSpec& gpu = hardware.gpu;
  const std::int64_t rows = point.batch * point.sequence;
  const bool forward = table.kind == OpKind::attend;
  const auto* attend = variant_named(kernels::cuda::attend_variants(every_kernel), table.variant);
  const auto* backward = variant_named(kernels::cuda::attend_backward_variants(every_kernel), table.variant);
  // A table of fp16 may name the kernel of bf16 that it was taken from.
  const kernels::DType dtype = forward ? attend->dtype : backward->dtype;
  const int sm_major = forward ? attend->sm_major : backward->sm_major;
  const kernels::cuda::VariantOptions options{.sm_major = sm_major > 0 ? sm_major : gpu.sm_major,
                                              .sms = sms,
                                              .build = every_kernel,
                                              .sm_minor = gpu.sm_minor,
                                              .only = table.variant,
                                              .rates = &hardware.rates};
  const auto view = [&](kernels::DType of, std::int64_t width) {
    return kernels::rows_first(nullptr, of, rows, point.heads, width);
  };
  const kernels::View numbers{nullptr, kernels::DType::fp32, rows, point.heads, 1, 1, rows, {}};
  std::vector<kernels::Segment> segments;
  for (std::int64_t b = 0; b < point.batch; ++b)
    segments.push_back({b * point.sequence, point.sequence, b * point.sequence, point.sequence, 0, -1,
                        table.causal ? 0 : -1});
  const double scale = 1 / std::sqrt(static_cast<double>(table.head_size));
  const kernels::View key = view(dtype, table.head_size), value = view(dtype, table.value_size);
  if (forward)
    return tiles_of_call(kernels::Attend{.q = key,
                                         .k = key,
                                         .v = value,
                                         .out = value,
                                         .lse = numbers,
                                         .segments = segments,
                                         .scale = scale},
                         options);
  const kernels::DType sums = kernels::DType::fp32;
  return tiles_of_call(kernels::AttendBackward{.q = key,
                                               .k = key,
                                               .v = value,
                                               .dout = value,
                                               .lse = numbers,
                                               .delta = numbers,
                                               .dq = view(sums, table.head_size),
                                               .dk = view(sums, table.head_size),
                                               .dv = view(sums, table.value_size),
                                               .segments = segments,
                                               .scale = scale,
                                               .write_dq = kernels::Write::add},
                       options);
}

double relative_speed(OpKind kind, KernelFamily family, const kernels::cuda::Rates& rates) {
  const bool forward = kind == OpKind::attend;
  constexpr kernels::cuda::HeadSizes sizes{128, 128};
  const auto flop_us = [&](const auto& variants) {
    const auto found = std::find_if(variants.begin(), variants.end(), [&](const auto& variant) {
      return family_of(variant) == KernelFamily::hopper && variant.sizes() == sizes;
    });
    return found->family->flop_us(*found, rates);
  };
  const auto fastest = [&] {
    return forward ? flop_us(kernels::cuda::attend_variants(every_kernel))
                   : flop_us(kernels::cuda::attend_backward_variants(every_kernel));
  };
  switch (family) {
    case KernelFamily::foreign:
    case KernelFamily::decode:  // has a model, or is a library's as well
    case KernelFamily::hopper: return 1;
    case KernelFamily::mma: return fastest() / kernels::cuda::mma_flop_us(forward, sizes, rates);
    case KernelFamily::general: break;
  }
  return fastest() / kernels::cuda::general_flop_us(forward, sizes, kernels::DType::bf16, rates);
}

AttentionExtents extents_of(const KernelCall& call) {
  return std::visit(
      [](const auto& c) -> AttentionExtents {
        if constexpr (requires { c.tile.segments; })
          return {c.tile.q.heads, c.tile.q.width, c.tile.v.width};
        else if constexpr (requires { c.segments; })
          return {c.q.heads, c.q.width, c.v.width};
        else
          return {};
      },
      call);
}

namespace {

ChoosingMachine choosing_machine(const Hardware& hardware) {
  ChoosingMachine machine{.sms = hardware.gpu.sms,
                          .sm_major = hardware.gpu.sm_major,
                          .sm_minor = hardware.gpu.sm_minor,
                          .way = hardware.choice.way,
                          .measured = hardware.choice.measured.get(),
                          .hopper = hardware.choice.hopper,
                          .full = hardware.choice.full,
                          .rates = hardware.rates.values,
                          .timed = {}};
  const auto all_portable = [&](OpKind kind) {
    bool any = false;
    for (const KernelTable& table : hardware.kernels) {
      if (table.kind != kind) continue;
      any = true;
      if (!is_portable(family_of(table))) return false;
    }
    return any;
  };
  for (const KernelTable& table : hardware.kernels)
    if (has_square_points(table.kind)) machine.timed.emplace_back(table.kind, family_of(table));
  machine.hopper_forward = !all_portable(OpKind::attend);
  machine.hopper_backward = !all_portable(OpKind::attend_backward);
  return machine;
}

}  // namespace

std::shared_ptr<KnownVariants> make_known_variants(const Hardware& hardware) {
  return std::make_shared<KnownVariants>(choosing_machine(hardware));
}

AttentionVariants::AttentionVariants(const Hardware& hardware, bool times)
    : gpu_(hardware.gpu),
      choice_(hardware.choice),
      rates_(hardware.rates),
      times_(times),
      remembered_(make_known_variants(hardware)) {
  if (hardware.known_variants && hardware.known_variants->machine == remembered_->machine) {
    remembered_ = hardware.known_variants;
    times_ = true;
  }
}

kernels::cuda::VariantOptions AttentionVariants::options(OpKind kind, std::int64_t reserved_sms,
                                                         bool fp64) const {
  const ChoosingMachine& machine = remembered_->machine;
  const bool hopper = kind == OpKind::attend ? machine.hopper_forward : machine.hopper_backward;
  return {.sm_major = gpu_.sm_major,
          .sms = static_cast<int>(std::max<std::int64_t>(gpu_.sms - reserved_sms, 1)),
          .build = {.hopper = hopper && choice_.hopper, .full = fp64 || choice_.full},
          .sm_minor = gpu_.sm_minor,
          .way = choice_.way,
          .choices = choice_.measured.get(),
          .reserved_sms = static_cast<int>(reserved_sms),
          .rates = &rates_};
}

const AttentionVariant& AttentionVariants::of(const CallConverter& calls, const Operation& op,
                                              std::int64_t reserved_sms) {
  Digest key = known_by(calls, op);
  key.add(reserved_sms);
  const AttentionVariant*& known = known_[key];
  if (known == nullptr) known = &find(calls, op, reserved_sms);
  return *known;
}

const AttentionVariant& AttentionVariants::find(const CallConverter& calls, const Operation& op,
                                                std::int64_t reserved_sms) {
  PlacedCall placed = calls.calls(op).front();
  const std::vector<kernels::View*> views = views_of(placed.call);
  // Kernels ask how operands are aligned; whoever allocates buffers aligns them for all.
  for (std::size_t i = 0; i < views.size(); ++i)
    views[i]->data = reinterpret_cast<void*>(static_cast<std::uintptr_t>(placed.places[i].byte));
  const Digest key = key_of(calls.plan(), op, views, segments_of(placed.call), reserved_sms);
  auto& remembered = remembered_->by_call;
  if (const auto known = remembered.find(key); known != remembered.end()) return known->second;
  const bool fp64 = std::any_of(views.begin(), views.end(), [](const kernels::View* view) {
    return view->dtype == kernels::DType::fp64;
  });
  const kernels::cuda::VariantOptions by = options(op.kind, reserved_sms, fp64);
  const Timed timed = times_ ? Timed(remembered_->machine.timed) : Timed();
  try {
    AttentionVariant variant = std::visit(
        [&](const auto& call) -> AttentionVariant {
          if constexpr (requires {
                          kernels::cuda::fall_back(call, by);
                          call.scale;
                        })
            return chosen(call, by, gpu_.sms, timed, op.kind);
          else if constexpr (requires { call.tile.segments; })
            return chosen(call, by, gpu_.sms, timed, op.kind);
          else
            throw std::logic_error("an operation of no attention");
        },
        placed.call);
    if (fp64 && !choice_.full) {
      std::optional<kernels::cuda::FallBack>& found = variant.fall_back;
      if (!found) found.emplace();
      found->refused = std::visit(
          [&](const auto& call) -> std::string {
            if constexpr (
                requires { kernels::cuda::fall_back(call, by).has_value(); } && !requires { call.chunks; })
              return refusal(call, by);
            return {};
          },
          placed.call);
    }
    return remembered.emplace(key, std::move(variant)).first->second;
  } catch (const std::invalid_argument& error) {
    throw HardwareError("kernel", "class=" + std::string(name(op.kind)), error.what());
  }
}

}  // namespace cplab
