// Version and commit of this build. CPLAB_VERSION comes from the project's version, CPLAB_COMMIT from the
// file that cmake/version.cmake writes.
#include "cmake/version.hpp"

#include "commit.inc"

namespace cplab {

const char* version() {
  return CPLAB_VERSION;
}

const char* commit() {
  return CPLAB_COMMIT;
}

}  // namespace cplab
