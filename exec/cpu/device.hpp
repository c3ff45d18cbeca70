// The CPU as a device: one arena between two red zones, tiles called in place.
#pragma once

#include <memory>

#include "exec/device.hpp"

namespace cplab {

class CpuDevice final : public Device {
 public:
  // An arena of `arena_bytes`, all NaN. Both tables outlive the device.
  CpuDevice(std::int64_t arena_bytes, const kernels::Tiles& tiles, const kernels::LinearTiles& linear_tiles);

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
  const kernels::Tiles& tiles_;
  const kernels::LinearTiles& linear_tiles_;
};

}  // namespace cplab
