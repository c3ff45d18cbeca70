// How much memory this process can still get, so that what would not fit is refused before it is built.
#pragma once

#include <cstdint>
#include <string>

namespace cplab {

struct HostMemory {
  std::int64_t bytes = 0;  // that can still be had
  std::string source;      // what sets the limit: "this machine", "the cgroup limit", ...
};

// The least of: what the machine has to give (MemAvailable), what the cgroups of this process leave below
// their limits (versions 1 and 2, every level; page cache that would be given up counts as free), and what
// RLIMIT_AS and RLIMIT_DATA leave. CPLAB_MEMORY, a size such as "64G", is taken instead of all of them: the
// process may then use that much in all. Throws std::runtime_error for a CPLAB_MEMORY that is no size.
HostMemory host_memory_left();

// The same from files below `root` that stand for /proc and /sys/fs/cgroup, without RLIMIT and CPLAB_MEMORY;
// for tests. What cannot be read sets no limit.
HostMemory host_memory_below(const std::string& root);

}  // namespace cplab
