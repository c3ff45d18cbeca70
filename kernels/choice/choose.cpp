// The choice among the variants that take a call; see choose.hpp.
#include "kernels/choice/choose.hpp"

#include <span>
#include <stdexcept>
#include <utility>

#include "kernels/call_checks.hpp"
#include "kernels/choice/candidates.hpp"
#include "kernels/families/family.hpp"

namespace cplab::kernels::cuda {
namespace {

template <class Variant>
bool allows_machine(const VariantOptions& options, const Variant& variant) {
  if (!options.only.empty() && variant.name != options.only) return false;
  if (!has_room(variant.name, options.sm_major, options.sm_minor)) return false;
  return variant.sm_major == 0 ||
         (options.choice != KernelChoice::portable && variant.sm_major == options.sm_major);
}

template <class Variant, class Call>
std::vector<const Variant*> all_that_fit(std::span<const Variant> variants, const VariantOptions& options,
                                         const Call& call) {
  std::vector<const Variant*> fitting;
  for (const Variant& variant : variants)
    if (allows(options, variant) && variant.fits(call)) fitting.push_back(&variant);
  return fitting;
}

// Those of the highest rank.
template <class Variant, class Call>
std::vector<const Variant*> competitors(std::span<const Variant> variants, const VariantOptions& options,
                                        const Call& call) {
  std::vector<const Variant*> best;
  for (const Variant& variant : variants) {
    if (!best.empty() && variant.rank < best.front()->rank) continue;
    if (!allows(options, variant) || !variant.fits(call)) continue;
    if (!best.empty() && variant.rank > best.front()->rank) best.clear();
    best.push_back(&variant);
  }
  if (!best.empty()) return best;
  throw std::invalid_argument(
      any_fp64({&call.q, &call.k, &call.v})
          ? "this build has no attention kernels for fp64 on a GPU (-D CPLAB_KERNELS=full)"
          : "no attention kernel of this build fits the call");
}

// The tiles of the variant that is done first; of equals the first in the list.
template <class Chosen, class Variant, class Call>
Chosen fastest(const std::vector<const Variant*>& variants, const Call& call, const VariantOptions& options) {
  Chosen best = variants.front()->family->tiles(*variants.front(), call, options);
  if (variants.size() == 1) return best;
  PredictedTime least = best.variant->family->time(best, call, options);
  for (std::size_t n = 1; n < variants.size(); ++n) {
    Chosen other = variants[n]->family->tiles(*variants[n], call, options);
    const PredictedTime time = variants[n]->family->time(other, call, options);
    if (!time.shorter_than(least)) continue;
    best = std::move(other);
    least = time;
  }
  return best;
}

ChosenBackward fastest_backward(const AttendBackward& call, const VariantOptions& options) {
  return fastest<ChosenBackward>(competitors(attend_backward_variants(options.build), options, call), call,
                                 options);
}

}  // namespace

void require_launchable(const View& view) {
  require(view.rows < unbounded, "a view has 2^30 rows or more, too many for a GPU kernel");
  require(view.heads <= 65535, "a view has more than 65535 heads, too many for a GPU kernel");
}

bool allows(const VariantOptions& options, const AttendVariant& variant) {
  if (!allows_machine(options, variant)) return false;
  return options.reserved_sms == 0 || !options.only.empty() || variant.family->blocks_together(variant) == 1;
}

bool allows(const VariantOptions& options, const AttendBackwardVariant& variant) {
  if (!allows_machine(options, variant)) return false;
  if (options.choice == KernelChoice::apart) return variant.dq == DqSum::stored;
  return variant.deterministic() || !wants_same_bits(options.choice);
}

std::vector<const AttendVariant*> variants_for(const Attend& call, const VariantOptions& options) {
  return all_that_fit(attend_variants(options.build), options, call);
}

std::vector<const AttendBackwardVariant*> variants_for(const AttendBackward& call,
                                                       const VariantOptions& options) {
  return all_that_fit(attend_backward_variants(options.build), options, call);
}

ChosenForward choose_variant(const Attend& call, const VariantOptions& options) {
  if (options.way != ChoiceWay::table) return choose_variant(call, decided(call, options));
  require_launchable(call.q);
  require_launchable(call.k);
  return fastest<ChosenForward>(competitors(attend_variants(options.build), options, call), call, options);
}

ChosenBackward choose_variant(const AttendBackward& call, const VariantOptions& options) {
  if (options.way != ChoiceWay::table) return choose_variant(call, decided(call, options));
  require_launchable(call.q);
  require_launchable(call.k);
  ChosenBackward chosen = fastest_backward(with_stored_dkv(call), options);
  // Few key heads are few tiles, each of which is long: then sums and their casts cost less.
  const AttendBackward summed = with_summed_dkv(call);
  if (call.rounded_dk && options.sums_dkv.value_or(true) && can_split(summed) &&
      !variants_for(summed, options).empty()) {
    ChosenBackward other = fastest_backward(summed, options);
    other.sums_dkv = true;
    if (options.sums_dkv ||
        predicted_seconds(other, call, options) < predicted_seconds(chosen, call, options))
      chosen = std::move(other);
  }
  chosen.variant->family->order(chosen, as_launched(call, chosen), options);
  return chosen;
}

double predicted_seconds(const ChosenForward& chosen, const Attend& call, const VariantOptions& options) {
  return chosen.variant->family->time(chosen, call, options).seconds();
}

double predicted_seconds(const ChosenBackward& chosen, const AttendBackward& call,
                         const VariantOptions& options) {
  return chosen.variant->family->time(chosen, call, options).seconds();
}

}  // namespace cplab::kernels::cuda
