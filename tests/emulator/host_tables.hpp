// What the parameters of a call point to, in host memory.
#pragma once

#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "kernels/kernels.hpp"
#include "kernels/tiles/work_list.hpp"

namespace cplab::emulator {

struct HostTables {
  std::deque<std::vector<std::int32_t>> maps;

  kernels::cuda::DeviceView view(const kernels::View& view) {
    kernels::cuda::RowMap map = kernels::cuda::row_map(view);
    kernels::cuda::DeviceView device = kernels::cuda::device_view(view, map);
    if (!map.rows.empty()) device.map = maps.emplace_back(std::move(map.rows)).data();
    return device;
  }
  static kernels::cuda::WorkList list(const kernels::cuda::WorkTables& tables) {
    return {tables.tiles.data(), tables.segments.data(), static_cast<std::int32_t>(tables.tiles.size()),
            kernels::cuda::live_tiles(tables)};
  }
};

}  // namespace cplab::emulator
