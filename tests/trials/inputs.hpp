// Where the inputs of the trials lie.
#pragma once

#include <string>

// The path of tests/trials/inputs/NAME.
inline std::string trial(const std::string& name) {
  return std::string(CPLAB_TRIAL_INPUTS) + "/" + name;
}
