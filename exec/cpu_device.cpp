// The CPU as a device; see cpu_device.hpp.
#include "exec/cpu_device.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <vector>

#include "algorithms/memory.hpp"

namespace cplab {

namespace {

constexpr std::byte poison_byte{0xFF};
// Wide enough for a stray row of any head size that is in use.
constexpr std::int64_t red_zone_bytes = 4096;
static_assert(red_zone_bytes % arena_alignment == 0);

// Physical rows of a view in the order of its compact rows.
class RowWalker {
 public:
  explicit RowWalker(const kernels::View& view) : view_(view) { skip_empty(); }

  std::byte* next() {
    std::int64_t row = at_++;
    if (!view_.runs.empty()) {
      row = view_.runs[run_].begin + row * view_.runs[run_].step;
      skip_empty();
    }
    return static_cast<std::byte*>(view_.data) +
           row * view_.row_stride * static_cast<std::int64_t>(kernels::bytes_of(view_.dtype));
  }

 private:
  void skip_empty() {
    while (run_ < view_.runs.size() && at_ >= view_.runs[run_].count) {
      ++run_;
      at_ = 0;
    }
  }

  const kernels::View& view_;
  std::size_t run_ = 0;
  std::int64_t at_ = 0;
};

}  // namespace

void CpuDevice::Free::operator()(std::byte* memory) const {
  ::operator delete (memory, std::align_val_t{static_cast<std::size_t>(arena_alignment)});
}

CpuDevice::CpuDevice(std::int64_t arena_bytes, const kernels::Tiles& tiles)
    : arena_bytes_(arena_bytes), tiles_(tiles) {
  const auto size = static_cast<std::size_t>(arena_bytes + 2 * red_zone_bytes);
  memory_.reset(static_cast<std::byte*>(
      ::operator new (size, std::align_val_t{static_cast<std::size_t>(arena_alignment)})));
  std::fill_n(memory_.get(), size, poison_byte);
  arena_ = memory_.get() + red_zone_bytes;
}

void CpuDevice::launch(const KernelCall& call, Lane) {
  cplab::launch(tiles_, call);
}

void CpuDevice::move(const kernels::View& from, const kernels::View& into, Lane) {
  const auto element = static_cast<std::int64_t>(kernels::bytes_of(from.dtype));
  RowWalker source(from), target(into);
  // Heads that lie side by side on both ends travel as one.
  const bool joined = from.head_stride == from.width && into.head_stride == into.width;
  const std::int64_t pieces = joined ? 1 : from.heads;
  const auto bytes = static_cast<std::size_t>(from.width * element * (joined ? from.heads : 1));
  for (std::int64_t row = 0; row < from.rows; ++row) {
    const std::byte* source_row = source.next();
    std::byte* target_row = target.next();
    for (std::int64_t head = 0; head < pieces; ++head) {
      // memmove: a wrong plan may send a buffer onto itself.
      std::memmove(target_row + head * into.head_stride * element,
                   source_row + head * from.head_stride * element, bytes);
    }
  }
}

void CpuDevice::poison(std::int64_t offset, std::int64_t bytes) {
  std::fill_n(arena_ + offset, bytes, poison_byte);
}

bool CpuDevice::red_zones_intact() const {
  const auto is_poison = [](std::byte b) { return b == poison_byte; };
  const std::byte* behind = arena_ + arena_bytes_;
  return std::all_of(memory_.get(), memory_.get() + red_zone_bytes, is_poison) &&
         std::all_of(behind, behind + red_zone_bytes, is_poison);
}

}  // namespace cplab
