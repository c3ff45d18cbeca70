// The tensors of a linear problem, declared once for all algorithms.
#include "algorithms/linear/linear.hpp"

#include "algorithms/linear/short_convolution.hpp"

namespace cplab {

LinearScope::LinearScope(Builder& builder)
    : b(builder),
      scope(builder),
      stretches(scope.tokens, builder.scenario().placement == "stream"),
      transport(transport_of(builder.scenario().schedule)),
      whole_group_(true) {}

LinearScope::LinearScope(const Scope& over)
    : b(over.b),
      scope(over),
      stretches(in_sequence_order(over.tokens), false),
      transport(transport_of(b.scenario().schedule)),
      whole_group_(false) {}

Box LinearScope::states(std::string_view name, std::int64_t count, Category category, Role role,
                        std::int64_t columns) const {
  BufferSpec spec;
  spec.name = name;
  spec.role = role;
  spec.category = category;
  spec.rows = count * problem().head_size;
  spec.heads = scope.heads().count();
  spec.first_head = scope.heads().begin;
  spec.width = columns > 0 ? columns : problem().value_size;
  return b.buffer(spec);
}

Box LinearScope::saved_states(std::string_view name, std::int64_t count) const {
  return states(name, count, b.between_layers() ? Category::saved : Category::working);
}

Box LinearScope::carry(bool reverse) const {
  const std::string_view name = reverse ? "dcarry" : "carry";
  return whole_group_ ? states(name, stretches.states(), Category::output)
                      : saved_states(name, stretches.states());
}

bool LinearScope::enters(bool reverse) const {
  return reverse ? place() + 1 < P() && stretches.crosses_right(place())
                 : place() > 0 && stretches.crosses_left(place());
}

bool LinearScope::leaves(bool reverse) const {
  return reverse ? place() > 0 && stretches.crosses_left(place())
                 : place() + 1 < P() && stretches.crosses_right(place());
}

namespace {

// The algorithm over tensors that it takes as they are.
void run_tensors(const Scope& s, LinearAlgorithm& algorithm) {
  Builder& b = s.b;
  const Problem& p = b.problem();
  using enum Category;
  const auto of_queries = [&](std::string_view name, Role role, Category category, std::int64_t width) {
    return s.query_buffer(name, role, category, 1, s.rows, width);
  };
  LinearTensors t;
  t.q = of_queries("q", Role::nominal, input, p.head_size);
  t.take_kv(b, s.kv_buffer("kv", Role::nominal, input, 1, s.rows));
  if (p.transition != Transition::decay)
    t.log_decay = of_queries("log_decay", Role::wide, input, p.gate_columns());
  if (p.transition == Transition::matrix) t.beta = of_queries("beta", Role::wide, input, 1);
  const auto filters = [&](const char* prefix, Role role, Category category) {
    if (!p.convolves()) return LinearTensors::Filters{};
    const auto one = [&](const char* tensor, std::int64_t width) {
      return b.buffer({prefix + std::string(tensor), role, category, 1, 1, p.heads, width * p.convolution});
    };
    const Box of_q = one("q", p.head_size), of_k = one("k", p.head_size);
    return LinearTensors::Filters{of_q, of_k, one("v", p.value_size)};
  };
  t.filters = filters("conv_", Role::nominal, input);
  t.out = of_queries("out", Role::nominal, output, p.value_size);
  algorithm.forward(t);
  if (!b.backward()) return;
  b.phase(Phase::backward);
  t.dout = of_queries("dout", Role::nominal, input, p.value_size);
  t.dq = of_queries("dq", Role::nominal, output, p.head_size);
  t.take_dkv(b, s.dkv_buffer("dkv", Role::nominal, output, 1, s.rows));
  if (t.log_decay.given()) t.dlog_decay = of_queries("dlog_decay", Role::wide, output, p.gate_columns());
  if (t.beta.given()) t.dbeta = of_queries("dbeta", Role::wide, output, 1);
  t.dfilters = filters("dconv_", Role::wide, output);
  algorithm.backward(t);
}

}  // namespace

void run_linear(const Scope& s, LinearAlgorithm& algorithm) {
  if (!s.b.problem().convolves()) return run_tensors(s, algorithm);
  WithConvolution convolved(s, algorithm);
  run_tensors(s, convolved);
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
