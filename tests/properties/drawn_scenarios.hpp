// Scenarios of every family drawn at random, with what the simulator says of them: for rules that hold
// between two predictions (rules_test.cpp).
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "plan/plan.hpp"
#include "sim/attention_variant.hpp"
#include "sim/hardware.hpp"
#include "sim/kernel_cost.hpp"
#include "sim/simulate.hpp"

namespace cplab::testing {

// A machine with the function that prices its kernels; that one remembers shapes.
struct Machine {
  std::string name;  // of its file
  Hardware hardware;
  KernelCostFunction cost;
  mutable AttentionVariants variants;

  explicit Machine(const std::string& name, Hardware hardware);
  Machine(const Machine&) = delete;
};

// Shipped files of several GPUs with tables of our own kernels, of a library's and of none, and one as
// somebody would write it from a data sheet.
const std::vector<const Machine*>& machines();

// A machine by its file's name.
const Machine& machine_named(const std::string& name);

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

struct Priced {
  Plan plan;
  // By rank: what each operation costs alone; nothing for communication.
  std::vector<std::vector<KernelCost>> kernels;
  std::int64_t peak_bytes = 0;  // of the worst rank
  // Of attention kernels of ours that have tables: what the model of tiles says, and their name.
  std::vector<std::vector<double>> tiles;
  std::vector<std::vector<std::string_view>> names;
  double tiles_s(std::size_t rank) const;  // kernels, with the model's time for those that have one
  double longest_tiles_s() const;

  double kernels_s(std::size_t rank) const;  // of all operations of a rank together
  double longest_s() const;                  // of the rank with the most
};
Priced priced(const Scenario&, const Machine&);
double simulated_s(const Priced&, const Machine&);

}  // namespace cplab::testing
