// The table of correct CPU tiles.
#include "kernels/cpu/cpu_tiles.hpp"

#include "kernels/cpu/merge_rule.hpp"
#include "kernels/kernels.hpp"

namespace cplab::kernels {

const Tiles& cpu_tiles() {
  static const Tiles tiles = {
      .attend = [](const Attend& operation) { attend_with(careful_merge(), operation); },
      .attend_backward = attend_backward_cpu,
      .merge = [](const Merge& operation) { merge_with(careful_merge(), operation); },
      .merge_lse = [](const MergeLse& operation) { merge_lse_with(careful_merge(), operation); },
      .rescale = rescale_cpu,
      .rowwise = rowwise_cpu,
      .sink_gradient = sink_gradient_cpu,
      .project = project_cpu,
      .project_backward = project_backward_cpu,
      .weight_gradient = weight_gradient_cpu,
  };
  return tiles;
}

}  // namespace cplab::kernels
