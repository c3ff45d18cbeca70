// Bias and keep mask of dynamic mask attention in the symbolic run; see check/contents.hpp. Which pairs are
// kept is data: what is proved is that every pair that mask and window allow is looked at once, beside the
// bias and the keep mask of that query and that key.
#include <string>

#include "check/contents.hpp"

namespace cplab::checking {

std::pair<const Box*, const Box*> Contents::pair_masks(Site s, const Operation& op) const {
  const RankModel& rank = model_.ranks[s.rank];
  const auto box = [&](Operand operand) {
    const Access* access = rank.plan->find(op, operand);
    return access ? &rank.boxes[access->view] : nullptr;
  };
  return {box(Operand::bias), box(Operand::keep)};
}

// They hold the rows and heads of the tile's queries, or of its keys.
bool Contents::expect_pair_mask(Site s, const Operation& op, Heads queries, Heads keys, const Runs& q,
                                const Runs& k) {
  const bool full = op.columns.count > 0;
  const auto [bias, keep] = pair_masks(s, op);
  const Runs& beside = full ? q : k;
  const std::int32_t head = full ? op.head_begin : beside.empty() ? 0 : beside.front().value.head_shift;
  bool good = true;
  const auto test = [&](const Box* box, Holds wanted) {
    if (!box) return;
    Runs held;
    read(s.rank, *box, full ? queries : keys, held);
    good = good && expect(s, *box, held, wanted, head) && expect_same_rows(s, *box, beside, held);
  };
  test(bias, Holds::bias);
  test(keep, Holds::keep);
  return good;
}

// The columns that the operation names for these keys are their positions in the sequence. A sequence's first
// token has column 0.
void Contents::expect_columns(Site s, const Operation& op, const Place& query, const Place& key) {
  if (op.columns.count == 0) return;
  std::int64_t begin = 0;
  const std::int64_t first = key.view, end = key.view + key.stretch.valid;
  for (const RowRange& run : model_.ranks[s.rank].plan->columns_of(op)) {
    const std::int64_t from = std::max(first, begin), to = std::min(end, begin + run.count);
    const std::int64_t column = run.begin + (from - begin) * run.step;
    const std::int64_t position = key.stretch.position + (from - first) * key.stretch.stride;
    const bool right =
        from >= to || (column == position && (to - from == 1 || run.step == key.stretch.stride));
    if (!right)
      return report(s, FindingKind::coverage, box_of(s, Operand::k),
                    "reads the biases of other keys than " + tokens_.describe(key.stretch) +
                        ", for queries " + tokens_.describe(query.stretch));
    begin += run.count;
  }
}

}  // namespace cplab::checking
