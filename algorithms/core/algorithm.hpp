// What an algorithm registers: its names, options, placements and the function that writes its plan.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plan/problem.hpp"

namespace cplab {

class Builder;

// The problems that an option is for: on others it has no value ("of ..."). Without a test it is for all.
struct Serves {
  bool (*test)(const Problem&) = nullptr;
  std::string_view words = {};  // "linear attention"
};
bool is_softmax_problem(const Problem&);  // dynamic masks included

struct OptionInfo {
  std::string_view key;            // of [schedule]
  std::vector<OptionValue> legal;  // every legal value; with any_count also every integer >= legal[0]
  bool any_count = false;
  OptionValue default_value;                   // taken unless resolve_defaults has put another
  bool (*applies)(const Schedule&) = nullptr;  // false: with these other options it has no value
  std::string_view help;                       // one line
  // What resolve_defaults puts, in words, where it may be another than default_value; else empty. Lists print
  // it in the place of a default that would not be taken.
  std::string_view default_rule = {};
  // Where the default rests on what machines were measured to do, the rule for it in words
  // (algorithms/core/defaults.hpp).
  std::string_view machine_rule = {};
  Serves serves = {};
  bool is_for(const Problem& p) const { return serves.test == nullptr || serves.test(p); }
};

// Sub-groups of every context-parallel group, registered before any rank is built: each lists the positions
// of its members, in their order. Teams of one name are disjoint: a rank is in one of them at most.
struct TeamSpec {
  std::string name;  // "inner"
  std::vector<std::vector<int>> members;
};

// Of all ranks of a group, where the problem has a convolution (Problem::convolution).
inline constexpr std::string_view halo_team = "halo";

struct Algorithm {
  std::string_view name;
  std::vector<std::string_view> aliases;
  std::string_view summary;  // one line with its source
  std::vector<OptionInfo> options;
  std::vector<std::string_view> placements;         // legal ones, the default first
  std::vector<std::string_view> linear_placements;  // of linear attention, where these are others
  bool dynamic_masks = false;  // of those of softmax attention: computes dynamic mask attention too
  // Computes cross attention, which all of softmax attention do, also where every rank holds all keys.
  bool keys_everywhere = false;
  // Called with the options the user gave, before `validate`; adds those defaults that depend on other
  // options or on the problem (plain defaults are filled in afterwards).
  void (*resolve_defaults)(Scenario&) = nullptr;
  // Throws ScenarioError for a combination that it cannot do.
  void (*validate)(const Scenario&) = nullptr;
  void (*build)(Builder&) = nullptr;  // tells the builder what its rank does
  // The sub-groups it communicates in, beside the whole context-parallel group; null: none.
  std::vector<TeamSpec> (*teams)(const Scenario&) = nullptr;
};

const std::vector<std::string_view>& placements_for(const Algorithm&, const Problem&);
std::string quoted(const OptionValue&);  // words in quotes
// What is taken where nothing is given: the value, or the rule in words where it depends on the scenario.
std::string default_text(const OptionInfo&);
// The option of that key, or null.
const OptionInfo* find_option(const Algorithm&, std::string_view key);
bool is_legal(const OptionInfo&, const OptionValue&);
std::string legal_values(const OptionInfo&);  // "2, 3, \"all\""
// When an option of the algorithm has no value, or needs others: "not with merge=fused", "only with a=b";
// empty if it always applies. Found by trying every legal value of every other option beside the defaults.
std::string applies_text(const Algorithm&, const OptionInfo&);

}  // namespace cplab
