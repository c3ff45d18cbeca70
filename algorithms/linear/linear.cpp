// The tensors of a linear problem, declared once for all algorithms.
#include "algorithms/linear/linear.hpp"

namespace cplab {

LinearScope::LinearScope(Builder& builder)
    : b(builder),
      whole(builder),
      stretches(builder.placement(), builder.scenario().placement, builder.P()),
      transport(transport_of(builder.scenario().schedule)) {}

Box LinearScope::states(std::string_view name, std::int64_t count, Category category, Role role,
                        std::int64_t columns) const {
  BufferSpec spec;
  spec.name = name;
  spec.role = role;
  spec.category = category;
  spec.rows = count * problem().head_size;
  spec.heads = problem().heads;
  spec.width = columns > 0 ? columns : problem().value_size;
  return b.buffer(spec);
}

Box LinearScope::saved_states(std::string_view name, std::int64_t count) const {
  return states(name, count, b.between_layers() ? Category::saved : Category::working);
}

Box LinearScope::carry(bool reverse) const {
  return states(reverse ? "dcarry" : "carry", stretches.states(), Category::output);
}

bool LinearScope::enters(bool reverse) const {
  return reverse ? place() + 1 < P() && stretches.crosses_right(place())
                 : place() > 0 && stretches.crosses_left(place());
}

bool LinearScope::leaves(bool reverse) const {
  return reverse ? place() > 0 && stretches.crosses_left(place())
                 : place() + 1 < P() && stretches.crosses_right(place());
}

void run_linear(const LinearScope& s, LinearAlgorithm& algorithm) {
  Builder& b = s.b;
  const Problem& p = b.problem();
  using enum Category;
  const auto of_queries = [&](std::string_view name, Role role, Category category, std::int64_t width) {
    return s.whole.query_buffer(name, role, category, 1, s.whole.rows, width);
  };
  LinearTensors t;
  t.q = of_queries("q", Role::nominal, input, p.head_size);
  const Box kv = s.whole.kv_buffer("kv", Role::nominal, input, 1, s.whole.rows);
  t.k = keys(b, kv);
  t.v = values(b, kv);
  if (p.transition != Transition::decay)
    t.log_decay = of_queries("log_decay", Role::wide, input, p.head_size);
  if (p.transition == Transition::matrix) t.beta = of_queries("beta", Role::wide, input, 1);
  t.out = of_queries("out", Role::nominal, output, p.value_size);
  algorithm.forward(t);
  if (!b.backward()) return;
  b.phase(Phase::backward);
  t.dout = of_queries("dout", Role::nominal, input, p.value_size);
  t.dq = of_queries("dq", Role::nominal, output, p.head_size);
  const Box dkv = s.whole.dkv_buffer("dkv", Role::nominal, output, 1, s.whole.rows);
  t.dk = keys(b, dkv);
  t.dv = values(b, dkv);
  if (t.log_decay.given()) t.dlog_decay = of_queries("dlog_decay", Role::wide, output, p.head_size);
  if (t.beta.given()) t.dbeta = of_queries("dbeta", Role::wide, output, 1);
  algorithm.backward(t);
}

void require_linear(const Scenario& s, std::initializer_list<Transition> transitions) {
  if (s.problem.attention != Attention::linear)
    throw ScenarioError("problem.attention",
                        s.algorithm + " computes linear attention; legal here: \"linear\"");
  std::string legal;
  for (const Transition transition : transitions) {
    if (transition == s.problem.transition) return;
    legal += (legal.empty() ? "\"" : ", \"") + std::string(name(transition)) + '"';
  }
  throw ScenarioError("problem.transition", "\"" + std::string(name(s.problem.transition)) +
                                                "\" is not what " + s.algorithm +
                                                " carries; legal: " + legal);
}

OptionInfo state_wire_option() {
  return word_option("state_wire_dtype", {"fp32", "nominal"}, "dtype in which states are sent");
}

}  // namespace cplab
