// Tables of calls in device memory, and the pointers to them in parameters of kernels. Plain host code: the
// memory comes later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "kernels/call_checks.hpp"
#include "kernels/families/variants.hpp"
#include "kernels/tiles/masked_params.hpp"
#include "kernels/tiles/tables.hpp"
#include "kernels/tiles/work_list.hpp"

namespace cplab::kernels::cuda {

class CallTables {
 public:
  std::span<const std::byte> bytes() const { return tables_.bytes(); }
  // Of device memory: the tables, and behind them what kernels alone write and read (place_scratch()).
  std::size_t device_bytes() const {
    return scratch_bytes_ == 0 ? bytes().size() : scratch_at() + scratch_bytes_;
  }
  // Sets all pointers, once the tables have an address.
  void relocate(std::byte* base) const {
    for (const Relocation& relocation : relocations_) relocation(base);
  }

  // `pointer` will point to the items in device memory. It must stay where it is.
  template <class Item>
  void point(const Item*& pointer, std::span<const Item> items) {
    const std::size_t offset = tables_.place(items);
    pending_.emplace_back([&pointer, offset](const std::byte* base) {
      pointer = reinterpret_cast<const Item*>(base + offset);
    });
  }

  // Counters in device memory that belong to this call alone, 0 after upload().
  void place_counters(std::int32_t*& pointer, std::size_t count) {
    const std::vector<std::int32_t> zeros(count);
    const std::size_t offset = tables_.place_apart(std::span<const std::int32_t>(zeros));
    pending_.emplace_back(
        [&pointer, offset](std::byte* base) { pointer = reinterpret_cast<std::int32_t*>(base + offset); });
  }

  // Memory of this call alone, whose content is not set.
  template <class Item>
  void place_scratch(Item*& pointer, std::size_t count) {
    const std::size_t offset = scratch_bytes_;
    scratch_bytes_ += aligned(count * sizeof(Item));
    pending_.emplace_back([this, &pointer, offset](std::byte* base) {
      pointer = reinterpret_cast<Item*>(base + scratch_at() + offset);
    });
  }

  // The same for bits of cells (tiles/masked_params.hpp) that a kernel writes before others read them.
  void place_cells(CellBits& bits, std::int64_t heads) {
    const std::int64_t count = heads * bits.rows * bits.row_words;
    if (count == 0) return;
    const std::vector<std::uint32_t> zeros(static_cast<std::size_t>(count));
    const std::size_t offset = tables_.place_apart(std::span<const std::uint32_t>(zeros));
    pending_.emplace_back(
        [&bits, offset](std::byte* base) { bits.words = reinterpret_cast<std::uint32_t*>(base + offset); });
  }

  void set(DeviceView& into, const View& view) {
    require_launchable(view);
    require_int(view.width, "a view has a width of 2^31 or more, too wide for a GPU kernel");
    const RowMap map = row_map(view);
    into = device_view(view, map);
    set_map(into, map.rows);
  }

  // The view in the rows of a space, if there is one.
  void set(DeviceView& into, const View& view, const RowSpace* space) {
    if (space == nullptr) return set(into, view);
    require_launchable(view);
    const SpacedView spaced = in_space(view, *space);
    into = spaced.device;
    set_map(into, spaced.map);
  }

  void set_map(DeviceView& into, const std::vector<std::int32_t>& rows) {
    if (rows.empty()) return;
    point<std::int32_t>(into.map, rows);
    static const std::int32_t later = 0;
    into.map = &later;  // not null: bind() before upload() must see that there is a map
  }

  void set(WorkList& into, const WorkTables& work) {
    require_int(static_cast<std::int64_t>(work.tiles.size()), "too many tiles for a GPU kernel");
    into.count = static_cast<std::int32_t>(work.tiles.size());
    into.live = live_tiles(work);
    into.rows_together = work.rows_together;
    into.ending = work.ending;
    into.alike = work.alike;
    into.out_of_turn = work.out_of_turn;
    if (work.tiles.empty()) return;
    point<WorkTile>(into.tiles, work.tiles);
    if (!work.segments.empty()) point<DeviceSegment>(into.segments, work.segments);
  }

  static void require_int(std::int64_t value, const char* what) {
    require(value <= std::numeric_limits<std::int32_t>::max(), what);
  }

  // Pointers of the call being added are kept apart until it is there, because adding may still throw.
  void begin_call() { pending_.clear(); }
  void keep_call() {
    relocations_.insert(relocations_.end(), pending_.begin(), pending_.end());
    pending_.clear();
  }

 private:
  // Sets a pointer in the parameters of a call, which the call's launch function keeps alive.
  using Relocation = std::function<void(std::byte* base)>;

  static std::size_t aligned(std::size_t bytes) {
    return (bytes + Tables::alignment - 1) / Tables::alignment * Tables::alignment;
  }
  std::size_t scratch_at() const { return aligned(bytes().size()); }

  Tables tables_;
  std::size_t scratch_bytes_ = 0;
  std::vector<Relocation> relocations_, pending_;
};

}  // namespace cplab::kernels::cuda
