// The views of a call; see kernel_call.hpp.
#include "calls/kernel_call.hpp"

#include <initializer_list>
#include <optional>

namespace cplab {

std::vector<kernels::View*> views_of(KernelCall& call) {
  using Views = std::vector<kernels::View*>;
  struct Visitor {
    Views operator()(kernels::Attend& c) const {
      return present({&c.q, &c.k, &c.v, &c.out, &c.lse}, {&c.max_logit, &c.sink});
    }
    Views operator()(kernels::AttendBackward& c) const {
      return present({&c.q, &c.k, &c.v, &c.dout, &c.lse, &c.delta, &c.dq, &c.dk, &c.dv},
                     {&c.rounded_dq, &c.rounded_dk, &c.rounded_dv, &c.out});
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
    Views operator()(kernels::LinearLocal& c) const {
      return present({&c.q, &c.k, &c.v}, {&c.log_decay, &c.beta, &c.state, &c.carry}, {&c.out},
                     {&c.final_state});
    }
    Views operator()(kernels::LinearLocalBackward& c) const {
      return present({&c.q, &c.k, &c.v, &c.dout},
                     {&c.log_decay, &c.beta, &c.state, &c.carry, &c.dstate, &c.dcarry}, {&c.dq, &c.dk, &c.dv},
                     {&c.dlog_decay, &c.dbeta, &c.final_state});
    }
    Views operator()(kernels::LinearState& c) const {
      return present({&c.rows, &c.columns}, {&c.k, &c.log_decay, &c.beta}, {&c.state}, {&c.transition});
    }
    Views operator()(kernels::LinearScan& c) const { return present({&c.state}, {&c.final_state}); }
    Views operator()(kernels::LinearCombine& c) const { return present({&c.from, &c.into}, {&c.transition}); }
    Views operator()(kernels::LinearInter& c) const {
      return present({}, {&c.q, &c.k, &c.v, &c.dout, &c.state, &c.carry, &c.dstate, &c.dcarry, &c.out, &c.dq,
                          &c.dk, &c.dv});
    }
    Views operator()(kernels::Convolve& c) const {
      return present({&c.from, &c.filter}, {&c.halo}, {&c.into});
    }
    Views operator()(kernels::FilterGradient& c) const {
      return present({&c.from, &c.dout}, {&c.halo}, {&c.dfilter});
    }
    Views operator()(kernels::MaskedAttend& c) const {
      kernels::Attend& t = c.tile;
      return present({&t.q, &t.k, &t.v, &t.out, &t.lse},
                     {&t.sink, &c.mask.bias, &c.mask.keep, &c.mask.table});
    }
    Views operator()(kernels::MaskedAttendBackward& c) const {
      kernels::AttendBackward& t = c.tile;
      return present({&t.q, &t.k, &t.v, &t.dout, &t.lse, &t.delta, &t.dq, &t.dk, &t.dv},
                     {&c.mask.bias, &c.mask.keep, &c.mask.table, &c.dbias, &c.dtable});
    }
    Views operator()(kernels::SinkGradient& c) const { return {&c.sink, &c.lse, &c.delta, &c.dsink}; }
    Views operator()(kernels::Project& c) const {
      return {&c.latent, &c.rope_key, &c.key_weights, &c.value_weights, &c.k, &c.v};
    }
    Views operator()(kernels::ProjectBackward& c) const {
      return {&c.dk, &c.dv, &c.key_weights, &c.value_weights, &c.dlatent, &c.drope_key};
    }
    Views operator()(kernels::WeightGradient& c) const {
      return {&c.latent, &c.dk, &c.dv, &c.dkey_weights, &c.dvalue_weights};
    }

    using Required = std::initializer_list<kernels::View*>;
    using Optional = std::initializer_list<std::optional<kernels::View>*>;
    static Views present(Required first, Optional then, Required behind = {}, Optional last = {}) {
      Views views(first);
      const auto append = [&](Optional more) {
        for (std::optional<kernels::View>* view : more)
          if (*view) views.push_back(&**view);
      };
      append(then);
      views.insert(views.end(), behind);
      append(last);
      return views;
    }
  };
  return std::visit(Visitor{}, call);
}

}  // namespace cplab
