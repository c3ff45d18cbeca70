// Which kernel takes a call of linear attention, and how it is cut into thread blocks: plain host code, for
// launching and for predicting, as variants.hpp is for attention.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/families/variants.hpp"
#include "kernels/linear.hpp"
#include "kernels/tiles/gated_cuts.hpp"
#include "kernels/tiles/linear_cuts.hpp"
#include "kernels/tiles/linear_params.hpp"

namespace cplab::kernels::cuda {

enum class LinearOperation : std::uint8_t { local, local_backward, state, scan, combine, inter };
const char* name_of(LinearOperation operation);  // "linear_local"

struct LinearVariant {
  enum class Family : std::uint8_t { hopper, mma, general, gated };
  std::string_view family_name() const {
    switch (family) {
      case Family::hopper: return "hopper";
      case Family::mma: return "mma";
      case Family::gated: return "gated";
      default: return "general";
    }
  }

  std::string name;  // "linear_local general fp32", "linear_scan fp32"
  LinearOperation operation;
  Family family;
  DType dtype;         // of q, k, v and dout; general: in which sums run, fp32 or fp64
  int key_size = 0;    // D (gated: the largest); 0: any
  int value_size = 0;  // E; 0: any
  int sm_major = 0;    // the only architecture that it has code for; 0: every one
  bool deterministic = true;

  HeadSizes sizes() const { return {key_size, value_size}; }
  // Whether it takes a call of its operation. The family gated takes those with a transition of every token,
  // the others those with one factor a head.
  bool fits(const LinearLocal& call) const;
  bool fits(const LinearLocalBackward& call) const;
  bool fits(const LinearState& call) const;
  bool fits(const LinearScan& call) const;
  bool fits(const LinearCombine& call) const;
  bool fits(const LinearInter& call) const;
};

// "linear_local hopper bf16 128x64"
std::string hopper_linear_name(LinearOperation operation, DType dtype, int key_size, int value_size);

// Whether the kernels on tensor cores that every architecture has take it: operands of one 16-bit dtype,
// widths up to 128, everything in whole 16 bytes.
bool fits_mma(const LinearLocal& call, DType dtype);
bool fits_mma(const LinearLocalBackward& call, DType dtype);

// All variants of a build, of all operations, the preferred ones first. The span stays valid.
std::span<const LinearVariant> linear_variants(const KernelBuild& build);

struct ChosenLinear {
  const LinearVariant* variant = nullptr;
  LinearCut cut;
  std::vector<DeviceChunk> chunks;
  std::vector<std::int32_t> groups;  // of a scan: where groups begin, and the number of chunks
  // Of the family gated: its cut, chunks in blocks of tokens, and where those of each chunk begin. `cut` then
  // has no more than how many thread blocks a kernel over blocks is.
  GatedCut gated = {};
  std::vector<DeviceChunk> blocks = {};
  std::vector<std::int32_t> first_blocks = {};
};

// The variant that takes the call, and its cut. Views need no memory, only shapes, strides and alignment; the
// call has passed check_call. Throws std::invalid_argument if no variant fits (transitions of every token
// have some for Hopper alone), or if the call is too large for a GPU kernel.
ChosenLinear choose_variant(const LinearLocal& call, const VariantOptions& options);
ChosenLinear choose_variant(const LinearLocalBackward& call, const VariantOptions& options);
ChosenLinear choose_variant(const LinearState& call, const VariantOptions& options);
ChosenLinear choose_variant(const LinearScan& call, const VariantOptions& options);
ChosenLinear choose_variant(const LinearCombine& call, const VariantOptions& options);
ChosenLinear choose_variant(const LinearInter& call, const VariantOptions& options);

// The kernel of one architecture that is made for the call's sizes, and what the call does not meet of it;
// nothing: it takes the call, or there is none.
struct UnmetLinear {
  const LinearVariant* variant = nullptr;
  Misfit reason = {};
};
std::optional<UnmetLinear> unmet_preferred(const LinearLocal& call, const VariantOptions& options);
std::optional<UnmetLinear> unmet_preferred(const LinearLocalBackward& call, const VariantOptions& options);
std::optional<UnmetLinear> unmet_preferred(const LinearState& call, const VariantOptions& options);

}  // namespace cplab::kernels::cuda
