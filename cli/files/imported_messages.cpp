// JSON of nccl-tests 2.17 to 2.19 and of nvbandwidth 0.6 to 0.9 as they write it; see imported_messages.hpp.
#include "cli/files/imported_messages.hpp"

#include <algorithm>
#include <cstdlib>
#include <set>

#include "cli/files/text_file.hpp"
#include "cli/files/toml_table.hpp"
#include "report/json_reader.hpp"

namespace cplab {
namespace {

// A program of nccl-tests: which kind of message it times, and its wire bytes per rank over the bytes of its
// column "size" (its "busbw" over its "algbw"; PERFORMANCE.md there).
struct Program {
  const char* name;
  const char* kind;
  double (*wire)(double ranks);
};
double all_but_own(double ranks) {
  return (ranks - 1) / ranks;
}
constexpr Program programs[] = {
    {"sendrecv_perf", "exchange", [](double) { return 1.0; }},
    {"all_gather_perf", "all_gather", all_but_own},
    {"reduce_scatter_perf", "reduce_scatter", all_but_own},
    {"alltoall_perf", "all_to_all", all_but_own},
    {"all_reduce_perf", "all_reduce", [](double ranks) { return 2 * all_but_own(ranks); }},
};

const Program& program_of(const JsonNode& arguments) {
  const std::string given = arguments.size() > 0 ? arguments.at(std::size_t{0}).text() : "";
  const std::string word = given.substr(given.rfind('/') + 1);
  std::string legal;
  for (const Program& program : programs) {
    if (word.starts_with(program.name)) return program;
    legal += (legal.empty() ? "" : ", ") + std::string(program.name);
  }
  arguments.fail("\"" + word + "\" measures no message of plans; those that do are " + legal);
}

// Ranks of the launch, and whether they are on several hosts. The list has an entry for each process.
struct Launched {
  int ranks = 0;
  bool several_hosts = false;
  std::string gpu;
};
Launched launched(const JsonNode& config) {
  std::set<std::string> hosts;
  const JsonNode devices = config.at("devices");
  Launched found;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const JsonNode device = devices.at(i);
    hosts.insert(device.at("hostname").text());
    if (i == 0) found.gpu = device.at("device_info").text();
  }
  const std::int64_t each = config.at("nthreads").integer(1, 1024) * config.at("ngpus").integer(1, 1024);
  found.ranks = static_cast<int>(each * static_cast<std::int64_t>(devices.size()));
  found.several_hosts = hosts.size() > 1;
  if (found.ranks < 2) devices.fail("messages need two ranks or more");
  if (found.several_hosts && hosts.size() != devices.size())
    devices.fail(
        "several processes on each of several hosts: run one GPU a host, whose messages are all of the "
        "network, or all on one host");
  if (found.several_hosts && each > 1)
    devices.fail(
        "several GPUs on each of several hosts: run one GPU a host, whose messages are all of the network");
  return found;
}

ImportedMessages of_nccl_tests(const JsonNode& root) {
  const Program& program = program_of(root.at("args"));
  const Launched launch = launched(root.at("config"));
  const std::string began = root.has("start_time") ? root.at("start_time").text() : "";
  const std::int64_t nccl = root.at("nccl_version").integer();
  ImportedMessages imported;
  imported.machine.gpu = launch.gpu;
  imported.machine.gpus = launch.ranks;
  imported.machine.date =
      began.size() >= 10 && began[4] == '-' && began[7] == '-' ? began.substr(0, 10) : measure::today();
  measure::MessageTable table;
  table.kind = program.kind;
  table.transport = "nccl";
  table.group = launch.ranks;
  table.inter = launch.several_hosts;
  table.tool = "nccl-tests " + std::string(program.name) + " -J, NCCL " + std::to_string(nccl / 10000) + "." +
               std::to_string(nccl / 100 % 100) + "." + std::to_string(nccl % 100) +
               "; channels as in the table before";
  const JsonNode results = root.at("results");
  for (std::size_t i = 0; i < results.size(); ++i) {
    const JsonNode row = results.at(i), timed = row.at("out_of_place");
    if (timed.is_null()) timed.fail("the run has no times out of place, which plans need");
    if (const JsonNode wrong = timed.at("nwrong"); !wrong.is_null() && wrong.number() > 0)
      wrong.fail("the run's own check found wrong results");
    if (!timed.has("time")) timed.fail("has no \"time\": the run was of CPU times (-C); leave that out");
    const double bytes = row.at("size").number() * program.wire(launch.ranks);
    const double seconds = timed.at("time").number() * 1e-6;
    if (bytes > 0 && seconds > 0) table.points.push_back({bytes, seconds});
  }
  if (table.points.empty()) results.fail("no size of it took any time");
  std::sort(table.points.begin(), table.points.end(),
            [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
  table.points.erase(std::unique(table.points.begin(), table.points.end(),
                                 [](const auto& a, const auto& b) { return a.bytes == b.bytes; }),
                     table.points.end());
  imported.found.messages.push_back(std::move(table));
  return imported;
}

// GB/s as text, "N/A" where there is no pair.
double fastest_of(const JsonNode& matrix) {
  double fastest = 0;
  for (std::size_t i = 0; i < matrix.size(); ++i)
    for (std::size_t j = 0; j < matrix.at(i).size(); ++j) {
      const JsonNode cell = matrix.at(i).at(j);
      const double value = cell.is_text() ? std::strtod(cell.text().c_str(), nullptr) : cell.number();
      fastest = std::max(fastest, 1e9 * value);
    }
  return fastest;
}

// "NVIDIA H200" of "0: NVIDIA H200 (00000000:1B:00): (host)".
std::string gpu_of(const std::string& listed) {
  const std::size_t colon = listed.find(": "), begin = colon == std::string::npos ? 0 : colon + 2;
  return listed.substr(begin, listed.find(" (", begin) - begin);
}

ImportedMessages of_nvbandwidth(const JsonNode& root) {
  ImportedMessages imported;
  imported.machine.date = measure::today();
  if (root.has("GPU Device list") && root.at("GPU Device list").is_array()) {
    const JsonNode devices = root.at("GPU Device list");
    imported.machine.gpus = static_cast<int>(devices.size());
    if (devices.size() > 0) imported.machine.gpu = gpu_of(devices.at(std::size_t{0}).text());
  }
  const JsonNode cases = root.at("testcases");
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const JsonNode test = cases.at(i);
    const std::string& name = test.at("name").text();
    if (!name.starts_with("device_to_device_memcpy_") || !name.ends_with("_ce")) continue;
    if (!test.has("bandwidth_matrix")) continue;  // waived: GPUs that cannot reach each other
    const double fastest = fastest_of(test.at("bandwidth_matrix"));
    if (fastest <= imported.found.link_bytes_s) continue;
    imported.found.link_bytes_s = fastest;
    imported.found.link_tool = "nvbandwidth " + (root.has("version") ? root.at("version").text() + " " : "") +
                               "-j: " + name + ", the fastest pair";
  }
  if (imported.found.link_bytes_s <= 0)
    cases.fail(
        "has no copies from GPU to GPU: run the test cases device_to_device_memcpy_write_ce and "
        "device_to_device_memcpy_read_ce");
  return imported;
}

}  // namespace

ImportedMessages import_messages(const std::string& path) {
  const JsonDocument document(read_text_file(path), path);
  const JsonNode root = document.root();
  if (root.is_object() && root.has("nvbandwidth")) return of_nvbandwidth(root.at("nvbandwidth"));
  if (root.is_object() && root.has("nccl_version") && root.has("results")) return of_nccl_tests(root);
  throw InputError("--import " + path +
                   ": is no result of nccl-tests (-J FILE.json) nor of nvbandwidth (-j >FILE.json)");
}

}  // namespace cplab
