// The CPU as a device: one arena between two red zones, tiles called in place.
#pragma once

#include <memory>

#include "exec/device.hpp"
#include "kernels/kernels.hpp"
#include "kernels/linear.hpp"
#include "kernels/masked.hpp"

namespace cplab {

// The tiles that a device computes with, a table for each kind of attention.
struct CpuTables {
  const kernels::Tiles& tiles = kernels::cpu_tiles();
  const kernels::LinearTiles& linear = kernels::cpu_linear_tiles();
  const kernels::MaskedTiles& masked = kernels::cpu_masked_tiles();
};

// Calls the entry that the call is for.
void launch(const CpuTables& tables, const KernelCall& call);

class CpuDevice final : public Device {
 public:
  // An arena of `arena_bytes`, all NaN. The tables outlive the device.
  CpuDevice(std::int64_t arena_bytes, const CpuTables& tables);

  std::byte* base() override { return arena_; }
  void launch(const KernelCall& call, Lane lane) override;
  void move(const kernels::View& from, const kernels::View& into, Lane lane) override;
  void poison(std::int64_t offset, std::int64_t bytes) override;
  bool red_zones_intact() const override;

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  std::unique_ptr<std::byte, Free> memory_;
  std::byte* arena_ = nullptr;
  std::int64_t arena_bytes_ = 0;
  CpuTables tables_;
};

}  // namespace cplab
