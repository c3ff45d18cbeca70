// One point of a study, simulated as `cplab simulate SCENARIO --set ...` does it.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "cli/arguments.hpp"
#include "cli/files/scenario_file.hpp"
#include "cli/sweep/study.hpp"
#include "plan/plan.hpp"
#include "report/sweep.hpp"

namespace cplab {

using SweepOutcome = std::variant<SweepPoint, SweepRefusal>;

class PointEvaluator {
 public:
  // `changes` are those of the command line. All three outlive it.
  PointEvaluator(const Study&, const StudyPoints&, const Arguments&, std::vector<std::string> changes);

  // The machine of the scenario without what varies is read once, and by copies of this not again. Throws
  // InputError where that machine is wrong; does nothing where the scenario names none or is not legal alone.
  void read_machine();
  // What is wrong with a point is its refusal. Points that differ in [simulate] and [hardware] alone share a
  // plan if they come one after the other.
  SweepOutcome evaluate(std::int64_t number);
  // Points of one plan and their order: the settings of the others.
  std::vector<std::vector<std::int64_t>> grouped_by_plan(const std::vector<std::int64_t>& numbers) const;

 private:
  SweepPoint simulate(std::int64_t number, const std::vector<std::string>& all);
  SweepRefusal refusal(std::int64_t number, RefusalKind, const std::string& message,
                       const std::vector<std::string>& all) const;
  SweepKeys keys_of(std::int64_t number) const;
  std::string plan_key(std::int64_t number) const;

  const Study& study_;
  const StudyPoints& points_;
  const Arguments& arguments_;
  std::vector<std::string> changes_;
  std::shared_ptr<Machines> machines_ = std::make_shared<Machines>();
  // The plan of the last point, and of which settings and machine's nodes it is.
  std::string plan_key_;
  std::vector<int> plan_islands_;
  Plan plan_;
  bool has_plan_ = false;
};

}  // namespace cplab
