// Hardware files: where they are looked for, what they may leave to an include, how errors are told.
#include <doctest/doctest.h>

#include "tests/cli/program.hpp"
#include "tests/trials/inputs.hpp"
