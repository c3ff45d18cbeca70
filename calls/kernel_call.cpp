// The views of a call; see kernel_call.hpp.
#include "calls/kernel_call.hpp"

namespace cplab {

std::vector<kernels::View*> views_of(KernelCall& call) {
  using Views = std::vector<kernels::View*>;
  struct Visitor {
    Views operator()(kernels::Attend& c) const {
      Views views{&c.q, &c.k, &c.v, &c.out, &c.lse};
      if (c.max_logit) views.push_back(&*c.max_logit);
      return views;
    }
    Views operator()(kernels::AttendBackward& c) const {
      return {&c.q, &c.k, &c.v, &c.dout, &c.lse, &c.delta, &c.dq, &c.dk, &c.dv};
    }
    Views operator()(kernels::Merge& c) const { return {&c.part_out, &c.part_lse, &c.into_out, &c.into_lse}; }
    Views operator()(kernels::MergeLse& c) const { return {&c.part_lse, &c.into_lse}; }
    Views operator()(kernels::Rescale& c) const {
      return {&c.part_out, &c.part_lse, &c.final_lse, &c.into_out};
    }
    Views operator()(kernels::Rowwise& c) const {
      if (c.sources() == 0) return {&c.into};
      if (c.sources() == 1) return {&c.a, &c.into};
      return {&c.a, &c.b, &c.into};
    }
  };
  return std::visit(Visitor{}, call);
}

}  // namespace cplab
