// JSON of nccl-tests and nvbandwidth as their sources write it (src/util.cu, json_output.cpp), by hand.
#include <doctest/doctest.h>

#include "cli/files/calibration_file.hpp"
#include "cli/files/imported_messages.hpp"
#include "cli/files/toml_table.hpp"
#include "report/json_reader.hpp"
#include "tests/cli/program.hpp"
#include "tests/contains.hpp"

using namespace cplab;
using cplab::testing::contains;

namespace {

std::string device(int rank, const std::string& host) {
  return "{\"rank\":" + std::to_string(rank) + ",\"group\":0,\"pid\":1,\"hostname\":\"" + host +
         "\",\"device\":0,\"device_hex\":\"0000:1b:00\",\"device_info\":\"NVIDIA H200\"}";
}

std::string nccl_tests(const std::string& program, const std::string& devices, int gpus, double wrong = 0) {
  const auto row = [&](std::int64_t size, double us) {
    return "{\"size\":" + std::to_string(size) +
           ",\"count\":1,\"type\":\"float\",\"redop\":\"none\",\"root\":\"    "
           "-1\",\"out_of_place\":{\"time\":" +
           std::to_string(us) + ",\"alg_bw\":1.0,\"bus_bw\":1.0,\"nwrong\":" + std::to_string(wrong) +
           "},\"in_place\":null,\"actual_iterations\":20,\"experiment_name\":null}";
  };
  return "{\"version\":1,\"start_time\":\"2026-10-02 10:00:00\",\"args\":[\"./build/" + program +
         "\",\"-J\",\"x.json\"],\"env\":[],\"nccl_version\":22809,\"config\":{\"nthreads\":1,\"ngpus\":" +
         std::to_string(gpus) + ",\"devices\":[" + devices + "]},\"results\":[" + row(1 << 20, 30) + "," +
         row(1 << 30, 3000) + "],\"end_time\":\"2026-10-02 10:01:00\"}";
}

const char* const nvbandwidth =
    R"json({"nvbandwidth": {"CUDA Runtime Version": 13000, "Driver Version": "580.1",
  "GPU Device list": ["0: NVIDIA H200 (00000000:1B:00): (host)", "1: NVIDIA H200 (00000000:2B:00): (host)"],
  "version": "v0.9", "testcases": [
    {"name": "host_to_device_memcpy_ce", "status": "Passed", "bandwidth_matrix": [["55.1", "55.2"]], "sum": 110.3},
    {"name": "device_to_device_memcpy_write_ce", "status": "Passed", "sum": 794.03,
     "bandwidth_description": "memcpy CE GPU(row) <- GPU(column) bandwidth (GB/s)",
     "bandwidth_matrix": [["N/A", "397.13"], ["396.9", "N/A"]]}]
}
})json";

}  // namespace

TEST_CASE("bytes of nccl-tests are wire bytes sent per rank") {
  const TemporaryFolder folder;
  const auto import = [&](const std::string& program) {
    const ImportedMessages imported =
        import_messages(folder.write(program + ".json", nccl_tests(program, device(0, "a"), 8)));
    CHECK(imported.machine.name() == "8 x NVIDIA H200");
    CHECK(imported.machine.date == "2026-10-02");
    REQUIRE(imported.found.messages.size() == 1);
    return imported.found.messages.front();
  };
  // Of 8 ranks: all_gather's size is all that each has afterwards, 7/8 of which it does not begin with.
  const measure::MessageTable gather = import("all_gather_perf");
  CHECK(gather.kind == "all_gather");
  CHECK(gather.group == 8);
  CHECK_FALSE(gather.inter);
  REQUIRE(gather.points.size() == 2);
  CHECK(gather.points[0].bytes == 917504);  // 7/8 of 1 MiB
  CHECK(gather.points[0].seconds == doctest::Approx(30e-6));
  CHECK(import("all_reduce_perf").points[0].bytes == 1835008);  // twice that
  CHECK(import("sendrecv_perf").points[0].bytes == 1048576);
  CHECK(import("sendrecv_perf").kind == "exchange");
  CHECK(contains(import("alltoall_perf").tool, "nccl-tests alltoall_perf -J, NCCL 2.28.9"));
}

TEST_CASE("one GPU on each of several hosts measures the network") {
  const TemporaryFolder folder;
  const auto imported = import_messages(
      folder.write("x.json", nccl_tests("sendrecv_perf", device(0, "a") + "," + device(1, "b"), 1)));
  CHECK(imported.found.messages.front().inter);
  CHECK(imported.found.messages.front().group == 2);
  CHECK_THROWS_WITH_AS(import_messages(folder.write(
                           "y.json", nccl_tests("sendrecv_perf", device(0, "a") + "," + device(1, "b"), 4))),
                       doctest::Contains("run one GPU a host"), JsonFileError);
}

TEST_CASE("what cannot be used says why") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH_AS(
      import_messages(folder.write("a.json", nccl_tests("broadcast_perf", device(0, "a"), 8))),
      doctest::Contains("sendrecv_perf, all_gather_perf"), JsonFileError);
  CHECK_THROWS_WITH_AS(
      import_messages(folder.write("b.json", nccl_tests("all_gather_perf", device(0, "a"), 8, 3))),
      doctest::Contains("wrong results"), JsonFileError);
  // Lists and matrices that are something else are errors too, none of the program's.
  for (const char* text :
       {R"json({"nvbandwidth": {"GPU Device list": [""], "testcases": []}})json",
        R"json({"nvbandwidth": {"GPU Device list": ["x"], "testcases": 1}})json",
        R"json({"nvbandwidth": []})json", R"json({"nccl_version": 1, "results": []})json", "[]", "1"})
    CHECK_THROWS_AS(import_messages(folder.write("d.json", text)), std::runtime_error);
  CHECK_THROWS_WITH_AS(import_messages(folder.write("c.json", "{\"results\": []}")),
                       doctest::Contains("nvbandwidth"), InputError);
}

TEST_CASE("imports go into a file without a GPU, measured by the tool that is named") {
  const TemporaryFolder folder;
  const std::string out = folder.path("out.toml"),
                    nccl = folder.write("n.json", nccl_tests("all_gather_perf", device(0, "a"), 4)),
                    link = folder.write("l.json", nvbandwidth);
  const ProgramResult result = run_cplab(
      {"calibrate", "--out", out, "--base", "h200x4", "--import", nccl, "--import", link, "--budget", "0"});
  CAPTURE(result.err);
  REQUIRE(result.code == 0);
  const measure::State state = parse_calibration(read_file(out), out);
  CHECK(state.hardware.node.link_bytes_s == doctest::Approx(397.13e9));
  CHECK(state.hardware.node.provenance.origin == Origin::measured);
  CHECK(contains(state.hardware.node.provenance.tool, "nvbandwidth v0.9"));
  int measured = 0;
  for (const MessageTable& table : state.hardware.messages)
    if (table.provenance.origin == Origin::measured) {
      ++measured;
      CHECK(table.kind == OpKind::all_gather);
      CHECK(table.provenance.machine == "4 x NVIDIA H200");
      CHECK(table.channels > 0);
    }
  CHECK(measured == 1);
  CHECK(state.record.left_out.size() > 5);
  const ProgramResult ring = run_cplab(
      {"simulate", "ring", "--set", "parallel.ranks=4", "--set", "hardware.file=" + out, "--quiet"});
  CAPTURE(ring.err);
  CHECK(ring.code == 0);
}

TEST_CASE("the same command goes on with what the file has, another base begins anew") {
  const TemporaryFolder folder;
  const std::string out = folder.path("out.toml"),
                    nccl = folder.write("n.json", nccl_tests("all_gather_perf", device(0, "a"), 4)),
                    link = folder.write("l.json", nvbandwidth);
  const auto call = [&](const std::string& base, const std::string& import) {
    const ProgramResult result =
        run_cplab({"calibrate", "--out", out, "--base", base, "--import", import, "--budget", "0"});
    CAPTURE(result.err);
    CHECK(result.code == 0);
    CHECK(contains(result.err, "begins anew") == (base != "h200x4"));
    const measure::State state = parse_calibration(read_file(out), out);
    CHECK(state.record.base == base);
    int measured = state.hardware.node.provenance.origin == Origin::measured ? 1 : 0;
    for (const MessageTable& table : state.hardware.messages)
      measured += table.provenance.origin == Origin::measured ? 1 : 0;
    return measured;
  };
  CHECK(call("h200x4", nccl) == 1);
  CHECK(call("h200x4", link) == 2);
  CHECK(call("h100x8", nccl) == 1);
}

TEST_CASE("without a GPU a calibration says what is missing, and without a base what to name") {
  const TemporaryFolder folder;
  const std::string out = folder.path("out.toml");
  const ProgramResult none = run_cplab({"calibrate", "--out", out, "--budget", "0"});
  CHECK(none.code == 2);
  CHECK(contains(none.err, "--base FILE"));
  CHECK(run_cplab({"calibrate"}).code == 2);
}
