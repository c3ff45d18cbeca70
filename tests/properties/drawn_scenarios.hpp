// Scenarios of every family drawn at random, with what the simulator says of them: for rules that hold
// between two predictions (rules_test.cpp).
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cli/files/hardware_file.hpp"
#include "plan/plan.hpp"
#include "sim/attention_variant.hpp"
#include "sim/hardware.hpp"
#include "sim/kernel_cost.hpp"
#include "sim/simulate.hpp"

namespace cplab::testing {

// A machine with the functions that price its kernels and name them; both remember shapes.
struct Machine {
  std::string name;  // of its file
  Hardware hardware;
  KernelCostFunction cost;
  std::shared_ptr<AttentionVariants> variants;

  Machine(const std::string& name, Hardware hardware);
  Machine(const Machine&) = delete;
};

// Shipped files of several GPUs with tables of our own kernels, of a library's and of none, and one as
// somebody would write it from a data sheet.
const std::vector<const Machine*>& machines();

// The file of a machine once more, with what --set would change.
Machine changed_machine(const Machine&, const HardwareOverrides&);

struct Drawn {
  Scenario scenario;  // resolved
  const Machine* machine = nullptr;
};

using Random = std::mt19937_64;
std::int64_t draw(Random&, std::int64_t low, std::int64_t high);
template <class T>
const T& one_of(Random& random, const std::vector<T>& values) {
  return values[static_cast<std::size_t>(draw(random, 0, static_cast<std::int64_t>(values.size()) - 1))];
}

// Any family on any machine that it runs on: masks, windows, documents, grouped heads, wires, directions.
Drawn draw_scenario(Random&);
// The same of softmax attention on one rank.
Drawn draw_one_rank(Random&);

// The scenario again, resolved anew: what was drawn or a default before stays.
Scenario changed(Scenario scenario);
// The sequences are of these lengths.
void set_lengths(Problem&, std::vector<std::int64_t> lengths);

// As options of the command line: "ring --set problem.sequence=4096 ...".
std::string options_of(const Drawn&);

// An operation of a plan that is neither communication nor the host's.
struct PricedKernel {
  const Operation* op = nullptr;
  KernelCost cost;
  // Of attention: who takes it, and, of kernels of ours that have tables, the time by the model of tiles.
  std::string_view taken;
  double tiles_s = 0;
};
struct Priced {
  Plan plan;
  std::vector<std::vector<PricedKernel>> ranks;  // in issue order
  std::int64_t peak_bytes = 0;                   // of the worst rank

  // The longest sum over a rank's kernels. `by_tiles`: with the time of the model of tiles where there is
  // one; `casts`: with those launches that round.
  double kernels_s(bool by_tiles = false, bool casts = true) const;
};
Priced priced(const Scenario&, const Machine&);
double simulated_s(const Priced&, const Machine&);

}  // namespace cplab::testing
