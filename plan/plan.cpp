// Names of the vocabulary and sizes of views.
#include "plan/plan.hpp"

#include <array>
#include <stdexcept>

namespace cplab {
namespace {
constexpr std::array<std::string_view, 3> role_names{"nominal", "wide", "integer"};
constexpr std::array<std::string_view, 5> category_names{"input", "output", "saved", "working", "workspace"};
constexpr std::array<std::string_view, 2> layout_names{"rows_first", "heads_first"};
constexpr std::array<std::string_view, 47> operand_names{"q",
                                                         "k",
                                                         "v",
                                                         "out",
                                                         "lse",
                                                         "dout",
                                                         "delta",
                                                         "dq",
                                                         "dk",
                                                         "dv",
                                                         "part_out",
                                                         "part_lse",
                                                         "from",
                                                         "into",
                                                         "rounded_dq",
                                                         "rounded_dk",
                                                         "rounded_dv",
                                                         "max_logit",
                                                         "bias",
                                                         "keep",
                                                         "dbias",
                                                         "bias_table",
                                                         "dbias_table",
                                                         "sink",
                                                         "dsink",
                                                         "latent",
                                                         "rope_key",
                                                         "key_weights",
                                                         "value_weights",
                                                         "dlatent",
                                                         "drope_key",
                                                         "dkey_weights",
                                                         "dvalue_weights",
                                                         "log_decay",
                                                         "beta",
                                                         "dlog_decay",
                                                         "dbeta",
                                                         "state",
                                                         "dstate",
                                                         "carry",
                                                         "dcarry",
                                                         "final_state",
                                                         "transition",
                                                         "filter",
                                                         "halo",
                                                         "dfilter",
                                                         "unnamed"};
constexpr std::array<std::string_view, 4> mode_names{"store", "add", "merge", "max"};
constexpr std::array<std::string_view, 2> phase_names{"forward", "backward"};
constexpr std::array<std::string_view, 4> lane_names{"compute", "comm", "copy", "host"};
constexpr std::array<std::string_view, 2> transport_names{"nccl", "copy"};
constexpr std::array<std::string_view, 2> reduction_names{"sum", "max"};
constexpr std::array<std::string_view, 3> work_names{"blocked", "serial", "sliced"};
}  // namespace

std::string_view name(Role value) {
  return role_names.at(static_cast<std::size_t>(value));
}
std::string_view name(Category value) {
  return category_names.at(static_cast<std::size_t>(value));
}
std::string_view name(Layout value) {
  return layout_names.at(static_cast<std::size_t>(value));
}
std::string_view name(WriteMode value) {
  return mode_names.at(static_cast<std::size_t>(value));
}
std::string_view name(Operand value) {
  return operand_names.at(static_cast<std::size_t>(value));
}
std::string_view name(Phase value) {
  return phase_names.at(static_cast<std::size_t>(value));
}
std::string_view name(LaneKind value) {
  return lane_names.at(static_cast<std::size_t>(value));
}
std::string_view name(Transport value) {
  return transport_names.at(static_cast<std::size_t>(value));
}
std::string_view name(Reduction value) {
  return reduction_names.at(static_cast<std::size_t>(value));
}
std::string_view name(ChunkWork value) {
  return work_names.at(static_cast<std::size_t>(value));
}

bool is_linear(OpKind kind) {
  return kind >= OpKind::local && kind <= OpKind::filter_gradient;
}

bool is_convolution(OpKind kind) {
  return kind == OpKind::convolve || kind == OpKind::filter_gradient;
}

bool is_projection(OpKind kind) {
  return kind >= OpKind::project && kind <= OpKind::weight_gradient;
}

bool is_communication(OpKind kind) {
  return kind >= OpKind::exchange && kind <= OpKind::barrier;
}

std::int64_t element_bytes(DType dtype) {
  switch (dtype) {
    case DType::fp64: return 8;
    case DType::fp32: return 4;
    case DType::bf16: return 2;
    case DType::fp16: return 2;
  }
  throw std::logic_error("unknown dtype");
}

DType dtype_of(Role role, DType nominal) {
  if (role == Role::integer) throw std::logic_error("an integer buffer has no floating dtype");
  return role == Role::wide && nominal != DType::fp64 ? DType::fp32 : nominal;
}

std::int64_t element_bytes(Role role, DType nominal) {
  return role == Role::integer ? 4 : element_bytes(dtype_of(role, nominal));
}

std::int64_t row_count(std::span<const RowRange> ranges) {
  std::int64_t n = 0;
  for (const RowRange& range : ranges) n += range.count;
  return n;
}

std::int64_t element_count(const RankPlan& plan, const View& view) {
  return row_count(plan.rows_of(view)) * (view.slot_end - view.slot_begin) *
         (view.head_end - view.head_begin) * (view.width_end - view.width_begin);
}

std::int64_t view_bytes(const RankPlan& plan, const View& view, DType nominal) {
  return element_count(plan, view) * element_bytes(plan.buffers[view.buffer].role, nominal);
}

std::int64_t operation_count(const Plan& plan) {
  std::int64_t count = 0;
  for (const RankPlan& rank : plan.ranks) count += std::ssize(rank.operations);
  return count;
}

bool between_layers(const Schedule& schedule) {
  return schedule.is_word("between", "layers");
}

std::string operation_id(const RankPlan& plan, const Operation& op) {
  return std::to_string(plan.rank) + "/" + std::string(name(op.phase)) + "/" + std::to_string(op.ordinal);
}

std::string describe(const RankPlan& plan, const Operation& op) {
  return std::string(name(op.kind)) + " " + operation_id(plan, op) + " (step " + std::to_string(op.step) +
         ", lane " + std::string(name(op.lane.kind)) + " " + std::to_string(op.lane.index) + ")";
}

}  // namespace cplab
