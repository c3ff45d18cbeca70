// The program cplab.
#include "cli/process.hpp"

int main(int argc, char** argv) {
  return cplab::run_process(argc, argv);
}
