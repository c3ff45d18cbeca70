// What the operations of latent keys and values take and write, as plan.hpp lists it: shapes, roles, modes.
#include <algorithm>

#include "plan/structure_operands.hpp"

namespace cplab {
namespace {

class Projection {
 public:
  Projection(const RankPlan& plan, const Operation& op, const std::vector<std::int64_t>& rows)
      : plan_(plan), op_(op), rows_(rows) {}

  const char* test() const {
    const View &k = view(forward_ ? Operand::k : Operand::dk), &v = view(forward_ ? Operand::v : Operand::dv);
    const View &latent = view(op_.kind == OpKind::project_backward ? Operand::dlatent : Operand::latent),
               &of_k = view(of_weights_ ? Operand::dkey_weights : Operand::key_weights),
               &of_v = view(of_weights_ ? Operand::dvalue_weights : Operand::value_weights);
    const View* const rope = of_weights_ ? nullptr : &view(forward_ ? Operand::rope_key : Operand::drope_key);
    const std::int64_t n = rows(k), C = width(latent), E = width(v);
    const std::int32_t H = heads(k);
    const bool fits = C > 0 && width(of_k) % C == 0 && width(of_k) <= C * width(k) &&
                      tensor(k, n, H, width(k)) && tensor(v, n, H, E) && tensor(latent, n, 1, C) &&
                      tensor(of_k, 1, H, width(of_k)) && tensor(of_v, 1, H, C * E) &&
                      (!rope || tensor(*rope, n, 1, width(k) - width(of_k) / C));
    if (!fits) return "has operands whose shapes do not fit each other, or not one slot and plane";
    const bool roles =
        of_weights_
            ? role(latent) == Role::nominal && role(of_k) == Role::wide && role(of_v) == Role::wide
            : role(of_k) == Role::nominal && role(of_v) == Role::nominal && role(latent) == role(*rope);
    const bool made = !forward_ || (role(k) == Role::nominal && role(latent) == Role::nominal);
    if (!roles || !made || role(k) != role(v)) return wrong_role;
    if (op_.head_end - op_.head_begin != H || op_.head_begin < 0)
      return "names query heads that its k view does not have";
    const auto all = [&](WriteMode mode) {
      return std::ranges::all_of(plan_.writes(op_), [&](const Access& a) { return a.mode == mode; });
    };
    return all(WriteMode::store) || (!forward_ && all(WriteMode::add)) ? nullptr : wrong_mode;
  }

 private:
  const View& view(Operand operand) const { return plan_.view_of(op_, operand); }
  std::int64_t rows(const View& v) const { return rows_[static_cast<std::size_t>(&v - plan_.views.data())]; }
  static std::int32_t heads(const View& v) { return v.head_end - v.head_begin; }
  static std::int32_t width(const View& v) { return v.width_end - v.width_begin; }
  Role role(const View& v) const { return plan_.buffers[v.buffer].role; }
  bool tensor(const View& v, std::int64_t n, std::int64_t h, std::int64_t w) const {
    return v.slot_end - v.slot_begin == 1 && plane_cut(plan_.buffers[v.buffer], v) == 0 && rows(v) == n &&
           heads(v) == h && width(v) == w;
  }

  const RankPlan& plan_;
  const Operation& op_;
  const std::vector<std::int64_t>& rows_;
  const bool forward_ = op_.kind == OpKind::project, of_weights_ = op_.kind == OpKind::weight_gradient;
};

}  // namespace

const char* wrong_projection(const RankPlan& plan, const Operation& op,
                             const std::vector<std::int64_t>& view_rows) {
  return Projection(plan, op, view_rows).test();
}

}  // namespace cplab
