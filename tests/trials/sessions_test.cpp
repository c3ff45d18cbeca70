// Commands: what they read, repeat, print on several pages of a result.
#include <doctest/doctest.h>

#include "tests/cli/program.hpp"
#include "tests/trials/inputs.hpp"
