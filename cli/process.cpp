// What surrounds run_program in a process of its own; see process.hpp.
#include "cli/process.hpp"

#include <fcntl.h>

#include <csignal>
#include <cstring>
#include <iostream>
#include <string>

#include "cli/console.hpp"
#include "cli/program.hpp"
#include "report/descriptor_buffer.hpp"
#include "report/leftovers.hpp"

namespace cplab {

namespace {

// If standard output was closed, the next file that is opened would take its descriptor and receive what is
// printed. A closed descriptor is replaced by one that fails in the same way.
void occupy_closed_streams() {
  for (const int descriptor : {0, 1, 2}) {
    if (::fcntl(descriptor, F_GETFD) >= 0) continue;
    (void)::open("/dev/null", descriptor == 0 ? O_WRONLY : O_RDONLY);  // takes the lowest that is free
  }
}

}  // namespace

int run_process(int argc, const char* const* argv) {
  occupy_closed_streams();
  end_cleanly_on_signals();
  std::signal(SIGXFSZ, SIG_IGN);  // RLIMIT_FSIZE then makes the write fail, as a full disk does
  std::ios::sync_with_stdio(false);
  DescriptorBuffer out(1);
  std::streambuf* const before = std::cout.rdbuf(&out);
  const int code = run_program(argc, argv, std::cout, std::cerr);
  std::cout.flush();
  std::cout.rdbuf(before);
  if (out.error() == 0) return code;
  std::cerr << std::string("cplab: standard output: ") + std::strerror(out.error()) + "\n";
  return code == exit_fine ? exit_environment : code;
}

}  // namespace cplab
