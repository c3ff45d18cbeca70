// Cases of tiles for kernels that are not the CPU's, and what a run of many cases reports.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/kernels.hpp"
#include "tests/kernels/tensor.hpp"

namespace cplab::testing {

struct TileRun {
  std::string variant;      // of the kernel that ran; empty: none that is under test takes this call
  bool repeatable = false;  // a second run from the same state gave the same bits everywhere, or need not
};

struct HeadPair {
  std::int64_t keys, values;
};

// Runs a call whose views lie in `tensors`, and leaves the result there. The device has the data of every
// tensor `shift` elements behind an aligned address.
struct TileRunner {
  using Tensors = std::span<Tensor* const>;
  std::function<TileRun(Tensors, std::int64_t shift, const kernels::Attend&)> attend;
  std::function<TileRun(Tensors, std::int64_t shift, const kernels::AttendBackward&)> attend_backward;
  bool tensor_cores_only = false;  // 16 bits, aligned, and of these head sizes
  std::vector<HeadPair> tensor_core_sizes = {{64, 64}, {128, 128}};  // that three of five cases have
  std::vector<kernels::DType> tensor_core_dtypes = {kernels::DType::bf16, kernels::DType::fp16};
  bool has_fp64 = false;
  bool computes_delta = true;       // itself; else the CPU does for it, which is not checked
  std::int64_t most_rows = 150;     // of queries and of keys in most cases
  std::int64_t most_queries = 400;  // in these cases: few, with many keys
  std::int64_t most_group = 3;      // query heads of a key head
};

// Whether a GPU's call with that many rows, queries forward and keys backward, is launched on one
// multiprocessor, whose thread block then takes tile after tile: a third of all numbers of rows.
inline bool on_one_multiprocessor(const View& rows) {
  return rows.rows % 3 == 1;
}

// Collected from several threads.
class Report {
 public:
  // `share` of the tolerance that the result uses; above 1 (or NaN) is a failure. `where` names the case.
  void share(const std::string& variant, const std::string& where, const char* what, double share);
  void holds(const std::string& variant, const std::string& where, const char* what, bool holds);
  // One line per variant. Returns whether nothing failed.
  bool summary() const;
  // Whether a variant ran whose name has that part.
  bool ran(std::string_view part) const;

 private:
  struct Variant {
    std::int64_t checks = 0;
    std::int64_t failures = 0;
    double worst = 0;
  };
  mutable std::mutex mutex_;
  std::map<std::string, Variant> variants_;
};

struct CaseName {
  std::uint64_t seed;
  std::int64_t number;
  std::string only;  // of operations: substring of "attend", "merge", ...; empty is all
};

// Attention, forward and backward, as random or as one of the hard cases, against brute force in double.
void attend_case(Report& report, const CaseName& name, const TileRunner& runner);

}  // namespace cplab::testing
