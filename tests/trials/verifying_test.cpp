// cplab verify: limits of time, inputs that see each feature, results of others.
#include <doctest/doctest.h>

#include "tests/cli/program.hpp"
#include "tests/trials/inputs.hpp"
