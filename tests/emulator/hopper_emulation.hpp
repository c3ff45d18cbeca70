// Tiles of random cases (tests/kernels/tile_cases.hpp) run by the Hopper kernels on emulated thread blocks:
// threads in random order, products as late as allowed, copies as early or as late as possible, rows cut into
// tiles anywhere.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "kernels/families/hopper_backward/chains.hpp"
#include "kernels/tiles/row_space.hpp"
#include "kernels/tiles/tile_cuts.hpp"
#include "tests/emulator/hopper.hpp"
#include "tests/kernels/tile_cases.hpp"

namespace cplab::emulator {

// The backward kernels; the last with tiles of 64 keys where there are such.
enum Backward : int { apart, ordered, fused, fused_64_keys };

// Of fp16 the head size 64 alone is emulated by day: the element type changes conversions, nothing else.
// `make nightly` has them all.
inline constexpr bool every_kernel = CPLAB_NIGHTLY;

EmulatedKernels kernels_for(kernels::DType dtype, std::int64_t width);

class Emulation {
 public:
  // orders: in how many orders of threads, blocks and copies a call whose bits must not depend on them runs.
  // Of the backward kernels only the given one, where it takes the call; or all by turns, as the forward's,
  // of which the seed says who begins.
  explicit Emulation(std::uint64_t seed, int orders = 2, std::optional<Backward> only = {})
      : seed_(seed), orders_(orders), only_(only), forward_calls_(seed) {}

  // It keeps a pointer to this object.
  testing::TileRunner runner();

 private:
  Launch launch();
  kernels::cuda::Cuts some_cuts(const std::vector<kernels::cuda::DeviceSegment>& live,
                                const kernels::cuda::RowSpace& space, std::int64_t height);
  bool same_in_all_orders(testing::TileRunner::Tensors tensors, const std::function<void()>& run) const;
  testing::TileRun attend(testing::TileRunner::Tensors tensors, const kernels::Attend& call);
  testing::TileRun attend_backward(testing::TileRunner::Tensors tensors, const kernels::AttendBackward& call);
  // By chains, if the call has them; else by turns as kernels do that store dq once, and as those that sum
  // it. Of a given kernel: as those that sum it.
  testing::TileRun attend_backward_rounded(testing::TileRunner::Tensors tensors,
                                           const kernels::AttendBackward& call);
  testing::TileRun attend_backward_by_chains(testing::TileRunner::Tensors tensors,
                                             const kernels::AttendBackward& call,
                                             const kernels::cuda::ChainTiles& made);

  std::uint64_t seed_;
  int orders_;
  std::optional<Backward> only_;
  std::uint64_t forward_calls_;
  std::int64_t backward_calls_ = 0, rounded_calls_ = 0, rounded_dkv_calls_ = 0;
  std::uint64_t cuts_ = 0;
};

}  // namespace cplab::emulator
