// The kernels of linear attention with transitions of every token against the CPU's in double: ragged pieces
// in any layout, poison wherever nothing is to be read.
#include <cmath>
#include <list>
#include <map>
#include <optional>

#include "kernels/linear.hpp"
#include "tests/gpu/gpu_tile.hpp"
#include "tests/kernels/random_tile.hpp"

namespace cplab::testing {
namespace {

using kernels::Chunk;
using kernels::CudaCalls;
using kernels::Write;

class GatedCase {
 public:
  GatedCase(Report& report, const CaseName& name)
      : report_(report),
        generator_(static_cast<unsigned>(name.seed * 7919 + static_cast<std::uint64_t>(name.number))) {
    const std::int64_t sizes[] = {16, 40, 64, 64, 96, 128, 128};
    const DType dtypes[] = {DType::bf16, DType::bf16, DType::fp16, DType::fp32};
    D_ = sizes[draw(generator_, 0, 6)], E_ = toss() ? D_ : sizes[draw(generator_, 0, 6)];
    dtype_ = dtypes[draw(generator_, 0, 3)];
    column_ = toss(), beta_ = toss(), enters_ = toss();
    gap_unit_ = toss() ? 1 : 8;
    strongest_ = toss() ? 0.1 : 4;
    const std::int64_t lengths[] = {0, 1, 17, 63, 64, 65, 130, 257};
    for (auto n = draw(generator_, 1, 3); n > 0; --n) {
      const auto number = static_cast<std::int32_t>(chunks_.size());
      rows_ += draw(generator_, 0, 2);
      chunks_.push_back({.row = rows_,
                         .count = lengths[draw(generator_, 0, 7)],
                         .state = number,
                         .left = number,
                         .right = number,
                         .resets = true});
      rows_ += chunks_.back().count;
    }
    rows_ += draw(generator_, 0, 2);
    where_ = "--seed " + std::to_string(name.seed) + " --case " + std::to_string(name.number) +
             ", D=" + std::to_string(D_) + " E=" + std::to_string(E_) + " " + name_of(dtype_) +
             (column_ ? " gates of columns" : " gates of heads") + (beta_ ? ", beta" : "") +
             " rows=" + std::to_string(rows_);
  }

  void local() {
    const Write write = toss() ? Write::store : Write::add;
    Pair q = keys(), k = keys(), v = values(), gates = log_decay(), strengths = beta(), carry = states(E_);
    Pair out = result(E_, dtype_, write), leaving = states_out(E_);
    const auto call = [&](const auto& view) {
      kernels::LinearLocal c{.q = view(q),
                             .k = view(k),
                             .v = view(v),
                             .log_decay = view(gates),
                             .out = view(out),
                             .final_state = view(leaving),
                             .chunks = chunks(),
                             .write = write};
      if (beta_) c.beta = view(strengths);
      if (enters_) c.carry = view(carry);
      return c;
    };
    kernels::cpu_linear_tiles().local(call(exact));
    const std::string variant = on_gpu({&q, &k, &v, &gates, &strengths, &carry, &out, &leaving}, call);
    compare(variant, "out", out);
    compare(variant, "final_state", leaving);
  }

  void backward() {
    const Write write = toss() ? Write::store : Write::add;
    Pair q = keys(), k = keys(), v = values(), dout = values(), gates = log_decay(), strengths = beta(),
         carry = states(E_), dcarry = states(E_);
    Pair dq = result(D_, dtype_, write), dk = result(D_, dtype_, write), dv = result(E_, dtype_, write),
         dgates = result(column_ ? D_ : 1, DType::fp32, Write::store),
         dstrengths = result(1, DType::fp32, Write::store), leaving = states_out(E_);
    const auto call = [&](const auto& view) {
      kernels::LinearLocalBackward c{.q = view(q),
                                     .k = view(k),
                                     .v = view(v),
                                     .dout = view(dout),
                                     .log_decay = view(gates),
                                     .dq = view(dq),
                                     .dk = view(dk),
                                     .dv = view(dv),
                                     .dlog_decay = view(dgates),
                                     .final_state = view(leaving),
                                     .chunks = chunks(),
                                     .write = write};
      if (beta_) c.beta = view(strengths), c.dbeta = view(dstrengths);
      if (enters_) c.carry = view(carry), c.dcarry = view(dcarry);
      return c;
    };
    kernels::cpu_linear_tiles().local_backward(call(exact));
    const std::string variant = on_gpu({&q, &k, &v, &dout, &gates, &strengths, &carry, &dcarry, &dq, &dk, &dv,
                                        &dgates, &dstrengths, &leaving},
                                       call);
    compare(variant, "dq", dq);
    compare(variant, "dk", dk);
    compare(variant, "dv", dv);
    compare(variant, "dlog_decay", dgates);
    if (beta_) compare(variant, "dbeta", dstrengths);
    compare(variant, "final_state", leaving);
  }

  void state(bool reverse) {
    Pair q = keys(), k = keys(), v = values(), gates = log_decay(), strengths = beta();
    Pair leaving = states_out(E_), transition = states_out(beta_ ? D_ : 1);
    const auto call = [&](const auto& view) {
      kernels::LinearState c{.rows = view(reverse ? q : k),
                             .columns = view(v),
                             .log_decay = view(gates),
                             .state = view(leaving),
                             .chunks = chunks(),
                             .reverse = reverse};
      if (beta_) c.beta = view(strengths);
      if (beta_ && reverse) c.k = view(k);
      if (!reverse) c.transition = view(transition);
      return c;
    };
    kernels::cpu_linear_tiles().state(call(exact));
    const std::string variant = on_gpu({&q, &k, &v, &gates, &strengths, &leaving, &transition}, call);
    compare(variant, "state", leaving);
    if (!reverse) compare(variant, "transition", transition);
  }

  void combine() {
    const Write write = toss() ? Write::store : Write::add;
    const bool reverse = toss();
    Pair from = states(E_), transition = states(beta_ ? D_ : 1), into = states(E_);
    for (Chunk& chunk : chunks_) chunk.resets = draw(generator_, 0, 3) == 0;
    const auto call = [&](const auto& view) {
      return kernels::LinearCombine{.from = view(from),
                                    .into = view(into),
                                    .transition = view(transition),
                                    .chunks = chunks(),
                                    .write = write,
                                    .reverse = reverse};
    };
    kernels::cpu_linear_tiles().combine(call(exact));
    compare(on_gpu({&from, &transition, &into}, call), "combined state", into, 1e-5);
  }

 private:
  // A tensor for the GPU, and one in double that held the same.
  struct Pair {
    Tensor given, exact;
  };
  static View exact(Pair& pair) { return pair.exact.view(); }

  bool toss() { return draw(generator_, 0, 1) == 0; }
  kernels::Chunks chunks() const { return {.list = chunks_, .slopes = slopes_}; }

  template <class Draw>
  Pair pair(DType dtype, std::int64_t rows, std::int64_t width, Draw value) {
    std::vector<double> all;
    for (std::int64_t i = 0; i < rows * heads_ * width; ++i) all.push_back(rounded(value(i), dtype));
    return {random_tensor(generator_, dtype, rows, heads_, width, all, gap_unit_),
            random_tensor(generator_, DType::fp64, rows, heads_, width, all, 1)};
  }
  // NaN in rows that no chunk has.
  template <class Draw>
  Pair tokens(DType dtype, std::int64_t width, Draw value) {
    return pair(dtype, rows_, width, [&](std::int64_t i) {
      const std::int64_t row = i / heads_ / width;
      for (const Chunk& c : chunks_)
        if (row >= c.row && row < c.row + c.count) return value();
      return nan;
    });
  }
  double normal() { return std::normal_distribution<double>()(generator_); }
  double uniform() { return std::uniform_real_distribution<double>()(generator_); }
  Pair keys() {
    return tokens(dtype_, D_, [this] { return normal() / std::sqrt(static_cast<double>(D_)); });
  }
  Pair values() {
    return tokens(dtype_, E_, [this] { return normal(); });
  }
  Pair log_decay() {
    return tokens(DType::fp32, column_ ? D_ : 1, [this] { return -strongest_ * uniform(); });
  }
  Pair beta() {
    return tokens(DType::fp32, 1, [this] { return uniform(); });
  }
  Pair states(std::int64_t width) {
    return pair(DType::fp32, std::ssize(chunks_) * D_, width, [this](std::int64_t) { return normal(); });
  }
  Pair states_out(std::int64_t width) {
    return pair(DType::fp32, std::ssize(chunks_) * D_, width, [](std::int64_t) { return nan; });
  }
  Pair result(std::int64_t width, DType dtype, Write write) {
    return pair(dtype, rows_, width,
                [&, write](std::int64_t) { return write == Write::add ? normal() : nan; });
  }

  template <class Call>
  std::string on_gpu(const std::vector<Pair*>& pairs, const Call& call) {
    std::vector<Tensor*> tensors;
    for (Pair* each : pairs) tensors.push_back(&each->given);
    const TileRun run = run_on_gpu(tensors, 0, [&](CudaCalls& calls, const Mirror& mirror) {
      return calls.add(call([&](Pair& each) { return mirror.device(each.given.view()); }));
    });
    report_.holds(run.variant, where_, "two runs differ", run.repeatable);
    return run.variant;
  }

  // The norm of the difference, of each head apart, as a share of what roundings make of it.
  void compare(const std::string& variant, const char* what, const Pair& pair, double most = 0) {
    if (most == 0) most = dtype_ == DType::bf16 ? 1.5e-2 : dtype_ == DType::fp16 ? 2e-3 : 2e-5;
    double worst = 0;
    for (std::int64_t head = 0; head < heads_; ++head) {
      double error = 0, norm = 1e-30;
      for (std::int64_t row = 0; row < pair.given.rows(); ++row)
        for (std::int64_t x = 0; x < pair.given.width(); ++x) {
          const double right = pair.exact.at(row, head, x), is = pair.given.at(row, head, x);
          error += (is - right) * (is - right);
          norm += right * right;
        }
      const double share = std::sqrt(error / norm) / most;
      if (!(share <= worst)) worst = std::isnan(share) ? infinity : share;
    }
    report_.share(variant, where_, what, worst);
    report_.holds(variant, where_, "memory between the rows was touched", pair.given.gaps_intact());
  }

  Report& report_;
  std::mt19937 generator_;
  std::int64_t D_ = 0, E_ = 0, rows_ = 0, gap_unit_ = 1;
  static constexpr std::int64_t heads_ = 2;
  const std::vector<double> slopes_ = {0, 0};
  DType dtype_ = DType::fp32;
  bool column_ = false, beta_ = false, enters_ = false;
  double strongest_ = 1;
  std::vector<Chunk> chunks_;
  std::string where_;
};

}  // namespace

void gated_case(Report& report, const CaseName& name) {
  GatedCase test(report, name);
  test.local();
  test.backward();
  test.state(false);
  test.state(true);
  test.combine();
}

}  // namespace cplab::testing
