// What Hopper's own kernels of attention that changes logits need of a call, and the tables that they get.
// Plain host code.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/families/fits.hpp"
#include "kernels/masked.hpp"
#include "kernels/tiles/row_space.hpp"
#include "kernels/tiles/score_params.hpp"
#include "kernels/tiles/work_list.hpp"

namespace cplab::kernels::cuda {

// "attend masked hopper bf16 128"
std::string hopper_masked_forward_name(DType dtype, int head_size);
std::string hopper_masked_backward_name(DType dtype, int head_size);

// They take softcaps and alibi with slopes that are not negative, no stored bias, keep mask or table.
Unmet unmet_changes(const PairMask& mask, const Attend& tile);
Unmet unmet_changes(const PairMask& mask, const AttendBackward& tile);

// The segments of a call, cut so that within each the positions of keys and of queries grow by one step from
// row to row, the same in all; nothing: there is no such step, or there are too many segments. As they are
// without alibi.
struct PlacedSegments {
  std::vector<Segment> segments;
  std::int32_t step = 1;
};
std::optional<PlacedSegments> placed_segments(const PairMask& mask, std::span<const Segment> segments,
                                              std::int64_t k_rows);

// What ScoreParams point to, and the numbers in them.
struct ScoreTables {
  ScoreParams numbers;
  std::vector<float> slopes;         // empty: no alibi
  std::vector<std::int32_t> shifts;  // of the segments of `work`
};
// `work`: in rows of `spaces`.
ScoreTables score_tables(const PairMask& mask, double scale, std::int32_t step, const RowSpaces& spaces,
                         std::int64_t k_rows, const WorkTables& work);

}  // namespace cplab::kernels::cuda
