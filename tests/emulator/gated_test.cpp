// The kernels of linear attention with transitions of every token, run by the emulator, against the tiles of
// the CPU in double.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "cli/verify/linear_tolerance.hpp"
#include "reference/linear_recurrence.hpp"
#include "tests/emulator/emulated_grid.hpp"
//
#include "kernels/families/linear/gated/gradients.cuh"
#include "kernels/families/linear/gated/prepare.cuh"
#include "kernels/families/linear/gated/rows.cuh"
#include "kernels/families/linear/gated/walk.cuh"
#include "kernels/linear.hpp"
#include "kernels/tiles/gated_cuts.hpp"
#include "kernels/tiles/linear_cuts.hpp"

namespace cplab::kernels::cuda::gated {

// What the kernels declare as dynamic shared memory.
alignas(1024) inline unsigned char prepare_shared[emulator::shared_bytes];
alignas(1024) inline unsigned char walk_shared[emulator::shared_bytes];
alignas(1024) inline unsigned char rows_shared[emulator::shared_bytes];
alignas(1024) inline unsigned char gradients_shared[emulator::shared_bytes];

}  // namespace cplab::kernels::cuda::gated

namespace cplab::emulator {
namespace {

using namespace kernels;
using kernels::Chunk, kernels::Chunks, kernels::DType, kernels::View;  // a plan has its own
using namespace kernels::cuda;
using namespace kernels::cuda::gated;

constexpr int heads = 2;
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

// [rows, heads, width], in a dtype and, of the same values, in double.
class Array {
 public:
  Array(DType dtype, std::int64_t rows, std::int64_t width)
      : dtype_(dtype),
        rows_(rows),
        width_(width),
        bytes_(static_cast<std::size_t>(rows * heads * width) * bytes_of(dtype), 0xff),
        exact_(static_cast<std::size_t>(rows * heads * width), nan) {}
  template <class Draw>
  Array& fill(Draw draw) {
    for (std::size_t i = 0; i < exact_.size(); ++i) {
      store_element(bytes_.data(), dtype_, static_cast<std::int64_t>(i), draw(static_cast<std::int64_t>(i)));
      exact_[i] = load_element(bytes_.data(), dtype_, static_cast<std::int64_t>(i));
    }
    return *this;
  }
  View view() { return view_of(bytes_.data(), dtype_); }
  View exact() { return view_of(exact_.data(), DType::fp64); }
  DeviceView device() {
    return {bytes_.data(),
            nullptr,
            heads * width_,
            width_,
            static_cast<std::int32_t>(rows_),
            heads,
            static_cast<std::int32_t>(width_),
            dtype_};
  }
  double computed(std::int64_t i) const { return load_element(bytes_.data(), dtype_, i); }
  // The rows of a piece.
  std::vector<double> exact_rows(const Chunk& piece) const {
    const std::int64_t pitch = heads * width_;
    return {exact_.begin() + piece.row * pitch, exact_.begin() + (piece.row + piece.count) * pitch};
  }
  // Of what was computed in its dtype, against what was computed in double.
  double error() const {
    double error = 0, norm = 0;
    for (std::size_t i = 0; i < exact_.size(); ++i) {
      const double is = load_element(bytes_.data(), dtype_, static_cast<std::int64_t>(i));
      error += (is - exact_[i]) * (is - exact_[i]);
      norm += exact_[i] * exact_[i];
    }
    return std::sqrt(error / norm);
  }

 private:
  static std::size_t bytes_of(DType dtype) { return dtype == DType::fp64 ? 8 : dtype == DType::fp32 ? 4 : 2; }
  View view_of(void* data, DType dtype) const {
    View view;
    view.data = data;
    view.dtype = dtype;
    view.rows = rows_;
    view.heads = heads;
    view.width = width_;
    view.head_stride = width_;
    view.row_stride = heads * width_;
    return view;
  }
  DType dtype_;
  std::int64_t rows_, width_;
  std::vector<unsigned char> bytes_;
  std::vector<double> exact_;
};

struct Form {
  int D, E;
  bool column, beta;
  double strongest = 0.2;  // -log of the strongest factor
  bool enters = true;
};

// One piece of every length; rows before, between and behind them are nobody's.
struct Pieces {
  std::vector<Chunk> list;
  std::int64_t rows = 2;
  explicit Pieces(std::initializer_list<std::int64_t> lengths) {
    for (const std::int64_t length : lengths) {
      const auto n = static_cast<std::int32_t>(list.size());
      list.push_back({.row = rows, .count = length, .state = n, .left = n, .right = n, .resets = true});
      rows += length + 1;
    }
  }
  std::int64_t count() const { return std::ssize(list); }
};

template <class T>
class Problem {
 public:
  static constexpr DType dtype = dtype_of<T>();

  Problem(const Form& form, const Pieces& pieces, unsigned seed)
      : form_(form),
        pieces_(pieces),
        random_(seed),
        q(rows(dtype, form.D)),
        k(rows(dtype, form.D)),
        v(rows(dtype, form.E)),
        dout(rows(dtype, form.E)),
        log_decay(rows(DType::fp32, form.column ? form.D : 1)),
        beta(rows(DType::fp32, 1)),
        carry(states(form.E)),
        dcarry(states(form.E)),
        out(rows(DType::fp32, form.E)),
        dq(rows(DType::fp32, form.D)),
        dk(rows(DType::fp32, form.D)),
        dv(rows(DType::fp32, form.E)),
        dlog_decay(rows(DType::fp32, form.column ? form.D : 1)),
        dbeta(rows(DType::fp32, 1)),
        leaving(states(form.E)),
        transition(states(form.beta ? form.D : 1)) {
    std::normal_distribution<double> normal;
    std::uniform_real_distribution<double> uniform;
    for (Array* array : {&v, &dout, &carry, &dcarry}) array->fill([&](auto) { return normal(random_); });
    // Rows of length about 1, as verify draws them.
    const double length = 1 / std::sqrt(form.D);
    for (Array* array : {&q, &k}) array->fill([&](auto) { return length * normal(random_); });
    log_decay.fill([&](auto) { return -form.strongest * uniform(random_); });
    beta.fill([&](auto) { return uniform(random_); });
    for (Array* array : {&out, &dq, &dk, &dv, &dlog_decay, &dbeta, &leaving, &transition})
      array->fill([](auto) { return 0.0; });
    for (unsigned char* memory : {prepare_shared, walk_shared, rows_shared, gradients_shared})
      std::fill_n(memory, shared_bytes, static_cast<unsigned char>(0xff));
  }

  std::optional<View> exact_if(bool given, Array& array) {
    return given ? std::optional(array.exact()) : std::nullopt;
  }
  Chunks chunks() const { return {.list = pieces_.list, .slopes = {}}; }

  GatedParams params(const GatedCut& cut) {
    GatedParams p;
    chunks_ = device_chunks(pieces_.list);
    blocks_ = short_chunks(pieces_.list, cut.tokens);
    first_ = gated_first_blocks(pieces_.list, cut.tokens);
    scratch_.assign(static_cast<std::size_t>(cut.scratch.bytes) + 256, 0xff);
    const auto address = reinterpret_cast<std::uintptr_t>(scratch_.data());
    p.scratch = scratch_.data() + (256 - address % 256);
    p.chunks = chunks_.data(), p.blocks = blocks_.data(), p.first_block = first_.data();
    p.chunk_count = static_cast<std::int32_t>(chunks_.size());
    p.heads = heads, p.cut = cut;
    p.log_decay = log_decay.device();
    if (form_.beta) p.beta = beta.device();
    return p;
  }

  void local() {
    const auto with = [&](View (Array::*of)()) {
      LinearLocal call{.q = (q.*of)(),
                       .k = (k.*of)(),
                       .v = (v.*of)(),
                       .log_decay = (log_decay.*of)(),
                       .out = (out.*of)(),
                       .final_state = (leaving.*of)(),
                       .chunks = chunks()};
      if (form_.beta) call.beta = (beta.*of)();
      if (form_.enters) call.carry = (carry.*of)();
      return call;
    };
    cpu_linear_tiles().local(with(&Array::exact));
    GatedParams p = params(gated_cut_of(with(&Array::view)));
    p.q = q.device(), p.k = k.device(), p.v = v.device(), p.out = out.device(), p.leaving = leaving.device();
    if (form_.enters) p.carry = carry.device();
    prepare(p);
    walk<false>(p);
    with_D([&]<int D>() {
      run_grid({p.cut.blocks * heads}, gated_threads, rows_shared, 3, [&] { gated_rows<T, D>(p); });
    });
  }

  void backward() {
    const auto with = [&](View (Array::*of)()) {
      LinearLocalBackward call{.q = (q.*of)(),
                               .k = (k.*of)(),
                               .v = (v.*of)(),
                               .dout = (dout.*of)(),
                               .log_decay = (log_decay.*of)(),
                               .dq = (dq.*of)(),
                               .dk = (dk.*of)(),
                               .dv = (dv.*of)(),
                               .dlog_decay = (dlog_decay.*of)(),
                               .final_state = (leaving.*of)(),
                               .chunks = chunks()};
      if (form_.beta) call.beta = (beta.*of)(), call.dbeta = (dbeta.*of)();
      if (form_.enters) call.carry = (carry.*of)(), call.dcarry = (dcarry.*of)();
      return call;
    };
    cpu_linear_tiles().local_backward(with(&Array::exact));
    GatedParams p = params(gated_cut_of(with(&Array::view)));
    p.q = q.device(), p.k = k.device(), p.v = v.device(), p.dout = dout.device();
    p.dq = dq.device(), p.dk = dk.device(), p.dv = dv.device(), p.dlog_decay = dlog_decay.device();
    if (form_.beta) p.dbeta = dbeta.device();
    if (form_.enters) p.carry = carry.device(), p.dcarry = dcarry.device();
    prepare(p);
    walk<false>(p);
    p.leaving = leaving.device();
    walk<true>(p);
    with_D([&]<int D>() {
      run_grid({p.cut.blocks * heads}, gated_threads, gradients_shared, 4,
               [&] { form_.column ? gated_gradients<T, D, true>(p) : gated_gradients<T, D, false>(p); });
    });
  }

  void state(bool reverse) {
    const auto with = [&](View (Array::*of)()) {
      LinearState call{.rows = reverse ? (q.*of)() : (k.*of)(),
                       .columns = reverse ? (dout.*of)() : (v.*of)(),
                       .log_decay = (log_decay.*of)(),
                       .state = (leaving.*of)(),
                       .chunks = chunks(),
                       .reverse = reverse};
      if (form_.beta) call.beta = (beta.*of)();
      if (form_.beta && reverse) call.k = (k.*of)();
      if (!reverse) call.transition = (transition.*of)();
      return call;
    };
    cpu_linear_tiles().state(with(&Array::exact));
    GatedParams p = params(gated_cut_of(with(&Array::view)));
    p.leaving = leaving.device(), p.leaving_by_state = true;
    if (!reverse) p.k = k.device(), p.v = v.device(), p.transition = transition.device();
    if (reverse) p.q = q.device(), p.dout = dout.device();
    if (reverse && form_.beta) p.k = k.device();
    prepare(p);
    reverse ? walk<true>(p) : walk<false>(p);
    if (reverse || form_.beta) return;
    with_D([&]<int D>() {
      run_grid({p.chunk_count * heads}, gated_threads, rows_shared, 5, [&] { gated_factors<D>(p); });
    });
  }

 private:
  Array rows(DType type, std::int64_t width) const { return Array(type, pieces_.rows, width); }
  Array states(std::int64_t width) const { return Array(DType::fp32, pieces_.count() * form_.D, width); }

  template <class Run>
  void with_D(Run run) const {
    form_.D <= 64 ? run.template operator()<64>() : run.template operator()<128>();
  }
  void prepare(const GatedParams& p) const {
    with_D([&]<int D>() {
      run_grid({p.cut.blocks * heads}, gated_threads, prepare_shared, 1,
               [&] { form_.column ? gated_prepare<T, D, true>(p) : gated_prepare<T, D, false>(p); });
    });
  }
  template <bool reverse>
  void walk(const GatedParams& p) const {
    const int slices = p.cut.value_slices + (reverse ? 0 : p.cut.transition_slices);
    with_D([&]<int D>() {
      run_grid({p.chunk_count * heads * slices}, gated_threads, walk_shared, 2,
               [&] { gated_walk<T, D, reverse>(p); });
    });
  }

  Form form_;
  Pieces pieces_;
  std::mt19937 random_;
  std::vector<DeviceChunk> chunks_, blocks_;
  std::vector<std::int32_t> first_;
  std::vector<unsigned char> scratch_;

 public:
  Array q, k, v, dout, log_decay, beta, carry, dcarry;
  Array out, dq, dk, dv, dlog_decay, dbeta, leaving, transition;
};

template <class T>
void check_form(const Form& form, const Pieces& pieces, double most) {
  CAPTURE(form.D);
  CAPTURE(form.E);
  CAPTURE(form.column);
  CAPTURE(form.beta);
  CAPTURE(form.strongest);
  {
    Problem<T> problem(form, pieces, 1);
    problem.local();
    CHECK(problem.out.error() < most);
    CHECK(problem.leaving.error() < most);
  }
  {
    Problem<T> problem(form, pieces, 2);
    problem.backward();
    CHECK(problem.dq.error() < most);
    CHECK(problem.dk.error() < most);
    CHECK(problem.dv.error() < most);
    CHECK(problem.dlog_decay.error() < most);
    if (form.beta) CHECK(problem.dbeta.error() < most);
    CHECK(problem.leaving.error() < most);
  }
  for (const bool reverse : {false, true}) {
    Problem<T> problem(form, pieces, 3);
    problem.state(reverse);
    CHECK(problem.leaving.error() < most);
    if (!reverse) CHECK(problem.transition.error() < most);
  }
}

// Errors of dlog_decay beside what `verify` expects of them: of first tokens, and of all others.
struct GateUse {
  double error2 = 0, expected2 = 0;
  double of_expected() const { return std::sqrt(error2 / expected2); }
};

template <class T>
void use_of_gates(const Form& form, const Pieces& pieces, cplab::DType dtype, GateUse& first,
                  GateUse& others) {
  Problem<T> problem(form, pieces, 2);
  problem.backward();
  for (const Chunk& piece : pieces.list) {
    const reference::LinearShape shape{
        .S = piece.count,
        .H = heads,
        .D = form.D,
        .E = form.E,
        .transition = form.beta ? reference::Transition::matrix : reference::Transition::column,
        .gate = reference::Gate::head};
    const std::vector<double> q = problem.q.exact_rows(piece), k = problem.k.exact_rows(piece),
                              v = problem.v.exact_rows(piece), dout = problem.dout.exact_rows(piece),
                              log_decay = problem.log_decay.exact_rows(piece);
    std::vector<double> beta;
    if (form.beta) beta = problem.beta.exact_rows(piece);
    const reference::LinearInputs in{
        .q = q, .k = k, .v = v, .dout = dout, .log_decay = log_decay, .beta = beta};
    const reference::LinearResult right = linear_recurrence(shape, in);
    PlanRoundings roundings;
    roundings.by_blocks = true;
    const LinearErrors expected = expected_linear_errors(dtype, roundings, shape, in, {}, right);
    for (std::int64_t i = 0; i < piece.count * heads; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const double error = problem.dlog_decay.computed(piece.row * heads + i) - right.dlog_decay[at];
      const double variance = expected.dlog_decay.variance[at];
      CAPTURE(i);
      CHECK(std::abs(error) < element_tolerance(variance));
      GateUse& use = i < heads ? first : others;
      use.error2 += error * error;
      use.expected2 += variance;
    }
  }
}

}  // namespace

TEST_CASE("Emulated gated linear attention: fp32 is the recurrence") {
  const Pieces pieces{37, 0, 64, 3};
  for (const bool beta : {false, true})
    for (const bool column : {false, true}) {
      check_form<float>({.D = 64, .E = 64, .column = column, .beta = beta}, pieces, 3e-6);
      check_form<float>({.D = 24, .E = 40, .column = column, .beta = beta, .strongest = 30}, pieces, 1e-5);
    }
}

TEST_CASE("Emulated gated linear attention: 16 bits") {
  const Pieces pieces{70, 0, 128, 3};
  for (const bool beta : {false, true})
    for (const bool column : {false, true}) {
      check_form<__nv_bfloat16>({.D = 64, .E = 64, .column = column, .beta = beta}, pieces, 1e-2);
      check_form<__half>({.D = 128, .E = 96, .column = column, .beta = beta, .strongest = 2}, pieces, 1.5e-3);
    }
}

TEST_CASE("Emulated gated linear attention: gradients of heads' gates err as `verify` expects") {
  const Pieces pieces{40, 70};
  for (const bool beta : {false, true}) {
    CAPTURE(beta);
    GateUse first, others;
    const Form form{.D = 64, .E = 64, .column = false, .beta = beta, .enters = false};
    use_of_gates<__half>(form, pieces, cplab::DType::fp16, first, others);
    CHECK(first.error2 > 0);  // where the right gradient is 0
    CHECK(first.of_expected() < 1);
    CHECK(first.of_expected() > 0.1);  // as exact as fp32, not as fp16
    CHECK(others.of_expected() < 1);
    CHECK(others.of_expected() > 0.2);
  }
}

}  // namespace cplab::emulator
