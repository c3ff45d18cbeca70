// One tile against brute force in double, with the a priori bounds of tests/kernels/oracle.hpp: they hold for
// any order of summation and for key blocks of 32 keys or more.
#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/kernels/oracle.hpp"
#include "tests/kernels/random_tile.hpp"
#include "tests/kernels/tile_case.hpp"
#include "tests/kernels/tile_cases.hpp"

namespace cplab::testing {
namespace {

using kernels::Attend;
using kernels::AttendBackward;
using kernels::Write;

// Seen by any pair of the problem: query rows, or key rows.
std::vector<bool> seen_rows(const Problem& problem, bool keys) {
  std::vector<bool> seen(static_cast<std::size_t>(keys ? problem.sizes.nk : problem.sizes.nq));
  const std::vector<int> pairs = visible_pairs(problem);
  for (std::int64_t i = 0; i < problem.sizes.nq; ++i)
    for (std::int64_t j = 0; j < problem.sizes.nk; ++j)
      if (pairs[static_cast<std::size_t>(i * problem.sizes.nk + j)] != 0)
        seen[static_cast<std::size_t>(keys ? j : i)] = true;
  return seen;
}

// Each segment to one of two problems.
std::pair<Problem, Problem> split(const Problem& problem, std::mt19937& generator) {
  std::pair<Problem, Problem> halves = {problem, problem};
  halves.first.segments.clear();
  halves.second.segments.clear();
  for (const Segment& segment : problem.segments)
    (draw(generator, 0, 1) == 0 ? halves.first : halves.second).segments.push_back(segment);
  return halves;
}

using Bits = std::vector<std::vector<std::byte>>;

Bits row_bits(const Tensor& tensor) {
  Bits bits;
  for (std::int64_t row = 0; row < tensor.rows(); ++row)
    for (std::int64_t head = 0; head < tensor.heads(); ++head) bits.push_back(tensor.bits(row, head));
  return bits;
}

bool unseen_unchanged(const Tensor& tensor, const Bits& before, const std::vector<bool>& seen) {
  const Bits now = row_bits(tensor);
  for (std::size_t n = 0; n < now.size(); ++n)
    if (!seen[n / static_cast<std::size_t>(tensor.heads())] && now[n] != before[n]) return false;
  return true;
}

// Multiplies runs of keys by powers of 4: maxima of scores rise from block to block by nothing, by a few, by
// dozens or by hundreds, so that weights relative to an earlier maximum are too large for bf16, or for fp32.
void lengthen_keys(Problem& problem, std::mt19937& generator) {
  problem.scale = 1 / std::sqrt(static_cast<double>(problem.sizes.D));
  const std::int64_t width = problem.sizes.G * problem.sizes.D;
  double factor = 1;
  for (std::int64_t row = 0, left = 0; row < problem.sizes.nk; ++row, --left) {
    if (left == 0) {
      left = draw(generator, 1, 150);
      factor = std::pow(4, draw(generator, 0, 4));
    }
    for (std::int64_t x = 0; x < width; ++x) problem.k[static_cast<std::size_t>(row * width + x)] *= factor;
  }
}

class AttendCase {
 public:
  AttendCase(Report& report, const TileRunner& runner, const TileCase& tile, std::mt19937& generator)
      : report_(report), runner_(runner), tile_(tile), generator_(generator), where_(tile.text()) {}

  void run() {
    Problem problem = random_problem(generator_, tile_.sizes, tile_.segments, tile_.nominal);
    if (tile_.positive) problem.scale = std::abs(problem.scale);
    if (tile_.rising) lengthen_keys(problem, generator_);
    const Expected expected = expected_of(problem);
    forward(problem, expected);
    backward(problem, expected);
    merged(problem, expected);
    added(problem, expected);
    if (tile_.segments.size() == 1 || tile_.apart) dropped_row(problem);
    rounded(problem, expected);
    sunk(problem);
  }

 private:
  // With a sink for each head: forward, and gradients of rows whose weights add up to less than 1.
  void sunk(Problem problem) {
    const double size = tile_.rising ? 20 : 2;
    for (double sink : random_values(sinks_, problem.sizes.H, DType::fp32))
      problem.sinks.push_back(size * sink);
    const Expected expected = expected_of(problem);
    forward(problem, expected);
    backward(problem, expected);
  }

  std::string attend(TileTensors& tensors, const Problem& problem, Write write) {
    const TileRun run = runner_.attend(tensors.all(), tile_.shift, tensors.attend(problem, write));
    check_surroundings(run, tensors);
    return run.variant;
  }

  std::string attend_backward(TileTensors& tensors, const Problem& problem, Write write) {
    return attend_backward(tensors, problem, write, write);
  }
  std::string attend_backward(TileTensors& tensors, const Problem& problem, Write write_dq, Write write_dk) {
    const TileRun run =
        runner_.attend_backward(tensors.all(), tile_.shift, tensors.backward(problem, write_dq, write_dk));
    check_surroundings(run, tensors);
    return run.variant;
  }

  void check_surroundings(const TileRun& run, TileTensors& tensors) {
    report_.holds(run.variant, where_, "two runs differ", run.repeatable);
    const std::string gap = tensors.touched_gap();
    report_.holds(run.variant, where_, ("memory between the rows was touched: " + gap).c_str(), gap.empty());
    report_.holds(run.variant, where_, "an operand was changed", tensors.inputs_unchanged());
  }

  void check_out(const std::string& variant, const TileTensors& tensors, const Problem& problem,
                 const Expected& expected, std::int64_t merges) {
    Tolerance tolerance = out_tolerance(problem, expected, tile_.dtypes(merges));
    tolerance.floor *= static_cast<double>(1 + merges);  // the part was stored, too
    report_.share(variant, where_, merges > 0 ? "merged out" : "out",
                  worst_share(tensors.out.values(), expected.out, expected.out_majorant, tolerance));
    report_.share(variant, where_, merges > 0 ? "merged lse" : "lse",
                  worst_share(tensors.lse.values(), expected.lse, std::vector<double>(expected.lse.size(), 1),
                              lse_tolerance(problem, expected, tile_.dtypes(merges))));
  }

  // extra: a sum in two parts rounds the first to the dtype of the gradient, relative to less than the
  // majorant.
  void check_gradients(const std::string& variant, const TileTensors& tensors, const Problem& problem,
                       const Expected& expected, double extra) {
    check_gradients(variant, tensors, problem, expected, extra, tile_.dtypes());
  }
  void check_gradients(const std::string& variant, const TileTensors& tensors, const Problem& problem,
                       const Expected& expected, double extra, const TileDTypes& dtypes) {
    GradientTolerances tolerance = gradient_tolerances(problem, expected, dtypes);
    for (Tolerance* each : {&tolerance.dq, &tolerance.dk, &tolerance.dv}) {
      each->majorant += extra;
      if (extra > 0) each->floor *= 2;
    }
    report_.share(variant, where_, extra > 0 ? "added dq" : "dq",
                  worst_share(tensors.final_dq().values(), expected.dq, expected.dq_majorant, tolerance.dq));
    report_.share(variant, where_, extra > 0 ? "added dk" : "dk",
                  worst_share(tensors.final_dk().values(), expected.dk, expected.dk_majorant, tolerance.dk));
    report_.share(variant, where_, extra > 0 ? "added dv" : "dv",
                  worst_share(tensors.final_dv().values(), expected.dv, expected.dv_majorant, tolerance.dv));
  }

  TileTensors make(const Problem& problem) { return {generator_, problem, tile_.dtypes(), tile_.layouts}; }

  // Asked for or not, in both of the cases' calls alike.
  void check_max_logit(const std::string& variant, const TileTensors& tensors, const Problem& problem,
                       const Expected& expected) {
    std::vector<double> right = expected.max_logit;
    if (!tensors.asks_max_logit) std::fill(right.begin(), right.end(), -infinity);
    report_.share(variant, where_, "max_logit",
                  worst_share(tensors.max_logit.values(), right, std::vector<double>(right.size(), 1),
                              max_logit_tolerance(problem, expected, tile_.dtypes())));
  }

  TileTensors make_backward(const Problem& problem, const Expected& expected) {
    TileTensors tensors = make(problem);
    tensors.lse.assign(expected.lse);
    tensors.delta.assign(expected.delta);
    return tensors;
  }

  TileDTypes rounding_dtypes(bool rounds_dq = true, bool rounds_dkv = false) const {
    TileDTypes dtypes = tile_.dtypes();
    dtypes.out = tile_.nominal;
    dtypes.rounds_dq = rounds_dq;
    dtypes.rounds_dkv = rounds_dkv;
    return dtypes;
  }
  TileTensors make_rounding(const Problem& problem, const Expected& expected, bool rounds_dq = true,
                            bool rounds_dkv = false) {
    TileTensors tensors(generator_, problem, rounding_dtypes(rounds_dq, rounds_dkv), tile_.layouts);
    tensors.lse.assign(expected.lse);
    tensors.delta.assign(expected.delta);
    return tensors;
  }

  void forward(const Problem& problem, const Expected& expected) {
    TileTensors tensors = make(problem);
    tensors.asks_max_logit = draw(generator_, 0, 2) > 0;
    const std::string variant = attend(tensors, problem, Write::store);
    check_out(variant, tensors, problem, expected, 0);
    check_max_logit(variant, tensors, problem, expected);
  }

  void backward(const Problem& problem, const Expected& expected) {
    TileTensors tensors = make_backward(problem, expected);
    check_gradients(attend_backward(tensors, problem, Write::store), tensors, problem, expected, 0);
  }

  // One part stored, the other merged into it. Where the first saw nothing, out is poison, or
  // -0 if the second sees nothing either: a kernel that writes such a row anyway shows.
  void merged(const Problem& problem, const Expected& expected) {
    const auto [first, second] = split(problem, generator_);
    TileTensors tensors = make(problem);
    tensors.asks_max_logit = draw(generator_, 0, 1) > 0;
    attend(tensors, first, Write::store);
    const std::vector<bool> seen_first = seen_rows(first, false);
    const std::vector<bool> seen_second = seen_rows(second, false);
    for (std::int64_t row = 0; row < problem.sizes.nq; ++row) {
      const auto at = static_cast<std::size_t>(row);
      if (!seen_first[at]) tensors.out.fill_row(row, seen_second[at] ? nan : -0.0);
    }
    const Bits out = row_bits(tensors.out);
    const Bits lse = row_bits(tensors.lse);
    const std::string variant = attend(tensors, second, Write::merge);
    check_out(variant, tensors, problem, expected, 1);
    check_max_logit(variant, tensors, problem, expected);
    report_.holds(
        variant, where_, "merge changed a row that sees no key",
        unseen_unchanged(tensors.out, out, seen_second) && unseen_unchanged(tensors.lse, lse, seen_second));
  }

  // Likewise for gradients; rows that no part sees hold -0, which adding 0 would change.
  void added(const Problem& problem, const Expected& expected) {
    const auto [first, second] = split(problem, generator_);
    TileTensors tensors = make_backward(problem, expected);
    attend_backward(tensors, first, Write::store);
    const std::vector<bool> queries = seen_rows(second, false);
    const std::vector<bool> keys = seen_rows(second, true);
    const std::vector<bool> all_queries = seen_rows(problem, false);
    const std::vector<bool> all_keys = seen_rows(problem, true);
    const auto sign = [](Tensor& tensor, const std::vector<bool>& seen) {
      for (std::int64_t row = 0; row < tensor.rows(); ++row)
        if (!seen[static_cast<std::size_t>(row)]) tensor.fill_row(row, -0.0);
    };
    sign(tensors.dq, all_queries);
    sign(tensors.dk, all_keys);
    sign(tensors.dv, all_keys);
    const Bits dq = row_bits(tensors.dq);
    const Bits dk = row_bits(tensors.dk);
    const Bits dv = row_bits(tensors.dv);
    const std::string variant = attend_backward(tensors, second, Write::add);
    check_gradients(variant, tensors, problem, expected, 1.01 * unit_roundoff(tile_.out));
    report_.holds(variant, where_, "add changed a row without a contribution",
                  unseen_unchanged(tensors.dq, dq, queries) && unseen_unchanged(tensors.dk, dk, keys) &&
                      unseen_unchanged(tensors.dv, dv, keys));
  }

  // A row inside a segment whose final lse is -inf gives and receives nothing: as if the mask left it out.
  // Its q, dout and delta are finite here: tensor-core kernels multiply them by an exact 0.
  void dropped_row(const Problem& problem) {
    const Segment& whole = problem.segments.front();
    if (whole.q_count == 0) return;
    const std::int64_t row = draw(generator_, 0, whole.q_count - 1);
    Problem without = problem;
    Segment after = whole;
    without.segments.front().q_count = row;
    after.q_begin += row + 1;
    after.q_count -= row + 1;
    after.offset += row + 1;
    without.segments.push_back(after);
    const Expected expected = expected_of(without);
    TileTensors tensors = tile_.apart ? make_rounding(without, expected) : make_backward(without, expected);
    tensors.delta.fill_row(whole.q_begin + row, 0.5);
    check_gradients(attend_backward(tensors, problem, Write::store), tensors, without, expected, 0);
  }

  // dq summed in fp32 and rounded by the call, which stores it, or adds it to the sum of another one. dk and
  // dv likewise, or stored, or added to.
  void rounded(const Problem& problem, const Expected& expected) {
    const bool adds = draw(generator_, 0, 3) == 0;
    const bool adds_dk = adds || draw(generator_, 0, 2) == 0;
    const bool rounds_dkv = !adds_dk && draw(generator_, 0, 2) > 0;
    const bool rounds_dq = !rounds_dkv || draw(generator_, 0, 2) > 0;  // or only dk and dv are
    TileTensors tensors = make_rounding(problem, expected, rounds_dq, rounds_dkv);
    if (!adds && problem.sizes.nk % 4 < 2)
      return with_delta(problem, tensors, adds_dk, rounding_dtypes(rounds_dq, rounds_dkv));
    const auto [first, second] = split(problem, generator_);
    if (adds) {
      tensors.rounds_dq = false;
      attend_backward(tensors, first, Write::store);
      tensors.rounds_dq = true;
    }
    if (adds_dk && !adds) clear_dkv(tensors);
    const std::string variant =
        attend_backward(tensors, adds ? second : problem, adds ? Write::add : Write::store,
                        adds_dk ? Write::add : Write::store);
    check_gradients(variant, tensors, problem, expected, adds ? 1.01 * unit_roundoff(tile_.nominal) : 0,
                    rounding_dtypes(rounds_dq, rounds_dkv));
  }

  // What dk and dv are added to where dq is stored.
  static void clear_dkv(TileTensors& tensors) {
    for (Tensor* tensor : {&tensors.dk, &tensors.dv})
      for (std::int64_t key = 0; key < tensor->rows(); ++key) tensor->fill_row(key, 0);
  }

  // The call computes delta, of an out that is not this softmax's: any delta has gradients.
  void with_delta(const Problem& problem, TileTensors& tensors, bool adds_dk, TileDTypes dtypes) {
    dtypes.computes_delta = tensors.computes_delta = true;
    std::mt19937 own(static_cast<unsigned>(problem.sizes.nq));
    const std::vector<double> delta = tensors.choose_out(own, problem);
    const Expected expected = expected_of(problem, delta);
    if (adds_dk) clear_dkv(tensors);
    const std::string variant =
        attend_backward(tensors, problem, Write::store, adds_dk ? Write::add : Write::store);
    check_gradients(variant, tensors, problem, expected, 0, dtypes);
    if (!runner_.computes_delta) return;
    // Of rows without keys dout is NaN, and so is delta.
    const std::vector<double> computed = tensors.delta.values();
    bool right = computed.size() == delta.size();
    const double relative =
        (static_cast<double>(problem.sizes.E) + 2) * unit_roundoff(wide(dtypes.nominal)) * 1.01;
    for (std::size_t n = 0; right && n < delta.size(); ++n)
      right = std::isnan(delta[n]) ? std::isnan(computed[n])
                                   : std::abs(computed[n] - delta[n]) <= relative * delta[n];
    report_.holds(variant, where_, "delta is not rowsum(dout out)", right);
  }

  Report& report_;
  const TileRunner& runner_;
  const TileCase& tile_;
  std::mt19937& generator_;
  std::mt19937 sinks_{11};
  std::string where_;
};

}  // namespace

void check_tile(Report& report, const TileRunner& runner, const TileCase& tile, std::mt19937& generator) {
  AttendCase(report, runner, tile, generator).run();
}

}  // namespace cplab::testing
