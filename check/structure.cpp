// The checker's first pass: the structural validator tests every reference of a plan before anything else
// follows it, views become boxes, and tiles are compared with the problem: its sizes, scale and heads.
#include <algorithm>
#include <cmath>
#include <string>

#include "check/model.hpp"

namespace cplab::checking {
namespace {

class Resolver {
 public:
  Resolver(const Plan& plan, RankModel& rank, const Model& model, Findings& findings)
      : plan_(plan), problem_(plan.scenario.problem), rank_(rank), model_(model), findings_(findings) {}

  void run() {
    RankForm form = inspect(plan_, *rank_.plan, *model_.groups, [&](const StructureFault& fault) {
      findings_.add(fault.kind, rank_.plan, fault.operation, fault.buffer, fault.message);
    });
    rank_.forms = std::move(form.operations);
    for (std::size_t v = 0; v < rank_.plan->views.size(); ++v)
      rank_.boxes.push_back(form.views[v] ? box_of(rank_.plan->views[v]) : Box{});
    find_lanes();
    for (std::uint32_t i = 0; i < rank_.forms.size(); ++i) {
      if (rank_.forms[i] != Form::good) continue;
      const char* wrong = test_problem(rank_.op(i));
      if (!wrong) continue;
      rank_.forms[i] = Form::malformed;
      findings_.add(FindingKind::coverage, rank_.plan, i, none, describe_operation(rank_, i) + " " + wrong);
    }
  }

 private:
  Box box_of(const View& view) {
    Box box;
    const RankPlan& plan = *rank_.plan;
    box.buffer = view.buffer;
    box.slot_begin = view.slot_begin, box.slot_end = view.slot_end;
    box.head_begin = view.head_begin, box.head_end = view.head_end;
    box.width_begin = view.width_begin, box.width_end = view.width_end;
    box.ranges = plan.rows_of(view);
    box.low = plan.buffers[view.buffer].rows;
    bool plain = true;
    for (const RowRange& r : box.ranges) {
      if (r.count == 0) continue;
      plain = plain && (r.step == 1 || r.count == 1) && (box.rows == 0 || r.begin == box.high);
      box.low = std::min(box.low, r.begin);
      box.high = std::max(box.high, r.begin + (r.count - 1) * r.step + 1);
      box.rows += r.count;
    }
    if (!plain) {
      const std::uint64_t key = (std::uint64_t{view.ranges.first} << 32) | view.ranges.count;
      const auto [at, fresh] = row_sets_.try_emplace(key, static_cast<std::int32_t>(rank_.row_sets.size()));
      if (fresh) rank_.row_sets.push_back(row_set(box.ranges));
      box.row_set = at->second;
    }
    box.valid = true;
    return box;
  }

  void find_lanes() {
    std::unordered_map<std::uint32_t, std::uint16_t> index;
    for (std::uint32_t i = 0; i < rank_.plan->operations.size(); ++i) {
      const Lane lane = rank_.plan->operations[i].lane;
      const std::uint32_t key = static_cast<std::uint32_t>(lane.kind) * 256u + lane.index;
      std::uint16_t number = last_lane_;
      if (rank_.lanes.empty() || key != last_key_) {
        number = index.try_emplace(key, static_cast<std::uint16_t>(rank_.lanes.size())).first->second;
        if (number == rank_.lanes.size()) rank_.lanes.emplace_back();
        last_key_ = key;
        last_lane_ = number;
      }
      rank_.lane_of.push_back(number);
      rank_.place.push_back(static_cast<std::uint32_t>(rank_.lanes[number].size()));
      rank_.lanes[number].push_back(i);
    }
  }

  const Box& box(const Operation& op, Operand operand) const {
    return rank_.boxes[rank_.plan->find(op, operand)->view];
  }

  // What a well-formed tile has that the problem's tiles do not, or null.
  const char* test_problem(const Operation& op) const {
    const auto is = [](const Box& box, std::int64_t width) { return box.width() == width; };
    const std::int64_t D = problem_.head_size, E = problem_.value_size;
    if (const char* what = wrong_linear_operation(problem_, rank_, op)) return what;
    if (op.kind == OpKind::row_dot) return is(box(op, Operand::dout), E) ? nullptr : part_of_columns;
    if (op.kind != OpKind::attend && op.kind != OpKind::attend_backward) return nullptr;
    const Box &q = box(op, Operand::q), &k = box(op, Operand::k);
    if (!is(q, D) || !is(box(op, Operand::v), E)) return part_of_columns;
    if (!(std::abs(op.value - problem_.scale) <= 1e-12 * std::abs(problem_.scale)))
      return "scales the logits by another factor than the problem's";
    if (op.softcap != problem_.softcap) return "caps the logits at another number than the problem's";
    if (const char* what = test_pair_mask(op)) return what;
    if (q.rows > most_tokens || k.rows > most_tokens) return "has more rows than can be counted exactly";
    return op.head_end <= problem_.heads ? nullptr : "names query heads that the problem does not have";
  }

  // Bias, keep mask and bias gradient are there where the problem has them, with its columns.
  const char* test_pair_mask(const Operation& op) const {
    const auto has = [&](Operand operand) { return rank_.plan->find(op, operand) != nullptr; };
    const bool full = problem_.bias == BiasForm::full, any = problem_.stores_bias();
    if (op.bias != (problem_.places_bias() ? problem_.bias : BiasForm::none))
      return "has a bias of positions that is not the problem's, or none";
    if (problem_.places_bias()) return test_table(op);
    if (has(Operand::bias) != any || has(Operand::keep) != (problem_.keep != Keep::none))
      return any ? "leaves out the bias or the keep mask of the problem"
                 : "has a bias that the problem does not have";
    if (op.kind == OpKind::attend_backward && has(Operand::dbias) != any)
      return "leaves out the gradient of the bias";
    if (!any) return nullptr;
    if ((op.columns.count > 0) != full) return "takes biases of keys for biases of pairs, or the reverse";
    return !full || box(op, Operand::bias).width() == problem_.pair_columns()
               ? nullptr
               : "takes part of the columns of a bias only";
  }

  const char* test_table(const Operation& op) const {
    const auto has = [&](Operand operand) { return rank_.plan->find(op, operand) != nullptr; };
    if (problem_.bias != BiasForm::buckets) return nullptr;
    if (op.kind == OpKind::attend_backward && !has(Operand::dbias_table))
      return "leaves out the gradient of the table";
    return box(op, Operand::bias_table).width() == problem_.buckets
               ? nullptr
               : "takes part of the columns of a table only";
  }

  const Plan& plan_;
  const Problem& problem_;
  RankModel& rank_;
  const Model& model_;
  Findings& findings_;
  std::unordered_map<std::uint64_t, std::int32_t> row_sets_;
  std::uint32_t last_key_ = 0;
  std::uint16_t last_lane_ = 0;
};

}  // namespace

std::span<const Access> RankModel::reads(std::uint32_t i) const {
  return forms[i] == Form::broken ? std::span<const Access>{} : plan->reads(op(i));
}
std::span<const Access> RankModel::writes(std::uint32_t i) const {
  return forms[i] == Form::broken ? std::span<const Access>{} : plan->writes(op(i));
}
std::span<const Part> RankModel::parts(std::uint32_t i) const {
  return forms[i] == Form::broken ? std::span<const Part>{} : plan->parts_of(op(i));
}
std::span<const Segment> RankModel::segments(std::uint32_t i) const {
  return forms[i] == Form::broken ? std::span<const Segment>{} : plan->segments_of(op(i));
}

void resolve(const Plan& plan, Model& model, Findings& findings) {
  model.plan = &plan;
  model.groups.emplace(plan);
  model.ranks.resize(plan.ranks.size());
  model.first_operation.push_back(0);
  for (std::size_t r = 0; r < plan.ranks.size(); ++r) {
    model.ranks[r].plan = &plan.ranks[r];
    Resolver(plan, model.ranks[r], model, findings).run();
    model.first_operation.push_back(model.first_operation.back() +
                                    static_cast<std::uint32_t>(plan.ranks[r].operations.size()));
  }
  inspect_tensors(plan, [&](const RankPlan& rank, const StructureFault& fault) {
    findings.add(fault.kind, &rank, fault.operation, fault.buffer, fault.message, fault.missing);
  });
}

}  // namespace cplab::checking
