// What the kernels of dynamic mask attention on tensor cores cost.
#pragma once

#include <cstdint>

#include "kernels/families/masked/variants.hpp"

namespace cplab::kernels::cuda {

enum class BiasKind : std::uint8_t { none, keys, full };
BiasKind bias_of(const PairMask& mask);

// us for 128 keys (dk and dv: queries) of a tile of 64 rows on a multiprocessor that is never idle, without
// the bytes of a bias or keep mask of pairs. Measured at head size 128; at others the products cost what
// those of the mma kernels do.
struct MaskedCosts {
  double forward = 0, dkv = 0, dq = 0;
};
MaskedCosts masked_costs(int head_size, BiasKind bias, const Rates& rates);

// How much longer Hopper's own kernels take than those of softmax attention with the same tiles: a softcap
// adds operations; a bias of positions is taken to cost nothing.
double changed_longer(const MaskedAttend& call, const Rates& rates);
double changed_longer(const MaskedAttendBackward& call, const Rates& rates);

// How long the tiles of a launch of kernels of every architecture take if all of their cells are computed,
// us; the backward in two launches.
double masked_us(const ChosenMasked& chosen, const MaskedAttend& call, int sms, const Rates& rates);
double masked_us(const ChosenMaskedBackward& chosen, const MaskedAttendBackward& call, int sms,
                 const Rates& rates);

// us for a FLOP on one multiprocessor that is never idle, of those on tensor cores.
double flop_us(const MaskedVariant& variant, BiasKind bias, const Rates& rates);
double flop_us(const MaskedBackwardVariant& variant, BiasKind bias, const Rates& rates);

}  // namespace cplab::kernels::cuda
