// The CPU as a device; see device.hpp.
#include "exec/cpu/device.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <variant>
#include <vector>

#include "derive/arena.hpp"
#include "derive/memory.hpp"
#include "exec/byte_runs.hpp"

namespace cplab {

static_assert(red_zone_bytes % arena_alignment == 0);

void launch(const CpuTables& tables, const KernelCall& call) {
  struct Visitor {
    const kernels::Tiles& t;
    const kernels::LinearTiles& l;
    const kernels::MaskedTiles& m;
    void operator()(const kernels::Attend& c) const { t.attend(c); }
    void operator()(const kernels::AttendBackward& c) const { t.attend_backward(c); }
    void operator()(const kernels::Merge& c) const { t.merge(c); }
    void operator()(const kernels::MergeLse& c) const { t.merge_lse(c); }
    void operator()(const kernels::Rescale& c) const { t.rescale(c); }
    void operator()(const kernels::Rowwise& c) const { t.rowwise(c); }
    void operator()(const kernels::SinkGradient& c) const { t.sink_gradient(c); }
    void operator()(const kernels::Project& c) const { t.project(c); }
    void operator()(const kernels::ProjectBackward& c) const { t.project_backward(c); }
    void operator()(const kernels::WeightGradient& c) const { t.weight_gradient(c); }
    void operator()(const kernels::LinearLocal& c) const { l.local(c); }
    void operator()(const kernels::LinearLocalBackward& c) const { l.local_backward(c); }
    void operator()(const kernels::LinearState& c) const { l.state(c); }
    void operator()(const kernels::LinearScan& c) const { l.scan(c); }
    void operator()(const kernels::LinearCombine& c) const { l.combine(c); }
    void operator()(const kernels::LinearInter& c) const { l.inter(c); }
    void operator()(const kernels::Convolve& c) const { l.convolve(c); }
    void operator()(const kernels::FilterGradient& c) const { l.filter_gradient(c); }
    void operator()(const kernels::MaskedAttend& c) const { m.attend(c); }
    void operator()(const kernels::MaskedAttendBackward& c) const { m.attend_backward(c); }
  };
  std::visit(Visitor{tables.tiles, tables.linear, tables.masked}, call);
}

void CpuDevice::Free::operator()(std::byte* memory) const {
  ::operator delete (memory, std::align_val_t{static_cast<std::size_t>(arena_alignment)});
}

CpuDevice::CpuDevice(std::int64_t arena_bytes, const CpuTables& tables)
    : arena_bytes_(arena_bytes), tables_(tables) {
  const auto size = static_cast<std::size_t>(arena_bytes + 2 * red_zone_bytes);
  memory_.reset(static_cast<std::byte*>(
      ::operator new (size, std::align_val_t{static_cast<std::size_t>(arena_alignment)})));
  std::fill_n(memory_.get(), size, poison_byte);
  arena_ = memory_.get() + red_zone_bytes;
}

void CpuDevice::launch(const KernelCall& call, Lane) {
  cplab::launch(tables_, call);
}

void CpuDevice::move(const kernels::View& from, const kernels::View& into, Lane) {
  for (const ByteRun& run : contiguous_byte_runs(from, into)) {
    std::memmove(run.into, run.from, run.bytes);  // a wrong plan may send a buffer onto itself
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
