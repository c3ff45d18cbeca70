// Summing dq by chains: a thread block takes all tiles of keys that add to the same rows of dq, a sequence of
// a head, one after the other (kernels/families/hopper_backward/chains.hpp). So nobody sets dq to 0 before,
// because the first piece of a block of queries, a cell, is stored and not added; and nobody rounds it
// afterwards, because the thread block knows which piece is a cell's last. One thread stores and adds, and
// waits until memory has been written. A warp that has nothing else to do loads complete cells, which are
// still in the L2 cache, rounds them and stores what comes out (dq_rounding.cuh).
//
// All cells are whole: no row beyond a cell is written, and rows of a cell that have no gradient get 0.
//
// This is for head size 64 alone, where a part of dq is 64 rows with all of their columns.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/families/hopper_backward/chains.hpp"
#include "kernels/families/hopper_backward/dq_rounding.cuh"
#include "kernels/families/hopper_backward/dq_sum_unordered.cuh"
#include "kernels/families/hopper_backward/shape.hpp"
#include "kernels/families/hopper_backward/shared_storage.cuh"
#include "kernels/families/hopper_backward/tile_source.cuh"
#include "kernels/families/parts/hopper/instructions.cuh"
#include "kernels/families/parts/hopper/tensor_map.cuh"

namespace cplab::kernels::cuda::hopper {

// The rows of dq to which a KeyTile adds: those of its chain.
struct DqOwner {
  int row_begin, cells;
  const std::int32_t* pieces;  // how many pieces each cell gets
};

// The tiles of a thread block. The scheduler numbers chains, each once for every unit of heads; the tiles of
// a chain come one after the other.
template <class Shape>
class ChainTiles : public TileSource<Shape> {
 public:
  __device__ __forceinline__ ChainTiles(const typename Shape::Params& params, FusedStorage<Shape>& memory)
      : TileSource<Shape>(params, memory, static_cast<int>(blockIdx.x)) {}

  __device__ __forceinline__ void start() {
    begin_chain();
    enter(0);
  }
  template <class Producer>
  __device__ __forceinline__ void run(Producer& producer) {
    producer.walk_tiles();
  }
  __device__ __forceinline__ bool next() {
    if (++place_ < chain_.stop_tile) return true;
    if (!this->draw()) return false;
    begin_chain();
    return true;
  }
  __device__ __forceinline__ void enter(int number) {
    int chain, unit;
    this->params_.scheduler.find(this->drawn_, chain, unit);
    this->memory_.dq_sum.owner_of_tile[number] = {chain_.row_begin, chain_.cells,
                                                  this->params_.call.chains.pieces + chain_.first_cell};
    this->enter_rows(number, place_);
    this->enter_heads(number, unit * this->params_.heads_of_tile);
  }

 private:
  __device__ __forceinline__ void begin_chain() {
    int chain, unit;
    this->params_.scheduler.find(this->drawn_, chain, unit);
    chain_ = this->params_.call.chains.chains[chain];
    place_ = chain_.first_tile;
  }

  TileChain chain_ = {};
  int place_ = 0;  // the tile's place in the list
};

struct ChainedDqSum {
  // --- host side ----------------------------------------------------------------------------------------
  struct Params {
    CUtensorMap strips;  // loads sums of dq to be rounded: fp32, boxes of rounding_rows rows x 64 columns
  };
  static constexpr bool always_draws = false;  // the first chains are not drawn from the counter

  static std::string kernel_name(DType dtype, int head_size, int) {
    return hopper_backward_chains_name(dtype, head_size);
  }
  static int scheduled_tiles(const AttendBackwardParams& call) { return call.chains.count; }
  // The longest chain comes first, for all heads.
  static int heads_together(const AttendBackwardParams&, int units) { return units; }
  static Params params(const AttendBackwardParams& call, int, int&) {
    return {accumulator_map(call.dq, rounding_rows)};
  }
  static bool adds_every_row(const AttendBackwardParams&) { return false; }
  static bool stores_first(const AttendBackwardParams&) { return true; }

  // --- shared memory and barriers -----------------------------------------------------------------------
  static constexpr int more_dq_tiles = 1;  // one tile beside those that are staged holds strips to be rounded
  template <class Shape>
  struct Storage {
    static_assert(RoundingStorage::buffers * rounding_bytes == Shape::dq_bytes);
    static_assert(Shape::head_size == 64 && Shape::shares_queries,
                  "a part of dq has all columns of its rows");
    RoundingStorage rounding;
    DqOwner owner_of_tile[Shape::tiles];
    unsigned char added[most_chain_cells];  // how many pieces each cell of the chain's heads has got so far

    __device__ __forceinline__ void init_barriers() { rounding.init_barriers(); }
  };

  // --- producer warpgroup -------------------------------------------------------------------------------
  template <class Shape>
  using Tiles = ChainTiles<Shape>;

  static __device__ __forceinline__ void prefetch(const Params& params) {
    prefetch_tensor_map(params.strips);
  }

  // Returns whether this warp of the producer warpgroup has a role for all of its lanes, which has then
  // ended.
  template <class T, class Shape>
  static __device__ __forceinline__ bool run_warp(const FusedParams<ChainedDqSum>& params,
                                                  FusedStorage<Shape>& memory, int warp) {
    if (warp != 3) return false;
    DqRounding<T, Shape>(params.dq_sum.strips, params.call.rounded_dq, memory.dq_sum.rounding,
                         memory.dq_staging[Shape::dq_parts], params.single_dq_groups)
        .run();
    return true;
  }
  // The role of the first thread of warp 2: it stores or adds the dq that both consumers have staged for a
  // block.
  template <class Shape>
  static __device__ __forceinline__ void run_thread(const FusedParams<ChainedDqSum>& params,
                                                    FusedStorage<Shape>& memory, int) {
    using InfoStages = PipelineIndex<Shape::info_stages>;
    auto& chains = memory.dq_sum;
    int cells = 0;
    for (int n = 0; n < most_chain_cells; ++n) chains.added[n] = 0;
    for (int count = 0;; ++count) {
      const int info = InfoStages::stage(count);
      wait(shared_address(&memory.info_full[info]), InfoStages::parity(count));
      if ((memory.flags[info] & block_live) == 0) return chains.rounding.publish(cells, {0, -1});
      const int tile = memory.tile_of[info];
      const Block& block = memory.found[info];
      const int begin = block.begin, head = block.head;
      const DqOwner& owner = chains.owner_of_tile[tile];
      const int cell = (begin - owner.row_begin) / Shape::queries;
      unsigned char& added = chains.added[(head - memory.tile[tile].first_head) * owner.cells + cell];
      const bool first = added == 0, last = added + 1 == owner.pieces[cell];
      added = last ? 0 : added + 1;
      const StagedDq<Shape> dq{params, memory, begin, head};
#pragma unroll
      for (int part = 0; part < Shape::dq_parts; ++part) {
        wait(shared_address(&memory.dq_full[part]), count & 1);
        fence_view_async_shared();  // TMA sees what other threads wrote before they arrived at the barrier
        if (first)
          dq.store(part);
        else
          dq.add(part);
      }
      tma_store_wait_until_written();
      for (int part = 0; part < Shape::dq_parts; ++part) arrive(shared_address(&memory.dq_empty[part]));
      if (last) chains.rounding.publish(cells++, {begin, head});
    }
  }

  // --- consumer warpgroups ------------------------------------------------------------------------------
  // All rows of a block are staged, because cells are whole. Returns whether they were.
  template <class Shape>
  static __device__ __forceinline__ bool hand_over(const DqTile<Shape>& dq) {
    dq.wait_for_room();
    dq.stage();
    return true;
  }

  // dk and dv are added to in any order.
  template <class At, class Epilogue, class Gradient>
  static __device__ __forceinline__ void write_both(const At& at, const Epilogue& epilogue,
                                                    const Gradient& dv, const Gradient& dk) {
    UnorderedDqSum::write_both(at, epilogue, dv, dk);
  }
};

}  // namespace cplab::kernels::cuda::hopper
