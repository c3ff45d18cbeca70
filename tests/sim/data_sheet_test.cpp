// Machines of a data sheet: what they leave out is as measured, at their own peak, memory and links.
#include "sim/data_sheet.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "cli/files/hardware_file.hpp"
#include "cli/files/toml_table.hpp"
#include "sim/attention_variant.hpp"
#include "sim/simulate.hpp"
#include "tests/contains.hpp"
#include "tests/sim/hand_plan.hpp"

namespace cplab {
namespace {

using cplab::testing::contains;
using sim_test::near;

std::string hardware_path(const std::string& name) {
  return std::string(CPLAB_TEST_SCENARIOS "/hardware/") + name + ".toml";
}

const Hardware& as_measured() {
  static const Hardware measured = read_hardware(hardware_path("parts/as-measured"));
  return measured;
}

// Ten lines.
const char* const sheet = R"(name = "sheet"
node = { gpus = 8, link_bytes_s = "225GB/s" }
network = { nic_bytes_s = "200Gb/s" }
[gpu]
name = "sheet"
sms = 66
compute_capability = "8.0"
capacity_bytes = "80G"
copy_bytes_s = 2e12
peak_flops = { bf16 = 400e12, fp8 = 800e12 }
[efficiency]
attend = 0.5
attend_backward = 0.4
gemm = 0.7
elementwise = 0.9
)";

std::string errors_of(const std::string& text) {
  try {
    parse_hardware(text, "sheet.toml");
  } catch (const InputErrors& errors) {
    std::string all;
    for (const std::string& message : errors.messages) all += message + "\n";
    return all;
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

double attention_s(const Hardware& hardware, OpKind kind, const Segment& segment, int heads,
                   int head_size = 128) {
  Plan plan;
  plan.scenario.problem.head_size = plan.scenario.problem.value_size = head_size;
  RankPlan rank;
  Operation op;
  op.kind = kind;
  sim_test::give_operands(rank, op, heads, head_size);
  op.segments = {0, 1};
  rank.segments.push_back(segment);
  return standard_kernel_cost(hardware)(plan, CallConverter(rank, DType::bf16), op).seconds;
}

// TFLOP/s of one sequence of 32768 tokens, 16 heads of 128.
double forward_tflops(const Hardware& hardware, bool causal) {
  const std::int64_t tokens = 32768;
  const double pairs = causal ? 0.5 * tokens * (tokens + 1.0) : 1.0 * tokens * tokens;
  return 4 * pairs * 16 * 128 /
         attention_s(hardware, OpKind::attend, {0, tokens, 0, tokens, 0, -1, causal ? 0 : -1}, 16) / 1e12;
}

bool same_points(const KernelTable& a, const KernelTable& b) {
  return std::ranges::equal(a.points, b.points, [](const KernelPoint& x, const KernelPoint& y) {
    return x.batch == y.batch && x.sequence == y.sequence && x.heads == y.heads && x.seconds == y.seconds;
  });
}
bool same_curve(const std::vector<CurvePoint>& a, const std::vector<CurvePoint>& b) {
  return std::ranges::equal(a, b, [](const CurvePoint& x, const CurvePoint& y) {
    return x.bytes == y.bytes && x.seconds == y.seconds;
  });
}

}  // namespace

TEST_CASE("what data sheets leave out stands, number by number, in the measured machines' files") {
  std::vector<Hardware> files;
  for (const char* name : {"h200x4", "h200x4-cudnn", "h200x2", "h100x8", "h100x64"})
    files.push_back(read_hardware(hardware_path(name)));
  for (const KernelTable& table : as_measured().kernels)
    CHECK(std::ranges::any_of(files, [&](const Hardware& file) {
      return std::ranges::any_of(file.kernels, [&](const KernelTable& other) {
        return other.kind == table.kind && other.dtype == table.dtype && other.head_size == table.head_size &&
               other.causal == table.causal && other.provenance.origin == table.provenance.origin &&
               same_points(other, table) && same_curve(other.curve, table.curve);
      });
    }));
  for (const MessageTable& table : as_measured().messages)
    CHECK(std::ranges::any_of(files, [&](const Hardware& file) {
      return std::ranges::any_of(file.messages, [&](const MessageTable& other) {
        return other.kind == table.kind && other.transport == table.transport && other.path == table.path &&
               other.group == table.group && other.channels == table.channels &&
               file.curve_bytes_s(other) == as_measured().curve_bytes_s(table) &&
               same_curve(other.points, table.points);
      });
    }));
  for (const InterferenceRow& row : as_measured().interference)
    CHECK(std::ranges::any_of(files[0].interference, [&](const InterferenceRow& other) {
      return other.kind == row.kind && other.beside == row.beside && other.slowdown == row.slowdown;
    }));
  CHECK(as_measured().host.times() == files[0].host.times());
  CHECK(as_measured().fixed_bytes == files[0].fixed_bytes);
  CHECK(as_measured().finer.gemms.size() == 1);
}

TEST_CASE("efficiencies of a machine: said, of its tables, or the usual ones") {
  // 8192 tokens, batch 2, 16 heads: 4 x 2 x 16 x 8192^2 x 128 FLOP in 1.63e-3 s are 674 of 989 TFLOP/s.
  for (const auto& [each, share] : {std::pair{KernelClass::attend, 0.68},
                                    {KernelClass::attend_backward, 0.56},
                                    {KernelClass::gemm, 0.68},
                                    {KernelClass::elementwise, 0.95}}) {
    CAPTURE(name(each));
    const Efficiency found = efficiency_of(as_measured(), each);
    CHECK(found.share == doctest::Approx(share).epsilon(0.01));
    CHECK(found.origin == Origin::measured);
    CHECK(usual_efficiency(each) == share);
    CHECK(efficiency_of(Hardware{}, each).share == share);
    CHECK(efficiency_of(Hardware{}, each).origin == Origin::assumed);
  }
  CHECK(efficiency_of(as_measured(), KernelClass::gemm, "fp8").origin == Origin::extrapolated);
  const Hardware own = parse_hardware(sheet, "sheet.toml");
  CHECK(efficiency_of(own, KernelClass::gemm).share == 0.7);
  CHECK(efficiency_of(own, KernelClass::gemm, "fp8").share == 0.7);
  CHECK(own.gpu.peak("fp8") == 800e12);
  CHECK(own.gpu.peak("fp4") == 0);
}

TEST_CASE("ten lines are a machine: the rest is measured elsewhere, and assumed") {
  const Hardware own = parse_hardware(sheet, "sheet.toml");
  CHECK(own.data_sheet);
  CHECK(own.host.times() == as_measured().host.times());
  CHECK(own.fixed_bytes == as_measured().fixed_bytes);
  CHECK(own.network.fabric == "non_blocking");
  CHECK(own.network.nics == 8);
  CHECK(own.network.nic_bytes_s == 25e9);
  CHECK(own.interference.size() == as_measured().interference.size());
  std::set<Origin> origins{own.host.provenance.origin, own.fixed.origin, own.node.provenance.origin};
  for (const KernelTable& table : own.kernels) origins.insert(table.provenance.origin);
  for (const MessageTable& table : own.messages) origins.insert(table.provenance.origin);
  CHECK(origins == std::set{Origin::assumed});
  CHECK(own.host.provenance.source == "as measured on H100 and H200 (as-measured.toml)");
  CHECK(own.node.provenance.source == "data sheet");
  // What a file says of a class, it says alone.
  const Hardware with_own = parse_hardware(
      std::string(sheet) + "[[kernel]]\nclass = \"attend\"\nvariant = \"own\"\ndtype = \"bf16\"\n" +
          "head_size = 128\nmask = \"full\"\nbatch = [1]\nsequence = [8192]\nheads = [16]\n" +
          "seconds = [5e-3]\n[host]\nkernel_launch_s = 1e-6\ncommunication_launch_s = 1e-6\n" +
          "copy_launch_s = 1e-6\nlaunch_latency_s = 1e-6\ndependency_s = 0\nsync_s = 0\n" +
          "graph_launch_s = 0\ngraph_node_s = 0\n",
      "sheet.toml");
  CHECK(std::ranges::count_if(with_own.kernels, [](const KernelTable& table) {
          return table.kind == OpKind::attend && table.dtype == DType::bf16;
        }) == 1);
  CHECK(with_own.host.kernel_launch_s == 1e-6);
}

TEST_CASE("attention of a data sheet: tiles, waves and launches as measured, the best at efficiency x peak") {
  const Hardware own = parse_hardware(sheet, "sheet.toml");
  const Hardware& measured = as_measured();
  CHECK(efficiency_of(own, KernelClass::attend).share == 0.5);
  // 66 multiprocessors with half of H200's 132 x 0.68 x 989 / 132 each, about: of as many waves of tiles, a
  // tile takes scale times as long, behind the same launch.
  const auto of_sm = [](const Hardware& machine, KernelClass each) {
    return efficiency_of(machine, each).share * machine.gpu.peak("bf16") / machine.gpu.sms;
  };
  for (const OpKind kind : {OpKind::attend, OpKind::attend_backward}) {
    const KernelClass each = kind == OpKind::attend ? KernelClass::attend : KernelClass::attend_backward;
    const double scale = of_sm(measured, each) / of_sm(own, each);
    // 4 tiles of 128 rows a head: 33 heads are a wave of 132, 16 of 66 hold one of 64.
    const Segment square{0, 512, 0, 512, 0, -1, -1};
    const double there_s = attention_s(measured, kind, square, 33),
                 here_s = attention_s(own, kind, square, 16);
    const double launch_s = (here_s - scale * there_s) / (1 - scale);
    CHECK(launch_s >= own.gpu.least_kernel_s * 0.999);
    CHECK(launch_s < 12e-6);
    // 8192 tokens, two sequences of 16 heads: 2048 tiles, 16 waves of 132 and 32 of 66.
    const Segment longer{0, 8192, 0, 8192, 0, -1, -1};
    const double flops = (kind == OpKind::attend ? 4.0 : 10.0) * 8192 * 8192 * 66 * 128;
    const double share = flops / attention_s(own, kind, longer, 66) / 400e12;
    CHECK(share == doctest::Approx(efficiency_of(own, each).share).epsilon(0.06));
  }
  // Short calls do not get shorter than their launch, however fast the GPU.
  std::string fast = sheet;
  fast.replace(fast.find("400e12"), 6, "90e15");
  const Hardware faster = parse_hardware(fast, "sheet.toml");
  CHECK(attention_s(faster, OpKind::attend, {0, 512, 0, 512, 0, -1, -1}, 16) >= own.gpu.least_kernel_s);
  // A head size without a table: by FLOPs, never a kernel of another speed.
  const double of_64 = attention_s(own, OpKind::attend, {0, 8192, 0, 8192, 0, -1, -1}, 66, 64),
               of_256 = attention_s(own, OpKind::attend, {0, 8192, 0, 8192, 0, -1, -1}, 66, 256),
               of_128 = attention_s(own, OpKind::attend, {0, 8192, 0, 8192, 0, -1, -1}, 66);
  CHECK(of_256 == doctest::Approx(2 * of_128).epsilon(0.02));
  CHECK(of_64 > 0.5 * of_128);
  CHECK(of_64 < of_128);
}

TEST_CASE("shipped data sheets: attention as published, long and with heads of 128") {
  // FlashAttention 2 on A100: 190 to 220 TFLOP/s forward; FlashAttention 4 on B200: 1300 to 1600 in bf16.
  const std::map<std::string, std::pair<double, double>> published = {
      {"a100x8", {190, 220}},        {"b200x8", {1300, 1600}}, {"gb200-nvl72", {1300, 1650}},
      {"gb300-nvl72", {1300, 1700}}, {"h800x8", {580, 680}},   {"mi300x8", {400, 560}}};
  for (const auto& [name, range] : published) {
    CAPTURE(name);
    const Hardware hardware = read_hardware(hardware_path(name));
    for (const bool causal : {false, true}) {
      CHECK(forward_tflops(hardware, causal) > range.first);
      CHECK(forward_tflops(hardware, causal) < range.second);
    }
    CHECK_NOTHROW(require_ranks(hardware, 1024));
    for (const char* dtype : {"bf16", "fp16", "fp32"}) CHECK(hardware.gpu.peak(dtype) > 0);
  }
  for (const char* name : {"b200x8", "gb200-nvl72", "gb300-nvl72"}) {
    CHECK(read_hardware(hardware_path(name)).gpu.peak("fp8") > 0);
    CHECK(read_hardware(hardware_path(name)).gpu.peak("fp4") > 0);
  }
  CHECK(read_hardware(hardware_path("gb200-nvl72")).node.gpus == 72);
}

TEST_CASE("a GPU behind Hopper: a library's rate, never that of the portable kernels in silence") {
  const Hardware hopper = read_hardware(hardware_path("h200x4"));
  CHECK_FALSE(takes_library(hopper, OpKind::attend));
  const Hardware behind =
      read_hardware(hardware_path("h200x4"), {{"gpu.compute_capability", "10.0"}, {"gpu.sms", "132"}});
  CHECK(takes_library(behind, OpKind::attend));
  // Of as many multiprocessors and the same peak it is no slower than Hopper's own but for what the model of
  // whole waves adds to a large call.
  const Segment segment{0, 16384, 0, 16384, 0, -1, -1};
  for (const OpKind kind : {OpKind::attend, OpKind::attend_backward})
    CHECK(attention_s(behind, kind, segment, 32) ==
          doctest::Approx(attention_s(hopper, kind, segment, 32)).epsilon(0.1));
  // At twice the peak it takes about half the time.
  const Hardware faster = read_hardware(
      hardware_path("h200x4"), {{"gpu.compute_capability", "10.0"}, {"gpu.peak_flops.bf16", "1978e12"}});
  CHECK(attention_s(faster, OpKind::attend, segment, 32) ==
        doctest::Approx(attention_s(behind, OpKind::attend, segment, 32) / 2).epsilon(0.01));
}

TEST_CASE("all that is wrong with a data sheet is told at once") {
  std::string text = sheet;
  text.replace(text.find("225GB/s"), 7, "fast");
  text.replace(text.find("sms = 66"), 8, "sms = 0");
  text.replace(text.find("attend = 0.5"), 12, "attend = 65");
  text.replace(text.find("gemm"), 4, "gem");
  text.replace(text.find("copy_bytes_s"), 12, "kopy_bytes_s");
  const std::string errors = errors_of(text);
  CHECK(contains(errors, "sheet.toml:2: node.link_bytes_s"));
  CHECK(contains(errors, "gpu.sms: must lie between 1"));
  CHECK(contains(errors,
                 "sheet.toml:12: efficiency.attend: is a part of the peak of a dtype: above 0, at most 1"));
  CHECK(contains(errors, "efficiency.gem"));
  CHECK(contains(errors, "gpu.kopy_bytes_s"));
  CHECK(contains(errors_of(text.substr(0, text.find("peak_flops"))), "gpu.copy_bytes_s"));
  text = sheet;
  text.erase(text.find("peak_flops"), text.find("[efficiency]") - text.find("peak_flops"));
  CHECK(contains(errors_of(text), "gpu.peak_flops: missing"));
  // What its numbers make cannot be: said of them, and not of a line that is not there.
  text = sheet;
  text.replace(text.find("attend_backward = 0.4"), 21, "attend_backward = 1e-300");
  CHECK(contains(errors_of(text),
                 "efficiency: with the numbers of [gpu] makes a [[kernel]] class=attend_backward"));
  // Without [efficiency] a file has to say it all, and is told of it.
  text = sheet;
  text.erase(text.find("[efficiency]"));
  CHECK(contains(errors_of(text), "or [efficiency]"));
}

}  // namespace cplab
