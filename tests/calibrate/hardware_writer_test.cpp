// What the writer writes, the reader of hardware files reads back: every shipped machine, and a measured one.
#include "calibrate/hardware_writer.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "calibrate/fill.hpp"
#include "calibrate/parts.hpp"
#include "cli/files/calibration_file.hpp"
#include "cli/files/hardware_file.hpp"
#include "cli/files/scenario_file.hpp"
#include "tests/calibrate/made_up.hpp"
#include "tests/cli/program.hpp"
#include "tests/contains.hpp"

using namespace cplab;
using cplab::testing::contains;

namespace {

measure::Record record() {
  measure::Record record;
  record.commit = "abc";
  record.kernel_set = "core";
  record.kernels = "0123";
  record.gpu = "a \"GPU\"";
  record.gpus = 2;
  record.driver = "1\\2";
  record.date = "2026-11-29";
  record.seed = 7;
  record.seconds = 12.5;
  record.done = {"host", "copies"};
  record.left_out = {"one"};
  record.accuracy = {{"ring", 3, 0.02, -0.01, 0.05}, {"packed", 2, 0.1, 0.1, 0.12}};
  return record;
}

void check_same(const Provenance& a, const Provenance& b) {
  CHECK(a.origin == b.origin);
  CHECK(a.source == b.source);
  CHECK(a.tool == b.tool);
  CHECK(a.machine == b.machine);
  CHECK(a.date == b.date);
}

void check_same(const KernelTable& a, const KernelTable& b) {
  CAPTURE(a.variant);
  CHECK(a.kind == b.kind);
  CHECK(a.variant == b.variant);
  CHECK(a.dtype == b.dtype);
  CHECK(a.head_size == b.head_size);
  CHECK(a.value_size == b.value_size);
  CHECK(a.causal == b.causal);
  CHECK(a.tile_rows == b.tile_rows);
  CHECK(a.sms == b.sms);
  CHECK(a.both_sides == b.both_sides);
  CHECK(a.sustained == b.sustained);
  CHECK(a.cold_l2 == b.cold_l2);
  CHECK(a.cut == b.cut);
  CHECK(a.chunk == b.chunk);
  CHECK(a.sequences == b.sequences);
  CHECK(a.states == b.states);
  CHECK(a.results == b.results);
  REQUIRE(a.points.size() == b.points.size());
  for (std::size_t i = 0; i < a.points.size(); ++i) {
    CHECK(a.points[i].batch == b.points[i].batch);
    CHECK(a.points[i].sequence == b.points[i].sequence);
    CHECK(a.points[i].heads == b.points[i].heads);
    CHECK(a.points[i].seconds == b.points[i].seconds);
  }
  REQUIRE(a.curve.size() == b.curve.size());
  for (std::size_t i = 0; i < a.curve.size(); ++i) {
    CHECK(a.curve[i].bytes == b.curve[i].bytes);
    CHECK(a.curve[i].seconds == b.curve[i].seconds);
  }
  check_same(a.provenance, b.provenance);
}

void check_same(const FinerTables& a, const FinerTables& b) {
  REQUIRE(a.forms.size() == b.forms.size());
  for (std::size_t i = 0; i < a.forms.size(); ++i) {
    const FormTable &x = a.forms[i], &y = b.forms[i];
    CHECK(x.kind == y.kind);
    CHECK(x.variant == y.variant);
    CHECK(x.dtype == y.dtype);
    CHECK(x.head_size == y.head_size);
    CHECK(x.causal == y.causal);
    CHECK(x.window == y.window);
    CHECK(x.write == y.write);
    CHECK(x.delta_inside == y.delta_inside);
    CHECK(x.rounded == y.rounded);
    CHECK(x.row_runs == y.row_runs);
    REQUIRE(x.points.size() == y.points.size());
    CHECK(x.points[0].batch == y.points[0].batch);
    CHECK(x.points[0].queries == y.points[0].queries);
    CHECK(x.points[0].keys == y.points[0].keys);
    CHECK(x.points[0].heads == y.points[0].heads);
    CHECK(x.points[0].kv_heads == y.points[0].kv_heads);
    CHECK(x.points[0].seconds == y.points[0].seconds);
    check_same(x.provenance, y.provenance);
  }
  REQUIRE(a.pieces.size() == b.pieces.size());
  for (std::size_t i = 0; i < a.pieces.size(); ++i) {
    CHECK(a.pieces[i].kind == b.pieces[i].kind);
    CHECK(a.pieces[i].transport == b.pieces[i].transport);
    CHECK(a.pieces[i].points.back().pieces == b.pieces[i].points.back().pieces);
    CHECK(a.pieces[i].points.back().bytes == b.pieces[i].points.back().bytes);
    CHECK(a.pieces[i].points.back().seconds == b.pieces[i].points.back().seconds);
  }
  REQUIRE(a.beside.size() == b.beside.size());
  for (std::size_t i = 0; i < a.beside.size(); ++i) {
    CHECK(a.beside[i].transport == b.beside[i].transport);
    CHECK(a.beside[i].beside == b.beside[i].beside);
    CHECK(a.beside[i].points.back().alone_s == b.beside[i].points.back().alone_s);
    CHECK(a.beside[i].points.back().beside_s == b.beside[i].points.back().beside_s);
  }
  REQUIRE(a.launches.size() == b.launches.size());
  for (std::size_t i = 0; i < a.launches.size(); ++i) {
    CHECK(a.launches[i].kind == b.launches[i].kind);
    CHECK(a.launches[i].transport == b.launches[i].transport);
    CHECK(a.launches[i].seconds == b.launches[i].seconds);
  }
  REQUIRE(a.gemms.size() == b.gemms.size());
  for (std::size_t i = 0; i < a.gemms.size(); ++i) {
    CHECK(a.gemms[i].library == b.gemms[i].library);
    CHECK(a.gemms[i].points.back().n == b.gemms[i].points.back().n);
    CHECK(a.gemms[i].points.back().seconds == b.gemms[i].points.back().seconds);
  }
  CHECK(a.cards.attend_s == b.cards.attend_s);
  check_same(a.cards.provenance, b.cards.provenance);
}

void check_same(const Hardware& a, const Hardware& b) {
  CHECK(a.name == b.name);
  CHECK(a.kernels_of == b.kernels_of);
  CHECK(a.node.gpus == b.node.gpus);
  CHECK(a.node.link_bytes_s == b.node.link_bytes_s);
  check_same(a.node.provenance, b.node.provenance);
  CHECK(a.network.fabric == b.network.fabric);
  CHECK(a.network.nics == b.network.nics);
  CHECK(a.network.nic_bytes_s == b.network.nic_bytes_s);
  CHECK(a.network.levels.size() == b.network.levels.size());
  CHECK(a.gpu.name == b.gpu.name);
  CHECK(a.gpu.sms == b.gpu.sms);
  CHECK(a.gpu.sm_major == b.gpu.sm_major);
  CHECK(a.gpu.capacity_bytes == b.gpu.capacity_bytes);
  CHECK(a.gpu.copy_bytes_s == b.gpu.copy_bytes_s);
  CHECK(a.gpu.peak_flops == b.gpu.peak_flops);
  check_same(a.gpu.provenance, b.gpu.provenance);
  CHECK(a.host.times() == b.host.times());
  CHECK(a.host.run_ahead == b.host.run_ahead);
  check_same(a.host.provenance, b.host.provenance);
  CHECK(a.linear.step_s == b.linear.step_s);
  CHECK(a.burst.seconds == b.burst.seconds);
  CHECK(a.burst.speed == b.burst.speed);
  CHECK(a.burst.small_heads_speed == b.burst.small_heads_speed);
  CHECK(a.burst.share == b.burst.share);
  CHECK(a.elementwise.efficiency == b.elementwise.efficiency);
  CHECK(a.elementwise.apart == b.elementwise.apart);
  CHECK(a.elementwise.gathers == b.elementwise.gathers);
  CHECK(a.linear.floor_s == b.linear.floor_s);
  CHECK(a.network.max_nodes == b.network.max_nodes);
  check_same(a.elementwise.provenance, b.elementwise.provenance);
  CHECK(a.fixed_bytes == b.fixed_bytes);
  check_same(a.fixed, b.fixed);
  CHECK(a.environment.size() == b.environment.size());
  CHECK(a.rates.values == b.rates.values);
  REQUIRE(a.kernels.size() == b.kernels.size());
  for (std::size_t i = 0; i < a.kernels.size(); ++i) check_same(a.kernels[i], b.kernels[i]);
  REQUIRE(a.messages.size() == b.messages.size());
  for (std::size_t i = 0; i < a.messages.size(); ++i) {
    const MessageTable &x = a.messages[i], &y = b.messages[i];
    CHECK(x.kind == y.kind);
    CHECK(x.transport == y.transport);
    CHECK(x.path == y.path);
    CHECK(x.group == y.group);
    CHECK(x.channels == y.channels);
    CHECK(x.alone == y.alone);
    CHECK(x.whole == y.whole);
    CHECK(x.cuda_graph == y.cuda_graph);
    CHECK(x.link_bytes_s == y.link_bytes_s);
    CHECK(x.nics_per_gpu == y.nics_per_gpu);
    REQUIRE(x.points.size() == y.points.size());
    for (std::size_t p = 0; p < x.points.size(); ++p) {
      CHECK(x.points[p].bytes == y.points[p].bytes);
      CHECK(x.points[p].seconds == y.points[p].seconds);
    }
    check_same(x.provenance, y.provenance);
  }
  check_same(a.finer, b.finer);
  REQUIRE(a.interference.size() == b.interference.size());
  for (std::size_t i = 0; i < a.interference.size(); ++i) {
    CHECK(a.interference[i].kind == b.interference[i].kind);
    CHECK(a.interference[i].beside == b.interference[i].beside);
    CHECK(a.interference[i].slowdown == b.interference[i].slowdown);
  }
}

}  // namespace

TEST_CASE("every shipped machine comes back to the bit") {
  for (const std::string& name : scenario_names("hardware")) {
    CAPTURE(name);
    const Hardware machine = read_hardware(find_hardware(name));
    const measure::State back = parse_calibration(measure::hardware_text(machine, record()), name);
    check_same(machine, back.hardware);
  }
}

TEST_CASE("finer tables come back, and what is measured again takes the place of what was") {
  Hardware machine = base_machine("h200x4", made_up_machine());
  const std::size_t beside = machine.finer.beside.size();
  MadeUp made_up;
  for (int times = 0; times < 2; ++times)
    for (const measure::Part& part : measure::all_parts())
      CHECK(measure::take(made_up.measure(part.name, 1, 16), made_up.machine(), machine).empty());
  CHECK(machine.finer.forms.size() == 2);
  CHECK(machine.finer.pieces.size() == 2);
  CHECK(std::count_if(machine.finer.beside.begin(), machine.finer.beside.end(), [](const BesideTable& table) {
          return table.provenance.origin == Origin::measured;
        }) == 1);
  CHECK(machine.finer.beside.size() <= beside + 1);
  CHECK(machine.finer.launches.size() == 2);
  CHECK(machine.finer.gemms.size() == 1);
  CHECK(machine.finer.forms[0].provenance.origin == Origin::measured);
  const std::string text = measure::hardware_text(machine, record());
  check_same(machine, parse_calibration(text, "x.toml").hardware);
  // As a base of another machine they are assumed, but for the cards, which are those very ones.
  const TemporaryFolder folder;
  const Hardware based = base_machine(folder.write("x.toml", text), made_up_machine());
  CHECK(based.finer.forms[0].provenance.origin == Origin::assumed);
  CHECK(based.finer.cards.attend_s.empty());
}

TEST_CASE("what is wrong with a finer table is said with file, line and key") {
  const std::string text = measure::hardware_text(base_machine("h200x4", made_up_machine()), record());
  const auto refused = [&](const std::string& section, const char* said) {
    CAPTURE(section);
    const std::size_t end = text.find(measure::calibration_heading);
    CHECK_THROWS_WITH_AS(
        parse_hardware(text.substr(0, end + 1) + section + "origin = \"assumed\"\nsource = \"x\"\n",
                       "x.toml"),
        doctest::Contains(said), InputError);
  };
  const std::string form =
      "[[form]]\nclass = \"attend\"\nvariant = \"a\"\ndtype = \"bf16\"\nhead_size = 128\nbatch = "
      "[1]\nqueries = [2]\nkeys = [2]\nheads = [4]\n";
  refused(form + "kv_heads = [3]\nseconds = [1e-3]\n", "must divide heads");
  refused(form + "kv_heads = [2]\nseconds = [0]\n", "seconds: must be above 0");
  refused(form + "kv_heads = [2, 2]\nseconds = [1e-3]\n", "kv_heads: has 2 entries, seconds has 1");
  refused(form + "kv_heads = [2]\nseconds = [1e-3]\nwrite = \"add\"\n", "legal are \"store\" \"merge\"");
  refused(form + "kv_heads = [2]\nseconds = [1e-3]\ndelta = \"inside\"\n",
          "delta");  // of attend there is none
  refused("[[pieces]]\nkind = \"merge\"\n", "legal are \"copy\" \"exchange\"");
  refused("[[beside]]\nkind = \"exchange\"\ntransport = \"nccl\"\nbeside = \"copy\"\n", "beside");
  refused("[[launch]]\nkind = \"copy\"\nseconds = -1\n", "seconds: must be above 0");
  refused("[[gemm]]\nlibrary = \"x\"\ndtype = \"bf16\"\nm = [0]\nn = [1]\nk = [1]\nseconds = [1]\n",
          "m: must be positive");
}

TEST_CASE("the record comes back, and the file is one that simulate takes") {
  const measure::Record written = record();
  const std::string text = measure::hardware_text(base_machine("h200x4", made_up_machine()), written);
  const measure::Record read = parse_calibration(text, "x.toml").record;
  CHECK(read.gpu == written.gpu);
  CHECK(read.kernels == "0123");
  CHECK(read.driver == written.driver);
  CHECK(read.seed == 7);
  CHECK(read.seconds == 12.5);
  CHECK(read.done == written.done);
  CHECK(read.left_out == written.left_out);
  CHECK(read.warnings.empty());
  REQUIRE(read.accuracy.size() == 2);
  CHECK(read.accuracy[1].kind == "packed");
  CHECK(read.accuracy[1].points == 2);
  CHECK(read.accuracy[1].half_width == 0.12);
  const TemporaryFolder folder;
  const std::string file = folder.write("x.toml", text);
  const ProgramResult result = run_cplab({"simulate", "ring", "--set", "hardware.file=" + file, "--quiet"});
  CAPTURE(result.err);
  CHECK(result.code == 0);  // 8 ranks: four nodes like this one, over a network that is assumed
}

TEST_CASE("a GPU that no shipped file describes begins with its data sheet") {
  measure::Machine machine = made_up_machine();
  machine.gpu = "NVIDIA A100-SXM4-80GB";
  machine.sms = 108;
  machine.sm_major = 8;
  const Hardware hardware = base_machine("", machine);
  CHECK(hardware.gpu.name == machine.gpu);
  CHECK(hardware.gpu.peak_flops.front().second == 312e12);
  CHECK(faults_of(hardware).empty());
  const TemporaryFolder folder;
  const std::string file = folder.write("x.toml", measure::hardware_text(hardware, record()));
  const ProgramResult result = run_cplab({"simulate", "ring", "--set", "hardware.file=" + file, "--quiet"});
  CAPTURE(result.err);
  CHECK(result.code == 0);
  CHECK(contains(result.out, "assumed 100.0 %"));
}

TEST_CASE("a file that times other kernels is no base, and one of somebody else is not written over") {
  CHECK_THROWS_WITH_AS(base_machine("h200x4-cudnn", made_up_machine()),
                       doctest::Contains("times the kernels of"), InputError);
  const TemporaryFolder folder;
  const std::string file = folder.write("mine.toml", read_file(find_hardware("h200x4")));
  const ProgramResult result = run_cplab({"calibrate", "--out", file, "--budget", "0"});
  CHECK(result.code == 2);
  CHECK(contains(result.err, "not from calibrate"));
}
