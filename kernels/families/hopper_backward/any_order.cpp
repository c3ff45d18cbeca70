// Tiles of keys add to the dQ accumulator as they come: the fastest way, with other bits in every run.
#include "kernels/families/compiled_head_sizes.hpp"
#include "kernels/families/hopper_backward/family.hpp"
#include "kernels/families/hopper_backward/shape.hpp"
#include "kernels/families/names.hpp"

namespace cplab::kernels::cuda {

std::string hopper_backward_fused_name(DType dtype, int head_size, std::int32_t tile_rows) {
  const std::string name = "attend_backward hopper fused" + of_sizes(dtype, head_size);
  return tile_rows == hopper_backward_tile_rows ? name : name + ", " + std::to_string(tile_rows) + " keys";
}

namespace {

class AnyOrder final : public HopperBackward {
 public:
  AnyOrder() : HopperBackward(DqSum::any_order) {}

  std::vector<AttendBackwardVariant> variants(const KernelBuild& build) const override {
    std::vector<AttendBackwardVariant> all;
    if (!build.hopper) return all;
    for (const DType dtype : {DType::bf16, DType::fp16})
      for (const int D : hopper_head_sizes)
        for (const std::int32_t rows : {hopper_backward_tile_rows, hopper_backward_small_tile_rows})
          if (rows == hopper_backward_tile_rows || D == 128)
            all.push_back(variant(hopper_backward_fused_name(dtype, D, rows), dtype, D, rows));
    return all;
  }

  bool loads_beside_preparation(std::int64_t, std::int64_t) const override { return true; }

 protected:
  double tile_us(const ChosenBackward& chosen, const AttendBackward&, const Rates& rates) const override {
    if (chosen.variant->tile_rows == hopper_backward_small_tile_rows)
      return rates[Rate::hopper_backward_d128_keys64_us];
    return at_head_size(chosen.variant->head_size, rates[Rate::hopper_backward_d64_us],
                        rates[Rate::hopper_backward_d128_us]);
  }
};

}  // namespace

const AttendBackwardFamily& hopper_backward_in_any_order() {
  static const AnyOrder family;
  return family;
}

}  // namespace cplab::kernels::cuda
