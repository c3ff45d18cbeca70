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
#include "kernels/cuda/cuda_error.hpp"
#include "kernels/cuda/elementwise.hpp"
#include "kernels/cuda/variants.hpp"
#include "kernels/work/fits.hpp"
#include "kernels/work/tables.hpp"
#include "kernels/work/tile_cuts.hpp"
#include "kernels/work/work_list.hpp"

namespace cplab::kernels {
namespace {

using namespace cuda;

struct Call {
  std::string variant;
  std::function<void(CudaStream)> launch;
  bool deterministic = true;
};

bool any_fp64(std::span<const View* const> views) {
  for (const View* view : views)
    if (view->dtype == DType::fp64) return true;
  return false;
}

template <class Variant>
bool is_deterministic(const Variant& variant) {
  if constexpr (requires { variant.deterministic; }) return variant.deterministic;
  return true;
}

// What kernels may be taken on which device.
struct Selection {
  KernelChoice choice = KernelChoice::best;
  int sm_major = device_major();
  int sms = device_sms();  // that persistent kernels use

  template <class Variant>
  bool allows(const Variant& variant) const {
    if (variant.sm_major != 0 && (choice == KernelChoice::portable || variant.sm_major != sm_major))
      return false;
    return choice != KernelChoice::deterministic || is_deterministic(variant);
  }
};

template <class Variant, class Operation>
const Variant& first_that_fits(std::span<const Variant> variants, const Selection& selection,
                               const Operation& call) {
  for (const Variant& variant : variants)
    if (selection.allows(variant) && variant.fits(call)) return variant;
  const View* const operands[] = {&call.q, &call.k, &call.v};
  throw std::invalid_argument(
      any_fp64(operands) ? "this build has no attention kernels for fp64 on a GPU (-D CPLAB_KERNELS=full)"
                         : "no attention kernel of this build fits the call");
}

void require_sizes(const View& view) {
  require(view.rows < unbounded, "a view has 2^30 rows or more, too many for a GPU kernel");
  require(view.heads <= 65535, "a view has more than 65535 heads, too many for a GPU kernel");
}

struct TiledCall {
  const AttendVariant* variant;
  WorkTables work;
};

// The first variant that fits, or among those that say what their tiles cost the one that is done first.
TiledCall cheapest_that_fits(const Selection& selection, const Attend& call) {
  const std::span<const AttendVariant> variants = attend_variants();
  require_sizes(call.q);
  require_sizes(call.k);
  const std::vector<DeviceSegment> live = live_segments(call.segments);
  const bool keep_empty = call.write == Write::store;
  const AttendVariant* best = &first_that_fits(variants, selection, call);
  if (best->tile_costs[0] == 0 || call.q.heads == 0)
    return {best, query_tiles(live, even_cuts(call.q.rows, best->q_tile_rows), keep_empty)};
  const TileProblem problem{.live = live, .rows = call.q.rows, .keep_empty = keep_empty};
  const TileWalk walk{
      .heads = call.q.heads,
      .heads_per_group = hopper::heads_per_group(static_cast<int>(call.q.heads),
                                                 static_cast<int>(call.k.heads), device_view(call.k, {})),
      .sms = selection.sms,
      .fixed_share = best->counts_tiles};
  TilePlan plan = cheapest_tiles(problem, best->q_tile_rows, best->tile_costs, walk);
  for (const AttendVariant& variant : variants) {
    if (&variant == best || variant.tile_costs[0] == 0 || !selection.allows(variant) || !variant.fits(call))
      continue;
    TilePlan other = cheapest_tiles(problem, variant.q_tile_rows, variant.tile_costs, walk);
    if (other.cost >= plan.cost) continue;
    best = &variant;
    plan = std::move(other);
  }
  return {best, std::move(plan.work)};
}

// Tiles of q or of k for a backward kernel, which is as long at a tile of fewer rows.
WorkTables gradient_tiles(const Selection& selection, TileProblem problem, std::int64_t heads,
                          std::int64_t height) {
  const TileWalk walk{
      .heads = heads, .heads_per_group = std::max<std::int64_t>(heads, 1), .sms = selection.sms};
  return cheapest_tiles(problem, height, {1, 1, 1}, walk).work;
}

void require_int(std::int64_t value, const char* what) {
  require(value <= std::numeric_limits<std::int32_t>::max(), what);
}

}  // namespace

struct CudaCalls::State {
  Tables tables;
  std::vector<Call> calls;
  // Sets a pointer in the parameters of a call, which the call's launch function keeps alive. Those of a call
  // under way wait in `pending`: add() may still throw.
  using Relocation = std::function<void(std::byte* base)>;
  std::vector<Relocation> relocations, pending;
  bool uploaded = false;
  Selection selection;

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

  // A number of this call's own in device memory, which is 0 after upload().
  void place_counter(std::int32_t*& pointer) {
    constexpr std::int32_t zero[] = {0};
    const std::size_t offset = tables.place_apart(std::span<const std::int32_t>(zero));
    pending.emplace_back(
        [&pointer, offset](std::byte* base) { pointer = reinterpret_cast<std::int32_t*>(base + offset); });
  }

  void set(DeviceView& into, const View& view) {
    require_sizes(view);
    require_int(view.width, "a view has a width of 2^31 or more, too wide for a GPU kernel");
    const RowMap map = row_map(view);
    into = device_view(view, map);
    if (map.rows.empty()) return;
    point<std::int32_t>(into.map, map.rows);
    static const std::int32_t later = 0;
    into.map = &later;  // whoever binds the call before upload() sees that there is a map
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
  state_->selection.choice = choice;
  state_->selection.sms = std::max(state_->selection.sms - reserved_sms, 1);
}
CudaCalls::~CudaCalls() = default;

std::size_t CudaCalls::add(const Attend& call) {
  check_call(call);
  const TiledCall tiled = cheapest_that_fits(state_->selection, call);
  const AttendVariant& variant = *tiled.variant;
  const auto p = state_->begin<AttendParams>();
  state_->set(p->q, call.q);
  state_->set(p->k, call.k);
  state_->set(p->v, call.v);
  state_->set(p->out, call.out);
  state_->set(p->lse, call.lse);
  state_->set(p->work, tiled.work);
  p->multiprocessors = state_->selection.sms;
  if (variant.counts_tiles && !tiled.work.even) state_->place_counter(p->tile_counter);
  p->scale = call.scale;
  p->write = call.write;
  // Whatever a call does, it keeps its parameters alive: upload() sets pointers in them.
  if (p->work.count == 0 || p->q.heads == 0) return state_->push(variant.name, [p](CudaStream) {});
  return state_->push(variant.name, [p, launch = variant.bind(*p)](CudaStream stream) { launch(stream); });
}

std::size_t CudaCalls::add(const AttendBackward& call) {
  check_call(call);
  require_sizes(call.q);
  require_sizes(call.k);
  const AttendBackwardVariant& variant = first_that_fits(attend_backward_variants(), state_->selection, call);
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
  const std::vector<DeviceSegment> live = live_segments(call.segments);
  const TileProblem by_q{.live = live, .rows = call.q.rows, .keep_empty = call.write_dq == Write::store};
  const TileProblem by_k{
      .live = live, .rows = call.k.rows, .by_key = true, .keep_empty = call.write_dk == Write::store};
  state_->set(p->by_q, gradient_tiles(state_->selection, by_q, call.q.heads, variant.q_tile_rows));
  const WorkTables tiles = gradient_tiles(state_->selection, by_k, call.k.heads, variant.k_tile_rows);
  state_->set(p->by_k, tiles);
  p->multiprocessors = state_->selection.sms;
  if (variant.counts_tiles) state_->place_counter(p->tile_counter);
  p->scale = call.scale;
  p->write_dq = call.write_dq;
  p->write_dk = call.write_dk;
  if ((p->by_q.count == 0 && p->by_k.count == 0) || p->k.heads == 0)
    return state_->push(variant.name, [p](CudaStream) {});
  if (p->q.heads == 0)  // keys that nobody asks about
    return state_->push(variant.name, [p](CudaStream stream) {
      if (p->write_dk == Write::add) return;
      launch_fill(p->dk, 0, stream);
      launch_fill(p->dv, 0, stream);
    });
  const std::size_t number =
      state_->push(variant.name, [p, launch = variant.bind(*p)](CudaStream stream) { launch(stream); });
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

struct ThreeViews {
  DeviceView a, b, into;
};

}  // namespace

std::size_t CudaCalls::add(const MergeLse& call) {
  check_call(call);
  const auto p = state_->begin<TwoViews>();
  state_->set(p->from, call.part_lse);
  state_->set(p->into, call.into_lse);
  return state_->push("merge_lse", [p](CudaStream stream) { launch_merge_lse(p->from, p->into, stream); });
}

std::size_t CudaCalls::add_row_dot(const View& a, const View& b, const View& into) {
  check_row_dot(a, b, into);
  const auto p = state_->begin<ThreeViews>();
  state_->set(p->a, a);
  state_->set(p->b, b);
  state_->set(p->into, into);
  return state_->push("row_dot", [p](CudaStream stream) { launch_row_dot(p->a, p->b, p->into, stream); });
}

std::size_t CudaCalls::add_copy(const View& from, const View& into) {
  check_copy(from, into);
  const auto p = state_->begin<TwoViews>();
  state_->set(p->from, from);
  state_->set(p->into, into);
  return state_->push(from.dtype == into.dtype ? "copy" : "cast",
                      [p](CudaStream stream) { launch_copy(p->from, p->into, stream); });
}

std::size_t CudaCalls::add_add(const View& from, const View& into) {
  check_add(from, into);
  const auto p = state_->begin<TwoViews>();
  state_->set(p->from, from);
  state_->set(p->into, into);
  return state_->push("add", [p](CudaStream stream) { launch_add(p->from, p->into, stream); });
}

std::size_t CudaCalls::add_fill(const View& into, double value) {
  check_view(into);
  const auto p = state_->begin<DeviceView>();
  state_->set(*p, into);
  return state_->push("fill", [p, value](CudaStream stream) { launch_fill(*p, value, stream); });
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
    // cudaMemcpy may return before pageable memory has arrived; the wait is for this thread's stream alone.
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
