// Which variant is fastest for a call, by measuring: candidates are checked, then timed by turns. Plain host
// code; what a GPU does is behind Bench.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "kernels/choice/candidates.hpp"
#include "kernels/choice/measured_choices.hpp"

namespace cplab::kernels::tune {

// A call without addresses: of a view's data only the remainder by 16 counts, as for choose_variant(). Its
// spans outlive their use.
using Call = std::variant<Attend, AttendBackward>;

std::string call_class(const Call& call, const cuda::VariantOptions& options);
std::vector<cuda::Candidate> candidates(const Call& call, const cuda::VariantOptions& options);

// A GPU, or what stands for one in a test. Works on operands and results of its own: nothing that a caller
// holds is written.
class Bench {
 public:
  virtual ~Bench() = default;
  // Whether a stream of this thread is being captured into a graph: then nothing may be launched.
  virtual bool capturing() const = 0;
  // Runs the variant once on random data and compares all that it writes with what is right, found without
  // it: empty, or what is wrong ("dq: relative error 0.3 in head 2, ..."). Throws std::runtime_error if it
  // cannot be launched.
  virtual std::string check(const Call& call, std::string_view variant) = 0;
  // Seconds of one launch. Called only for what check() found right. Throws std::runtime_error.
  virtual double sample_s(const Call& call, std::string_view variant) = 0;
};

enum class Standing : std::uint8_t { timed, wrong, refused, left_out };
std::string_view name_of(Standing);

struct Tried {
  cuda::Candidate candidate;
  Standing standing = Standing::left_out;
  std::string reason = {};           // of what is not timed
  std::vector<double> samples = {};  // seconds, in the order of the rounds
  double median_s() const;           // 0: not timed
};

struct Decision {
  std::string call = {};  // its class
  std::string variant = {};
  std::vector<Tried> tried = {};  // in the order of the table
  std::string not_measured = {};  // why not; empty: it was
};

struct TuneOptions {
  ChoiceWay way = ChoiceWay::hybrid;  // hybrid or autotune
  cuda::VariantOptions variants;
  int rounds = 7;       // samples of each candidate
  int candidates = 3;   // of hybrid: so many of those that the model calls fastest, the table's included
  double hopeless = 8;  // what the model calls so many times as slow as its fastest is left out
  double least_advantage = 1.01;  // another than the table's must be so much faster
  std::uint64_t seed = 1;         // of the orders of the rounds
};

// No candidate of a build computes a call rightly.
struct NoRightKernel : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Checks every candidate, then times those that passed, in rounds of a random order, and takes the one with
// the least median; where nothing is to be decided (one candidate) or nothing may be launched (a capture is
// under way), what the table takes, unmeasured. A candidate that is wrong is never timed and never taken.
// Throws NoRightKernel, and std::invalid_argument if no variant takes the call.
Decision tune_one(const Call& call, const TuneOptions& options, Bench& bench);

// Decisions for the classes of `calls` that `known` does not have yet, one for each; what was measured joins
// `known`. `progress` is told the class before it is measured.
std::vector<Decision> tune_all(std::span<const Call> calls, const TuneOptions& options, Bench& bench,
                               cuda::MeasuredChoices& known,
                               const std::function<void(const std::string&)>& progress = {});

}  // namespace cplab::kernels::tune
