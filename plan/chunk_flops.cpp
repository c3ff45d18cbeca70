// The work of chunks and states, counted from the operands that an operation has.
#include "plan/chunk_flops.hpp"

#include <algorithm>
#include <initializer_list>

namespace cplab {
namespace {

class Work {
 public:
  Work(const RankPlan& plan, const Operation& op) : plan_(plan), op_(op) {}

  double flops() const {
    using enum Operand;
    const double D = sizes({q, k, dq, dk}), E = sizes({v, dout, out, dv});
    double pairs = 0, tokens = 0, long_tokens = 0;
    for (const Chunk& c : plan_.chunks_of(op_)) {
      const std::int64_t whole = c.count / pair_block, rest = c.count % pair_block;
      pairs += static_cast<double>(whole * pair_block * (pair_block + 1) / 2 + rest * (rest + 1) / 2);
      tokens += static_cast<double>(c.count);
      if (c.count > pair_block) long_tokens += static_cast<double>(c.count);
    }
    const double row = 2 * D * E;
    const auto if_any = [&](std::initializer_list<Operand> operands) {
      return std::any_of(operands.begin(), operands.end(), [&](Operand o) { return has(o); }) ? tokens
                                                                                              : long_tokens;
    };
    double sum = 0;
    switch (op_.kind) {
      case OpKind::local:
        sum = pairs * 2 * (D + E) + row * (if_any({state, carry}) + if_any({final_state}));
        break;
      case OpKind::local_backward:  // dq reads S; dk and dv read R; both are carried on
        sum = pairs * 2 * (3 * D + 2 * E) + row * (if_any({state, carry}) + long_tokens) +
              row * (2 * if_any({dstate, dcarry}) + if_any({final_state}));
        break;
      case OpKind::state: sum = row * tokens; break;
      case OpKind::inter: sum = row * tokens * static_cast<double>(op_.writes.count); break;
      case OpKind::scan: return 2 * elements(has(state) ? state : dstate);
      case OpKind::combine: return 2 * elements(into) * (has(transition) ? sizes({transition}) : 1);
      case OpKind::convolve:
      case OpKind::filter_gradient: sum = 2 * sizes({from}) * taps(); break;
      default: return 0;
    }
    return sum * (op_.head_end - op_.head_begin);
  }

 private:
  // Pairs of a token and one that its convolution reads, of all chunks.
  double taps() const {
    const auto W =
        static_cast<std::int64_t>(sizes({Operand::filter, Operand::dfilter}) / sizes({Operand::from}));
    std::int64_t sum = 0;
    for (const Chunk& c : plan_.chunks_of(op_)) {
      const std::int64_t missing = std::max<std::int64_t>(W - 1 - halo_rows(op_, c), 0),
                         fewer = std::min(missing, c.count);  // tokens next to the edge
      sum += c.count * W - fewer * missing + fewer * (fewer - 1) / 2;
    }
    return static_cast<double>(sum);
  }
  bool has(Operand operand) const { return plan_.find(op_, operand) != nullptr; }
  double sizes(std::initializer_list<Operand> operands) const {
    for (const Operand o : operands)
      if (has(o)) return plan_.view_of(op_, o).width_end - plan_.view_of(op_, o).width_begin;
    return 0;
  }
  double elements(Operand operand) const {
    return static_cast<double>(element_count(plan_, plan_.view_of(op_, operand)));
  }

  const RankPlan& plan_;
  const Operation& op_;
};

}  // namespace

double chunk_flops(const RankPlan& plan, const Operation& op) {
  return Work(plan, op).flops();
}

}  // namespace cplab
