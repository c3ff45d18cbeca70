// Memory that is left, from /proc, the cgroup file systems, getrlimit and CPLAB_MEMORY.
#include "exec/host_memory.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <stdexcept>

#include "report/quantity.hpp"

namespace cplab {

namespace {

using Bytes = std::optional<std::int64_t>;

// The first number of a file; nothing for "max" or a file that is not there.
Bytes number_in(const std::string& file) {
  std::ifstream in(file);
  std::int64_t value = 0;
  return in >> value ? Bytes(value) : std::nullopt;
}

// The number behind `word` at the beginning of a line: "MemAvailable:   24166000 kB", "inactive_file 4096".
Bytes number_behind(const std::string& file, const std::string& word) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string first, unit;
    std::int64_t value = 0;
    if (!(words >> first >> value) || first != word) continue;
    words >> unit;
    return unit == "kB" ? value * 1024 : value;
  }
  return std::nullopt;
}

void lower(HostMemory& least, Bytes bytes, const char* source) {
  if (!bytes || *bytes >= least.bytes) return;
  least.bytes = std::max<std::int64_t>(*bytes, 0);
  least.source = source;
}

// One version of cgroups: where its tree lies and what its files are called.
struct CgroupFiles {
  const char* mount;
  const char *limit, *usage, *reclaimable;
};
constexpr CgroupFiles version_1{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                                "total_inactive_file"};
constexpr std::array<CgroupFiles, 2> version_2{
    CgroupFiles{"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"},
    CgroupFiles{"/sys/fs/cgroup/unified", "memory.max", "memory.current", "inactive_file"}};

Bytes left_in(const std::string& folder, const CgroupFiles& files) {
  const Bytes limit = number_in(folder + "/" + files.limit), usage = number_in(folder + "/" + files.usage);
  if (!limit || !usage) return std::nullopt;
  const Bytes cache = number_behind(folder + "/memory.stat", files.reclaimable);
  return *limit - std::max<std::int64_t>(*usage - cache.value_or(0), 0);
}

// The cgroup and all above it: each may have a limit of its own. Inside a container the path may be that of
// the host, where only the top of what is mounted is there.
void lower_by_cgroup(HostMemory& least, const std::string& root, std::string path, const CgroupFiles& files) {
  while (true) {
    lower(least, left_in(root + files.mount + path, files), "the cgroup limit");
    if (path.empty()) return;
    path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
}

void lower_by_cgroups(HostMemory& least, const std::string& root) {
  std::ifstream in(root + "/proc/self/cgroup");  // "4:memory:/a/b", "0::/a/b"
  for (std::string line; std::getline(in, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    std::string path = line.substr(second + 1);
    if (path == "/") path.clear();
    if (controllers == ",,") {
      for (const CgroupFiles& files : version_2) lower_by_cgroup(least, root, path, files);
    } else if (controllers.find(",memory,") != std::string::npos) {
      lower_by_cgroup(least, root, path, version_1);
    }
  }
}

// Fields of /proc/self/statm, in pages.
enum Statm : std::size_t { statm_size = 0, statm_resident = 1, statm_data = 5 };
std::int64_t own_bytes(Statm field) {
  std::ifstream in("/proc/self/statm");
  std::int64_t pages = 0;
  for (std::size_t i = 0; i <= field; ++i)
    if (!(in >> pages)) return 0;
  return pages * sysconf(_SC_PAGE_SIZE);
}

template <class Resource>
Bytes left_below(Resource resource, Statm used) {
  rlimit limit = {};
  if (getrlimit(resource, &limit) != 0) return std::nullopt;
  constexpr auto most = static_cast<rlim_t>(std::numeric_limits<std::int64_t>::max());
  if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur > most) return std::nullopt;
  return static_cast<std::int64_t>(limit.rlim_cur) - own_bytes(used);
}

}  // namespace

HostMemory host_memory_below(const std::string& root) {
  HostMemory least{std::numeric_limits<std::int64_t>::max(), "no limit"};
  lower(least, number_behind(root + "/proc/meminfo", "MemAvailable:"), "this machine");
  lower_by_cgroups(least, root);
  return least;
}

HostMemory host_memory_left() {
  if (const char* given = std::getenv("CPLAB_MEMORY"); given != nullptr && *given != '\0') {
    bool overflow = false;
    const auto size = parse_whole(given, Quantity::bytes, overflow);
    if (!size || *size < 0)
      throw std::runtime_error(
          "CPLAB_MEMORY=" + std::string(given) +
          ": must be a size in bytes, such as 64G; units: " + std::string(legal_units(Quantity::bytes)));
    return {std::max<std::int64_t>(*size - own_bytes(statm_resident), 0), "CPLAB_MEMORY"};
  }
  HostMemory least = host_memory_below("");
  lower(least, left_below(RLIMIT_AS, statm_size), "RLIMIT_AS");
  lower(least, left_below(RLIMIT_DATA, statm_data), "RLIMIT_DATA");
  return least;
}

}  // namespace cplab
