// Blocks and scratch memory of linear attention with transitions of every token; see gated_cuts.hpp.
#include "kernels/tiles/gated_cuts.hpp"

#include "kernels/call_checks.hpp"

namespace cplab::kernels::cuda {
namespace {

std::int64_t rounded_up(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

std::int32_t pieces(std::int64_t width, std::int64_t columns) {
  return static_cast<std::int32_t>((width + columns - 1) / columns);
}

GatedCut cut_of_rows(const Chunks& chunks, const View& keys, const View& values) {
  require(keys.width <= gated_most_keys,
          "a head size of keys above 128 is too large for the GPU kernels of linear attention with a "
          "transition of every token");
  require(values.width < 1 << 20, "a head size of values is too large for a GPU");
  GatedCut cut;
  cut.tokens = gated_tokens(keys.dtype == DType::fp32);
  cut.keys = static_cast<std::int32_t>(keys.width);
  cut.D = keys.width <= 64 ? 64 : 128;
  cut.E = static_cast<std::int32_t>(rounded_up(values.width, gated_values));
  const std::int64_t blocks = gated_first_blocks(chunks.list, cut.tokens).back();
  require(blocks * keys.heads < std::int64_t{1} << 31,
          "a call of linear attention has too many thread blocks");
  cut.blocks = static_cast<std::int32_t>(blocks);
  cut.value_slices = cut.E / gated_slice;  // of what is rounded up too: kernels over blocks read it
  return cut;
}

// Places arrays one behind the other, of so many elements for every block and head.
class Scratch {
 public:
  Scratch(GatedCut& cut, const View& rows)
      : cut_(cut), element_(rows.dtype == DType::fp32 ? 4 : 2), count_(cut.blocks * rows.heads) {
    take(cut_.scratch.decays, cut.D, 4);
  }
  void rows_of_keys(std::int64_t& array) { take(array, std::int64_t{cut_.tokens} * cut_.D, element_); }
  void rows_of_values(std::int64_t& array) { take(array, std::int64_t{cut_.tokens} * cut_.E, element_); }
  void pairs(std::int64_t& array) { take(array, std::int64_t{cut_.tokens} * cut_.tokens, element_); }
  void states(std::int64_t& array) { take(array, std::int64_t{cut_.D} * cut_.E, element_); }

 private:
  void take(std::int64_t& array, std::int64_t elements, std::int64_t bytes) {
    array = cut_.scratch.bytes;
    cut_.scratch.bytes += rounded_up(elements * bytes * count_, 256);
  }

  GatedCut& cut_;
  std::int64_t element_, count_;
};

}  // namespace

std::vector<std::int32_t> gated_first_blocks(std::span<const Chunk> chunks, std::int32_t tokens) {
  std::vector<std::int32_t> first = {0};
  for (const Chunk& chunk : chunks) {
    const std::int64_t next = first.back() + pieces(chunk.count, tokens);
    require(next < std::int64_t{1} << 31, "a call of linear attention has too many tokens for a GPU");
    first.push_back(static_cast<std::int32_t>(next));
  }
  return first;
}

GatedCut gated_cut_of(const LinearLocal& call) {
  GatedCut cut = cut_of_rows(call.chunks, call.q, call.v);
  Scratch scratch(cut, call.q);
  GatedScratch& s = cut.scratch;
  scratch.rows_of_keys(s.keys);
  scratch.rows_of_keys(s.queries);
  scratch.rows_of_values(s.values);
  scratch.pairs(s.scores);
  scratch.states(s.states);
  if (call.beta) scratch.rows_of_keys(s.erase);
  return cut;
}

GatedCut gated_cut_of(const LinearLocalBackward& call) {
  GatedCut cut = cut_of_rows(call.chunks, call.q, call.v);
  Scratch scratch(cut, call.q);
  GatedScratch& s = cut.scratch;
  scratch.rows_of_keys(s.keys);
  scratch.rows_of_keys(s.queries);
  for (std::int64_t* array : {&s.values, &s.dvalues}) scratch.rows_of_values(*array);
  for (std::int64_t* array : {&s.states, &s.dstates}) scratch.states(*array);
  if (!call.beta) return cut;
  scratch.rows_of_keys(s.erase);
  for (std::int64_t* array : {&s.inverse, &s.pairs}) scratch.pairs(*array);
  return cut;
}

GatedCut gated_cut_of(const LinearState& call) {
  GatedCut cut = cut_of_rows(call.chunks, call.rows, call.columns);
  Scratch scratch(cut, call.rows);
  GatedScratch& s = cut.scratch;
  if (call.beta) scratch.rows_of_keys(s.erase);
  if (call.reverse) {
    scratch.rows_of_keys(s.queries);
    if (call.beta) scratch.rows_of_keys(s.keys), scratch.rows_of_values(s.dvalues);
    return cut;
  }
  scratch.rows_of_keys(s.keys);
  scratch.rows_of_values(s.values);
  if (call.transition && call.beta) cut.transition_slices = pieces(call.rows.width, gated_slice);
  return cut;
}

}  // namespace cplab::kernels::cuda
