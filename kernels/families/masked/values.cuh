// V in shared memory. Where bias and keep mask are of keys they travel behind V's columns, and then rows of V
// are no multiple of 16 bytes apart.
#pragma once

#include <cstdint>

#include "kernels/families/mma/parts/shared_tiles.cuh"

namespace cplab::kernels::cuda {

// As load_tile(), of rows at any distance: 16 bytes at a time where that is possible, else 4; else element by
// element, which has arrived when the call returns (but not for other threads).
template <class T, int D, int rows, int threads>
__device__ __forceinline__ void load_values(unsigned char* tile, const DeviceView& view, int head, int first,
                                            int end) {
  constexpr int chunks = Tile<D>::chunks;
  const auto odd = reinterpret_cast<std::uintptr_t>(view.data) / sizeof(T) |
                   static_cast<std::uintptr_t>(view.row_stride | (view.heads > 1 ? view.head_stride : 0));
  if (odd % 8 == 0) return load_tile<T, D, rows, threads>(shared_address(tile), view, head, first, end);
  const auto* const data = head_of<const std::uint16_t>(view, head);
#pragma unroll 1
  for (int index = thread_index(); index < rows * chunks; index += threads) {
    const int row = index / chunks, chunk = index % chunks;
    const bool inside = first + row < end;
    const int compact = inside ? first + row : first;
    const std::int64_t physical = view.map != nullptr ? view.map[compact] : compact;
    const std::uint16_t* const from = data + physical * view.row_stride + 8 * chunk;
    unsigned char* const to = tile + Tile<D>::offset(row, chunk);
    if (odd % 2 == 0) {
#pragma unroll
      for (int part = 0; part < 4; ++part)
        cp_async_4(shared_address(to + 4 * part), from + 2 * part, inside ? 4 : 0);
    } else {
#pragma unroll
      for (int n = 0; n < 8; ++n) reinterpret_cast<std::uint16_t*>(to)[n] = inside ? from[n] : 0;
    }
  }
}

}  // namespace cplab::kernels::cuda
