// What a TOML file that includes another one makes of it.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cli/files/toml_values.hpp"

namespace cplab {

// Keys of a table override the lower file's, tables in it key by key, all else as a whole, but for the lists
// of tables named here.
struct OverlayRules {
  // Of such a list: the keys in which two entries must agree to be the same, each with what an absent one
  // stands for ("=NAME": the value of key NAME). Its entries replace the lower file's of the same identity,
  // all of them; the others are added behind what the lower file has.
  std::map<std::string, std::vector<std::pair<std::string, std::string>>> identities;
  // Keys of a section that stand together: where the upper file gives the first, the lower one's are dropped.
  std::vector<std::string> together;
};

// `upper` over `lower`, which becomes the whole. Returns the dotted keys of sections of both that were
// changed by an upper section without the first of rules.together.
std::vector<std::string> overlay(toml::table& lower, toml::table&& upper, const OverlayRules& rules);

}  // namespace cplab
