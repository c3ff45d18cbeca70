// What a backward variant's own launch does of a call, and what is left to launches behind it; see
// variants.hpp.
#include <algorithm>
#include <optional>

#include "kernels/families/fits.hpp"
#include "kernels/families/variants.hpp"

namespace cplab::kernels::cuda {
namespace {

// Whether a row of dq is written once, and nothing that was there before is added to it.
bool stores_dq_once(const AttendBackward& call, const AttendBackwardVariant& variant) {
  return !variant.sums_dq() && call.write_dq == Write::store;
}

}  // namespace

AttendBackward as_launched(const AttendBackward& call, const ChosenBackward& chosen) {
  AttendBackward launched = chosen.sums_dkv ? call : with_stored_dkv(call);
  if (call.rounded_dq && stores_dq_once(call, *chosen.variant)) {
    launched.dq = *call.rounded_dq;
    launched.rounded_dq.reset();
  }
  return launched;
}

bool can_split(const AttendBackward& summed) {
  if (summed.q.heads <= summed.k.heads) return false;
  const std::optional<RowSpaces> spaces = row_spaces(summed);
  if (!spaces) return false;
  for (const View* view : {&summed.dk, &summed.dv}) {
    const SpacedView spaced = in_space(*view, spaces->k);
    if (!spaced.map.empty() || !hopper::has_tensor_map(spaced.device)) return false;
  }
  return true;
}

AttendBackward with_stored_dkv(const AttendBackward& call) {
  if (!call.rounded_dk) return call;
  AttendBackward stored = call;
  stored.dk = *call.rounded_dk;
  stored.dv = *call.rounded_dv;
  stored.rounded_dk.reset();
  stored.rounded_dv.reset();
  return stored;
}

AttendBackward with_summed_dkv(const AttendBackward& call) {
  AttendBackward summed = call;
  summed.rounded_dk.reset();
  summed.rounded_dv.reset();
  return summed;
}

std::int64_t key_tile_heads(const AttendBackward& call, const AttendBackwardVariant& variant) {
  const bool splits = variant.sums_dq() && call.dk.dtype == DType::fp32;
  return splits ? std::max(call.q.heads, call.k.heads) : call.k.heads;
}

bool rounds_dq(const ChosenBackward& chosen, const AttendBackward& call) {
  return call.rounded_dq && chosen.variant->dq == DqSum::in_chains;
}

bool casts_dq(const ChosenBackward& chosen, const AttendBackward& call) {
  return call.rounded_dq && !rounds_dq(chosen, call) && !stores_dq_once(call, *chosen.variant);
}

bool casts_dkv(const ChosenBackward& chosen, const AttendBackward& call) {
  return call.rounded_dk && chosen.sums_dkv;
}

}  // namespace cplab::kernels::cuda
