// The list of algorithms and placements: what exists, which options it takes, and how to get a plan.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/plan.hpp"

namespace cplab {

class Builder;
class Placement;

struct OptionInfo {
  std::string_view key;            // of [schedule]
  std::vector<OptionValue> legal;  // every legal value; with any_count also every integer >= legal[0]
  bool any_count = false;
  OptionValue default_value;                   // unless resolve_defaults has put another
  bool (*applies)(const Schedule&) = nullptr;  // false: the option has no value beside these others
  std::string_view help;                       // one line
};

struct Algorithm {
  std::string_view name;
  std::vector<std::string_view> aliases;
  std::string_view summary;  // one line with its source
  std::vector<OptionInfo> options;
  std::vector<std::string_view> placements;  // legal ones, the default first
  // Called with the options the user gave; adds defaults that depend on other options (plain defaults are
  // filled in afterwards).
  void (*resolve_defaults)(Schedule&);
  // Throws ScenarioError for a combination that it cannot do.
  void (*validate)(const Scenario&);
  void (*build)(Builder&);  // tells the builder what its rank does
};

struct PlacementInfo {
  std::string_view name;
  std::vector<std::string_view> aliases;
  std::string_view help;
};

// The option of that key, or null.
const OptionInfo* find_option(const Algorithm&, std::string_view key);
bool is_legal(const OptionInfo&, const OptionValue&);
std::string legal_values(const OptionInfo&);  // "2, 3, \"all\""

std::span<const Algorithm> algorithms();
std::span<const PlacementInfo> placements();
const Algorithm* find_algorithm(std::string_view name_or_alias);
const PlacementInfo* find_placement(std::string_view name_or_alias);

// The scenario with canonical names and every default filled in. Throws ScenarioError (key, message with
// the legal values) for anything that cannot be: unknown names, illegal option values, sizes that overflow.
Scenario resolve(Scenario);

// Plans for resolved scenarios. build_rank makes one global rank's part, the same as in the whole plan.
Plan build_plan(const Scenario& resolved);
RankPlan build_rank(const Scenario& resolved, int rank);
// Builds (again) the ranks of one replica's group in a plan that has its scenario and groups.
void build_group(Plan&, int replica, const Placement&);

}  // namespace cplab
