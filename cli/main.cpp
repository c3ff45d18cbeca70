// The program cplab.
#include <fcntl.h>

#include <csignal>
#include <cstring>
#include <iostream>

#include "cli/console.hpp"
#include "cli/run.hpp"
#include "report/descriptor_buffer.hpp"
#include "report/leftovers.hpp"

namespace {

// A file that the program opens must not become standard output because that was closed: what stands in for a
// closed one fails as a closed one does.
void occupy_closed_streams() {
  for (const int descriptor : {0, 1, 2}) {
    if (::fcntl(descriptor, F_GETFD) >= 0) continue;
    (void)::open("/dev/null", descriptor == 0 ? O_WRONLY : O_RDONLY);  // takes the lowest that is free
  }
}

}  // namespace

int main(int argc, char** argv) {
  occupy_closed_streams();
  cplab::end_cleanly_on_signals();
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error of the write, as a full disk is
  std::ios::sync_with_stdio(false);
  cplab::DescriptorBuffer out(1);
  std::streambuf* const before = std::cout.rdbuf(&out);
  const int code = cplab::run_program(argc, argv, std::cout, std::cerr);
  std::cout.flush();
  std::cout.rdbuf(before);
  if (out.error() == 0) return code;
  // A full disk or a closed stream must not look like success.
  std::cerr << "cplab: standard output: " << std::strerror(out.error()) << std::endl;
  return code == cplab::exit_fine ? cplab::exit_environment : code;
}
