// Reasons for slower kernels; see fall_back.hpp.
#include "kernels/choice/fall_back.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <type_traits>

#include "kernels/choice/choose.hpp"
#include "kernels/dtype_name.hpp"
#include "kernels/families/family.hpp"
#include "kernels/families/general/costs.hpp"
#include "kernels/families/masked/costs.hpp"

namespace cplab::kernels::cuda {
namespace {

// Two digits: "260", "5".
std::string about(double number) {
  const double unit = number < 100 ? 1 : 10;
  return std::to_string(std::lround(number / unit) * std::lround(unit));
}

std::string size_name(const HeadSizes& sizes) {
  const std::string key = std::to_string(sizes.key);
  return sizes.key == sizes.value ? key : key + "/" + std::to_string(sizes.value);
}

// What no kernel on tensor cores does of a call.
std::string missing_size(const View& q, const View& v) {
  if (q.dtype != DType::bf16 && q.dtype != DType::fp16) return "takes " + std::string(name_of(q.dtype));
  const std::string key = std::to_string(q.width);
  return q.width == v.width ? "has head size " + key
                            : "has head sizes " + key + " and " + std::to_string(v.width);
}

// The largest heads that a variant pads; those of dynamic masks pad none.
template <class Variant>
int padded_up_to(const Variant& variant) {
  if constexpr (requires { variant.pads; })
    return variant.pads ? std::min(variant.head_size, variant.value_size) : 0;
  else
    return 0;
}

// Those that take few queries alone are no kernels that others fall back from.
template <class Variant>
bool for_any_queries(const Variant& variant) {
  if constexpr (requires { variant.family->for_any_queries(variant); })
    return variant.family->for_any_queries(variant);
  else
    return true;
}

DType on_tensor_cores_of(DType dtype) {  // wider ones have no such kernels: those for bf16 are compared
  return dtype == DType::fp16 ? DType::fp16 : DType::bf16;
}

// Of a call that a general kernel takes, with the variants on tensor cores for its dtype, or for bf16.
// Nothing without any. flop_us: of such a variant.
template <class Variant, class FlopUs>
std::optional<FallBack> without_tensor_cores(bool forward, const std::vector<const Variant*>& fast,
                                             const View& q, const View& v, const Rates& rates,
                                             FlopUs flop_us) {
  if (fast.empty()) return {};
  std::vector<HeadSizes> sizes;
  int padded = 0;
  for (const Variant* variant : fast) {
    sizes.push_back(variant->sizes());
    padded = std::max(padded, padded_up_to(*variant));
  }
  const auto of_128 = std::find_if(fast.begin(), fast.end(), [](const Variant* variant) {
    return variant->sizes() == HeadSizes{128, 128};
  });
  const Variant& preferred = of_128 == fast.end() ? *fast.front() : **of_128;
  return FallBack{
      .preferred = preferred.name,
      .missing = missing_size(q, v),
      .sizes = sizes_text(sizes, padded),
      .times_slower = general_flop_us(forward, head_sizes(q, v), q.dtype, rates) / flop_us(preferred)};
}

// The variants on tensor cores that are allowed, for calls of that dtype.
template <class Variant>
std::vector<const Variant*> fast_variants(std::span<const Variant> variants, const VariantOptions& options,
                                          DType dtype) {
  std::vector<const Variant*> found;
  for (const Variant& variant : variants)
    if (variant.rank != Rank::general && variant.dtype == on_tensor_cores_of(dtype) &&
        for_any_queries(variant) && allows(options, variant))
      found.push_back(&variant);
  return found;
}

template <class Variant, class Call>
bool takes_general(std::span<const Variant> variants, const VariantOptions& options, const Call& call) {
  for (const Variant& variant : variants)
    if (allows(options, variant) && variant.fits(call)) return variant.rank == Rank::general;
  return false;
}

// The first variant with code for the dtype and the head sizes of the call is the one to fall back from.
template <class Variant, class Call>
std::optional<FallBack> fall_back_of(std::span<const Variant> variants, const VariantOptions& options,
                                     const Call& call) {
  constexpr bool forward = std::is_same_v<Variant, AttendVariant>;
  const Rates& rates = options.speeds();
  const HeadSizes sizes = head_sizes(call.q, call.v);
  const bool few_queries = std::any_of(variants.begin(), variants.end(), [&](const Variant& variant) {
    return !for_any_queries(variant) && allows(options, variant) && variant.fits(call);
  });
  if (few_queries) return {};
  for (const Variant& variant : variants) {
    if (!for_any_queries(variant) || !allows(options, variant) || variant.dtype != call.q.dtype ||
        !variant.has_code_for(sizes))
      continue;
    const Unmet unmet = variant.unmet(call);
    if (!unmet) return {};
    FallBack found{.preferred = variant.name, .reason = *unmet};
    if (takes_general(variants, options, call))
      found.times_slower =
          general_flop_us(forward, sizes, call.q.dtype, rates) / variant.family->flop_us(variant, rates);
    return found;
  }
  if (!options.only.empty() || !takes_general(variants, options, call)) return {};
  return without_tensor_cores(
      forward, fast_variants(variants, options, call.q.dtype), call.q, call.v, rates,
      [&](const Variant& variant) { return variant.family->flop_us(variant, rates); });
}

// Of calls that change logits: Hopper's own kernels take some, those of every architecture with tensor cores
// more, the general ones all.
template <class Variant, class Call>
std::optional<FallBack> fall_back_of_changed(std::span<const Variant> variants, const Call& call,
                                             const VariantOptions& options) {
  const View &q = call.tile.q, &v = call.tile.v;
  constexpr bool forward = std::is_same_v<Variant, MaskedVariant>;
  const Rates& rates = options.speeds();
  const auto of_variant = [&](const Variant& variant) { return flop_us(variant, BiasKind::none, rates); };
  std::vector<const Variant*> fast;
  std::optional<FallBack> of_hopper;
  double hopper_us = 0;
  for (const Variant& variant : variants) {
    const bool hopper = variant.plain != nullptr;
    if (!allows_changed(variant, options)) continue;
    if (!hopper && variant.on_tensor_cores() && variant.dtype == on_tensor_cores_of(q.dtype))
      fast.push_back(&variant);
    if (variant.dtype != q.dtype || variant.head_size != q.width) continue;
    const Unmet unmet = variant.unmet(call);
    if (hopper) {
      if (!unmet) return {};
      of_hopper = FallBack{.preferred = variant.name, .reason = *unmet};
      hopper_us = of_variant(variant);
      continue;
    }
    if (unmet)
      return FallBack{
          .preferred = variant.name,
          .reason = *unmet,
          .times_slower = general_flop_us(forward, head_sizes(q, v), q.dtype, rates) / of_variant(variant)};
    if (of_hopper) of_hopper->times_slower = flop_us(variant, bias_of(call.mask), rates) / hopper_us;
    return of_hopper;
  }
  return without_tensor_cores(forward, fast, q, v, rates, of_variant);
}

template <class Call>
std::optional<FallBack> fall_back_of_linear(const Call& call, const VariantOptions& options) {
  const std::optional<UnmetLinear> unmet = unmet_preferred(call, options);
  if (!unmet) return {};
  return FallBack{.preferred = unmet->variant->name, .reason = unmet->reason};
}

template <class Variant>
OnTensorCores tensor_cores_of(bool forward, std::span<const Variant> variants, const Rates& rates,
                              std::int64_t head_size) {
  std::vector<const Variant*> fast;
  OnTensorCores found;
  for (const Variant& variant : variants) {
    if (variant.rank == Rank::general || variant.dtype != DType::bf16 || !for_any_queries(variant)) continue;
    fast.push_back(&variant);
    found.sizes.push_back(variant.sizes());
    found.padded_up_to = std::max(found.padded_up_to, padded_up_to(variant));
  }
  const View view{nullptr, DType::bf16, 1, 1, head_size, head_size, 1, {}};
  if (const auto slower = without_tensor_cores(forward, fast, view, view, rates, [&](const Variant& variant) {
        return variant.family->flop_us(variant, rates);
      }))
    found.times_slower = slower->times_slower;
  return found;
}

}  // namespace

std::string sizes_text(std::vector<HeadSizes> sizes, int padded_up_to) {
  std::sort(sizes.begin(), sizes.end(), [](const HeadSizes& a, const HeadSizes& b) {
    return a.key != b.key ? a.key < b.key : a.value < b.value;
  });
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  std::string text;
  for (const HeadSizes& each : sizes) text += (text.empty() ? "" : ", ") + size_name(each);
  if (padded_up_to > 0) text += ", and multiples of 8 up to " + std::to_string(padded_up_to) + ", padded";
  return text;
}

std::string FallBack::text() const {
  std::string all = preferred.empty() ? "" : "not " + std::string(preferred) + ": ";
  all += !refused.empty() ? refused + ", so that `run` refuses; predicted is a build that has them"
         : missing.empty()
             ? reason.text()
             : "no kernel on tensor cores " + missing + " (this build has head sizes " + sizes + ")";
  if (times_slower > 0) all += "; about " + about(times_slower) + " times slower for a FLOP";
  return all;
}

std::optional<FallBack> fall_back(const Attend& call, const VariantOptions& options) {
  return fall_back_of(attend_variants(options.build), options, call);
}

std::optional<FallBack> fall_back(const AttendBackward& call, const VariantOptions& options) {
  const std::span<const AttendBackwardVariant> variants = attend_backward_variants(options.build);
  const std::optional<FallBack> found = fall_back_of(variants, options, call);
  if (!found || std::string_view(found->reason.view) != "dq") return found;
  // The preferred kernels add to dq, in fp32. For short sequences those that store it once are taken whatever
  // its dtype: then nothing is lost.
  AttendBackward wide = call;
  wide.dq.dtype = DType::fp32;
  const bool taken_anyway = !fall_back_of(variants, options, wide) &&
                            choose_variant(wide, options).variant == choose_variant(call, options).variant;
  return taken_anyway ? std::optional<FallBack>() : found;
}

std::optional<FallBack> fall_back(const MaskedAttend& call, const VariantOptions& options) {
  return fall_back_of_changed(masked_variants(options.build), call, options);
}

std::optional<FallBack> fall_back(const MaskedAttendBackward& call, const VariantOptions& options) {
  return fall_back_of_changed(masked_backward_variants(options.build), call, options);
}

std::optional<FallBack> fall_back(const LinearLocal& call, const VariantOptions& options) {
  return fall_back_of_linear(call, options);
}

std::optional<FallBack> fall_back(const LinearLocalBackward& call, const VariantOptions& options) {
  return fall_back_of_linear(call, options);
}

std::optional<FallBack> fall_back(const LinearState& call, const VariantOptions& options) {
  return fall_back_of_linear(call, options);
}

OnTensorCores on_tensor_cores(bool forward, const KernelBuild& build, std::int64_t head_size) {
  const Rates& rates = shipped_rates(build.hopper ? 9 : 8, 0);
  return forward ? tensor_cores_of(true, attend_variants(build), rates, head_size)
                 : tensor_cores_of(false, attend_backward_variants(build), rates, head_size);
}

}  // namespace cplab::kernels::cuda
