// What must hold at the end of the symbolic run: outputs are complete, and every computed value was read. See
// check/contents.hpp.
#include <algorithm>
#include <string>

#include "check/contents.hpp"
#include "check/linear.hpp"

namespace cplab::checking {

void Contents::finish() {
  const Problem& p = model_.plan->scenario.problem;
  for (std::uint32_t r = 0; r < ranks_.size(); ++r) {
    const bool linear = p.attention == Attention::linear;
    check_output(r, "out", Holds::out, 0, p.value_size);
    if (!linear) check_output(r, "lse", Holds::lse, 0, 1);
    if (p.has_backward()) {
      check_output(r, "dq", Holds::dq, 0, p.head_size);
      check_output(r, "dkv", Holds::dk, 0, p.head_size);
      check_output(r, "dkv", Holds::dv, p.head_size, p.head_size + p.value_size);
      const std::int64_t behind = p.head_size + p.value_size;
      if (p.bias == BiasForm::keys) check_output(r, "dkv", Holds::dbias, behind, behind + 1);
      if (p.bias == BiasForm::full) check_output(r, "dbias", Holds::dbias, 0, p.pair_columns());
    }
    if (p.max_logit) check_max_logit(r);
    if (linear) check_linear_outputs(r);
    const bool backward = p.has_backward();
    for (const Buffer& b : model_.ranks[r].plan->buffers) {
      const bool known = b.name == "out" || (!linear && b.name == "lse") ||
                         (p.max_logit && b.name == "max_logit") ||
                         (backward && (b.name == "dq" || b.name == "dkv")) ||
                         (backward && p.bias == BiasForm::full && b.name == "dbias") ||
                         (linear && is_linear_output(p, b.name));
      if (b.category == Category::output && !known)
        findings_.add(FindingKind::leak, model_.ranks[r].plan, none,
                      static_cast<std::uint32_t>(&b - model_.ranks[r].plan->buffers.data()),
                      "buffer " + b.name + " is an output that the problem does not have");
    }
    find_leaks(r);
  }
}

void Contents::check_output(std::uint32_t r, std::string_view wanted, Holds holds, std::int64_t width_begin,
                            std::int64_t width_end) {
  const RankModel& rank = model_.ranks[r];
  const Problem& p = model_.plan->scenario.problem;
  const std::int64_t rows = tokens_.rows(rank.plan->replica), heads = wanted == "dkv" ? p.kv_heads : p.heads;
  if (rows == 0) return;
  const auto& list = rank.plan->buffers;
  const auto at = std::find_if(list.begin(), list.end(), [&](const Buffer& b) {
    return b.name == wanted && b.category == Category::output;
  });
  const bool wide = holds == Holds::lse || holds == Holds::dlog_decay || holds == Holds::dbeta;
  const Role role = wide ? Role::wide : Role::nominal;
  if (at == list.end() || at->role != role || at->slots != 1 || at->rows != rows || at->heads != heads ||
      at->width < width_end)
    return;  // the structural validator says so
  Box box;
  box.buffer = static_cast<std::uint32_t>(at - list.begin());
  box.width_begin = static_cast<std::int32_t>(width_begin);
  Region& slot = region(r, box.buffer, 0);
  slot.align(0, static_cast<std::int32_t>(heads), box.width_begin, static_cast<std::int32_t>(width_end),
             budget_);
  for (const Column& c : slot.columns()) {
    if (c.width_begin < width_begin || c.width_end > width_end) continue;
    std::int64_t end = 0;
    for (const Piece& piece : c.pieces) {
      if (piece.begin == end) end = piece.end;
      if (piece.value.writer != none) ranks_[r].writes[piece.value.writer].read = true;
      check_piece({r, none}, box, c, piece, holds);
    }
    if (end == rows) continue;
    findings_.add(
        FindingKind::uninitialised, rank.plan, none, box.buffer,
        "output " + std::string(wanted) + " row " + std::to_string(end) + " (" +
            tokens_.describe(
                tokens_.at(tokens_.first_row(rank.plan->replica, rank.plan->position) + end).part(0, 1)) +
            ") and maybe more is never written");
  }
}

void Contents::check_piece(Site s, const Box& box, const Column& c, const Piece& piece, Holds holds) {
  const RankModel& rank = model_.ranks[s.rank];
  const Value& v = piece.value;
  if (v.holds == Holds::unknown) return;
  const std::int64_t id = tokens_.first_row(rank.plan->replica, rank.plan->position) + piece.begin,
                     count = piece.end - piece.begin;
  const Axis axis = of_keys(holds) ? Axis::keys : Axis::queries;
  const auto wrong = [&](const std::string& what) {
    findings_.add(FindingKind::coverage, rank.plan, none, box.buffer,
                  "output " + rank.plan->buffers[box.buffer].name + " heads " + std::to_string(c.head_begin) +
                      ".." + std::to_string(c.head_end - 1) + " " + what);
  };
  const bool blank = v.holds == (holds == Holds::lse ? Holds::minus_infinity : Holds::zero);
  if (!blank) {
    // Gradients of padding may be any number.
    bool padding = axis == Axis::keys || (holds != Holds::out && holds != Holds::lse);
    if (padding) tokens_.for_each(id, count, [&](const Stretch& t) { padding = padding && t.valid == 0; });
    if (padding) return;
    if (v.holds != holds)
      return wrong("holds " + std::string(name(v.holds)) + " where " + std::string(name(holds)) + " belongs");
    if (piece.begin + v.shift != id || v.head_shift != 0 || v.width_shift != -box.width_begin)
      return wrong("holds the rows, heads or columns of " +
                   tokens_.describe(tokens_.at(piece.begin + v.shift)) + " at " +
                   tokens_.describe(tokens_.at(id)));
    if (holds == Holds::out && v.set != v.norm &&
        model_.plan->scenario.problem.attention != Attention::linear)
      return wrong("is normalised by other keys than it covers, for " + tokens_.describe(tokens_.at(id)));
  }
  const bool complete_as_computed = !blank && (holds == Holds::dlog_decay || holds == Holds::dbeta);
  const std::uint32_t set = blank ? 0 : v.set;
  if (!complete_as_computed && !complete(axis, id, count, set))
    wrong(missing(axis, id, count, set, c.head_begin));
}

void Contents::find_leaks(std::uint32_t r) {
  const RankModel& rank = model_.ranks[r];
  for (const Write& w : ranks_[r].writes) {
    // Scratch of kernels and of frameworks holds nothing that anybody would read.
    if (w.read || (w.buffer < rank.plan->buffers.size() &&
                   rank.plan->buffers[w.buffer].category == Category::workspace))
      continue;
    findings_.add(FindingKind::leak, rank.plan, w.operation, w.buffer,
                  "what " + describe_operation(rank, w.operation) + " writes into " +
                      rank.plan->buffers[w.buffer].name + " is never read");
  }
}

}  // namespace cplab::checking
