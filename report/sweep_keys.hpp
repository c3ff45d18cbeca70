// The keys of a sweep's points, as people read them.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "report/sweep.hpp"

namespace cplab {

std::string value_text(const SweepValue&);
// "problem.heads=28 parallel.ranks=8"
std::string keys_text(const SweepKeys&);
// The value of a key of a point; null: the point has no such key.
const SweepValue* find_value(const SweepPoint&, const std::string& key);
// As a number: sizes such as "128K" too, unless of [hardware], whose units differ. Nothing for other texts.
std::optional<double> number_of(const std::string& key, const SweepValue&);

// Those of the study's keys that have more than one value, each with what a column calls it: without its
// section, unless two would have one name.
std::vector<std::pair<std::string, std::string>> varying_keys(const std::vector<SweepPoint>& points);

}  // namespace cplab
