// The requirements of linear.hpp as code; see linear_checks.hpp.
#include "kernels/linear_checks.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "kernels/call_checks.hpp"

namespace cplab::kernels {
namespace {

constexpr std::int64_t unlimited = std::numeric_limits<std::int64_t>::max();

// The checks of one call: what it is called, and the sizes that its operands must have.
class Check {
 public:
  Check(const char* operation, std::int64_t rows, std::int64_t heads, std::int64_t D, std::int64_t E)
      : operation_(operation), rows_(rows), heads_(heads), D_(D), E_(E) {
    that(D > 0 && E > 0, "a width is 0");
  }

  void that(bool holds, const char* what) const {
    if (!holds) throw std::invalid_argument(std::string(operation_) + ": " + what);
  }

  void tokens(const View& view, std::int64_t width, const char* name) const {
    check_view(view);
    if (view.rows != rows_ || view.heads != heads_ || view.width != width)
      throw std::invalid_argument(std::string(operation_) + ": " + name + " does not fit the other operands");
  }
  void tokens(const std::optional<View>& view, std::int64_t width, const char* name) const {
    if (view) tokens(*view, width, name);
  }

  // How many states a view holds; without a view as many as anybody may name.
  std::int64_t states(const std::optional<View>& view, const char* name, std::int64_t width = 0) const {
    if (!view) return unlimited;
    check_view(*view);
    if (view->heads != heads_ || view->width != (width == 0 ? E_ : width) || view->rows % D_ != 0)
      throw std::invalid_argument(std::string(operation_) + ": " + name +
                                  " does not hold states of D rows for every head");
    return view->rows / D_;
  }

  void transition(const std::optional<View>& log_decay, const std::optional<View>& beta,
                  const Chunks& chunks) const {
    // A gate for each column, or one for all of them.
    if (log_decay) tokens(*log_decay, log_decay->width == 1 ? 1 : D_, "log_decay");
    tokens(beta, 1, "beta");
    that(!beta || log_decay, "beta without log_decay");
    if (!log_decay) slopes(chunks);
  }
  void slopes(const Chunks& chunks) const {
    that(std::ssize(chunks.slopes) == heads_, "there is not one slope for every head");
    for (const double slope : chunks.slopes)
      that(std::isfinite(slope) && slope >= 0, "a slope is negative or not finite");
  }

  // Chunks inside the rows, and the numbers of states they name inside their views.
  void chunks(const Chunks& chunks, std::int64_t own, std::int64_t left, std::int64_t right) const {
    for (const Chunk& c : chunks.list) {
      that(c.row >= 0 && c.count >= 0 && (rows_ == unlimited || c.row <= rows_ - c.count),
           "a chunk leaves the rows");
      that(c.state >= -1 && c.state < own, "a chunk names a state that is not there");
      that(c.left >= -1 && c.left < left && c.right >= -1 && c.right < right,
           "a chunk names an edge whose state is not there");
      that(c.left_exponent >= 0 && c.right_exponent >= 0, "a chunk has a negative exponent");
    }
  }

  void disjoint(const Chunks& chunks) const {
    std::vector<std::pair<std::int64_t, std::int64_t>> runs;
    for (const Chunk& c : chunks.list)
      if (c.count > 0) runs.emplace_back(c.row, c.row + c.count);
    std::sort(runs.begin(), runs.end());
    for (std::size_t i = 1; i < runs.size(); ++i)
      that(runs[i - 1].second <= runs[i].first, "two chunks share a row");
  }

  // No two chunks write one state.
  void own_states_differ(const Chunks& chunks) const { differ(chunks, &Chunk::state); }
  void differ(const Chunks& chunks, std::int32_t Chunk::*number) const {
    std::vector<std::int32_t> named;
    for (const Chunk& c : chunks.list)
      if (c.*number >= 0) named.push_back(c.*number);
    std::sort(named.begin(), named.end());
    that(std::adjacent_find(named.begin(), named.end()) == named.end(), "two chunks write one state");
  }

  // Transitions are no power of a slope: nothing can be said about tokens between an edge and a chunk. And a
  // final state is that of a whole piece, whatever the transition.
  void whole_pieces(const Chunks& chunks, bool left, bool right) const {
    for (const Chunk& c : chunks.list) {
      that(!left || c.left < 0 || c.left_exponent == 0, "a chunk does not begin at the edge it names");
      that(!right || c.right < 0 || c.right_exponent == 0, "a chunk does not end at the edge it names");
    }
  }

  void stored_or_added(Write write) const { that(write != Write::merge, "write must be store or add"); }

 private:
  const char* operation_;
  std::int64_t rows_, heads_, D_, E_;
};

std::int64_t highest_state(const Chunks& chunks) {
  std::int64_t states = 0;
  for (const Chunk& c : chunks.list) states = std::max<std::int64_t>(states, std::int64_t{c.state} + 1);
  return states;
}

void check_own_states(const Check& check, const Chunks& chunks) {
  for (const Chunk& c : chunks.list) check.that(c.state >= 0, "a chunk names no state");
  check.own_states_differ(chunks);
}

}  // namespace

std::int64_t state_count(const LinearScan& call) {
  return highest_state(call.chunks);
}

std::int64_t state_count(const LinearCombine& call) {
  return std::ssize(call.chunks.list);
}

void check_call(const LinearLocal& call) {
  const Check check("local", call.q.rows, call.q.heads, call.q.width, call.v.width);
  check.tokens(call.q, call.q.width, "q");
  check.tokens(call.k, call.q.width, "k");
  check.tokens(call.v, call.v.width, "v");
  check.tokens(call.out, call.v.width, "out");
  check.transition(call.log_decay, call.beta, call.chunks);
  check.chunks(call.chunks, check.states(call.state, "state"), check.states(call.carry, "carry"),
               check.states(call.final_state, "final_state"));
  check.disjoint(call.chunks);
  if (call.final_state) check.differ(call.chunks, &Chunk::right);
  const bool final_state = call.final_state.has_value();
  check.whole_pieces(call.chunks, call.carry && (call.log_decay || final_state), final_state);
  check.stored_or_added(call.write);
}

void check_call(const LinearLocalBackward& call) {
  const Check check("local_backward", call.q.rows, call.q.heads, call.q.width, call.v.width);
  const std::int64_t D = call.q.width, E = call.v.width;
  check.tokens(call.q, D, "q");
  check.tokens(call.k, D, "k");
  check.tokens(call.v, E, "v");
  check.tokens(call.dout, E, "dout");
  check.tokens(call.dq, D, "dq");
  check.tokens(call.dk, D, "dk");
  check.tokens(call.dv, E, "dv");
  check.transition(call.log_decay, call.beta, call.chunks);
  check.tokens(call.dlog_decay, call.log_decay ? call.log_decay->width : D, "dlog_decay");
  check.tokens(call.dbeta, 1, "dbeta");
  check.that(!call.dlog_decay || call.log_decay, "dlog_decay without log_decay");
  check.that(!call.dbeta || call.beta, "dbeta without beta");
  const std::int64_t own = std::min(check.states(call.state, "state"), check.states(call.dstate, "dstate"));
  const std::int64_t left =
      std::min(check.states(call.carry, "carry"), check.states(call.final_state, "final_state"));
  check.chunks(call.chunks, own, left, check.states(call.dcarry, "dcarry"));
  check.disjoint(call.chunks);
  if (call.final_state) check.differ(call.chunks, &Chunk::left);
  const bool transitions = call.log_decay.has_value(), final_state = call.final_state.has_value();
  check.whole_pieces(call.chunks, final_state || (call.carry && transitions),
                     call.dcarry && (transitions || final_state));
  check.stored_or_added(call.write);
}

void check_call(const LinearState& call) {
  const Check check("state", call.rows.rows, call.rows.heads, call.rows.width, call.columns.width);
  const std::int64_t D = call.rows.width;
  check.tokens(call.rows, D, "rows");
  check.tokens(call.columns, call.columns.width, "columns");
  check.tokens(call.k, D, "k");
  check.that(!call.reverse || !call.beta || call.k, "states of queries of delta rules need the keys");
  check.transition(call.log_decay, call.beta, call.chunks);
  const std::int64_t own = std::min(check.states(call.state, "state"),
                                    check.states(call.transition, "transition", call.beta ? D : 1));
  check.chunks(call.chunks, own, unlimited, unlimited);
  check_own_states(check, call.chunks);
}

void check_call(const LinearScan& call) {
  check_view(call.state);
  const std::int64_t states = state_count(call);
  const std::int64_t D = states == 0 ? 1 : call.state.rows / states;
  const Check check("scan", unlimited, call.state.heads, D, call.state.width);
  check.that(states == 0 || call.state.rows == states * D, "the states have no whole number of rows");
  check.slopes(call.chunks);
  const std::int64_t edges = check.states(call.final_state, "final_state");
  check.chunks(call.chunks, states, call.reverse ? edges : unlimited, call.reverse ? unlimited : edges);
  check_own_states(check, call.chunks);
}

void check_call(const LinearCombine& call) {
  check_view(call.from);
  check_view(call.into);
  const std::int64_t states = state_count(call);
  const std::int64_t rows = states == 0 ? 1 : call.into.rows / states;
  const Check check("combine", unlimited, call.into.heads, rows, call.into.width);
  check.that(same_shape(call.from, call.into), "from and into differ in shape");
  check.that(states > 0 ? call.into.rows == states * rows : call.into.rows == 0,
             "the states have no whole number of rows");
  if (call.transition) {
    check_view(*call.transition);
    check.that(call.transition->rows == call.from.rows && call.transition->heads == call.from.heads &&
                   (call.transition->width == 1 || call.transition->width == rows),
               "transition does not fit the states");
  } else {
    check.slopes(call.chunks);
  }
  check.chunks(call.chunks, states, unlimited, unlimited);
  check_own_states(check, call.chunks);
  check.stored_or_added(call.write);
}

void check_call(const LinearInter& call) {
  const auto first = [](std::initializer_list<const std::optional<View>*> views) {
    for (const std::optional<View>* view : views)
      if (*view) return **view;
    return View{};
  };
  const View keys = first({&call.q, &call.k, &call.dq, &call.dk});
  const View values = first({&call.v, &call.dout, &call.out, &call.dv});
  const Check check("inter", keys.rows, keys.heads, keys.width, values.width);
  check.tokens(call.q, keys.width, "q");
  check.tokens(call.k, keys.width, "k");
  check.tokens(call.dq, keys.width, "dq");
  check.tokens(call.dk, keys.width, "dk");
  check.tokens(call.v, values.width, "v");
  check.tokens(call.dout, values.width, "dout");
  check.tokens(call.out, values.width, "out");
  check.tokens(call.dv, values.width, "dv");
  check.that(call.out || call.dq || call.dk || call.dv, "there is no output");
  check.that((!call.out || call.q) && (!call.dq || call.dout) && (!call.dk || call.v) && (!call.dv || call.k),
             "an output has no rows that it comes from");
  check.that(call.state || call.carry || call.dstate || call.dcarry, "there is no state");
  check.slopes(call.chunks);
  check.chunks(call.chunks, std::min(check.states(call.state, "state"), check.states(call.dstate, "dstate")),
               check.states(call.carry, "carry"), check.states(call.dcarry, "dcarry"));
  check.disjoint(call.chunks);
  check.stored_or_added(call.write);
}

namespace {

// Shapes and chunks of a convolution or of its filter's gradient, `factors` being filter or dfilter.
template <class Call>
void check_convolution(const char* operation, const Call& call, const View& other, const View& factors) {
  const View& from = call.from;
  const Check check(operation, from.rows, from.heads, from.width, from.width);
  check.tokens(from, from.width, "from");
  check.tokens(other, from.width, "the other rows");
  check_view(factors);
  check.that(factors.rows == 1 && factors.heads == from.heads && factors.width % from.width == 0,
             "the filter does not fit the rows");
  if (call.halo) check_view(*call.halo);
  check.that(!call.halo || (call.halo->heads == from.heads && call.halo->width == from.width),
             "the halo does not fit the rows");
  const std::int64_t W = factors.width / from.width, beside = call.halo ? call.halo->rows : 0;
  for (const Chunk& c : call.chunks.list) {
    check.that(c.row >= 0 && c.count >= 0 && c.row <= from.rows - c.count, "a chunk leaves the rows");
    const std::int64_t rows = halo_rows(call, c);
    check.that(rows >= 0 && rows < W && (rows == 0 || (c.state >= 0 && c.state <= beside - rows)),
               "a chunk names halo rows that are not there");
  }
  check.disjoint(call.chunks);
}

}  // namespace

void check_call(const Convolve& call) {
  check_convolution("convolve", call, call.into, call.filter);
}

void check_call(const FilterGradient& call) {
  check_convolution("filter_gradient", call, call.dout, call.dfilter);
}

}  // namespace cplab::kernels
