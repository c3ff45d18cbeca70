// The scan of keep masks and the kernels for every call of dynamic mask attention on the emulator; compiled
// with the shims before CUDA.
#define CPLAB_EMULATED_STATIC_SHARED
#include "tests/emulator/emulated_grid.hpp"
#include "tests/emulator/masked.hpp"
//
#include "kernels/families/general/backward.cuh"
#include "kernels/families/general/forward.cuh"
#include "kernels/families/masked/general_dbias.cuh"
#include "kernels/families/masked/general_pairs.cuh"
#include "kernels/families/masked/scan.cuh"
#include "kernels/families/masked/select.cuh"

namespace cplab::emulator {
namespace {

using namespace kernels::cuda;

unsigned char no_shared[1];

template <class T>
void forward(const MaskedParams& params, std::uint64_t seed) {
  run_grid({params.tile.work.count, params.tile.q.heads}, general_threads, no_shared, seed,
           [&] { attend_general<HeadMask<T>>(params); });
}

template <class T>
void backward(const MaskedBackwardParams& params, std::uint64_t seed) {
  const AttendBackwardParams& call = params.tile;
  const std::int32_t dk_passes = GeneralShape<T>::passes(call.q.width);
  run_grid({call.by_k.count, call.k.heads, dk_passes + GeneralShape<T>::passes(call.v.width)},
           general_threads, no_shared, seed,
           [&] { attend_backward_general_dkv<HeadMask<T>>(params, dk_passes); });
  run_grid({call.by_q.count, call.q.heads, dk_passes}, general_threads, no_shared, seed,
           [&] { attend_backward_general_dq<HeadMask<T>>(params); });
  if (params.dtable.data != nullptr)
    run_grid({call.by_q.count, call.q.heads}, general_threads, no_shared, seed,
             [&] { attend_masked_general_dtable<T>(params); });
  if (params.dbias.data == nullptr) return;
  if (params.mask.full)
    run_grid({call.by_q.count, params.dbias.heads}, general_threads, no_shared, seed,
             [&] { attend_masked_general_dbias_pairs<T>(params); });
  else
    run_grid({call.by_k.count, params.dbias.heads}, general_threads, no_shared, seed,
             [&] { attend_masked_general_dbias_keys<T>(params); });
}

}  // namespace

void run_mask_scan(const DevicePairMask& mask, bool eight_keys_together, std::uint64_t seed) {
  const CellBits &by_q = mask.by_q, &by_k = mask.by_k;
  const std::int64_t heads = mask.keep.heads;
  if (!mask.full)
    run_grid({by_q.row_words, heads}, scan_threads, no_shared, seed, [&] { mask_scan_keys(mask); });
  else if (eight_keys_together)
    run_grid({by_q.rows, by_q.row_words, heads}, scan_threads, no_shared, seed,
             [&] { mask_scan_eight_keys(mask); });
  else
    run_grid({by_q.rows, by_q.row_words, heads}, scan_threads, no_shared, seed,
             [&] { mask_scan_pairs(mask); });
  if (by_k.words != nullptr)
    run_grid({by_q.row_words, by_k.row_words, heads}, 32, no_shared, seed,
             [&] { mask_scan_transpose(mask); });
}

void run_select_keys(const SelectParams& params, std::uint64_t seed) {
  const Grid grid{params.full ? params.bias.rows : 1, params.bias.heads};
  if (params.bias.dtype == kernels::DType::fp64)
    run_grid(grid, select_threads, no_shared, seed, [&] { select_keys<double>(params); });
  else
    run_grid(grid, select_threads, no_shared, seed, [&] { select_keys<float>(params); });
}

void run_masked_general(const MaskedParams& params, bool fp64, std::uint64_t seed) {
  fp64 ? forward<double>(params, seed) : forward<float>(params, seed);
}
void run_masked_general(const MaskedBackwardParams& params, bool fp64, std::uint64_t seed) {
  fp64 ? backward<double>(params, seed) : backward<float>(params, seed);
}

}  // namespace cplab::emulator
