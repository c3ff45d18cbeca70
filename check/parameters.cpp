// What is added to logits or to their sum: stored biases and keep masks, and what every rank holds whole,
// sinks and tables of biases, with their gradients, which are sums over the rows of all ranks; see
// check/contents.hpp.
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "check/contents.hpp"
#include "check/linear.hpp"

namespace cplab::checking {

// One row, whose id is 0. False: the buffer is none of the problem's, or not of its shape.
bool Contents::hold_parameter(std::uint32_t r, std::uint32_t b) {
  const Problem& p = model_.plan->scenario.problem;
  const Buffer& buffer = model_.ranks[r].plan->buffers[b];
  struct Parameter {
    bool asked;
    std::string_view name;
    std::int64_t width;
    Role role;
    Holds holds;
  };
  std::vector<Parameter> all{
      {p.has_latent(), "key_weights", p.kv_latent * p.projected_size(), Role::nominal, Holds::key_weights},
      {p.has_latent(), "value_weights", p.kv_latent * p.value_size, Role::nominal, Holds::value_weights},
      {p.sink, "sink", 1, Role::wide, Holds::sink},
      {p.bias == BiasForm::buckets, "bias_table", p.buckets, Role::wide, Holds::bias_table}};
  for (const Convolved& c : convolved)
    all.push_back({p.convolves(), c.filter_name, c.width(p) * p.convolution, Role::nominal, c.filter});
  for (const Parameter& known : all) {
    if (!known.asked || buffer.name != known.name) continue;
    if (buffer.role != known.role || buffer.slots != 1 || buffer.rows != 1 || buffer.heads != p.heads ||
        buffer.width != known.width)
      return false;
    Value value;
    value.holds = known.holds;
    for (Column& column : region(r, b, 0).columns()) column.pieces.push_back({0, 1, value});
    return true;
  }
  return false;
}

const Box* Contents::optional_box(Site s, const Operation& op, Operand operand) const {
  const RankModel& rank = model_.ranks[s.rank];
  const Access* access = rank.plan->find(op, operand);
  return access ? &rank.boxes[access->view] : nullptr;
}

// ---- stored biases, keep masks, positions ----------------------------------------------------------

// Which pairs are kept is data: what is proved is that every pair that mask and window allow is looked at
// once, beside the bias and the keep mask of that query and that key.

std::pair<const Box*, const Box*> Contents::pair_masks(Site s, const Operation& op) const {
  return {optional_box(s, op, Operand::bias), optional_box(s, op, Operand::keep)};
}

// They hold the rows and heads of the tile's queries, or of its keys.
bool Contents::expect_pair_mask(Site s, const Operation& op, Heads queries, Heads keys, const Runs& q,
                                const Runs& k) {
  const bool full = op.columns.count > 0 && op.bias == BiasForm::none;
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

// The columns that the operation names for these keys are their positions in the sequence, and, of a bias of
// positions, those behind them where the queries stand among them. A sequence's first key has column 0.
void Contents::expect_columns(Site s, const Operation& op, const Place& query, const Place& key) {
  if (op.columns.count == 0) return;
  const auto right = [&](std::int64_t first, const Stretch& stretch) {
    std::int64_t begin = 0;
    for (const RowRange& run : model_.ranks[s.rank].plan->columns_of(op)) {
      const std::int64_t from = std::max(first, begin),
                         to = std::min(first + stretch.valid, begin + run.count);
      const std::int64_t column = run.begin + (from - begin) * run.step;
      const std::int64_t position = stretch.position + (from - first) * stretch.stride;
      if (from < to && (column != position || (to - from > 1 && run.step != stretch.stride))) return false;
      begin += run.count;
    }
    return true;
  };
  const Box& k = box_of(s, Operand::k);
  Stretch among_keys = query.stretch;
  among_keys.position = tokens_.among_keys(query.stretch);
  if (right(key.view, key.stretch) && (op.bias == BiasForm::none || right(k.rows + query.view, among_keys)))
    return;
  report(s, FindingKind::coverage, k,
         "reads the biases of other keys than " + tokens_.describe(key.stretch) + ", for queries " +
             tokens_.describe(query.stretch));
}

// ---- sinks ----------------------------------------------------------------------------------------

bool Contents::counts_sink(std::uint32_t set) const {
  const auto tokens = sets_[set];
  return !tokens.empty() && tokens.back().begin >= sink_token;
}

// All rows of the tile count their sink, or where it merges those that see a key. False: that is not what the
// operand holds.
bool Contents::count_sink(Site s, const Operation& op, Heads heads, Runs& tile) {
  const Box& box = box_of(s, Operand::sink);
  Runs held;
  read(s.rank, box, heads, held);
  if (!expect(s, box, held, Holds::sink, op.head_begin)) return false;
  const bool merges = mode_of(s, Operand::out) == WriteMode::merge;
  for (Run& run : tile)
    if (run.value.holds == Holds::out && (run.value.set != 0 || !merges))
      run.value.set = run.value.norm = *sets_.join(run.value.set, sink_set_);
  return true;
}

// The tokens of these rows; nothing if one is there twice.
std::optional<std::uint32_t> Contents::tokens_of_rows(const Runs& runs) {
  std::vector<Rectangle> rows;
  std::vector<Cover> one_row;
  const auto add = [&](std::int64_t id, std::int64_t count) {
    tokens_.for_each(id, count, [&](const Stretch& t) {
      if (t.valid > 0) rows.push_back({0, 1, t.token, t.token + t.valid});
    });
  };
  for (const Run& run : runs)
    for (std::int64_t i = 0; i < (run.step == 1 ? 1 : run.count); ++i)
      add(run.id() + i * run.step, run.step == 1 ? run.count : 1);
  if (rows.empty()) return 0;
  if (!collect(rows, sets_, one_row)) return std::nullopt;
  return one_row.front().set;
}

bool Contents::holds_padding(const Runs& runs) const {
  bool padding = false;
  for (const Run& run : runs)
    for (std::int64_t i = 0; i < (run.step == 1 ? 1 : run.count); ++i)
      tokens_.for_each(run.id() + i * run.step, run.step == 1 ? run.count : 1,
                       [&](const Stretch& t) { padding = padding || t.valid < t.count; });
  return padding;
}

// dsink = -sum over rows of exp(sink - lse) delta, known only for complete lse and delta. A row of padding
// has its sink for lse, as one that sees no key, so its delta must not be among them.
void Contents::sink_gradient(Site s) {
  const Box &sink = box_of(s, Operand::sink), &lse = box_of(s, Operand::lse),
            &delta = box_of(s, Operand::delta), &dsink = box_of(s, Operand::dsink);
  if (dsink.empty()) return;
  const std::uint32_t w = writer(s, dsink);
  if (delta.empty()) {
    Value zero;
    zero.holds = Holds::zero;
    Runs runs{{0, 1, 0, 1, zero}};
    return write(s, dsink, {0, dsink.heads()}, runs, w);
  }
  for (const Heads h : cut_heads(s.rank, {{&sink, 1}, {&lse, 1}, {&delta, 1}, {&dsink, 1}}, dsink.heads())) {
    read(s.rank, sink, h, a_);
    read(s.rank, lse, h, lse_);
    read(s.rank, delta, h, delta_);
    const std::int32_t head = a_.front().value.head_shift;
    bool good = expect(s, sink, a_, Holds::sink, head);
    good = expect(s, delta, delta_, Holds::delta, head) && good;
    good = good && expect_complete_lse(s, lse, delta_, lse_);
    Run sum{0, 1, 0, 1, {}};
    sum.value.holds = good ? Holds::dsink : Holds::unknown;
    if (good) {
      const auto tokens = tokens_of_rows(delta_);
      if (!tokens) report(s, FindingKind::coverage, delta, "sums up a row twice");
      if (holds_padding(delta_))
        report(s, FindingKind::coverage, delta, "sums up rows of padding, whose gradients may be anything");
      if (tokens) sum.value.set = *tokens, sum.value.head_shift = head;
      if (!tokens) sum.value = Value::unknown();
      if (tokens && *tokens == 0) sum.value = Value{}, sum.value.holds = Holds::zero;
    }
    Runs runs{sum};
    write(s, dsink, h, runs, w);
  }
}

// ---- tables ---------------------------------------------------------------------------------------

bool Contents::expect_table(Site s, const Operation& op, Heads heads) {
  const Box* table = optional_box(s, op, Operand::bias_table);
  if (!table) return true;
  Runs held;
  read(s.rank, *table, heads, held);
  return expect(s, *table, held, Holds::bias_table, op.head_begin);
}

// The pairs of a tile join those that the gradient of the table has summed up.
void Contents::add_table(Site s, const Operation& op, Heads heads, const Runs& tile, std::uint32_t writer) {
  const Box& box = box_of(s, Operand::dbias_table);
  Run more{0, 1, 0, 1, {}};
  const std::uint32_t pairs = pairs_.of(tile);
  more.value.holds = pairs == 0 ? Holds::zero : Holds::dtable;
  if (pairs != 0) more.value.set = pairs, more.value.head_shift = op.head_begin;
  add_to_parameter(s, box, heads, more, writer);
}

void Contents::add_to_parameter(Site s, const Box& box, Heads heads, const Run& more, std::uint32_t writer) {
  read(s.rank, box, heads, b_);
  for (Run& run : b_) {
    if (run.value.holds == Holds::nothing) {
      report(s, FindingKind::uninitialised, box,
             "adds to " + describe_box(model_.ranks[s.rank], box) + ", part of which nobody has written");
      run.value = Value::unknown();
      continue;
    }
    Run now = run;
    now.row = 0, now.value.shift = 0;
    now.value = join(s, box, more, now, heads.begin);
    run = now;
  }
  write(s, box, heads, b_, writer);
}

// ---- the outputs ----------------------------------------------------------------------------------

// Which queries of a replica the set lacks, or empty.
std::string Contents::wrong_queries(int replica, std::uint32_t set) {
  std::string text;
  const std::int64_t rows = tokens_.rows(replica, Side::queries) * model_.plan->scenario.parallel.ranks;
  tokens_.for_each(tokens_.first_row(replica, 0, Side::queries), rows, [&](const Stretch& t) {
    if (t.valid == 0 || !text.empty()) return;
    const bool there = std::ranges::any_of(sets_[set], [&](const Sets::Interval& i) {
      return i.begin <= t.token && t.token + t.valid <= i.end;
    });
    if (!there) text = "lacks contributions of the queries " + tokens_.describe(t.part(0, t.valid));
  });
  return text;
}

void Contents::check_whole_output(std::uint32_t r, std::string_view wanted, Holds holds) {
  const RankModel& rank = model_.ranks[r];
  const std::int64_t heads = model_.plan->scenario.problem.heads;
  const auto& list = rank.plan->buffers;
  const auto at = std::ranges::find_if(
      list, [&](const Buffer& b) { return b.name == wanted && b.category == Category::output; });
  if (at == list.end() || at->role != Role::wide || at->slots != 1 || at->rows != 1 || at->heads != heads)
    return;  // the structural validator says so
  const auto buffer = static_cast<std::uint32_t>(at - list.begin());
  for (const Column& c : region(r, buffer, 0).columns()) {
    const auto wrong = [&](FindingKind kind, const std::string& what) {
      findings_.add(kind, rank.plan, none, buffer,
                    "output " + std::string(wanted) + " heads " + std::to_string(c.head_begin) + ".." +
                        std::to_string(c.head_end - 1) + " " + what);
    };
    if (c.pieces.empty()) {
      wrong(FindingKind::uninitialised, "is never written");
      continue;
    }
    const Value& v = c.pieces.front().value;
    if (v.writer != none) ranks_[r].writes[v.writer].read = true;
    if (v.holds == Holds::unknown) continue;
    const bool blank = v.holds == (holds == Holds::max_logit ? Holds::minus_infinity : Holds::zero);
    if (!blank && v.holds != holds) {
      wrong(FindingKind::coverage,
            "holds " + std::string(name(v.holds)) + " where " + std::string(name(holds)) + " belongs");
    } else if (!blank && (v.head_shift != 0 || v.width_shift != 0)) {
      wrong(FindingKind::coverage, "holds those of other heads or columns");
    } else if (const std::string text =
                   of_tokens(holds)
                       ? wrong_queries(rank.plan->replica, blank ? 0 : v.set)
                       : wrong_pairs(rank.plan->replica, blank ? 0 : v.set,
                                     holds == Holds::dkey_weights || holds == Holds::dvalue_weights
                                         ? Axis::keys
                                         : Axis::queries);
               !text.empty()) {
      wrong(FindingKind::coverage, text);
    }
  }
}

}  // namespace cplab::checking
