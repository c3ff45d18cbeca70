// Costs of dynamic masks; see masked_time.hpp.
#include "kernels/work/masked_time.hpp"

#include "kernels/work/measured_constants.hpp"

namespace cplab::kernels::cuda {
namespace {

constexpr int sms_of_record = 132;

double pair_ps(bool forward, BiasKind bias) {
  switch (bias) {
    case BiasKind::none: return forward ? measured("masked_forward_none") : measured("masked_backward_none");
    case BiasKind::keys: return forward ? measured("masked_forward_keys") : measured("masked_backward_keys");
    case BiasKind::full: break;
  }
  return forward ? measured("masked_forward_full") : measured("masked_backward_full");
}

}  // namespace

double masked_pair_seconds(bool forward, BiasKind bias) {
  return pair_ps(forward, bias) * 1e-12 * sms_of_record;
}

HeadSizes sizes_of(const MaskedVariant& variant) {
  return {variant.head_size, variant.head_size};
}
HeadSizes sizes_of(const MaskedBackwardVariant& variant) {
  return {variant.head_size, variant.head_size};
}

double flop_us(const MaskedVariant& variant, BiasKind bias) {
  const int D = variant.head_size;
  return mma_flop_us(true, sizes_of(variant)) + masked_pair_seconds(true, bias) * 1e6 / forward_flops({D, D});
}
double flop_us(const MaskedBackwardVariant& variant, BiasKind bias) {
  const int D = variant.head_size;
  return mma_flop_us(false, sizes_of(variant)) +
         masked_pair_seconds(false, bias) * 1e6 / backward_flops({D, D});
}

}  // namespace cplab::kernels::cuda
