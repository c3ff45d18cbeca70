// What the kernels of dynamic mask attention on tensor cores cost beside the products of the mma kernels.
#pragma once

#include <cstdint>

#include "kernels/work/general_time.hpp"
#include "kernels/work/masked_variants.hpp"

namespace cplab::kernels::cuda {

enum class BiasKind : std::uint8_t { none, keys, full };

// Seconds for every pair of a computed cell and query head, on one multiprocessor: smaller tiles, bias, keep
// mask and softcap, without the bytes of bias and mask. Measured at head size 128.
double masked_pair_seconds(bool forward, BiasKind bias);

HeadSizes sizes_of(const MaskedVariant& variant);
HeadSizes sizes_of(const MaskedBackwardVariant& variant);

// As of general_time.hpp, of those on tensor cores.
double flop_us(const MaskedVariant& variant, BiasKind bias = BiasKind::none);
double flop_us(const MaskedBackwardVariant& variant, BiasKind bias = BiasKind::none);

}  // namespace cplab::kernels::cuda
