// Why a call is not carried out by the kernels that are preferred on a device for its dtype and head size.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/families/linear/variants.hpp"
#include "kernels/families/masked/variants.hpp"
#include "kernels/families/variants.hpp"

namespace cplab::kernels::cuda {

// The preferred kernels do not take the call, and choose_variant() gives it to a slower family (then which
// they are, and the first of their conditions that it does not meet); or no kernel on tensor cores has its
// head size or dtype, and a general one takes it.
struct FallBack {
  std::string_view preferred;  // a variant's name, valid for good
  Misfit reason = {};
  // What no kernel on tensor cores does ("has head size 256", "takes fp32"; empty: `reason` says it), and
  // which head sizes they have ("64, 128").
  std::string missing = {}, sizes = {};
  // How many times as long for a FLOP as `preferred` at its own head size, with all multiprocessors busy; 0:
  // not much longer.
  double times_slower = 0;
  // Of a prediction: why `run` refuses the call in the build that is asked about, where another one has the
  // kernel.
  std::string refused = {};

  // "not attend hopper bf16 128: k has rows in 4 runs"; "not attend hopper bf16 128: no kernel on tensor
  // cores has head size 256 (this build has head sizes 64, 128); about 260 times slower for a FLOP"
  std::string text() const;
};
std::optional<FallBack> fall_back(const Attend& call, const VariantOptions& options);
std::optional<FallBack> fall_back(const AttendBackward& call, const VariantOptions& options);
std::optional<FallBack> fall_back(const MaskedAttend& call, const VariantOptions& options);
std::optional<FallBack> fall_back(const MaskedAttendBackward& call, const VariantOptions& options);
std::optional<FallBack> fall_back(const LinearLocal& call, const VariantOptions& options);
std::optional<FallBack> fall_back(const LinearLocalBackward& call, const VariantOptions& options);
std::optional<FallBack> fall_back(const LinearState& call, const VariantOptions& options);

// "64, 96, 192/128": in ascending order, each once. With the largest size to which kernels pad heads: "64,
// 128, and multiples of 8 up to 128, padded".
std::string sizes_text(std::vector<HeadSizes> sizes, int padded_up_to = 0);

// Of a direction (attend, attend_backward) in bf16: the head sizes of a build's kernels on tensor cores, how
// far they pad others, and
// how many times slower for a FLOP the general kernel is at a head size that they do not have; 0 where there
// are none.
struct OnTensorCores {
  std::vector<HeadSizes> sizes;
  int padded_up_to = 0;
  double times_slower = 0;
};
OnTensorCores on_tensor_cores(bool forward, const KernelBuild& build, std::int64_t head_size);

}  // namespace cplab::kernels::cuda
