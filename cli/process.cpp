// What surrounds run_program in a process of its own; see process.hpp.
#include "cli/process.hpp"

#include <fcntl.h>

#include <csignal>
#include <cstring>
#include <iostream>
#include <string>

#include "cli/console.hpp"
#include "cli/run.hpp"
#include "report/descriptor_buffer.hpp"
#include "report/leftovers.hpp"

namespace cplab {

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

int run_process(int argc, const char* const* argv) {
  occupy_closed_streams();
  end_cleanly_on_signals();
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error of the write, as a full disk is
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
