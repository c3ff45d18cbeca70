// Convolutions before Q, K and V in the symbolic run: a row that is convolved is known where it is made of
// all the rows of its sequence that it takes, those of the chunk and those of the halo; see check/linear.hpp.
#include <algorithm>
#include <string>

#include "check/linear.hpp"

namespace cplab::checking {

// Pairs of a token and one that it takes, counted one by one near the edge.
double LinearStep::taps() const {
  const std::int64_t W = problem_.convolution;
  double sum = 0;
  for (const Chunk& c : chunks()) {
    const std::int64_t beside = halo_rows(op_, c);
    for (std::int64_t t = 0; t < std::min(c.count, W); ++t)
      sum += static_cast<double>(std::min(W, beside + t + 1));
    sum += static_cast<double>(std::max<std::int64_t>(c.count - W, 0) * W);
  }
  return sum;
}

// Whose factors the operation reads, or what it sums up the factors' gradient of; null: reported.
const Convolved* LinearStep::of_filter() const {
  const bool sums = op_.kind == OpKind::filter_gradient;
  const Held& known = *find(sums ? Operand::from : Operand::filter);
  const Box& factors = sums ? *written_.front().box : *known.box;
  if (known.runs.empty()) return nullptr;
  const Value& v = known.runs.front().value;
  for (const Convolved& c : convolved) {
    if ((sums ? c.raw : c.filter) != v.holds) continue;
    const bool whole = sums || (v.head_shift == op_.head_begin && v.width_shift == 0);
    if (whole && factors.width() == c.width(problem_) * problem_.convolution) return &c;
    wrong(factors, "takes factors of other heads or columns in " + place(factors));
    return nullptr;
  }
  if (v.holds != Holds::unknown)
    wrong(*known.box, "reads " + std::string(name(v.holds)) + " in " + place(*known.box) +
                          (sums ? " where it needs rows before their convolution"
                                : " where it needs the factors of a convolution"));
  return nullptr;
}

// The tokens of a chunk's rows; of gradients only where these are complete.
std::optional<LinearStep::Interval> LinearStep::rows_of(const Held& rows, Holds wanted,
                                                        const Chunk& chunk) const {
  if (chunk.count == 0) return Interval{};
  const std::optional<Interval> found = tokens(rows, wanted, chunk);
  const bool gradient = wanted == Holds::dq || wanted == Holds::dk || wanted == Holds::dv;
  if (!found || !gradient) return found;
  const auto axis = contents_.of_keys(wanted) ? Contents::Axis::keys : Contents::Axis::queries;
  for (const Run& run : clipped_runs(rows.runs, chunk.row, chunk.count)) {
    if (contents_.complete(axis, run, run.value.set)) continue;
    wrong(*rows.box, "goes on with " + std::string(name(wanted)) + " that " +
                         contents_.missing(axis, run, run.value.set));
    return {};
  }
  return found;
}

// The tokens of a chunk, beside which the halo must hold all those of its sequence that they take.
std::optional<LinearStep::Interval> LinearStep::convolved_tokens(const Held& rows, Holds wanted,
                                                                 const Chunk& chunk, bool behind) const {
  const std::optional<Interval> found = rows_of(rows, wanted, chunk);
  if (!found || chunk.count == 0) return found;
  const Tokens::Origin o = contents_.tokens_.origin(found->begin);
  const std::int64_t most = problem_.convolution - 1,
                     want = std::min(most, behind ? o.first + o.length - found->end : found->begin - o.first),
                     held = halo_rows(op_, chunk);
  const char* side = behind ? " behind" : " before";
  if (held != want) {
    wrong(*rows.box, "convolves " + chunk_name(*found) + " with " + std::to_string(held) + " of the " +
                         std::to_string(want) + " tokens" + side + " it");
    return {};
  }
  if (want == 0) return found;
  const Held& halo = *find(Operand::halo);
  Chunk of_halo;
  of_halo.row = chunk.state, of_halo.count = held;
  const std::optional<Interval> beside = rows_of(halo, wanted, of_halo);
  if (!beside) return {};
  const std::int64_t begin = behind ? found->end : found->begin - want;
  if (*beside == Interval{begin, begin + want}) return found;
  wrong(*halo.box, "reads " + std::string(name(wanted)) + " of " + contents_.tokens_of(set_of(*beside)) +
                       side + " " + chunk_name(*found));
  return {};
}

void LinearStep::convolve() {
  Written& w = written_.front();
  const Held& from = *find(Operand::from);
  const Convolved* c = of_filter();
  const bool striped = contents_.model_.plan->scenario.placement == "striped";
  if (striped) wrong(*from.box, "convolves rows that are not consecutive tokens");
  for (const Chunk& chunk : chunks()) {
    if (chunk.count == 0) continue;
    const std::optional<Interval> found =
        !c || striped ? std::nullopt
                      : convolved_tokens(from, op_.reverse ? c->gradient : c->raw, chunk, op_.reverse);
    if (!found) {
      w.runs.push_back({chunk.row, chunk.count, 0, 1, Value::unknown()});
      continue;
    }
    for (Run run : clipped_runs(from.runs, chunk.row, chunk.count)) {
      run.value.holds = op_.reverse ? c->raw_gradient : c->made;
      run.value.set = 0;
      w.runs.push_back(run);
    }
  }
  write_rows(w);
}

void LinearStep::filter_gradient() {
  Written& w = written_.front();
  const Held &from = *find(Operand::from), &dout = *find(Operand::dout);
  const bool any = std::ranges::any_of(chunks(), [](const Chunk& chunk) { return chunk.count > 0; });
  const Convolved* c = any ? of_filter() : nullptr;
  std::optional<std::uint32_t> set = 0;
  if (any && (!c || contents_.model_.plan->scenario.placement == "striped")) set.reset();
  for (const Chunk& chunk : chunks()) {
    if (!set) break;
    if (chunk.count == 0) continue;
    const std::optional<Interval> rows = rows_of(from, c->raw, chunk),
                                  gradients = convolved_tokens(dout, c->gradient, chunk, true);
    const bool good = rows && gradients &&
                      (*rows == *gradients ||
                       wrong(*dout.box, "reads " + std::string(name(c->gradient)) + " of " +
                                            contents_.tokens_of(set_of(*gradients)) + " beside rows of " +
                                            contents_.tokens_of(set_of(*rows))));
    set = good ? contents_.sets_.join(*set, set_of(*rows)) : std::nullopt;
    if (good && !set) wrong(*from.box, "sums up a token twice");
  }
  Run sum{0, 1, 0, 1, {}};
  sum.value.holds = !set ? Holds::unknown : *set == 0 ? Holds::zero : c->dfilter;
  if (set && *set != 0) sum.value.set = *set, sum.value.head_shift = op_.head_begin;
  Runs runs{sum};
  contents_.write(site_, *w.box, heads_, runs, w.writer);
}

}  // namespace cplab::checking
