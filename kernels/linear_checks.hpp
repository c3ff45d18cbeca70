// What every device requires of a call of linear attention before it writes anything: shapes, chunks, slopes
// and write modes that fit together. Each throws std::invalid_argument naming the operation and what is
// wrong.
#pragma once

#include <cstdint>

#include "kernels/linear.hpp"

namespace cplab::kernels {

void check_call(const LinearLocal& call);
void check_call(const LinearLocalBackward& call);
void check_call(const LinearState& call);
void check_call(const LinearScan& call);
void check_call(const LinearCombine& call);
void check_call(const LinearInter& call);
void check_call(const Convolve& call);
void check_call(const FilterGradient& call);

// How many states a scan's or a combine's views hold: a scan's chunks number them from 0, a combine names
// each of them once. 0 without chunks.
std::int64_t state_count(const LinearScan& call);
std::int64_t state_count(const LinearCombine& call);

}  // namespace cplab::kernels
