// Predictions that misled: kernels without a fast variant, launch floors, what-ifs of a GPU.
#include <doctest/doctest.h>

#include "tests/cli/program.hpp"
#include "tests/trials/inputs.hpp"
