// The memory that is left: files that stand for /proc and /sys/fs/cgroup, and CPLAB_MEMORY.
#include "exec/host_memory.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "tests/empty_folder.hpp"

namespace cplab {
namespace {

class Root {
 public:
  Root() { write("/proc/meminfo", "MemTotal: 9000 kB\nMemFree: 10 kB\nMemAvailable:    8000 kB\n"); }
  void write(const std::string& file, const std::string& text) const {
    const std::filesystem::path path = folder_.path.string() + file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  HostMemory left() const { return host_memory_below(folder_.path.string()); }

 private:
  testing::EmptyFolder folder_;
};

TEST_CASE("without cgroups the machine decides") {
  const Root root;
  CHECK(root.left().bytes == 8000 * 1024);
  CHECK(root.left().source == "this machine");
}

TEST_CASE("cgroups of version 2: every level, page cache that can go counts as free") {
  const Root root;
  root.write("/proc/self/cgroup", "0::/a/b\n");
  root.write("/sys/fs/cgroup/a/b/memory.max", "max\n");
  root.write("/sys/fs/cgroup/a/b/memory.current", "1000000\n");
  CHECK(root.left().source == "this machine");
  root.write("/sys/fs/cgroup/a/memory.max", "5000000\n");
  root.write("/sys/fs/cgroup/a/memory.current", "3000000\n");
  CHECK(root.left().bytes == 2000000);
  CHECK(root.left().source == "the cgroup limit");
  root.write("/sys/fs/cgroup/a/memory.stat", "anon 2000000\ninactive_file 900000\n");
  CHECK(root.left().bytes == 2900000);
  root.write("/sys/fs/cgroup/a/b/memory.max", "1000\n");  // more is used than is allowed
  CHECK(root.left().bytes == 0);
}

TEST_CASE("cgroups of version 1, and a path that is the host's") {
  const Root root;
  root.write("/proc/self/cgroup", "9:name=systemd:/\n4:cpu,memory:/docker/deadbeef\n0::/\n");
  root.write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "6000000\n");
  root.write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1500000\n");
  root.write("/sys/fs/cgroup/memory/memory.stat", "total_inactive_file 500000\n");
  CHECK(root.left().bytes == 5000000);
  root.write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");  // none
  CHECK(root.left().source == "this machine");
}

TEST_CASE("CPLAB_MEMORY is taken instead, and counts what is used already") {
  setenv("CPLAB_MEMORY", "1M", 1);
  CHECK(host_memory_left().bytes == 0);
  setenv("CPLAB_MEMORY", "1024G", 1);
  const HostMemory memory = host_memory_left();
  CHECK(memory.source == "CPLAB_MEMORY");
  CHECK(memory.bytes < std::int64_t{1} << 40);
  CHECK(memory.bytes > std::int64_t{1} << 39);
  for (const char* bad : {"many", "1Q", "-1", "99999999999999G"}) {
    setenv("CPLAB_MEMORY", bad, 1);
    CHECK_THROWS_AS(host_memory_left(), std::runtime_error);
  }
  unsetenv("CPLAB_MEMORY");
  CHECK(host_memory_left().source != "CPLAB_MEMORY");
}

}  // namespace
}  // namespace cplab
