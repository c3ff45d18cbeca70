// The kernels of linear attention against the recurrence in double, on random chunks: ragged lengths, missing
// states, rows in no chunk, poison wherever nothing is to be read.
#include <algorithm>
#include <cmath>
#include <optional>

#include "kernels/linear.hpp"
#include "tests/gpu/linear_problem.hpp"

namespace cplab::testing {
namespace {

using kernels::CudaCalls;

class LinearCase : LinearProblem {
 public:
  using LinearProblem::LinearProblem;

  void run(const std::string& only) {
    const auto wanted = [&](const char* name) { return std::string(name).find(only) != std::string::npos; };
    if (wanted("linear_local")) local();
    if (wanted("linear_backward")) backward();
    if (wanted("linear_state")) state(false), state(true);
    if (wanted("linear_scan")) scan(false), scan(true);
    if (wanted("linear_combine")) combine();
    if (wanted("linear_inter")) inter();
  }

 private:
  template <class Add>
  std::string on_gpu(const std::vector<Tensor*>& tensors, Add call) {
    const TileRun run = run_on_gpu(tensors, shift_, call);
    report_.holds(run.variant, where_, "two runs differ", run.repeatable);
    return run.variant;
  }

  // A view of the copy of a tensor, or none.
  static std::optional<View> view_if(bool given, const Mirror& mirror, Tensor& tensor) {
    return given ? std::optional(mirror.device(tensor.view())) : std::nullopt;
  }

  kernels::Chunks chunks_of(const std::vector<Chunk>& list) const {
    return {.list = list, .slopes = slopes_, .work = work_};
  }

  void local() {
    const Write write = toss_write();
    const bool leaves = toss();
    const bool has_state = toss(), has_carry = toss();
    const std::vector<Chunk> chunks = with_missing_states(leaves ? whole_pieces() : chunks_);
    Tensor q = tokens(D_), k = tokens(D_), v = tokens(E_), out = result(E_, write);
    Tensor state = states(std::ssize(chunks_), numbers(chunks, &Chunk::state), wide_);
    Tensor carry = states(pieces_, numbers(chunks, &Chunk::left), wide_);
    Tensor final_state = poisoned_states(pieces_);
    const Tensor before = out;
    const std::string variant =
        on_gpu({&q, &k, &v, &out, &state, &carry, &final_state}, [&](CudaCalls& calls, const Mirror& mirror) {
          return calls.add(kernels::LinearLocal{.q = mirror.device(q.view()),
                                                .k = mirror.device(k.view()),
                                                .v = mirror.device(v.view()),
                                                .state = view_if(has_state, mirror, state),
                                                .carry = view_if(has_carry, mirror, carry),
                                                .out = mirror.device(out.view()),
                                                .final_state = view_if(leaves, mirror, final_state),
                                                .chunks = chunks_of(chunks),
                                                .write = write});
        });
    check(variant,
          {.name = "out",
           .a = &q,
           .b = &k,
           .c = &v,
           .gpu = &out,
           .before = &before,
           .edges = {.own = has_state ? &state : nullptr, .carry = has_carry ? &carry : nullptr},
           .final_state = leaves ? &final_state : nullptr},
          chunks, write);
  }

  // Operands and results of a backward, of local or of inter.
  struct Gradients {
    Tensor q, k, v, dout, state, carry, dstate, dcarry, dq, dk, dv;
    Tensor dq_before = dq, dk_before = dk, dv_before = dv;
    bool has_state, has_carry, has_dstate, has_dcarry;

    std::vector<Result> results(bool pairs) const {
      const Edges left{.own = has_state ? &state : nullptr, .carry = has_carry ? &carry : nullptr};
      const Edges right{
          .own = has_dstate ? &dstate : nullptr, .carry = has_dcarry ? &dcarry : nullptr, .reverse = true};
      Edges left_transposed = left, right_transposed = right;
      left_transposed.transposed = right_transposed.transposed = true;
      return {{"dq", &dout, &v, &k, &dq, &dq_before, left_transposed, nullptr, pairs},
              {"dk", &v, &dout, &q, &dk, &dk_before, right_transposed, nullptr, pairs},
              {"dv", &k, &q, &dout, &dv, &dv_before, right, nullptr, pairs}};
    }
  };

  Gradients gradients(const std::vector<Chunk>& chunks, Write write) {
    return {.q = tokens(D_),
            .k = tokens(D_),
            .v = tokens(E_),
            .dout = tokens(E_),
            .state = states(std::ssize(chunks_), numbers(chunks, &Chunk::state), wide_),
            .carry = states(pieces_, numbers(chunks, &Chunk::left), wide_),
            .dstate = states(std::ssize(chunks_), numbers(chunks, &Chunk::state), wide_),
            .dcarry = states(pieces_, numbers(chunks, &Chunk::right), wide_),
            .dq = result(D_, write),
            .dk = result(D_, write),
            .dv = result(E_, write),
            .has_state = toss(),
            .has_carry = toss(),
            .has_dstate = toss(),
            .has_dcarry = toss()};
  }

  void backward() {
    const Write write = toss_write();
    const bool leaves = toss();
    const std::vector<Chunk> chunks = with_missing_states(leaves ? whole_pieces() : chunks_);
    Gradients g = gradients(chunks, write);
    Tensor final_state = poisoned_states(pieces_);
    const std::string variant = on_gpu(
        {&g.q, &g.k, &g.v, &g.dout, &g.state, &g.carry, &g.dstate, &g.dcarry, &g.dq, &g.dk, &g.dv,
         &final_state},
        [&](CudaCalls& calls, const Mirror& mirror) {
          return calls.add(kernels::LinearLocalBackward{.q = mirror.device(g.q.view()),
                                                        .k = mirror.device(g.k.view()),
                                                        .v = mirror.device(g.v.view()),
                                                        .dout = mirror.device(g.dout.view()),
                                                        .state = view_if(g.has_state, mirror, g.state),
                                                        .carry = view_if(g.has_carry, mirror, g.carry),
                                                        .dstate = view_if(g.has_dstate, mirror, g.dstate),
                                                        .dcarry = view_if(g.has_dcarry, mirror, g.dcarry),
                                                        .dq = mirror.device(g.dq.view()),
                                                        .dk = mirror.device(g.dk.view()),
                                                        .dv = mirror.device(g.dv.view()),
                                                        .final_state = view_if(leaves, mirror, final_state),
                                                        .chunks = chunks_of(chunks),
                                                        .write = write});
        });
    std::vector<Result> results = g.results(true);
    if (leaves) results[2].final_state = &final_state;
    for (const Result& r : results) check(variant, r, chunks, write);
  }

  void inter() {
    const Write write = toss_write();
    const std::vector<Chunk> chunks = with_missing_states(chunks_);
    Gradients g = gradients(chunks, write);
    g.has_state = g.has_state || !g.has_carry;
    g.has_dstate = g.has_dstate || !g.has_dcarry;
    Tensor out = result(E_, write);
    const Tensor out_before = out;
    const bool has_out = toss(), has_dq = toss(), has_dk = toss(),
               has_dv = toss() || !(has_out || has_dq || has_dk);
    const std::string variant = on_gpu(
        {&g.q, &g.k, &g.v, &g.dout, &g.state, &g.carry, &g.dstate, &g.dcarry, &out, &g.dq, &g.dk, &g.dv},
        [&](CudaCalls& calls, const Mirror& mirror) {
          return calls.add(kernels::LinearInter{.q = view_if(has_out, mirror, g.q),
                                                .k = view_if(has_dv, mirror, g.k),
                                                .v = view_if(has_dk, mirror, g.v),
                                                .dout = view_if(has_dq, mirror, g.dout),
                                                .state = view_if(g.has_state, mirror, g.state),
                                                .carry = view_if(g.has_carry, mirror, g.carry),
                                                .dstate = view_if(g.has_dstate, mirror, g.dstate),
                                                .dcarry = view_if(g.has_dcarry, mirror, g.dcarry),
                                                .out = view_if(has_out, mirror, out),
                                                .dq = view_if(has_dq, mirror, g.dq),
                                                .dk = view_if(has_dk, mirror, g.dk),
                                                .dv = view_if(has_dv, mirror, g.dv),
                                                .chunks = chunks_of(chunks),
                                                .write = write});
        });
    std::vector<Result> results = g.results(false);
    const Edges left{.own = g.has_state ? &g.state : nullptr, .carry = g.has_carry ? &g.carry : nullptr};
    if (has_out)
      check(variant, {"out", &g.q, &g.k, &g.v, &out, &out_before, left, nullptr, false}, chunks, write);
    if (has_dq) check(variant, results[0], chunks, write);
    if (has_dk) check(variant, results[1], chunks, write);
    if (has_dv) check(variant, results[2], chunks, write);
  }

  void state(bool reverse) {
    Tensor rows = tokens(D_), columns = tokens(E_), into = poisoned_states(std::ssize(chunks_));
    const std::string variant = on_gpu({&rows, &columns, &into}, [&](CudaCalls& calls, const Mirror& mirror) {
      return calls.add(kernels::LinearState{.rows = mirror.device(rows.view()),
                                            .columns = mirror.device(columns.view()),
                                            .state = mirror.device(into.view()),
                                            .chunks = chunks_of(chunks_),
                                            .reverse = reverse});
    });
    double worst = 0;
    for (std::int64_t head = 0; head < heads_; ++head)
      for (const Chunk& chunk : chunks_) {
        Sums sums(static_cast<std::size_t>(D_ * E_));
        walk({&rows, &rows, &columns, head, slopes_[static_cast<std::size_t>(head)], reverse}, chunk, sums);
        worst = std::max(worst, states_off(into, chunk.state, sums, head, chunk.count, scaled_rows(variant)));
      }
    report_.share(variant, where_, reverse ? "states of queries" : "states of keys", worst);
    report_.holds(variant, where_, "memory between the states was touched", into.gaps_intact());
  }

  void scan(bool reverse) {
    const bool leaves = toss(), sums_only = leaves && toss();
    std::vector<Chunk> chunks = chunks_;
    Tensor own = states(std::ssize(chunks), numbers(chunks, &Chunk::state), wide_);
    Tensor total = poisoned_states(pieces_);
    const Tensor before = own;
    const std::string variant = on_gpu({&own, &total}, [&](CudaCalls& calls, const Mirror& mirror) {
      return calls.add(kernels::LinearScan{.state = mirror.device(own.view()),
                                           .final_state = view_if(leaves, mirror, total),
                                           .chunks = chunks_of(chunks),
                                           .reverse = reverse,
                                           .sums_only = sums_only});
    });
    const auto edge_of = [&](const Chunk& chunk) { return reverse ? chunk.left : chunk.right; };
    const auto add = [&](Sums& sums, const Chunk& from, std::int64_t tokens, std::int64_t head) {
      const double power = std::exp(-slopes_[static_cast<std::size_t>(head)] * static_cast<double>(tokens));
      for (std::int64_t d = 0; d < D_; ++d)
        for (std::int64_t e = 0; e < E_; ++e) {
          const double value = power * before.at(from.state * D_ + d, head, e);
          Sum& sum = sums[static_cast<std::size_t>(d * E_ + e)];
          sum.value += value;
          sum.magnitude += std::fabs(value);
          sum.square += value * value;
        }
    };
    double worst = 0, worst_total = 0;
    for (std::int64_t head = 0; head < heads_; ++head) {
      for (std::size_t n = 0; n < chunks.size(); ++n) {
        Sums sums(static_cast<std::size_t>(D_ * E_));
        std::int64_t tokens = 0;
        if (reverse) {
          for (std::size_t m = n + 1; m < chunks.size() && !chunks[m].resets; tokens += chunks[m++].count)
            add(sums, chunks[m], tokens, head);
        } else {
          for (std::size_t m = n; m > 0 && !chunks[m].resets; tokens += chunks[--m].count)
            add(sums, chunks[m - 1], tokens, head);
        }
        worst = std::max(worst, states_off(own, chunks[n].state, sums, head, 64, {wide_, 1}));
      }
      for (std::int32_t piece = 0; leaves && piece < pieces_; ++piece) {
        Sums sums(static_cast<std::size_t>(D_ * E_));
        for (const Chunk& chunk : chunks)
          if (edge_of(chunk) == piece)
            add(sums, chunk, reverse ? chunk.left_exponent : chunk.right_exponent, head);
        worst_total = std::max(worst_total, states_off(total, piece, sums, head, 64, {wide_, 1}));
      }
    }
    if (sums_only)
      report_.holds(variant, where_, "a scan for sums changed its states", own.memory() == before.memory());
    else
      report_.share(variant, where_, reverse ? "scan from the right" : "scan", worst);
    report_.holds(variant, where_, "memory between the states was touched", own.gaps_intact());
    if (!leaves) return;
    report_.share(variant, where_, "final_state", worst_total);
    check_unnamed(variant, total, numbers(chunks, reverse ? &Chunk::left : &Chunk::right));
  }

  void combine() {
    const Write write = toss_write();
    const DType from_dtype = toss() ? wide_ : nominal_;
    Tensor from = states(std::ssize(chunks_), numbers(chunks_, &Chunk::state), from_dtype);
    Tensor into = write == Write::add ? states(std::ssize(chunks_), numbers(chunks_, &Chunk::state), wide_)
                                      : poisoned_states(std::ssize(chunks_));
    for (const Chunk& chunk : chunks_)
      for (std::int64_t d = 0; d < D_ && chunk.resets; ++d) from.fill_row(chunk.state * D_ + d, nan);
    const Tensor before = into;
    const std::string variant = on_gpu({&from, &into}, [&](CudaCalls& calls, const Mirror& mirror) {
      return calls.add(kernels::LinearCombine{.from = mirror.device(from.view()),
                                              .into = mirror.device(into.view()),
                                              .chunks = chunks_of(chunks_),
                                              .write = write});
    });
    double worst = 0;
    for (const Chunk& chunk : chunks_)
      for (std::int64_t head = 0; head < heads_; ++head) {
        Sums sums(static_cast<std::size_t>(D_ * E_));
        const double power =
            std::exp(-slopes_[static_cast<std::size_t>(head)] * static_cast<double>(chunk.count));
        for (std::int64_t d = 0; d < D_; ++d)
          for (std::int64_t e = 0; e < E_; ++e) {
            const std::int64_t row = chunk.state * D_ + d;
            const double value = chunk.resets ? 0 : power * from.at(row, head, e);
            const double held = write == Write::add ? before.at(row, head, e) : 0;
            sums[static_cast<std::size_t>(d * E_ + e)] = {.value = value + held,
                                                          .magnitude = std::fabs(value) + std::fabs(held),
                                                          .square = value * value + held * held};
          }
        worst = std::max(worst, states_off(into, chunk.state, sums, head, 0, {wide_, 1}));
      }
    report_.share(variant, where_, write == Write::add ? "into, added to" : "into", worst);
    report_.holds(variant, where_, "memory between the states was touched", into.gaps_intact());
  }
};

}  // namespace

void linear_case(Report& report, const CaseName& name, bool has_fp64) {
  LinearCase(report, name, has_fp64).run(name.only);
}

}  // namespace cplab::testing
