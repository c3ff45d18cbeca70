// Random chunks, states and slopes, and results against the oracle; see linear_problem.hpp.
#include "tests/gpu/linear_problem.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/kernels/random_tile.hpp"

namespace cplab::testing {

LinearProblem::LinearProblem(Report& report, const CaseName& name, bool has_fp64)
    : report_(report),
      generator_(static_cast<unsigned>(name.seed * 104729 + static_cast<std::uint64_t>(name.number))) {
  const std::int64_t sizes[] = {1, 3, 16, 40, 64, 64, 128, 128, 192};
  D_ = sizes[draw(generator_, 0, 8)];
  E_ = draw(generator_, 0, 1) == 0 ? D_ : sizes[draw(generator_, 0, 8)];
  const DType dtypes[] = {DType::bf16, DType::bf16, DType::fp16, DType::fp32, DType::fp32, DType::fp64};
  nominal_ = dtypes[draw(generator_, 0, has_fp64 ? 5 : 4)];
  wide_ = wide(nominal_);
  heads_ = draw(generator_, 1, 3);
  shift_ = draw(generator_, 0, 1) == 0 ? 0 : draw(generator_, 1, 7);
  gap_unit_ = draw(generator_, 0, 1) == 0 ? 1 : 8;
  const ChunkWork works[] = {ChunkWork::blocked, ChunkWork::blocked, ChunkWork::serial, ChunkWork::sliced};
  work_ = works[draw(generator_, 0, 3)];
  if (draw(generator_, 0, 3) == 0) {  // what tensor-core kernels take
    D_ = 64 * draw(generator_, 1, 2), E_ = 64 * draw(generator_, 1, 2);
    nominal_ = draw(generator_, 0, 1) == 0 ? DType::bf16 : DType::fp16;
    wide_ = wide(nominal_);
    shift_ = 0, gap_unit_ = 8;
    work_ = ChunkWork::blocked;
  }
  if (name.number == 7) {  // a long chunk: exponents beyond what 16 bits, or a product of factors, can hold
    D_ = 3, E_ = 2, heads_ = 3, long_ = 100003;
  }
  draw_slopes();
  draw_chunks();
  where_ = "--seed " + std::to_string(name.seed) + " --case " + std::to_string(name.number) +
           ", D=" + std::to_string(D_) + " E=" + std::to_string(E_) + " heads=" + std::to_string(heads_) +
           " " + name_of(nominal_) + " chunks=" + std::to_string(chunks_.size()) +
           " rows=" + std::to_string(rows_) + " work " + std::to_string(static_cast<int>(work_)) +
           ", gaps of " + std::to_string(gap_unit_) + ", shift " + std::to_string(shift_);
}

void LinearProblem::draw_slopes() {
  const double choices[] = {0, 1e-4, 0.0884, 0.5, 0.7071, 8};
  for (std::int64_t h = 0; h < heads_; ++h)
    slopes_.push_back(long_ > 0 ? choices[2 * h + 1] : choices[draw(generator_, 0, 5)]);
}

void LinearProblem::draw_chunks() {
  const std::int64_t lengths[] = {0, 1, 2, 17, 63, 64, 65, 100, 128, 257};
  pieces_ = static_cast<std::int32_t>(long_ > 0 ? 1 : draw(generator_, 1, 3));
  for (std::int32_t piece = 0; piece < pieces_; ++piece) {
    rows_ += draw(generator_, 0, 2);
    const std::int64_t count = long_ > 0 ? 1 : draw(generator_, 1, 5);
    const std::size_t first = chunks_.size();
    std::int64_t tokens = 0;
    for (std::int64_t n = 0; n < count; ++n) {
      const std::int64_t length = long_ > 0 ? long_ : lengths[draw(generator_, 0, 9)];
      chunks_.push_back({.row = rows_,
                         .count = length,
                         .left = piece,
                         .right = piece,
                         .left_exponent = tokens,
                         .resets = n == 0});
      rows_ += length;
      tokens += length;
    }
    for (std::size_t n = first; n < chunks_.size(); ++n)
      chunks_[n].right_exponent = tokens - chunks_[n].left_exponent - chunks_[n].count;
    // The sequence may begin, or end, in this rank.
    const bool begins = draw(generator_, 0, 3) == 0, ends = draw(generator_, 0, 3) == 0;
    for (std::size_t n = first; n < chunks_.size(); ++n) {
      if (begins) chunks_[n].left = -1;
      if (ends) chunks_[n].right = -1;
    }
  }
  rows_ += draw(generator_, 0, 2);
  std::vector<std::int32_t> order(chunks_.size());
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), generator_);
  for (std::size_t n = 0; n < chunks_.size(); ++n) chunks_[n].state = order[n];
}

std::vector<Chunk> LinearProblem::whole_pieces() const {
  std::vector<Chunk> whole;
  for (const Chunk& chunk : chunks_) {
    if (chunk.resets)
      whole.push_back(chunk);
    else
      whole.back().count += chunk.count;
    whole.back().right_exponent = 0;
  }
  return whole;
}

std::vector<Chunk> LinearProblem::with_missing_states(std::vector<Chunk> chunks) {
  for (Chunk& chunk : chunks)
    if (draw(generator_, 0, 4) == 0) chunk.state = -1;
  return chunks;
}

Tensor LinearProblem::tokens(std::int64_t width) {
  std::vector<double> all = random_values(generator_, rows_ * heads_ * width, nominal_);
  for (std::int64_t row = 0; row < rows_; ++row)
    if (!in_chunk(row)) std::fill_n(all.begin() + row * heads_ * width, heads_ * width, nan);
  return random_tensor(generator_, nominal_, rows_, heads_, width, all, gap_unit_);
}

bool LinearProblem::in_chunk(std::int64_t row) const {
  return std::any_of(chunks_.begin(), chunks_.end(),
                     [&](const Chunk& c) { return row >= c.row && row < c.row + c.count; });
}

Tensor LinearProblem::states(std::int64_t count, const std::vector<std::int32_t>& named, DType dtype) {
  std::vector<double> all = random_values(generator_, count * D_ * heads_ * E_, dtype);
  for (std::int32_t n = 0; n < count; ++n)
    if (std::find(named.begin(), named.end(), n) == named.end())
      std::fill_n(all.begin() + n * D_ * heads_ * E_, D_ * heads_ * E_, nan);
  return random_tensor(generator_, dtype, count * D_, heads_, E_, all, gap_unit_);
}

std::vector<std::int32_t> LinearProblem::numbers(const std::vector<Chunk>& chunks,
                                                 std::int32_t Chunk::*which) {
  std::vector<std::int32_t> all;
  for (const Chunk& chunk : chunks) all.push_back(chunk.*which);
  return all;
}

Tensor LinearProblem::result(std::int64_t width, Write write) {
  const DType dtype = draw(generator_, 0, 1) == 0 ? nominal_ : wide_;
  return random_tensor(
      generator_, dtype, rows_, heads_, width,
      write == Write::add ? random_values(generator_, rows_ * heads_ * width, dtype) : std::vector<double>{},
      gap_unit_);
}

Tensor LinearProblem::poisoned_states(std::int64_t count) {
  return random_tensor(generator_, wide_, count * D_, heads_, E_, {}, gap_unit_);
}

Sums LinearProblem::entering(const Chunk& chunk, const Edges& edges, std::int64_t head) const {
  const std::int64_t X = edges.transposed ? E_ : D_, Y = edges.transposed ? D_ : E_;
  Sums sums(static_cast<std::size_t>(X * Y));
  const std::int32_t edge = edges.reverse ? chunk.right : chunk.left;
  const double passed =
      std::exp(-slopes_[static_cast<std::size_t>(head)] *
               static_cast<double>(edges.reverse ? chunk.right_exponent : chunk.left_exponent));
  for (std::int64_t x = 0; x < X; ++x)
    for (std::int64_t y = 0; y < Y; ++y) {
      const std::int64_t d = edges.transposed ? y : x, e = edges.transposed ? x : y;
      Sum& sum = sums[static_cast<std::size_t>(x * Y + y)];
      const auto add = [&](double value) {
        sum.value += value;
        sum.magnitude += std::fabs(value);
        sum.square += value * value;
      };
      if (edges.own != nullptr && chunk.state >= 0) add(edges.own->at(chunk.state * D_ + d, head, e));
      if (edges.carry != nullptr && edge >= 0) add(passed * edges.carry->at(edge * D_ + d, head, e));
    }
  return sums;
}

double LinearProblem::terms(std::int64_t summed, std::int64_t count) const {
  return static_cast<double>(summed + 64 + 2 * (count / 32 + 1) + 16);
}

void LinearProblem::check(const std::string& variant, const Result& r, const std::vector<Chunk>& chunks,
                          Write write) {
  report_.holds(variant, where_, "memory between the rows was touched", r.gpu->gaps_intact());
  const std::int64_t X = r.a->width(), Y = r.c->width();
  Rounding rounding{.sums = wide_, .nominal = nominal_, .result = r.gpu->dtype()};
  if (work_ == ChunkWork::sliced && r.pairs) rounding.slices = static_cast<double>((X + 63) / 64);
  double worst = 0, worst_final = 0;
  for (std::int64_t head = 0; head < heads_; ++head)
    for (const Chunk& chunk : chunks) {
      rounding.terms = terms(X, chunk.count);
      Sums state = entering(chunk, r.edges, head);
      const std::vector<Sum> expected =
          r.pairs ? walk({r.a, r.b, r.c, head, slopes_[static_cast<std::size_t>(head)], r.edges.reverse},
                         chunk, state)
                  : rows_times_state(*r.a, chunk, state, head, r.edges.reverse, Y);
      for (std::int64_t t = 0; t < chunk.count; ++t)
        for (std::int64_t y = 0; y < Y; ++y) {
          const Sum& sum = expected[static_cast<std::size_t>(t * Y + y)];
          const double held = write == Write::add ? r.before->at(chunk.row + t, head, y) : 0;
          const double share =
              std::fabs(r.gpu->at(chunk.row + t, head, y) - held - sum.value) / bound(sum, held, rounding);
          if (!(share <= worst)) worst = share;
        }
      const std::int32_t edge = r.edges.reverse ? chunk.left : chunk.right;
      if (r.final_state == nullptr || edge < 0) continue;
      worst_final = std::max(
          worst_final, states_off(*r.final_state, edge, state, head, chunk.count, scaled_rows(variant)));
    }
  report_.share(variant, where_, r.name, worst);
  if (r.final_state != nullptr) {
    report_.share(variant, where_, "final_state", worst_final);
    check_unnamed(variant, *r.final_state, numbers(chunks, r.edges.reverse ? &Chunk::left : &Chunk::right));
  }
  bool others = true;
  for (std::int64_t row = 0; row < rows_; ++row) {
    if (in_chunk(row)) continue;
    for (std::int64_t head = 0; head < heads_; ++head)
      for (std::int64_t y = 0; y < Y; ++y)
        others = others && r.gpu->at(row, head, y) == (write == Write::add ? r.before->at(row, head, y) : 0);
  }
  report_.holds(variant, where_, "rows in no chunk are wrong", others);
}

LinearProblem::ScaledRows LinearProblem::scaled_rows(const std::string& variant) const {
  const auto is = [&](const char* kind) { return variant.find(kind) != std::string::npos; };
  if (is(" hopper ")) return {nominal_, 1};
  if (is(" mma ")) return {nominal_, 2};
  return {wide_, 1};
}

double LinearProblem::states_off(const Tensor& states, std::int32_t number, const Sums& expected,
                                 std::int64_t head, std::int64_t count, ScaledRows scaled) const {
  const Rounding rounding{.sums = wide_,
                          .nominal = scaled.dtype,
                          .result = states.dtype(),
                          .terms = terms(0, count),
                          .numbers = scaled.numbers};
  double worst = 0;
  for (std::int64_t d = 0; d < D_; ++d)
    for (std::int64_t e = 0; e < E_; ++e) {
      const Sum& sum = expected[static_cast<std::size_t>(d * E_ + e)];
      const double share =
          std::fabs(states.at(number * D_ + d, head, e) - sum.value) / bound(sum, 0, rounding);
      if (!(share <= worst)) worst = std::isnan(share) ? infinity : share;
    }
  return worst;
}

void LinearProblem::check_unnamed(const std::string& variant, const Tensor& states,
                                  const std::vector<std::int32_t>& named) {
  bool zero = true;
  for (std::int64_t row = 0; row < states.rows(); ++row) {
    if (std::find(named.begin(), named.end(), static_cast<std::int32_t>(row / D_)) != named.end()) continue;
    for (std::int64_t head = 0; head < heads_; ++head)
      for (std::int64_t e = 0; e < E_; ++e) zero = zero && states.at(row, head, e) == 0;
  }
  report_.holds(variant, where_, "a final state that nobody names is not 0", zero);
  report_.holds(variant, where_, "memory between the states was touched", states.gaps_intact());
}

std::vector<Sum> LinearProblem::rows_times_state(const Tensor& a, const Chunk& chunk, const Sums& state,
                                                 std::int64_t head, bool reverse, std::int64_t Y) const {
  std::vector<Sum> out(static_cast<std::size_t>(chunk.count * Y));
  for (std::int64_t t = 0; t < chunk.count; ++t) {
    const double power = std::exp(-slopes_[static_cast<std::size_t>(head)] *
                                  static_cast<double>(reverse ? chunk.count - t : t));
    for (std::int64_t x = 0; x < a.width(); ++x)
      for (std::int64_t y = 0; y < Y; ++y) {
        const Sum& held = state[static_cast<std::size_t>(x * Y + y)];
        const double factor = power * a.at(chunk.row + t, head, x);
        Sum& sum = out[static_cast<std::size_t>(t * Y + y)];
        sum.value += factor * held.value;
        sum.magnitude += std::fabs(factor) * held.magnitude;
        sum.square += factor * factor * held.square;
      }
  }
  return out;
}

}  // namespace cplab::testing
