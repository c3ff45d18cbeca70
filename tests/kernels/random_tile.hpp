// Random tile problems, and one call of a tile on tensors in random layouts.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "kernels/kernels.hpp"
#include "tests/kernels/oracle.hpp"
#include "tests/kernels/tensor.hpp"

namespace cplab::testing {

std::int64_t draw(std::mt19937& generator, std::int64_t low, std::int64_t high);

// Up to `largest` rows on either side; D, E, heads and scale drawn too.
Sizes random_sizes(std::mt19937& generator, std::int64_t largest);

// Key rows cut in runs, query rows cut anew for each of them, one segment or none for each pair of runs, with
// any offset and bounds, some empty: keys of one query row are disjoint across the list, as the contract
// asks.
std::vector<Segment> random_segments(std::mt19937& generator, std::int64_t nq, std::int64_t nk);

// Cuts of rows into tiles of 1 to `most` rows.
std::vector<std::int32_t> random_tile_cuts(std::mt19937& generator, std::int64_t rows, std::int64_t most);

// Uniform in [-1, 1], rounded to `dtype`.
std::vector<double> random_values(std::mt19937& generator, std::int64_t count, DType dtype);

// Values drawn and rounded; rows that no visible pair touches are NaN in q, k, v and dout.
Problem random_problem(std::mt19937& generator, const Sizes& sizes, std::vector<Segment> segments,
                       DType dtype);

// A tensor in a random layout holding `values`, or poison if there are none.
Tensor random_tensor(std::mt19937& generator, DType dtype, std::int64_t rows, std::int64_t heads,
                     std::int64_t width, const std::vector<double>& values = {}, std::int64_t gap_unit = 1,
                     bool one_run = false);

// The call with delta given, which the CPU computes here if the call was to.
kernels::AttendBackward with_delta(kernels::AttendBackward call);

// How the rows of a tile's tensors lie.
struct TileLayouts {
  std::int64_t gap_unit = 1;  // not of lse and delta
  bool one_run = false;       // at one distance, but for those of lse, delta and dq
  // Where not empty: the runs of q and dout, and those of k and v; the other tensors of these rows have the
  // same, or one run, or runs of their own. one_run does not matter then.
  std::vector<RowRun> q_runs = {}, k_runs = {};
  bool results_alike = false;  // those of results, too, always have the runs that are given
  // Of lse and delta; at random if it is not there, half of the time in rows of whole 16 bytes.
  std::optional<Layout> lse_delta = {};
};

// Operands and results of one tile. Results start as poison.
struct TileTensors {
  TileTensors(std::mt19937& generator, const Problem& problem, const TileDTypes& dtypes,
              const TileLayouts& layouts = {});

  kernels::Attend attend(const Problem& problem, kernels::Write write);
  kernels::AttendBackward backward(const Problem& problem, kernels::Write write_dq, kernels::Write write_dk);
  bool gaps_intact() const { return touched_gap().empty(); }
  std::string touched_gap() const;  // empty, or which tensor and where
  std::vector<Tensor*> all();
  // No byte of q, k, v, dout, lse or delta has changed since construction or the last call.
  bool inputs_unchanged();

  Tensor q, k, v, dout, out, lse, delta, dq, dk, dv;
  Tensor rounded_dq;  // of backward(), if TileDTypes::rounds_dq
  Tensor rounded_dk, rounded_dv;
  Tensor max_logit;             // -inf at first
  bool asks_max_logit = false;  // of attend()
  Tensor sink;                  // of attend(), if the problem has sinks
  bool rounds_dq;               // backward() does, as TileDTypes::rounds_dq says at first
  bool rounds_dkv;
  // backward() has the call compute delta from out: choose_out() makes one for it, whose products with dout
  // are all of one sign, and returns the delta that it gives; delta becomes poison.
  bool computes_delta = false;
  std::vector<double> choose_out(std::mt19937& generator, const Problem& problem);
  // Where gradients come out.
  const Tensor& final_dq() const { return rounds_dq ? rounded_dq : dq; }
  const Tensor& final_dk() const { return rounds_dkv ? rounded_dk : dk; }
  const Tensor& final_dv() const { return rounds_dkv ? rounded_dv : dv; }

 private:
  std::vector<std::vector<std::byte>> input_memory() const;
  std::vector<std::vector<std::byte>> inputs_before_;
};

}  // namespace cplab::testing
