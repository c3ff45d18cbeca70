// What an executor asks of a device: the memory of one rank, and the launch of bound work on it. The CPU
// device does each thing before it returns; a GPU device queues it on the stream of the lane.
#pragma once

#include <cstddef>
#include <cstdint>

#include "derive/arena.hpp"
#include "exec/bind.hpp"

namespace cplab {

// Around every arena, and what fresh memory and red zones hold: NaN in every floating dtype. Wide enough for
// a stray row of any head size that is in use; a multiple of arena_alignment.
inline constexpr std::int64_t red_zone_bytes = 4096;
inline constexpr std::byte poison_byte{0xFF};

class Device {
 public:
  virtual ~Device() = default;
  // Byte 0 of the arena, aligned to arena_alignment (derive/memory.hpp).
  virtual std::byte* base() = 0;
  virtual void launch(const KernelCall& call, Lane lane) = 0;
  // Moves bytes between tensors of equal shape and dtype; `from` may lie in a peer's arena.
  virtual void move(const kernels::View& from, const kernels::View& into, Lane lane) = 0;
  // Fills arena bytes with ones: NaN in every floating dtype.
  virtual void poison(std::int64_t offset, std::int64_t bytes) = 0;
  // False if something was written just before or behind the arena.
  virtual bool red_zones_intact() const = 0;
};

}  // namespace cplab
