// Operations of linear attention to kernel calls; see converter.hpp.
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "calls/converter.hpp"

namespace cplab {

using enum Operand;

namespace {

// Collects the operands of a call in the order of its members. Of those that may be absent it makes room in
// the call for the ones that are there.
class Operands {
 public:
  Operands(const RankPlan& plan, const Operation& op) : plan_(plan), op_(op) {}

  Operands& all(std::initializer_list<Operand> operands) {
    list_.insert(list_.end(), operands);
    return *this;
  }
  Operands& any(std::initializer_list<std::pair<Operand, std::optional<kernels::View>*>> operands) {
    for (const auto& [operand, view] : operands) {
      if (plan_.find(op_, operand) == nullptr) continue;
      view->emplace();
      list_.push_back(operand);
    }
    return *this;
  }
  const std::vector<Operand>& list() const { return list_; }

 private:
  const RankPlan& plan_;
  const Operation& op_;
  std::vector<Operand> list_;
};

}  // namespace

kernels::Chunks CallConverter::chunks(const Operation& op) const {
  kernels::Chunks out;
  out.list = std::span<const kernels::Chunk>(chunks_).subspan(op.chunks.first, op.chunks.count);
  out.slopes = slopes(op);
  switch (op.chunk_work) {
    case ChunkWork::blocked: out.work = kernels::ChunkWork::blocked; break;
    case ChunkWork::serial: out.work = kernels::ChunkWork::serial; break;
    case ChunkWork::sliced: out.work = kernels::ChunkWork::sliced; break;
  }
  return out;
}

PlacedCall CallConverter::local(const Operation& op) const {
  kernels::LinearLocal call;
  call.chunks = chunks(op);
  call.write = write_of(op, out);
  Operands operands(plan_, op);
  operands.all({q, k, v})
      .any({{log_decay, &call.log_decay},
            {beta, &call.beta},
            {Operand::state, &call.state},
            {carry, &call.carry}})
      .all({out})
      .any({{final_state, &call.final_state}});
  return place(op, call, operands.list());
}

PlacedCall CallConverter::local_backward(const Operation& op) const {
  kernels::LinearLocalBackward call;
  call.chunks = chunks(op);
  call.write = write_of(op, dq);
  Operands operands(plan_, op);
  operands.all({q, k, v, dout})
      .any({{log_decay, &call.log_decay},
            {beta, &call.beta},
            {Operand::state, &call.state},
            {carry, &call.carry},
            {dstate, &call.dstate},
            {dcarry, &call.dcarry}})
      .all({dq, dk, dv})
      .any({{dlog_decay, &call.dlog_decay}, {dbeta, &call.dbeta}, {final_state, &call.final_state}});
  return place(op, call, operands.list());
}

PlacedCall CallConverter::state(const Operation& op) const {
  kernels::LinearState call;
  call.chunks = chunks(op);
  call.reverse = plan_.find(op, dstate) != nullptr;
  Operands operands(plan_, op);
  if (call.reverse)
    operands.all({q, dout}).any({{k, &call.k}});
  else
    operands.all({k, v});
  operands.any({{log_decay, &call.log_decay}, {beta, &call.beta}})
      .all({call.reverse ? dstate : Operand::state})
      .any({{transition, &call.transition}});
  return place(op, call, operands.list());
}

PlacedCall CallConverter::scan(const Operation& op) const {
  kernels::LinearScan call;
  call.chunks = chunks(op);
  call.reverse = op.reverse;
  call.sums_only = op.reads.count > 0;
  Operands operands(plan_, op);
  operands.all({plan_.find(op, dstate) != nullptr ? dstate : Operand::state})
      .any({{final_state, &call.final_state}});
  return place(op, call, operands.list());
}

PlacedCall CallConverter::combine(const Operation& op) const {
  kernels::LinearCombine call;
  call.chunks = chunks(op);
  call.write = write_of(op, into);
  call.reverse = op.reverse;
  Operands operands(plan_, op);
  operands.all({from, into}).any({{transition, &call.transition}});
  return place(op, call, operands.list());
}

PlacedCall CallConverter::inter(const Operation& op) const {
  kernels::LinearInter call;
  call.chunks = chunks(op);
  call.write = write_of(op, plan_.writes(op).front().operand);
  Operands operands(plan_, op);
  operands.any({{q, &call.q},
                {k, &call.k},
                {v, &call.v},
                {dout, &call.dout},
                {Operand::state, &call.state},
                {carry, &call.carry},
                {dstate, &call.dstate},
                {dcarry, &call.dcarry},
                {out, &call.out},
                {dq, &call.dq},
                {dk, &call.dk},
                {dv, &call.dv}});
  return place(op, call, operands.list());
}

PlacedCall CallConverter::convolution(const Operation& op) const {
  Operands operands(plan_, op);
  if (op.kind == OpKind::convolve) {
    kernels::Convolve call;
    call.chunks.list = chunks(op).list;
    call.reverse = op.reverse;
    operands.all({from, filter}).any({{halo, &call.halo}}).all({into});
    return place(op, call, operands.list());
  }
  kernels::FilterGradient call;
  call.chunks.list = chunks(op).list;
  operands.all({from, dout}).any({{halo, &call.halo}}).all({dfilter});
  return place(op, call, operands.list());
}

PlacedCall CallConverter::linear(const Operation& op) const {
  switch (op.kind) {
    case OpKind::local: return local(op);
    case OpKind::local_backward: return local_backward(op);
    case OpKind::state: return state(op);
    case OpKind::scan: return scan(op);
    case OpKind::combine: return combine(op);
    case OpKind::convolve:
    case OpKind::filter_gradient: return convolution(op);
    default: return inter(op);
  }
}

}  // namespace cplab
