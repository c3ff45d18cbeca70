// Tables of linear attention by their cut and operands, scans among them; and that the calls which
// calibrate/ times are those that such a table stands for.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <deque>

#include "calibrate/chunk_calls.hpp"
#include "cli/files/hardware_file.hpp"
#include "kernels/families/linear/variants.hpp"
#include "sim/linear_cost.hpp"
#include "tests/sim/hand_plan.hpp"

namespace cplab {
namespace {

using sim_test::near;
using enum Operand;

KernelTable square_table(OpKind kind, ChunkWork cut, std::int64_t chunk, std::vector<Operand> states,
                         std::vector<KernelPoint> points = {}) {
  KernelTable t;
  t.kind = kind;
  t.head_size = t.value_size = 128;
  t.cut = cut;
  t.chunk = chunk;
  t.states = std::move(states);
  t.points = std::move(points);
  t.provenance.origin = Origin::measured;
  return t;
}

// 100 multiprocessors; 2 us a step of 64 tokens, and memory of which nothing here is short.
Hardware machine_with(std::vector<KernelTable> tables) {
  Hardware hardware = sim_test::hand_machine(1);
  hardware.gpu.copy_bytes_s = 1e18;
  hardware.linear.step_s = 2e-6;
  hardware.linear.floor_s = 1e-9;
  hardware.kernels = std::move(tables);
  return hardware;
}

KernelCost cost_of(const Hardware& hardware, const KernelTable& like, std::int64_t tokens,
                   std::int64_t heads = 10) {
  const RankPlan rank = linear_point(like, {1, tokens, heads, 0});
  return LinearCost(hardware)(CallConverter(rank, DType::bf16), rank.operations.front(), DType::bf16);
}

TEST_CASE("a serial operation takes the serial table, between points by its steps") {
  // 10 heads x 4 parts of 32 columns: one wave of 40 thread blocks. 4096 tokens are 64 steps, 128 us by the
  // roofline; 16384 are 512 us, 65536 are 2048 us. Measured over roofline: 3, and 5 at the other end, so the
  // root of 15 half way in the logarithm.
  const KernelTable serial = square_table(OpKind::local, ChunkWork::serial, 0, {final_state},
                                          {{1, 4096, 10, 3 * 128e-6}, {1, 65536, 10, 5 * 2048e-6}});
  const KernelTable sliced =
      square_table(OpKind::local, ChunkWork::sliced, 0, {carry, final_state}, {{1, 4096, 10, 7 * 128e-6}});
  const KernelTable blocked =
      square_table(OpKind::local, ChunkWork::blocked, 256, {}, {{1, 4096, 10, 40e-6}});
  const Hardware hardware = machine_with({blocked, sliced, serial});
  CHECK(near(cost_of(hardware, serial, 4096).seconds, 3 * 128e-6));
  CHECK(cost_of(hardware, serial, 4096).origin == Origin::measured);
  CHECK(near(cost_of(hardware, serial, 16384).seconds, std::sqrt(15.0) * 512e-6));
  CHECK(cost_of(hardware, serial, 16384).origin == Origin::interpolated);
  CHECK(near(cost_of(hardware, sliced, 4096).seconds, 7 * 128e-6));
  CHECK(near(cost_of(hardware, blocked, 4096).seconds, 40e-6));
  // The last rank of a chain has no final state: the table of the same cut, extrapolated.
  const KernelTable last = square_table(OpKind::local, ChunkWork::serial, 0, {});
  CHECK(near(cost_of(hardware, last, 4096).seconds, 3 * 128e-6));
  CHECK(cost_of(hardware, last, 4096).origin == Origin::extrapolated);
}

TEST_CASE("products with states go by what they give: out and dq have the same states") {
  const auto inter = [](std::vector<Operand> states, std::vector<Operand> results, double seconds) {
    KernelTable t =
        square_table(OpKind::inter, ChunkWork::serial, 0, std::move(states), {{1, 4096, 10, seconds}});
    t.results = std::move(results);
    return t;
  };
  const KernelTable of_out = inter({carry}, {out}, 1e-3), of_dq = inter({carry}, {dq}, 2e-3),
                    of_dk = inter({dcarry}, {dk}, 3e-3), of_dv = inter({dcarry}, {dv}, 4e-3);
  const Hardware hardware = machine_with({of_out, of_dq, of_dk, of_dv});
  for (const KernelTable& t : hardware.kernels) {
    CHECK(near(cost_of(hardware, t, 4096).seconds, t.points.front().seconds));
    CHECK(cost_of(hardware, t, 4096).origin == Origin::measured);
    const RankPlan rank = linear_point(t, {1, 4096, 10, 0});
    const Operation& op = rank.operations.front();
    CHECK(results_of(rank, op) == t.results);
    CHECK(op.reads.count == 2);
  }
  // Without results: out, and all gradients where states of queries are given.
  CHECK(results_of(square_table(OpKind::inter, ChunkWork::blocked, 256, {state})) == std::vector{out});
  CHECK(results_of(square_table(OpKind::inter, ChunkWork::blocked, 256, {dcarry})) ==
        std::vector{dq, dk, dv});
}

TEST_CASE("a scan goes by the states that it walks, whatever tokens their chunks hold") {
  const KernelTable scan = square_table(OpKind::scan, ChunkWork::blocked, 256, {state},
                                        {{1, 2048, 10, 20e-6}, {1, 32768, 10, 80e-6}});
  const Hardware hardware = machine_with({scan});
  KernelTable longer = scan;
  longer.chunk = 4096;  // 8 states of 4096 tokens
  CHECK(near(cost_of(hardware, longer, 32768).seconds, 20e-6));
  CHECK(cost_of(hardware, longer, 32768).origin == Origin::measured);
  // 32 states lie half way between 8 and 128 in the logarithm: the root of 20 x 80. The roofline goes by
  // states.
  const double roofline = cost_of(machine_with({}), scan, 32 * 256).seconds,
               of_eight = cost_of(machine_with({}), scan, 8 * 256).seconds;
  CHECK(near(roofline, 4 * of_eight));
  CHECK(near(cost_of(hardware, scan, 32 * 256).seconds, 40e-6));
  CHECK(cost_of(hardware, scan, 32 * 256).origin == Origin::interpolated);
}

// What the form's table in a hardware file says.
KernelTable table_of(const measure::ChunkForm& form, const measure::ChunkShape& shape) {
  KernelTable t;
  for (const OpKind kind :
       {OpKind::local, OpKind::local_backward, OpKind::state, OpKind::scan, OpKind::inter})
    if (form.kind == name(kind)) t.kind = kind;
  t.head_size = shape.key_size;
  t.value_size = shape.value_size;
  t.cut = static_cast<ChunkWork>(form.cut);
  t.chunk = shape.chunk;
  for (const Operand operand : {out, dq, dk, dv, state, dstate, carry, dcarry, final_state}) {
    const auto holds = [&](const std::vector<std::string>& names) {
      return std::find(names.begin(), names.end(), name(operand)) != names.end();
    };
    if (holds(form.states)) t.states.push_back(operand);
    if (holds(form.results)) t.results.push_back(operand);
  }
  return t;
}

std::vector<measure::ChunkForm> all_forms() {
  std::vector<measure::ChunkForm> forms = measure::chunk_forms();
  forms.insert(forms.end(), measure::scan_forms().begin(), measure::scan_forms().end());
  return forms;
}

TEST_CASE("the calls that are timed are those that their tables stand for") {
  GpuSpec gpu;
  gpu.sms = 132;
  gpu.sm_major = 9;
  const kernels::cuda::VariantOptions options{
      .sm_major = gpu.sm_major, .sms = gpu.sms, .build = {.hopper = true, .full = true}};
  for (const measure::ChunkForm& form : all_forms())
    for (const std::int64_t value_size : {128, 64}) {
      const measure::ChunkShape shape = form.shape(4096, value_size);
      const measure::ChunkLists lists(shape);
      double bytes = 0;
      const measure::ChunkCall call = measure::chunk_call(shape, lists, [&](std::int64_t taken) -> char* {
        bytes += static_cast<double>(taken);
        return nullptr;
      });
      const KernelTable t = table_of(form, shape);
      CHECK(std::ssize(t.states) == std::ssize(form.states));
      const RankPlan rank = linear_point(t, {1, 4096, shape.heads, 0});
      const LinearWork work =
          linear_work(CallConverter(rank, DType::bf16), rank.operations.front(), DType::bf16, gpu);
      CAPTURE(work.variant);
      const auto chosen =
          std::visit([&](const auto& c) { return kernels::cuda::choose_variant(c, options); }, call);
      CHECK(chosen.variant->name == work.variant);
      CHECK(chosen.cut.thread_blocks == work.blocks.thread_blocks);
      CHECK(work.cut == t.cut);
      double held = 0;
      for (const View& view : rank.views) held += static_cast<double>(view_bytes(rank, view, DType::bf16));
      CHECK(held == bytes);
    }
}

TEST_CASE("the CPU's tiles take every call that is timed") {
  const kernels::LinearTiles& tiles = kernels::cpu_linear_tiles();
  struct Run {
    const kernels::LinearTiles& tiles;
    void operator()(const kernels::LinearLocal& call) const { tiles.local(call); }
    void operator()(const kernels::LinearLocalBackward& call) const { tiles.local_backward(call); }
    void operator()(const kernels::LinearState& call) const { tiles.state(call); }
    void operator()(const kernels::LinearScan& call) const { tiles.scan(call); }
    void operator()(const kernels::LinearCombine& call) const { tiles.combine(call); }
    void operator()(const kernels::LinearInter& call) const { tiles.inter(call); }
  };
  std::vector<measure::ChunkForm> forms = all_forms();
  forms.push_back({.kind = "combine", .states = {}, .results = {}});
  for (const measure::ChunkForm& form : forms) {
    measure::ChunkShape shape = form.shape(128, 64);
    shape.heads = 2;
    shape.key_size = 8;
    shape.value_size = 4;
    if (shape.chunk > 0) shape.chunk = 48;  // three, the last one shorter
    const measure::ChunkLists lists(shape);
    std::deque<std::vector<float>> memory;
    const auto take = [&](std::int64_t bytes) {
      memory.emplace_back(static_cast<std::size_t>(bytes) / sizeof(float), 0.0F);
      return reinterpret_cast<char*>(memory.back().data());
    };
    CAPTURE(form.kind);
    CHECK_NOTHROW(std::visit(Run{tiles}, measure::chunk_call(shape, lists, take)));
    std::int64_t held = 0;
    for (const std::vector<float>& each : memory)
      held += std::ssize(each) * 4 / 256 * 256 + (each.size() % 64 ? 256 : 0);
    CHECK(held == measure::operand_bytes(shape));
  }
  measure::ChunkShape nothing{.kind = "inter", .states = {"carry"}, .results = {}};
  CHECK_THROWS_AS(measure::operand_bytes(nothing), std::invalid_argument);
}

TEST_CASE("a measurement of linear attention fits into 5 GiB") {
  for (const measure::ChunkForm& form : measure::chunk_forms())
    CHECK(measure::operand_bytes(form.shape(131072, 128)) <= std::int64_t{5} << 30);
  for (const measure::ChunkForm& form : measure::scan_forms())
    CHECK(measure::operand_bytes(form.shape(65536, 128)) <= std::int64_t{5} << 30);
}

}  // namespace
}  // namespace cplab
