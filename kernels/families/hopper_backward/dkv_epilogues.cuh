// What a consumer does with dk and dv at the end of a tile of keys: three ways, of which a shape has
// the one for which there is room (DkvEpilogue). The product for the tile's last dq is still running
// when the end begins. beside_last_dq() does what can be done meanwhile; when that dq has been handed
// over, wait_for_room() waits for the shared memory that the rest needs, and write() does the rest.
#pragma once

#include <type_traits>

#include "kernels/families/hopper_backward/dkv_rows.cuh"
#include "kernels/families/hopper_backward/dq_accumulate.cuh"
#include "kernels/families/hopper_backward/score_gradients.cuh"
#include "kernels/families/hopper_backward/shared_storage.cuh"
#include "kernels/families/parts/hopper/instructions.cuh"
#include "kernels/families/parts/hopper/stage_rows.cuh"
#include "kernels/families/parts/hopper/wgmma.cuh"

namespace cplab::kernels::cuda::hopper {

// A consumer at the end of a tile of keys, whose last block of queries is `count`.
template <class T, class Shape>
struct EndOfTile {
  using Sums = Accumulators<1, Shape::head_size / 8>;

  const typename Shape::Params& params;
  FusedStorage<Shape>& memory;
  int warpgroup, count;
  Sums &dk, &dv;

  __device__ __forceinline__ int tile_number() const {
    return memory.bounds[PipelineIndex<Shape::info_stages>::stage(count)].segment;
  }
};

// dk and dv of this warp's rows, and the places where they are staged.
template <class T, class Shape>
struct StagedDkv {
  using Gradient = typename DkvRows<T, Shape>::Gradient;

  __device__ __forceinline__ StagedDkv(const EndOfTile<T, Shape>& at, unsigned char* dv_staging,
                                       unsigned char* dk_staging)
      : dv{at.dv, at.params.dv, at.params.call.dv, 1, dv_staging, at.params.single_dv_groups},
        dk{at.dk,
           at.params.dk,
           at.params.call.dk,
           gradient_factor<T>(at.params.call),
           dk_staging,
           at.params.single_dk_groups} {}

  Gradient dv, dk;
};

// --- staged together ------------------------------------------------------------------------------------

// At head size 64 there is room to stage both at the end. fp32 ones go where dS and dq were, and each
// warp has its place among all warps there. Rounded ones go, one after the other, to the warp's own
// rows in the tile of dS that the block after `count` would have. That has to wait for the product for
// dq of the block before `count` (ds_empty): in a tile of one block that is a product whose result is
// dropped (issue_dq()), but it still reads these rows.
template <class T, class Shape>
class TogetherEpilogue {
 public:
  __device__ __forceinline__ explicit TogetherEpilogue(const EndOfTile<T, Shape>& at)
      : at_(at),
        rows_(at.params, at.memory, at.memory.tile[at.tile_number()]),
        rounded_(at.params.dkv_write == DkvWrite::rounded_tiles),
        gradients_(rounded_ ? rounded(at) : fp32(at)) {}

  __device__ __forceinline__ void beside_last_dq() const {}
  __device__ __forceinline__ void wait_for_room() const {
    using DsTiles = PipelineIndex<Shape::ds_tiles>;
    const int next = at_.count + 1;
    if (rounded_) {
      wait(shared_address(&at_.memory.ds_empty[DsTiles::stage(next)]), DsTiles::parity(next) ^ 1);
    } else {
      static_assert(Shape::staged_dkv_bytes <= Shape::ds_bytes, "nothing is staged where dq is");
      named_barrier_sync(1, Shape::consumers * warpgroup_threads);
    }
  }
  __device__ __forceinline__ void write() const {
    Shape::DqSum::write_both(at_, rows_, gradients_.dv, gradients_.dk);
  }

 private:
  using Gradients = StagedDkv<T, Shape>;
  static __device__ __forceinline__ Gradients fp32(const EndOfTile<T, Shape>& at) {
    auto* const ds = reinterpret_cast<unsigned char*>(&at.memory.ds) +
                     (opaque(thread_index()) / 32 - 4) * 16 * Shape::head_size * 4;
    return {at, ds + Shape::dkv_bytes, ds};
  }
  static __device__ __forceinline__ Gradients rounded(const EndOfTile<T, Shape>& at) {
    unsigned char* const own = at.memory.ds[PipelineIndex<Shape::ds_tiles>::stage(at.count + 1)][0] +
                               (opaque(thread_index()) / 32 - 4) * 16 * 128;
    return {at, own, own};
  }

  const EndOfTile<T, Shape>& at_;
  DkvRows<T, Shape> rows_;
  bool rounded_;
  Gradients gradients_;
};

// --- staged one after the other -------------------------------------------------------------------------

// At head size 128 dv is staged and written while the last product for dq runs, and dk afterwards. In
// fp32, dv goes where Q and dO were, and dk where dS and dq were; each warp has its place among all
// warps there. Rounded ones take half as much: dv goes where V of the own keys was, and dk where the
// own dq is staged. No other warpgroup reads these, so neither waits for the other, which may be half
// a block behind.
template <class T, class Shape>
class ApartEpilogue {
 public:
  __device__ __forceinline__ explicit ApartEpilogue(const EndOfTile<T, Shape>& at)
      : at_(at),
        rows_(at.params, at.memory, at.memory.tile[at.tile_number()]),
        rounded_(at.params.dkv_write == DkvWrite::rounded_tiles),
        gradients_(rounded_ ? rounded(at) : fp32(at)) {}

  __device__ __forceinline__ void beside_last_dq() {
    if (!rounded_) named_barrier_sync(1, Shape::consumers * warpgroup_threads);
    warpgroup_fence_operand(at_.dv[0]);
    dv_written_ = Shape::DqSum::write_first(rows_, gradients_.dv);
    if (thread_index() % 32 == 0 && dv_written_) {
      tma_store_wait();
      arrive(shared_address(&at_.memory.q_free));
    }
  }
  __device__ __forceinline__ void wait_for_room() const {
    const DqStaging<Shape> staging(at_.memory, at_.warpgroup);
    if (!rounded_) {
      staging.wait_until_free(at_.count + 1);
      named_barrier_sync(1, Shape::consumers * warpgroup_threads);
    } else {
      staging.wait_until_free(at_.count + 1);
      // This barrier is for racecheck: dk goes where other warps have staged dq, and it sees no order between
      // lanes.
      named_barrier_sync(2 + at_.warpgroup, warpgroup_threads);
    }
  }
  __device__ __forceinline__ void write() const {
    Shape::DqSum::write_second(at_, rows_, gradients_.dv, gradients_.dk);
    if (!dv_written_ && thread_index() % 32 == 0) arrive(shared_address(&at_.memory.q_free));
  }

 private:
  using Gradients = StagedDkv<T, Shape>;
  static __device__ __forceinline__ Gradients fp32(const EndOfTile<T, Shape>& at) {
    const int own = (opaque(thread_index()) / 32 - 4) * 16 * Shape::head_size * 4;
    return {at, at.memory.q[0] + own, reinterpret_cast<unsigned char*>(&at.memory.ds) + own};
  }
  static __device__ __forceinline__ Gradients rounded(const EndOfTile<T, Shape>& at) {
    constexpr int bytes = 16 * Shape::head_size * 2;
    static_assert(4 * bytes <= Shape::key_bytes && 4 * bytes <= Shape::dq_bytes);
    const int own = opaque(thread_index()) / 32 % 4 * bytes;
    return {at, at.memory.v[at.warpgroup] + own, at.memory.dq_staging[at.warpgroup] + own};
  }

  const EndOfTile<T, Shape>& at_;
  DkvRows<T, Shape> rows_;
  bool rounded_, dv_written_ = false;
  Gradients gradients_;
};

// --- added to what is loaded ----------------------------------------------------------------------------

// DkvWrite::added_tiles: TMA loads what rounded sums are added to while the last product for dq runs,
// and stores the sums as tiles. Both are staged where there is room while K, dS and dq are in use: dk
// where Q and dO of an earlier block than the last were, and dv there too if it fits, else where Q and
// dO of the last block were. A warp that must not touch some of its 16 rows adds row by row.
template <class T, class Shape>
class AddingEpilogue {
 public:
  __device__ __forceinline__ explicit AddingEpilogue(const EndOfTile<T, Shape>& at)
      : at_(at),
        rows_(at.params, at.memory, at.memory.tile[at.tile_number()]),
        not_staged_(at, nullptr, nullptr) {}

  __device__ __forceinline__ void beside_last_dq() const {
    const bool whole = rows_.is_whole();
    if (thread_index() % 32 != 0) return;
    // If dv is staged where Q and dO of the last block are, both consumers must have multiplied these.
    if (!Shape::stages_together)
      wait(shared_address(&at_.memory.empty[Stages::stage(at_.count)]), Stages::parity(at_.count));
    const Staging staging = staging_of(at_.count);
    const std::uint32_t full = old_full();
    if (!whole || rows_.first_key() >= at_.params.call.k.rows) return arrive(full);
    arrive_and_expect_tx(full, 2 * bytes);
    const auto load = [&](unsigned char* into, const CUtensorMap& map, bool single_groups) {
      by_column_groups<Shape::head_size / 64>(single_groups, [&](int n) {
        tma_load(shared_address(into + n * 2048), map, rows_.first_key(), rows_.tile().kv_head, full, 0,
                 64 * n);
      });
    };
    load(staging.dv, at_.params.dv, at_.params.single_dv_groups);
    load(staging.dk, at_.params.dk, at_.params.single_dk_groups);
  }
  __device__ __forceinline__ void wait_for_room() const {}
  __device__ __forceinline__ void write() const {
    if (rows_.is_whole()) {
      const int count = opaque(at_.count);
      const Staging staging = staging_of(count);
      wait(old_full(), at_.memory.bounds[PipelineIndex<Shape::info_stages>::stage(count)].segment & 1);
      add_to_old(not_staged_.dv, staging.dv);
      add_to_old(not_staged_.dk, staging.dk);
    } else {
      rows_.write(not_staged_.dv, not_staged_.dk);
    }
    if (thread_index() % 32 == 0) tma_store_wait();
    __syncwarp();
    arrive(shared_address(&at_.memory.q_free));  // all lanes, each for what it has staged there
  }

 private:
  using Stages = PipelineIndex<Shape::stages>;
  static constexpr int bytes = 16 * Shape::head_size * 2;
  static constexpr bool fit_one_stage = 4 * Shape::consumers * bytes <= Shape::query_bytes;
  static_assert(fit_one_stage || (2 * bytes * Shape::consumers == Shape::query_bytes &&
                                  Shape::consumers == 2 && Shape::stages == 2));

  // Where the rows of this warp's 16 keys are staged.
  struct Staging {
    unsigned char *dv, *dk;
  };
  __device__ __forceinline__ Staging staging_of(int count) const {
    FusedStorage<Shape>& memory = at_.memory;
    const int own = (opaque(thread_index()) / 32 - 4) * bytes;
    const int before =
        Stages::stage(count + 1);  // the next tile's first block comes here, and waits for q_free
    if (fit_one_stage) return {memory.dout[before] + own, memory.q[before] + own};
    const auto in = [&](int stage) {
      return at_.warpgroup == 0 ? memory.q[stage] + own : memory.dout[stage] + (own - Shape::query_bytes);
    };
    return {in(Stages::stage(count)), in(before)};
  }
  __device__ __forceinline__ std::uint32_t old_full() const {
    return shared_address(&at_.memory.dkv.old_full[opaque(thread_index()) / 32 - 4]);
  }
  // Adds to what has been loaded, and stores the sums. TMA may still be reading `staging` afterwards.
  __device__ __forceinline__ void add_to_old(const typename StagedDkv<T, Shape>::Gradient& gradient,
                                             unsigned char* staging) const {
    stage_rounded_of_16_rows<T, true>(staging, gradient.acc[0], gradient.factor);
    fence_view_async_shared();
    __syncwarp();
    if (rows_.lane() == 0 && rows_.first_key() < at_.params.call.k.rows)
      by_column_groups<Shape::head_size / 64>(gradient.single_groups, [&](int n) {
        tma_store_once(gradient.map, rows_.first_key(), rows_.tile().kv_head,
                       shared_address(staging + n * 2048), 64 * n);
      });
  }

  const EndOfTile<T, Shape>& at_;
  DkvRows<T, Shape> rows_;
  StagedDkv<T, Shape> not_staged_;
};

// The way that a shape has.
template <class T, class Shape>
using DkvEpilogue = std::conditional_t<
    Shape::adds_tiles, AddingEpilogue<T, Shape>,
    std::conditional_t<Shape::stages_together, TogetherEpilogue<T, Shape>, ApartEpilogue<T, Shape>>>;

}  // namespace cplab::kernels::cuda::hopper
