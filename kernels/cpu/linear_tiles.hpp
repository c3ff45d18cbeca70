// The CPU tiles of linear attention, as free functions; linear_tiles.cpp makes the table of them. The
// contract of each is in kernels/linear.hpp.
#pragma once

#include "kernels/linear.hpp"

namespace cplab::kernels {

void linear_local_cpu(const LinearLocal& call);
void linear_local_backward_cpu(const LinearLocalBackward& call);
void linear_state_cpu(const LinearState& call);
void linear_scan_cpu(const LinearScan& call);
void linear_combine_cpu(const LinearCombine& call);
void linear_inter_cpu(const LinearInter& call);
void convolve_cpu(const Convolve& call);
void filter_gradient_cpu(const FilterGradient& call);

// inter with numbers of tokens, counted from the chunk's first, that went through some type.
using TokenNumber = std::int64_t (*)(std::int64_t);
void linear_inter_with(TokenNumber number, const LinearInter& call);

// The same of calls with log_decay, which have passed check_call: token by token.
void local_by_tokens(const LinearLocal& call);
void local_backward_by_tokens(const LinearLocalBackward& call);
void state_by_tokens(const LinearState& call);

}  // namespace cplab::kernels
