// The CPU tiles that contain no merge, as free functions; cpu_tiles.cpp makes the table of them. The
// contract of each is in kernels/kernels.hpp. All throw std::invalid_argument on shapes that disagree.
#pragma once

#include "kernels/kernels.hpp"

namespace cplab::kernels {

void attend_backward_cpu(const AttendBackward& operation);
void rescale_cpu(const Rescale& operation);
void rowwise_cpu(const Rowwise& operation);
void sink_gradient_cpu(const SinkGradient& operation);
void project_cpu(const Project& operation);
void project_backward_cpu(const ProjectBackward& operation);
void weight_gradient_cpu(const WeightGradient& operation);

}  // namespace cplab::kernels
