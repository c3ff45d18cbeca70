// What the three ways to sum dq share in the fused backward for Hopper (docs/08-hopper.md): one kernel goes
// over tiles of keys, sums dk and dv on chip, and adds each block's part of dq to the dQ accumulator.
#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

#include "kernels/families/family.hpp"
#include "kernels/families/tile_seconds.hpp"

namespace cplab::kernels::cuda {

// How many heads the launch has side by side if tiles of keys are listed by sequences; 0 without heads.
// call: as launched.
int fused_heads_together(const ChosenBackward& chosen, const AttendBackward& call, int sms);

class HopperBackward : public AttendBackwardFamily {
 public:
  std::string_view name() const override { return "hopper"; }
  std::vector<KernelEntry> entries(const AttendBackwardVariant&) const override;
  Unmet unmet(const AttendBackwardVariant&, const AttendBackward&) const override;
  ChosenBackward tiles(const AttendBackwardVariant&, const AttendBackward&,
                       const VariantOptions&) const override;
  void order(ChosenBackward&, const AttendBackward& launched, const VariantOptions&) const override;
  PredictedTime time(const ChosenBackward&, const AttendBackward&, const VariantOptions&) const override;
  double flop_us(const AttendBackwardVariant&, const Rates&) const override;

 protected:
  explicit HopperBackward(DqSum dq) : dq_(dq) {}
  ~HopperBackward() = default;

  AttendBackwardVariant variant(std::string name, DType dtype, int head_size, std::int32_t tile_rows) const;
  // What a tile of keys costs, us for 128 queries.
  virtual double tile_us(const ChosenBackward&, const AttendBackward&, const Rates&) const = 0;
  // us of all tiles together, and what this way of summing dq takes beside them.
  virtual double all_tiles_us(const ChosenBackward&, const AttendBackward& launched, const TileExtras&,
                              const VariantOptions&) const;
  // us of the zeros that the kernels add to.
  virtual double zeros_us(const ChosenBackward&, const AttendBackward& launched, const Rates&) const;
  virtual TileExtras extras(const ChosenBackward&, const AttendBackward& launched, const Rates&) const;
  // Of the L2 cache, the share that rows in use can have before tiles wait for memory; and after how many
  // rows of a sequence its tiles are in step for longer.
  virtual double held(const AttendBackward&, const Rates&) const { return 1; }
  virtual double rows_out_of_step(const Rates& rates) const {
    return rates[Rate::hopper_backward_beyond_cache_rows];
  }
  // Where tiles of keys are cut.
  virtual Pieces pieces() const { return Pieces::segments_then_ranges; }

 private:
  double slower_beyond_cache(const ChosenBackward&, const AttendBackward&, const VariantOptions&) const;

  DqSum dq_;
};

// Multiprocessors take `heads` times the tiles of keys.
TileWalk walk_of_keys(std::int64_t heads, int sms);

}  // namespace cplab::kernels::cuda
