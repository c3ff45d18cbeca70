// Inputs that took a time out of proportion to their size.
#include <doctest/doctest.h>

#include "tests/cli/program.hpp"
#include "tests/trials/inputs.hpp"
