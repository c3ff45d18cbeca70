// The program cplab.
#include <iostream>

#include "cli/run.hpp"

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  const int code = cplab::run_program(argc, argv, std::cout, std::cerr);
  std::cout.flush();
  // A full disk or a closed pipe must not look like success.
  return code == 0 && !std::cout ? 3 : code;
}
