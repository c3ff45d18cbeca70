// Shapes, roles, modes and chunks of convolve and filter_gradient, as plan.hpp lists them.
#include <algorithm>
#include <utility>
#include <vector>

#include "plan/structure_operands.hpp"

namespace cplab {
namespace {

class Convolution {
 public:
  Convolution(const RankPlan& plan, const Operation& op, const std::vector<std::int64_t>& rows)
      : plan_(plan), op_(op), view_rows_(rows) {}

  const char* test() const {
    using enum Operand;
    const View &x = view(from), &factors = view(of_filter_ ? dfilter : filter),
               &other = view(of_filter_ ? dout : into);
    const std::int32_t H = heads(x), D = width(x);
    const std::int64_t n = rows(x);
    const Access* halo_access = plan_.find(op_, halo);
    const bool fits = H > 0 && D > 0 && width(factors) >= 2 * D && width(factors) % D == 0 &&
                      tensor(x, n, H, D) && tensor(other, n, H, D) && tensor(factors, 1, H, width(factors)) &&
                      (!halo_access || tensor(view(halo), rows(view(halo)), H, D));
    if (!fits) return "has operands whose shapes do not fit each other, or not one slot and plane";
    const bool roles = nominal(x) && nominal(other) && (!halo_access || nominal(view(halo))) &&
                       (of_filter_ ? plan_.buffers[factors.buffer].role == Role::wide : nominal(factors));
    if (!roles) return wrong_role;
    if (op_.head_end - op_.head_begin != H || op_.head_begin < 0)
      return "names heads that its views do not have";
    if (plan_.writes(op_).front().mode != WriteMode::store) return wrong_mode;
    return chunks(n, halo_access ? rows(view(halo)) : 0, width(factors) / D);
  }

 private:
  const View& view(Operand operand) const { return plan_.view_of(op_, operand); }
  std::int64_t rows(const View& v) const {
    return view_rows_[static_cast<std::size_t>(&v - plan_.views.data())];
  }
  static std::int32_t heads(const View& v) { return v.head_end - v.head_begin; }
  static std::int32_t width(const View& v) { return v.width_end - v.width_begin; }
  bool nominal(const View& v) const { return plan_.buffers[v.buffer].role == Role::nominal; }
  bool tensor(const View& v, std::int64_t n, std::int32_t h, std::int32_t w) const {
    return v.slot_end - v.slot_begin == 1 && plane_cut(plan_.buffers[v.buffer], v) == 0 && rows(v) == n &&
           heads(v) == h && width(v) == w;
  }

  const char* chunks(std::int64_t tokens, std::int64_t of_halo, std::int64_t W) const {
    std::vector<std::pair<std::int64_t, std::int64_t>> taken;
    for (const Chunk& c : plan_.chunks_of(op_)) {
      if (c.row < 0 || c.count < 0 || c.row > tokens || c.count > tokens - c.row)
        return "has a chunk outside its views";
      const std::int64_t beside = halo_rows(op_, c);
      if (beside < 0 || beside >= W || (beside > 0 && (c.state < 0 || beside > of_halo - c.state)))
        return "has a chunk whose halo is not in its views";
      if (c.count > 0) taken.emplace_back(c.row, c.row + c.count);
    }
    std::ranges::sort(taken);
    for (std::size_t i = 1; i < taken.size(); ++i)
      if (taken[i].first < taken[i - 1].second) return "has two chunks that share a row";
    return nullptr;
  }

  const RankPlan& plan_;
  const Operation& op_;
  const std::vector<std::int64_t>& view_rows_;
  const bool of_filter_ = op_.kind == OpKind::filter_gradient;
};

}  // namespace

const char* wrong_convolution(const RankPlan& plan, const Operation& op,
                              const std::vector<std::int64_t>& view_rows) {
  return Convolution(plan, op, view_rows).test();
}

}  // namespace cplab
