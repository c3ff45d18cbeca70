// What CudaCalls holds: tables for device memory, and launch functions whose parameters point into them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "kernels/call_checks.hpp"
#include "kernels/cuda.hpp"
#include "kernels/cuda/kernel_table.hpp"
#include "kernels/cuda/parts/cuda_error.hpp"
#include "kernels/work/masked_params.hpp"
#include "kernels/work/tables.hpp"
#include "kernels/work/turns.hpp"
#include "kernels/work/variants.hpp"
#include "kernels/work/work_list.hpp"

namespace cplab::kernels {

struct CudaCalls::State {
  struct Call {
    std::string variant;
    std::function<void(CudaStream)> launch;
    bool deterministic = true;
    std::string fall_back = {};  // from which kernel, and why
    // Of dynamic mask attention: the scan of the keep mask, and what comes after it.
    std::function<void(CudaStream)> scan = {}, products = {};
  };

  cuda::Tables tables;
  std::vector<Call> calls;
  // Sets a pointer in the parameters of a call, which the call's launch function keeps alive. Those of the
  // call being added are kept in `pending`, because add() may still throw.
  using Relocation = std::function<void(std::byte* base)>;
  std::vector<Relocation> relocations, pending;
  bool uploaded = false;
  cuda::VariantOptions options;

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

  // What is said of the call that was added last.
  std::size_t note(std::size_t number, const std::optional<cuda::FallBack>& fall_back) {
    if (fall_back) calls[number].fall_back = fall_back->text();
    return number;
  }

  // `pointer` will point to the items in device memory. It must stay where it is.
  template <class Item>
  void point(const Item*& pointer, std::span<const Item> items) {
    const std::size_t offset = tables.place(items);
    pending.emplace_back([&pointer, offset](const std::byte* base) {
      pointer = reinterpret_cast<const Item*>(base + offset);
    });
  }

  // Counters in device memory that belong to this call alone, 0 after upload().
  void place_counters(std::int32_t*& pointer, std::size_t count) {
    const std::vector<std::int32_t> zeros(count);
    const std::size_t offset = tables.place_apart(std::span<const std::int32_t>(zeros));
    pending.emplace_back(
        [&pointer, offset](std::byte* base) { pointer = reinterpret_cast<std::int32_t*>(base + offset); });
  }

  // The same for bits of cells (work/masked_params.hpp) that a kernel writes before others read them.
  void place_cells(cuda::CellBits& bits, std::int64_t heads) {
    const std::int64_t count = heads * bits.rows * bits.row_words;
    if (count == 0) return;
    const std::vector<std::uint32_t> zeros(static_cast<std::size_t>(count));
    const std::size_t offset = tables.place_apart(std::span<const std::uint32_t>(zeros));
    pending.emplace_back(
        [&bits, offset](std::byte* base) { bits.words = reinterpret_cast<std::uint32_t*>(base + offset); });
  }

  void set(cuda::DeviceView& into, const View& view) {
    cuda::require_launchable(view);
    require_int(view.width, "a view has a width of 2^31 or more, too wide for a GPU kernel");
    const cuda::RowMap map = cuda::row_map(view);
    into = cuda::device_view(view, map);
    set_map(into, map.rows);
  }

  // The view in the rows of a space, if there is one.
  void set(cuda::DeviceView& into, const View& view, const cuda::RowSpace* space) {
    if (space == nullptr) return set(into, view);
    cuda::require_launchable(view);
    const cuda::SpacedView spaced = cuda::in_space(view, *space);
    into = spaced.device;
    set_map(into, spaced.map);
  }

  void set_map(cuda::DeviceView& into, const std::vector<std::int32_t>& rows) {
    if (rows.empty()) return;
    point<std::int32_t>(into.map, rows);
    static const std::int32_t later = 0;
    into.map = &later;  // not null: bind() before upload() must see that there is a map
  }

  void set(cuda::WorkList& into, const cuda::WorkTables& work) {
    require_int(static_cast<std::int64_t>(work.tiles.size()), "too many tiles for a GPU kernel");
    into.count = static_cast<std::int32_t>(work.tiles.size());
    into.live = cuda::live_tiles(work);
    into.rows_together = work.rows_together;
    into.ending = work.ending;
    into.alike = work.alike;
    into.out_of_turn = work.out_of_turn;
    if (work.tiles.empty()) return;
    point<cuda::WorkTile>(into.tiles, work.tiles);
    if (!work.segments.empty()) point<cuda::DeviceSegment>(into.segments, work.segments);
  }

  void set(cuda::TurnList& into, const cuda::DqTurns& turns, const View& q, const View& k) {
    into.cells = turns.cells;
    into.even = turns.even;
    into.full = turns.full;
    into.whole = turns.whole;
    if (turns.runs.empty()) return;
    point<std::int32_t>(into.unit_of_tile, turns.unit_of_tile);
    point<cuda::TurnUnit>(into.units, turns.units);
    point<cuda::TurnRun>(into.runs, turns.runs);
    point<std::int32_t>(into.total, turns.total);
    point<std::int32_t>(into.total_before_ending, turns.total_before_ending);
    place_counters(into.counters, static_cast<std::size_t>(cuda::dq_counters(turns, q.heads)));
    if (q.heads > k.heads)
      place_counters(into.dkv_counters, static_cast<std::size_t>(cuda::dkv_counters(turns, k.heads)));
  }

  void set(cuda::ChainList& into, const cuda::TileChains& chains) {
    into.count = static_cast<std::int32_t>(chains.chains.size());
    point<cuda::TileChain>(into.chains, chains.chains);
    point<std::int32_t>(into.pieces, chains.pieces);
  }

  static void require_int(std::int64_t value, const char* what) {
    require(value <= std::numeric_limits<std::int32_t>::max(), what);
  }
};

}  // namespace cplab::kernels
