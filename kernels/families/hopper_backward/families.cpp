// The fused backward for Hopper is three families, by how dq is summed; the preferred ones first.
#include "kernels/families/hopper_backward/family.hpp"

namespace cplab::kernels::cuda {

const AttendBackwardFamily& hopper_backward_in_any_order();
const AttendBackwardFamily& hopper_backward_ordered();
const AttendBackwardFamily& hopper_backward_in_chains();

void add_hopper_backward(Families& families) {
  for (const AttendBackwardFamily* family :
       {&hopper_backward_in_any_order(), &hopper_backward_ordered(), &hopper_backward_in_chains()})
    families.backward.push_back(family);
}

}  // namespace cplab::kernels::cuda
