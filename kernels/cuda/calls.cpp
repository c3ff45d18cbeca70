// CudaCalls: from the calls of kernels.hpp to parameters of kernels and tables in device memory.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <stdexcept>
#include <utility>

#include "kernels/call_checks.hpp"
#include "kernels/cuda.hpp"
#include "kernels/cuda/elementwise/elementwise.hpp"
#include "kernels/cuda/kernel_table.hpp"
#include "kernels/cuda/parts/cuda_error.hpp"
#include "kernels/work/tables.hpp"
#include "kernels/work/variants.hpp"
#include "kernels/work/work_list.hpp"

namespace cplab::kernels {
namespace {

using namespace cuda;

struct Call {
  std::string variant;
  std::function<void(CudaStream)> launch;
  bool deterministic = true;
};

void require_int(std::int64_t value, const char* what) {
  require(value <= std::numeric_limits<std::int32_t>::max(), what);
}

}  // namespace

struct CudaCalls::State {
  Tables tables;
  std::vector<Call> calls;
  // Sets a pointer in the parameters of a call, which the call's launch function keeps alive. Those of the
  // call being added are kept in `pending`, because add() may still throw.
  using Relocation = std::function<void(std::byte* base)>;
  std::vector<Relocation> relocations, pending;
  bool uploaded = false;
  VariantOptions options{.sm_major = device_major(), .sms = device_sms(), .build = built_kernels()};

  template <class Params>
  std::shared_ptr<Params> begin() {
    if (uploaded) throw std::logic_error("CudaCalls: add() after upload()");
    pending.clear();
    return std::make_shared<Params>();
  }

  std::size_t push(std::string variant, std::function<void(CudaStream)> launch) {
    calls.push_back({std::move(variant), std::move(launch)});
    relocations.insert(relocations.end(), pending.begin(), pending.end());
    return calls.size() - 1;
  }

  // `pointer` will point to the items in device memory. It must stay where it is.
  template <class Item>
  void point(const Item*& pointer, std::span<const Item> items) {
    const std::size_t offset = tables.place(items);
    pending.emplace_back([&pointer, offset](const std::byte* base) {
      pointer = reinterpret_cast<const Item*>(base + offset);
    });
  }

  // A counter in device memory that belongs to this call alone, 0 after upload().
  void place_counter(std::int32_t*& pointer) {
    constexpr std::int32_t zero[] = {0};
    const std::size_t offset = tables.place_apart(std::span<const std::int32_t>(zero));
    pending.emplace_back(
        [&pointer, offset](std::byte* base) { pointer = reinterpret_cast<std::int32_t*>(base + offset); });
  }

  void set(DeviceView& into, const View& view) {
    require_launchable(view);
    require_int(view.width, "a view has a width of 2^31 or more, too wide for a GPU kernel");
    const RowMap map = row_map(view);
    into = device_view(view, map);
    if (map.rows.empty()) return;
    point<std::int32_t>(into.map, map.rows);
    static const std::int32_t later = 0;
    into.map = &later;  // not null: bind() before upload() must see that there is a map
  }

  void set(WorkList& into, const WorkTables& work) {
    require_int(static_cast<std::int64_t>(work.tiles.size()), "too many tiles for a GPU kernel");
    into.count = static_cast<std::int32_t>(work.tiles.size());
    into.live = live_tiles(work);
    if (work.tiles.empty()) return;
    point<WorkTile>(into.tiles, work.tiles);
    if (!work.segments.empty()) point<DeviceSegment>(into.segments, work.segments);
  }
};

CudaCalls::CudaCalls(KernelChoice choice, int reserved_sms) : state_(std::make_unique<State>()) {
  state_->options.choice = choice;
  state_->options.sms = std::max(state_->options.sms - reserved_sms, 1);
}
CudaCalls::~CudaCalls() = default;

std::size_t CudaCalls::add(const Attend& call) {
  check_call(call);
  const ChosenForward chosen = choose_variant(call, state_->options);
  const AttendVariant& variant = *chosen.variant;
  const auto p = state_->begin<AttendParams>();
  state_->set(p->q, call.q);
  state_->set(p->k, call.k);
  state_->set(p->v, call.v);
  state_->set(p->out, call.out);
  state_->set(p->lse, call.lse);
  set_max_logit(*p, call);
  state_->set(p->work, chosen.work);
  p->multiprocessors = state_->options.sms;
  if (variant.counts_tiles && !chosen.work.even) state_->place_counter(p->tile_counter);
  p->scale = call.scale;
  p->write = call.write;
  // Every launch function holds `p`, even one that does nothing: upload() sets pointers in it.
  if (p->work.count == 0 || p->q.heads == 0) return state_->push(variant.name, [p](CudaStream) {});
  return state_->push(variant.name,
                      [p, launch = kernel_of(variant).bind(*p)](CudaStream stream) { launch(stream); });
}

std::size_t CudaCalls::add(const AttendBackward& call) {
  check_call(call);
  const ChosenBackward chosen = choose_variant(call, state_->options);
  const AttendBackwardVariant& variant = *chosen.variant;
  const auto p = state_->begin<AttendBackwardParams>();
  state_->set(p->q, call.q);
  state_->set(p->k, call.k);
  state_->set(p->v, call.v);
  state_->set(p->dout, call.dout);
  state_->set(p->lse, call.lse);
  state_->set(p->delta, call.delta);
  state_->set(p->dq, call.dq);
  state_->set(p->dk, call.dk);
  state_->set(p->dv, call.dv);
  state_->set(p->by_q, chosen.by_q);
  state_->set(p->by_k, chosen.by_k);
  p->multiprocessors = state_->options.sms;
  if (variant.counts_tiles) state_->place_counter(p->tile_counter);
  p->scale = call.scale;
  p->write_dq = call.write_dq;
  p->write_dk = call.write_dk;
  if ((p->by_q.count == 0 && p->by_k.count == 0) || p->k.heads == 0)
    return state_->push(variant.name, [p](CudaStream) {});
  if (p->q.heads == 0)  // no query head reads the keys
    return state_->push(variant.name, [p](CudaStream stream) {
      if (p->write_dk == Write::add) return;
      launch_fill(p->dk, 0, stream);
      launch_fill(p->dv, 0, stream);
    });
  const std::size_t number = state_->push(
      variant.name, [p, launch = kernel_of(variant).bind(*p)](CudaStream stream) { launch(stream); });
  state_->calls[number].deterministic = variant.deterministic;
  return number;
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

std::size_t CudaCalls::table_bytes() const {
  return state_->tables.bytes().size();
}

void CudaCalls::upload(void* device_memory) {
  if (state_->uploaded) throw std::logic_error("CudaCalls: upload() twice");
  const std::span<const std::byte> bytes = state_->tables.bytes();
  if (!bytes.empty()) {
    if (device_memory == nullptr || reinterpret_cast<std::uintptr_t>(device_memory) % Tables::alignment != 0)
      throw std::invalid_argument("CudaCalls: the tables need device memory aligned to 256 bytes");
    // Not cudaMemcpy, which may return before pageable memory has arrived. Waits for this thread's stream
    // alone.
    require_cuda(cudaMemcpyAsync(device_memory, bytes.data(), bytes.size(), cudaMemcpyHostToDevice,
                                 cudaStreamPerThread),
                 "cudaMemcpyAsync of kernel tables");
    require_cuda(cudaStreamSynchronize(cudaStreamPerThread), "cudaStreamSynchronize after kernel tables");
  }
  for (const auto& relocate : state_->relocations) relocate(static_cast<std::byte*>(device_memory));
  state_->uploaded = true;
}

void CudaCalls::launch(std::size_t call, CudaStream stream) const {
  if (!state_->uploaded) throw std::logic_error("CudaCalls: launch() before upload()");
  const Call& entry = state_->calls.at(call);
  entry.launch(stream);
  require_cuda(cudaGetLastError(), entry.variant.c_str());
}

std::string CudaCalls::variant(std::size_t call) const {
  return state_->calls.at(call).variant;
}

bool CudaCalls::deterministic(std::size_t call) const {
  return state_->calls.at(call).deterministic;
}

}  // namespace cplab::kernels
