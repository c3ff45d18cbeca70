// The list of variants of linear attention and the choice among them; see linear_variants.hpp.
#include "kernels/families/linear/variants.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "kernels/call_checks.hpp"
#include "kernels/families/compiled_head_sizes.hpp"
#include "kernels/families/fits.hpp"

namespace cplab::kernels::cuda {
namespace {

using Operation = LinearOperation;

constexpr Operation operations[] = {Operation::local, Operation::local_backward, Operation::state,
                                    Operation::scan,  Operation::combine,        Operation::inter};

// Scans and sums of states are the same for every operand and machine: no family in the name.
std::string general_name(Operation operation, DType accumulator) {
  const bool of_states = operation == Operation::scan || operation == Operation::combine;
  return std::string(name_of(operation)) + (of_states ? "" : " general") +
         (accumulator == DType::fp64 ? " fp64" : " fp32");
}

std::string gated_name(Operation operation, DType dtype, int key_size) {
  const char* const of_rows = dtype == DType::bf16   ? " gated bf16 "
                              : dtype == DType::fp16 ? " gated fp16 "
                                                     : " gated fp32 ";
  return std::string(name_of(operation)) + of_rows + std::to_string(key_size);
}

void add_hopper(std::vector<LinearVariant>& all) {
  for (const Operation operation : {Operation::local, Operation::local_backward, Operation::state})
    for (const DType dtype : {DType::bf16, DType::fp16})
      for (const int D : hopper_head_sizes)
        for (const int E : hopper_head_sizes)
          all.push_back({.name = hopper_linear_name(operation, dtype, D, E),
                         .operation = operation,
                         .family = LinearVariant::Family::hopper,
                         .dtype = dtype,
                         .key_size = D,
                         .value_size = E,
                         .sm_major = 9});
}

void add_mma(std::vector<LinearVariant>& all) {
  for (const Operation operation : {Operation::local, Operation::local_backward})
    for (const DType dtype : {DType::bf16, DType::fp16})
      all.push_back(
          {.name = std::string(name_of(operation)) + (dtype == DType::bf16 ? " mma bf16" : " mma fp16"),
           .operation = operation,
           .family = LinearVariant::Family::mma,
           .dtype = dtype});
}

void add_general(std::vector<LinearVariant>& all, const KernelBuild& build) {
  for (const Operation operation : operations)
    for (const DType accumulator : {DType::fp32, DType::fp64})
      if (accumulator == DType::fp32 || build.full)
        all.push_back({.name = general_name(operation, accumulator),
                       .operation = operation,
                       .family = LinearVariant::Family::general,
                       .dtype = accumulator});
}

// Of transitions of every token. Their thread blocks need as much shared memory as Hopper has.
void add_gated(std::vector<LinearVariant>& all, const KernelBuild& build) {
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32})
    for (const int D : {64, 128})
      for (const Operation operation : {Operation::local, Operation::local_backward, Operation::state})
        if (build.hopper)
          all.push_back({.name = gated_name(operation, dtype, D),
                         .operation = operation,
                         .family = LinearVariant::Family::gated,
                         .dtype = dtype,
                         .key_size = D,
                         .sm_major = 9});
  all.push_back({.name = "linear_combine gated fp32",
                 .operation = Operation::combine,
                 .family = LinearVariant::Family::gated,
                 .dtype = DType::fp32});
}

// Variants of one machine come first. A family is a function that adds it, a case in fits() and in cut_by().
std::vector<LinearVariant> variants_of_build(const KernelBuild& build) {
  std::vector<LinearVariant> all;
  if (build.hopper) add_hopper(all);
  add_mma(all);
  add_gated(all, build);
  add_general(all, build);
  return all;
}

bool has_fp64(const LinearLocal& call) {
  return any_fp64({&call.q, &call.k, &call.v});
}
bool has_fp64(const LinearLocalBackward& call) {
  return any_fp64({&call.q, &call.k, &call.v, &call.dout});
}
bool has_fp64(const LinearState& call) {
  return any_fp64({&call.rows, &call.columns});
}
bool has_fp64(const LinearScan& call) {
  return any_fp64({&call.state});
}
bool has_fp64(const LinearCombine& call) {
  return any_fp64({&call.from, &call.into});
}
bool has_fp64(const LinearInter& call) {
  for (const std::optional<View>* view : {&call.q, &call.k, &call.v, &call.dout})
    if (*view && (*view)->dtype == DType::fp64) return true;
  return false;
}

// Which transitions a call has besides one factor a head.
bool has_transition(const LinearScan&) {
  return false;
}
bool has_transition(const LinearInter&) {
  return false;
}
bool has_transition(const LinearCombine& call) {
  return call.transition.has_value();
}
bool has_transition(const LinearState& call) {
  return call.log_decay || call.beta || call.transition;
}
template <class Call>
bool has_transition(const Call& call) {
  return call.log_decay || call.beta;
}

Operation operation_of(const LinearLocal&) {
  return Operation::local;
}
Operation operation_of(const LinearLocalBackward&) {
  return Operation::local_backward;
}
Operation operation_of(const LinearState&) {
  return Operation::state;
}
Operation operation_of(const LinearScan&) {
  return Operation::scan;
}
Operation operation_of(const LinearCombine&) {
  return Operation::combine;
}
Operation operation_of(const LinearInter&) {
  return Operation::inter;
}

// With D up to 64 the smaller kernel comes first.
bool fits_gated(const LinearVariant& variant, const View& keys) {
  return keys.dtype == variant.dtype && keys.width <= variant.key_size;
}
bool fits_gated(const LinearVariant& variant, const LinearLocal& call) {
  return fits_gated(variant, call.q);
}
bool fits_gated(const LinearVariant& variant, const LinearLocalBackward& call) {
  return fits_gated(variant, call.q);
}
bool fits_gated(const LinearVariant& variant, const LinearState& call) {
  return fits_gated(variant, call.rows);
}
bool fits_gated(const LinearVariant&, const LinearCombine& call) {
  return !has_fp64(call);
}

template <class Call>
bool fits_general(const LinearVariant& variant, const Call& call) {
  return has_fp64(call) == (variant.dtype == DType::fp64);
}

template <class Call>
bool fits_family(const LinearVariant& variant, const Call& call) {
  if (has_transition(call) != (variant.family == LinearVariant::Family::gated)) return false;
  if (variant.family == LinearVariant::Family::gated) return fits_gated(variant, call);
  if (variant.family == LinearVariant::Family::general) return fits_general(variant, call);
  if constexpr (requires { fits_mma(call, variant.dtype); })
    if (variant.family == LinearVariant::Family::mma) return fits_mma(call, variant.dtype);
  return !hopper::unmet_linear_hopper(call, variant.dtype, variant.key_size, variant.value_size);
}

// Work that is cut another way than Hopper's kernels cut it has no kernel of theirs to fall back from.
template <class Call>
std::optional<UnmetLinear> unmet_of(const Call& call, const View& keys, const View& values,
                                    const VariantOptions& options) {
  if (options.choice == KernelChoice::portable || call.chunks.work != ChunkWork::blocked ||
      has_transition(call))
    return {};
  for (const LinearVariant& variant : linear_variants(options.build)) {
    if (variant.operation != operation_of(call) || variant.family != LinearVariant::Family::hopper ||
        variant.sm_major != options.sm_major || variant.dtype != keys.dtype ||
        variant.key_size != keys.width || variant.value_size != values.width)
      continue;
    if (const Unmet unmet =
            hopper::unmet_linear_hopper(call, variant.dtype, variant.key_size, variant.value_size))
      return UnmetLinear{&variant, *unmet};
    return {};
  }
  return {};
}

template <class Call>
const LinearVariant& first_that_fits(const Call& call, const VariantOptions& options) {
  for (const LinearVariant& variant : linear_variants(options.build)) {
    if (variant.operation != operation_of(call)) continue;
    if (variant.sm_major != 0 &&
        (options.choice == KernelChoice::portable || variant.sm_major != options.sm_major))
      continue;
    if (wants_same_bits(options.choice) && !variant.deterministic) continue;
    if (variant.fits(call)) return variant;
  }
  require(!has_transition(call),
          "the GPU kernels of linear attention with a transition of every token are for Hopper (SM 9.0), for "
          "bf16, fp16 and fp32 and head sizes of keys up to 128; legal here: --device cpu, or transition "
          "\"decay\"");
  throw std::invalid_argument(
      has_fp64(call)
          ? "this build has no kernels of linear attention for fp64 on a GPU (-D CPLAB_KERNELS=full)"
          : "no kernel of linear attention in this build fits the call");
}

template <class Call>
LinearCut cut_by(const LinearVariant& variant, const Call& call, std::int64_t heads, int sms) {
  if (variant.family == LinearVariant::Family::general) return cut_of(call);
  if constexpr (std::is_same_v<Call, LinearCombine>) return cut_of(call);
  if constexpr (requires { mma_cut_of(call); })
    if (variant.family == LinearVariant::Family::mma) return mma_cut_of(call);
  return hopper_cut(static_cast<std::int64_t>(call.chunks.list.size()), heads, sms);
}

template <class Call>
ChosenLinear choose(const Call& call, std::int64_t heads, const VariantOptions& options) {
  const LinearVariant& variant = first_that_fits(call, options);
  ChosenLinear chosen{
      .variant = &variant, .cut = {}, .chunks = device_chunks(call.chunks.list), .groups = {}};
  if constexpr (requires { gated_cut_of(call); })
    if (variant.family == LinearVariant::Family::gated) {
      chosen.gated = gated_cut_of(call);
      chosen.blocks = short_chunks(call.chunks.list, chosen.gated.tokens);
      chosen.first_blocks = gated_first_blocks(call.chunks.list, chosen.gated.tokens);
      chosen.cut.threads = gated_threads;
      chosen.cut.columns = chosen.gated.E;
      chosen.cut.thread_blocks = std::max<std::int64_t>(1, chosen.gated.blocks) * heads;
      return chosen;
    }
  chosen.cut = cut_by(variant, call, heads, options.sms);
  return chosen;
}

// Rows of whole 16-byte pieces.
bool in_pieces(std::initializer_list<const View*> views, DType dtype) {
  return std::all_of(views.begin(), views.end(), [&](const View* view) {
    return view->dtype == dtype && reinterpret_cast<std::uintptr_t>(view->data) % 16 == 0 &&
           view->row_stride % 8 == 0 && view->head_stride % 8 == 0 && view->width % 8 == 0 &&
           view->width <= 128;
  });
}

}  // namespace

const char* name_of(Operation operation) {
  switch (operation) {
    case Operation::local: return "linear_local";
    case Operation::local_backward: return "linear_local_backward";
    case Operation::state: return "linear_state";
    case Operation::scan: return "linear_scan";
    case Operation::combine: return "linear_combine";
    case Operation::inter: return "linear_inter";
  }
  return "";
}

std::string hopper_linear_name(Operation operation, DType dtype, int key_size, int value_size) {
  return std::string(name_of(operation)) + " hopper " + (dtype == DType::bf16 ? "bf16 " : "fp16 ") +
         std::to_string(key_size) + "x" + std::to_string(value_size);
}

bool fits_mma(const LinearLocal& call, DType dtype) {
  return in_pieces({&call.q, &call.k, &call.v}, dtype) && call.out.dtype != DType::fp64;
}
bool fits_mma(const LinearLocalBackward& call, DType dtype) {
  return in_pieces({&call.q, &call.k, &call.v, &call.dout}, dtype) &&
         !any_fp64({&call.dq, &call.dk, &call.dv});
}

bool LinearVariant::fits(const LinearLocal& call) const {
  return fits_family(*this, call);
}
bool LinearVariant::fits(const LinearLocalBackward& call) const {
  return fits_family(*this, call);
}
bool LinearVariant::fits(const LinearState& call) const {
  return fits_family(*this, call);
}
bool LinearVariant::fits(const LinearScan& call) const {
  return family == Family::general && fits_general(*this, call);
}
bool LinearVariant::fits(const LinearCombine& call) const {
  if (has_transition(call)) return family == Family::gated && fits_gated(*this, call);
  return family == Family::general && fits_general(*this, call);
}
bool LinearVariant::fits(const LinearInter& call) const {
  return family == Family::general && fits_general(*this, call);
}

std::span<const LinearVariant> linear_variants(const KernelBuild& build) {
  static const std::array<std::vector<LinearVariant>, 4> lists = {
      variants_of_build({.hopper = false, .full = false}), variants_of_build({.hopper = true, .full = false}),
      variants_of_build({.hopper = false, .full = true}), variants_of_build({.hopper = true, .full = true})};
  return lists[(build.hopper ? 1U : 0U) + (build.full ? 2U : 0U)];
}

std::optional<UnmetLinear> unmet_preferred(const LinearLocal& call, const VariantOptions& options) {
  return unmet_of(call, call.q, call.v, options);
}
std::optional<UnmetLinear> unmet_preferred(const LinearLocalBackward& call, const VariantOptions& options) {
  return unmet_of(call, call.q, call.v, options);
}
std::optional<UnmetLinear> unmet_preferred(const LinearState& call, const VariantOptions& options) {
  return unmet_of(call, call.rows, call.columns, options);
}

ChosenLinear choose_variant(const LinearLocal& call, const VariantOptions& options) {
  require_launchable(call.q);
  return choose(call, call.q.heads, options);
}

ChosenLinear choose_variant(const LinearLocalBackward& call, const VariantOptions& options) {
  require_launchable(call.q);
  return choose(call, call.q.heads, options);
}

ChosenLinear choose_variant(const LinearState& call, const VariantOptions& options) {
  require_launchable(call.rows);
  require_launchable(call.state);
  return choose(call, call.rows.heads, options);
}

ChosenLinear choose_variant(const LinearCombine& call, const VariantOptions& options) {
  require_launchable(call.into);
  return choose(call, call.into.heads, options);
}

ChosenLinear choose_variant(const LinearScan& call, const VariantOptions& options) {
  require_launchable(call.state);
  const LinearVariant& variant = first_that_fits(call, options);
  ScanChunks scan = scan_chunks(call.chunks.list, call.final_state.has_value(), call.reverse);
  return {.variant = &variant,
          .cut = cut_of(call, static_cast<std::int64_t>(scan.groups.size()) - 1),
          .chunks = std::move(scan.chunks),
          .groups = std::move(scan.groups)};
}

ChosenLinear choose_variant(const LinearInter& call, const VariantOptions& options) {
  for (const std::optional<View>* view : {&call.q, &call.k, &call.v, &call.dout})
    if (*view) require_launchable(**view);
  const LinearVariant& variant = first_that_fits(call, options);
  std::vector<DeviceChunk> chunks = call.chunks.work == ChunkWork::blocked ? short_chunks(call.chunks.list)
                                                                           : device_chunks(call.chunks.list);
  const LinearCut cut = cut_of(call, static_cast<std::int64_t>(chunks.size()));
  return {.variant = &variant, .cut = cut, .chunks = std::move(chunks), .groups = {}};
}

}  // namespace cplab::kernels::cuda
