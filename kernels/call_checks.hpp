// What every device requires of a call before it writes anything: shapes, row runs, segments and write modes
// that fit together. Each throws std::invalid_argument naming the operation and what is wrong.
#pragma once

#include <initializer_list>

#include "kernels/kernels.hpp"

namespace cplab::kernels {

// Throws std::invalid_argument(what) unless `holds`.
void require(bool holds, const char* what);

// True if both views have the same rows, heads and width.
bool same_shape(const View& a, const View& b);

bool any_fp64(std::initializer_list<const View*> views);

// Extents are not negative, there is memory unless the view is empty, the row runs add up to the rows.
void check_view(const View& view);

void check_call(const Attend& call);
void check_call(const AttendBackward& call);
void check_call(const Merge& call);
void check_call(const MergeLse& call);
void check_call(const Rescale& call);
void check_call(const Rowwise& call);
void check_call(const SinkGradient& call);
void check_call(const Project& call);
void check_call(const ProjectBackward& call);
void check_call(const WeightGradient& call);

}  // namespace cplab::kernels
