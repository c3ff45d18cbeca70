// Rows as the kernels for Hopper count them. A tensor map has rows at one distance, but the rows of a call
// may be a list of runs: one for each sequence, say. So these kernels count the rows of memory of q, and of
// k, from the call's first to its last, those in between included, which belong to nobody: to them they are
// rows in no segment and in no tile. Plain host code.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kernels/kernels.hpp"
#include "kernels/tiles/params.hpp"
#include "kernels/tiles/work_list.hpp"

namespace cplab::kernels::cuda {

// Rows `compact` .. of a call, `count` of them, are rows `row` .. of the space.
struct RowPiece {
  std::int64_t compact = 0, row = 0, count = 0;
  bool operator==(const RowPiece&) const = default;
};

// The rows of memory of a view, `step` apart, from its first on. No row of the call is there twice.
struct RowSpace {
  std::int64_t rows = 0;         // from the call's first row to its last
  std::vector<RowPiece> pieces;  // of all rows of the call, in their order

  // The pieces as ranges of rows, ascending: whoever writes a whole box must keep to one of them.
  std::vector<RowRange> ranges() const;
};

// A view in the rows of a space. `map`, if it is not empty, is to become device.map.
struct SpacedView {
  DeviceView device;
  std::vector<std::int32_t> map;  // by row of the space; what lies between pieces is no row
};

// The space of `first`. Pieces end where a run of `first` does, or one of `others`, unless the latter have
// several steps. None (std::nullopt) if the rows of `first` are not at multiples of one positive distance, if
// one occurs twice, or if there are 2^30 rows or more.
std::optional<RowSpace> row_space(const View& first, std::initializer_list<const View*> others);

// The view, whose call's rows `space` is made of. It needs no map if its rows lie as those of the space do.
SpacedView in_space(const View& view, const RowSpace& space);

// The segments' pairs in rows of the spaces: as many segments for each as pieces of queries and pieces of
// keys meet in it.
std::vector<DeviceSegment> in_space(std::span<const DeviceSegment> live, const RowSpace& q,
                                    const RowSpace& k);

// The spaces of a call, or none if it has none or if TMA cannot read q, k, v (and dout) in them: v must lie
// as k does, dout as q.
struct RowSpaces {
  RowSpace q, k;
};
std::optional<RowSpaces> row_spaces(const Attend& call);
std::optional<RowSpaces> row_spaces(const AttendBackward& call);

namespace hopper {

// Whether a tensor map (kernels/families/parts/hopper/tensor_map.cuh) can describe the view: 16 or 32 bits, a
// width of whole 8 columns, rows at one distance, and everything at multiples of 16 bytes. In a row space
// (row_space.hpp) a list of runs has one, too; a view that needs a map there has none.
bool has_tensor_map(const View& view);
bool has_tensor_map(const DeviceView& view);
// Whether that map is of single groups of 128 bytes of columns, because the view ends within one.
bool has_single_groups(const DeviceView& view);

}  // namespace hopper
}  // namespace cplab::kernels::cuda
