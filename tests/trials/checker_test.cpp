// Plans that the checker let pass, or refused though they are right.
#include <doctest/doctest.h>

#include "tests/cli/program.hpp"
#include "tests/trials/inputs.hpp"
