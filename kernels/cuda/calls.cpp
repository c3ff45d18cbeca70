// CudaCalls: from the calls of kernels.hpp to parameters of kernels and tables in device memory.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include "kernels/call_checks.hpp"
#include "kernels/cuda/calls_state.hpp"
#include "kernels/families/elementwise/elementwise.hpp"
#include "kernels/families/family.hpp"
#include "kernels/families/products/products.hpp"
#include "kernels/tiles/joined_views.hpp"

namespace cplab::kernels {

using namespace cuda;

CudaCalls::CudaCalls(const CallOptions& options) : state_(std::make_unique<State>()) {
  state_->options = variants_of_device(options);
}
CudaCalls::~CudaCalls() = default;

std::size_t CudaCalls::add(const Attend& call) {
  check_call(call);
  const ChosenForward chosen = choose_variant(call, state_->options);
  const AttendVariant& variant = *chosen.variant;
  const auto p = state_->begin<AttendParams>();
  const RowSpace* const of_q = chosen.spaces ? &chosen.spaces->q : nullptr;
  const RowSpace* const of_k = chosen.spaces ? &chosen.spaces->k : nullptr;
  state_->set(p->q, call.q, of_q);
  state_->set(p->k, call.k, of_k);
  state_->set(p->v, call.v, of_k);
  state_->set(p->out, call.out, of_q);
  state_->set(p->lse, call.lse, of_q);
  set_numbers_of_heads(*p, call);
  state_->set(p->work, chosen.work);
  p->multiprocessors = state_->options.sms;
  if (variant.counts_tiles && !chosen.work.even) state_->place_counters(p->tile_counter, 1);
  p->scale = call.scale;
  p->write = call.write;
  variant.family->set_parameters(*p, *state_, chosen, call);
  // Every launch function holds `p`, even one that does nothing: upload() sets pointers in it.
  if (p->work.count == 0 || p->q.heads == 0) return state_->push(variant.name, [p](CudaStream) {});
  const std::size_t number = state_->push(
      variant.name, [p, launch = kernel_of(variant).bind(*p)](CudaStream stream) { launch(stream); });
  return state_->note(number, cuda::fall_back(call, state_->options));
}

namespace {

// Launches around a backward kernel: before it delta and zeros, behind it casts, where they are left to them.
struct BesideBackward {
  PreparationParams preparation;
  std::array<RowwiseParams, 3> casts;  // of no rows where nothing is left to round

  void launch_casts(CudaStream stream) const {
    for (const RowwiseParams& each : casts) launch_rowwise(each, stream);
  }
};

// dkv: dk and dv as one view, if they are planes of one buffer: then one launch sets both to 0, or rounds
// both.
void set_preparation(AttendBackwardParams& p, PreparationParams& preparation, CallTables& tables,
                     const ChosenBackward& chosen, const AttendBackward& call,
                     const std::optional<View>& dkv) {
  const AttendBackwardVariant& variant = *chosen.variant;
  if (call.out) {
    tables.set(preparation.dout, call.dout);
    tables.set(preparation.out, *call.out);
    tables.set(preparation.delta, call.delta);
  }
  if (variant.sums_dq() && variant.dq != DqSum::in_chains) {
    p.dq_is_zero = call.write_dq == Write::store && !hopper::stores_first_dq(p);
    if (p.dq_is_zero) tables.set(preparation.zeroed, call.dq);
    p.dkv_is_zero = call.out && hopper::needs_zeroed_dkv(p);
    if (p.dkv_is_zero) {
      tables.set(preparation.zeroed_dk, dkv.value_or(call.dk));
      if (!dkv) tables.set(preparation.zeroed_dv, call.dv);
    }
  }
  p.follows_preparation =
      prepares_at_once(preparation) && variant.family->loads_beside_preparation(
                                           p.by_k.live * key_tile_heads(call, variant), p.multiprocessors);
  preparation.waits_first = p.follows_preparation;
}

void set_casts(std::array<RowwiseParams, 3>& casts, CallTables& tables, const ChosenBackward& chosen,
               const AttendBackward& call, const std::optional<View>& dkv) {
  const auto cast = [&](RowwiseParams& into, const View& sum, const View& rounded) {
    tables.set(into.a, sum);
    tables.set(into.into, rounded);
  };
  if (casts_dq(chosen, call)) cast(casts[0], call.dq, *call.rounded_dq);
  if (!casts_dkv(chosen, call)) return;
  const std::optional<View> rounded = joined(*call.rounded_dk, *call.rounded_dv);
  const bool together = dkv && rounded && same_shape(*dkv, *rounded);
  cast(casts[1], together ? *dkv : call.dk, together ? *rounded : *call.rounded_dk);
  if (!together) cast(casts[2], call.dv, *call.rounded_dv);
}

void set_operands(AttendBackwardParams& p, CallTables& tables, const ChosenBackward& chosen,
                  const AttendBackward& call) {
  const RowSpace* const of_q = chosen.spaces ? &chosen.spaces->q : nullptr;
  const RowSpace* const of_k = chosen.spaces ? &chosen.spaces->k : nullptr;
  tables.set(p.q, call.q, of_q);
  tables.set(p.k, call.k, of_k);
  tables.set(p.v, call.v, of_k);
  tables.set(p.dout, call.dout, of_q);
  tables.set(p.lse, call.lse, of_q);
  tables.set(p.delta, call.delta, of_q);
  tables.set(p.dq, call.dq, of_q);
  tables.set(p.dk, call.dk, of_k);
  tables.set(p.dv, call.dv, of_k);
}

}  // namespace

std::size_t CudaCalls::add(const AttendBackward& asked) {
  check_call(asked);
  const ChosenBackward chosen = choose_variant(asked, state_->options);
  const AttendBackwardVariant& variant = *chosen.variant;
  const AttendBackward call = as_launched(asked, chosen);
  const auto p = state_->begin<AttendBackwardParams>();
  set_operands(*p, *state_, chosen, call);
  const std::optional<View> dkv = joined(call.dk, call.dv);
  if (call.write_dk == Write::store) {
    state_->set(p->zeroed_dk, dkv.value_or(call.dk));
    if (!dkv) state_->set(p->zeroed_dv, call.dv);
  }
  state_->set(p->by_q, chosen.by_q);
  state_->set(p->by_k, chosen.by_k);
  p->multiprocessors = state_->options.sms;
  if (variant.counts_tiles) state_->place_counters(p->tile_counter, 1);
  p->scale = call.scale;
  p->write_dq = call.write_dq;
  p->write_dk = call.write_dk;
  variant.family->set_parameters(*p, *state_, chosen, call);
  const auto beside = std::make_shared<BesideBackward>();
  set_preparation(*p, beside->preparation, *state_, chosen, call, dkv);
  set_casts(beside->casts, *state_, chosen, call, dkv);
  // Every launch function holds what upload() sets pointers in.
  if ((p->by_q.count == 0 && p->by_k.count == 0) || p->k.heads == 0)
    return state_->push(variant.name, [p, beside](CudaStream stream) {
      launch_preparation(beside->preparation, stream);
      beside->launch_casts(stream);
    });
  if (p->q.heads == 0)  // no query head reads the keys
    return state_->push(variant.name, [p, beside](CudaStream stream) {
      if (p->write_dk == Write::add) return;
      launch_fill(p->zeroed_dk, 0, stream);
      launch_fill(p->zeroed_dv, 0, stream);
    });
  const std::size_t number =
      state_->push(variant.name, [p, beside, launch = kernel_of(variant).bind(*p)](CudaStream stream) {
        launch_preparation(beside->preparation, stream);
        launch(stream);
        beside->launch_casts(stream);
      });
  state_->calls[number].deterministic = variant.deterministic();
  return state_->note(number, cuda::fall_back(asked, state_->options));
}

std::size_t CudaCalls::add(const Merge& call) {
  check_call(call);
  const auto p = state_->begin<MergeParams>();
  state_->set(p->part_out, call.part_out);
  state_->set(p->part_lse, call.part_lse);
  state_->set(p->into_out, call.into_out);
  state_->set(p->into_lse, call.into_lse);
  return state_->push("merge", [p](CudaStream stream) { launch_merge(*p, stream); });
}

std::size_t CudaCalls::add(const Rescale& call) {
  check_call(call);
  const auto p = state_->begin<RescaleParams>();
  state_->set(p->part_out, call.part_out);
  state_->set(p->part_lse, call.part_lse);
  state_->set(p->final_lse, call.final_lse);
  state_->set(p->into_out, call.into_out);
  p->write = call.write;
  return state_->push("rescale", [p](CudaStream stream) { launch_rescale(*p, stream); });
}

namespace {

struct TwoViews {
  DeviceView from, into;
};

}  // namespace

std::size_t CudaCalls::add(const MergeLse& call) {
  check_call(call);
  const auto p = state_->begin<TwoViews>();
  state_->set(p->from, call.part_lse);
  state_->set(p->into, call.into_lse);
  return state_->push("merge_lse", [p](CudaStream stream) { launch_merge_lse(p->from, p->into, stream); });
}

std::size_t CudaCalls::add(const Rowwise& call) {
  check_call(call);
  const auto p = state_->begin<RowwiseParams>();
  p->kind = call.kind;
  p->value = call.value;
  if (call.sources() > 0) state_->set(p->a, call.a);
  if (call.sources() > 1) state_->set(p->b, call.b);
  state_->set(p->into, call.into);
  return state_->push(rowwise_name(call), [p](CudaStream stream) { launch_rowwise(*p, stream); });
}

std::size_t CudaCalls::add(const SinkGradient& call) {
  check_call(call);
  const auto p = state_->begin<SinkGradientParams>();
  state_->set(p->sink, call.sink);
  state_->set(p->lse, call.lse);
  state_->set(p->delta, call.delta);
  state_->set(p->dsink, call.dsink);
  return state_->push("sink_gradient", [p](CudaStream stream) { launch_sink_gradient(*p, stream); });
}

namespace {

// Thread blocks of a grid's third axis are two for each head.
void require_few_heads(const View& view) {
  if (view.heads > 32767)
    throw std::invalid_argument("latent keys and values: GPUs have kernels for 32767 heads at most");
}

}  // namespace

std::size_t CudaCalls::add(const Project& call) {
  check_call(call);
  require_few_heads(call.k);
  const auto p = state_->begin<ProjectParams>();
  state_->set(p->latent, call.latent);
  state_->set(p->rope_key, call.rope_key);
  state_->set(p->key_weights, call.key_weights);
  state_->set(p->value_weights, call.value_weights);
  state_->set(p->k, call.k);
  state_->set(p->v, call.v);
  return state_->push("project", [p](CudaStream stream) { launch_project(*p, stream); });
}

std::size_t CudaCalls::add(const ProjectBackward& call) {
  check_call(call);
  require_few_heads(call.dk);
  const auto p = state_->begin<ProjectBackwardParams>();
  state_->set(p->dk, call.dk);
  state_->set(p->dv, call.dv);
  state_->set(p->key_weights, call.key_weights);
  state_->set(p->value_weights, call.value_weights);
  state_->set(p->dlatent, call.dlatent);
  state_->set(p->drope_key, call.drope_key);
  p->write = call.write;
  return state_->push("project_backward", [p](CudaStream stream) { launch_project_backward(*p, stream); });
}

std::size_t CudaCalls::add(const WeightGradient& call) {
  check_call(call);
  require_few_heads(call.dk);
  const auto p = state_->begin<WeightGradientParams>();
  state_->set(p->latent, call.latent);
  state_->set(p->dk, call.dk);
  state_->set(p->dv, call.dv);
  state_->set(p->dkey_weights, call.dkey_weights);
  state_->set(p->dvalue_weights, call.dvalue_weights);
  p->write = call.write;
  return state_->push("weight_gradient", [p](CudaStream stream) { launch_weight_gradient(*p, stream); });
}

std::size_t CudaCalls::table_bytes() const {
  return state_->device_bytes();
}

void CudaCalls::upload(void* device_memory, CudaStream stream) {
  if (state_->uploaded) throw std::logic_error("CudaCalls: upload() twice");
  const std::span<const std::byte> bytes = state_->bytes();
  if (state_->device_bytes() > 0) {
    if (device_memory == nullptr || reinterpret_cast<std::uintptr_t>(device_memory) % Tables::alignment != 0)
      throw std::invalid_argument("CudaCalls: the tables need device memory aligned to 256 bytes");
    // Not cudaMemcpy, which may return before pageable memory has arrived. Waits for one stream
    // alone.
    if (stream == nullptr) stream = cudaStreamPerThread;
    require_cuda(cudaMemcpyAsync(device_memory, bytes.data(), bytes.size(), cudaMemcpyHostToDevice, stream),
                 "cudaMemcpyAsync of kernel tables");
    require_cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize after kernel tables");
  }
  state_->relocate(static_cast<std::byte*>(device_memory));
  state_->uploaded = true;
}

void CudaCalls::launch(std::size_t call, CudaStream stream) const {
  if (!state_->uploaded) throw std::logic_error("CudaCalls: launch() before upload()");
  const State::Call& entry = state_->calls.at(call);
  entry.launch(stream);
  require_cuda(cudaGetLastError(), entry.variant.c_str());
}

std::string CudaCalls::variant(std::size_t call) const {
  return state_->calls.at(call).variant;
}

std::string CudaCalls::fall_back(std::size_t call) const {
  return state_->calls.at(call).fall_back;
}

bool CudaCalls::deterministic(std::size_t call) const {
  return state_->calls.at(call).deterministic;
}

}  // namespace cplab::kernels
