// Latent keys and values in the symbolic run: K and V that are made of latents, and gradients that go back
// through the weights; see check/contents.hpp.
#include <algorithm>
#include <string>
#include <utility>

#include "check/contents.hpp"

namespace cplab::checking {

// Two for each product of a number of a row with one of the weights.
void Contents::count_products(Site s, const Operation& op, Operand rows, Operand latents, Operand of_keys,
                              Operand values) {
  const auto columns = static_cast<double>(box_of(s, of_keys).width()) / box_of(s, latents).width() +
                       box_of(s, values).width();
  result_.flops[s.rank] += 2 * static_cast<double>(box_of(s, rows).rows) * box_of(s, latents).width() *
                           (op.head_end - op.head_begin) * columns;
}

bool Contents::expect_weights(Site s, const Operation& op, Heads h) {
  const Box &of_keys = box_of(s, Operand::key_weights), &of_values = box_of(s, Operand::value_weights);
  read(s.rank, of_keys, h, a_);
  read(s.rank, of_values, h, b_);
  const bool good = expect(s, of_keys, a_, Holds::key_weights, op.head_begin);
  return expect(s, of_values, b_, Holds::value_weights, op.head_begin) && good;
}

void Contents::project(Site s, const Operation& op) {
  const Box &latent = box_of(s, Operand::latent), &rope = box_of(s, Operand::rope_key),
            &k = box_of(s, Operand::k), &v = box_of(s, Operand::v);
  count_products(s, op, Operand::k, Operand::latent, Operand::key_weights, Operand::v);
  if (k.empty()) return;
  const std::uint32_t k_writer = writer(s, k), v_writer = v.buffer == k.buffer ? k_writer : writer(s, v);
  read(s.rank, latent, {0, 1}, k_);
  read(s.rank, rope, {0, 1}, v_);
  bool rows = expect(s, latent, k_, Holds::latent, 0);
  rows = expect(s, rope, v_, Holds::rope_key, 0) && rows;
  rows = rows && expect_same_rows(s, rope, k_, v_);
  for (const Heads h : cut_heads(
           s.rank,
           {{&box_of(s, Operand::key_weights), 1}, {&box_of(s, Operand::value_weights), 1}, {&k, 1}, {&v, 1}},
           k.heads())) {
    const bool good = expect_weights(s, op, h) && rows;
    const auto made = [&](Holds holds) {
      if (!good) return Runs{{0, k.rows, 0, 1, Value::unknown()}};
      Runs runs = k_;
      for (Run& run : runs) run.value.holds = holds, run.value.head_shift = op.head_begin;
      return runs;
    };
    Runs of_k = made(Holds::k), of_v = made(Holds::v);
    write(s, k, h, of_k, k_writer);
    write(s, v, h, of_v, v_writer);
  }
}

// Rows of a gradient of keys, or of zeros.
bool Contents::expect_gradient(Site s, const Box& box, const Runs& runs, Holds wanted, std::int32_t head) {
  Runs others;
  for (const Run& run : runs)
    if (run.value.holds != Holds::zero) others.push_back(run);
  return expect(s, box, others, wanted, head);
}

// What the heads h contribute joins `sum`, row by row: dk and dv must be of the same pairs.
bool Contents::sum_of_heads(Site s, const Operation& op, Heads h, Runs& sum, bool first) {
  const Box &dk = box_of(s, Operand::dk), &dv = box_of(s, Operand::dv);
  read(s.rank, dk, h, k_);
  read(s.rank, dv, h, v_);
  bool good = expect_gradient(s, dk, k_, Holds::dk, op.head_begin);
  good = expect_gradient(s, dv, v_, Holds::dv, op.head_begin) && good;
  good = expect_weights(s, op, h) && good && expect_same_rows(s, dv, k_, v_);
  if (!good) return false;
  Runs more;
  zip(k_, v_, [&](const Run& a, const Run& b, std::int64_t, std::int64_t) {
    Run run = a.value.located() ? a : b;
    const std::uint32_t of_k = a.value.located() ? a.value.set : 0,
                        of_v = b.value.located() ? b.value.set : 0;
    if (good && of_k != of_v) {
      good = false;
      report(s, FindingKind::coverage, dv,
             "reads dk and dv of other queries beside each other, for " +
                 tokens_.describe(tokens_.at(run.id())));
    }
    if (run.value.located()) {
      run.value.holds = Holds::dlatent, run.value.head_shift = 0;
      run.value.set = head_sets_.of({op.head_begin + h.begin, op.head_begin + h.end, of_k});
    }
    more.push_back(run);
  });
  if (first) return sum = std::move(more), good;
  Runs both;
  zip(sum, more, [&](const Run& a, const Run& b, std::int64_t, std::int64_t) {
    both.push_back(a.value.located() ? a : b);
    if (!a.value.located() || !b.value.located()) return;
    if (good && !a.same_rows(b)) {
      good = false;
      report(s, FindingKind::coverage, dk, "adds gradients of other tokens from head to head");
    }
    both.back().value.set = *head_sets_.join(a.value.set, b.value.set);  // of other heads
  });
  sum = std::move(both);
  return good;
}

void Contents::project_backward(Site s, const Operation& op) {
  const Box &dk = box_of(s, Operand::dk), &dlatent = box_of(s, Operand::dlatent),
            &drope = box_of(s, Operand::drope_key);
  count_products(s, op, Operand::dk, Operand::dlatent, Operand::key_weights, Operand::dv);
  if (dk.empty()) return;
  const std::uint32_t writes = writer(s, dlatent),
                      rope_writes = drope.buffer == dlatent.buffer ? writes : writer(s, drope);
  Runs sum;
  bool good = true, first = true;
  for (const Heads h : cut_heads(s.rank,
                                 {{&dk, 1},
                                  {&box_of(s, Operand::dv), 1},
                                  {&box_of(s, Operand::key_weights), 1},
                                  {&box_of(s, Operand::value_weights), 1}},
                                 dk.heads())) {
    good = good && sum_of_heads(s, op, h, sum, first);
    first = false;
  }
  if (!good) sum.assign(1, {0, dk.rows, 0, 1, Value::unknown()});
  Runs of_rope = sum;
  for (Run& run : of_rope)
    if (run.value.holds == Holds::dlatent) run.value.holds = Holds::drope_key;
  const WriteMode mode = mode_of(s, Operand::dlatent);
  store_or_add(s, dlatent, {0, 1}, sum, mode, writes);
  store_or_add(s, drope, {0, 1}, of_rope, mode, rope_writes);
}

// The pairs of those rows, whose keys have the place that queries have elsewhere.
void Contents::write_weights(Site s, const Operation& op, Operand operand, Heads h, const Runs& gradients,
                             std::uint32_t writer) {
  const Box& box = box_of(s, operand);
  Runs located;
  for (const Run& run : gradients)
    if (run.value.located()) located.push_back(run);
  Run more{0, 1, 0, 1, {}};
  const std::uint32_t pairs = pairs_.of(located);
  more.value.holds = pairs == 0                         ? Holds::zero
                     : operand == Operand::dkey_weights ? Holds::dkey_weights
                                                        : Holds::dvalue_weights;
  if (pairs != 0) more.value.set = pairs, more.value.head_shift = op.head_begin;
  if (mode_of(s, operand) == WriteMode::add) return add_to_parameter(s, box, h, more, writer);
  Runs runs{more};
  write(s, box, h, runs, writer);
}

void Contents::weight_gradient(Site s, const Operation& op) {
  const Box &latent = box_of(s, Operand::latent), &dk = box_of(s, Operand::dk), &dv = box_of(s, Operand::dv),
            &of_keys = box_of(s, Operand::dkey_weights), &of_values = box_of(s, Operand::dvalue_weights);
  count_products(s, op, Operand::latent, Operand::latent, Operand::dkey_weights, Operand::dv);
  const std::uint32_t keys_writer = writer(s, of_keys),
                      values_writer = of_values.buffer == of_keys.buffer ? keys_writer : writer(s, of_values);
  q_.clear();
  if (latent.rows > 0) read(s.rank, latent, {0, 1}, q_);
  bool rows = expect(s, latent, q_, Holds::latent, 0), padding = false;
  for (const Run& run : q_)
    for (std::int64_t i = 0; rows && i < (run.step == 1 ? 1 : run.count); ++i)
      tokens_.for_each(run.id() + i * run.step, run.step == 1 ? run.count : 1,
                       [&](const Stretch& t) { padding = padding || t.valid < t.count; });
  if (padding) report(s, FindingKind::coverage, latent, "sums up padding rows, which may hold anything");
  rows = rows && !padding;
  for (const Heads h : cut_heads(s.rank, {{&dk, 1}, {&dv, 1}, {&of_keys, 1}, {&of_values, 1}}, dk.heads())) {
    k_.clear(), v_.clear();
    if (dk.rows > 0) read(s.rank, dk, h, k_), read(s.rank, dv, h, v_);
    bool good = expect_gradient(s, dk, k_, Holds::dk, op.head_begin);
    good = expect_gradient(s, dv, v_, Holds::dv, op.head_begin) && good;
    good = rows && good && expect_same_rows(s, dk, q_, k_) && expect_same_rows(s, dv, q_, v_);
    if (good) {
      write_weights(s, op, Operand::dkey_weights, h, k_, keys_writer);
      write_weights(s, op, Operand::dvalue_weights, h, v_, values_writer);
      continue;
    }
    write_unknown(s, of_keys, keys_writer);
    write_unknown(s, of_values, values_writer);
  }
}

}  // namespace cplab::checking
