// Messages and collectives on GPUs against the CPU's executor: over the link copy with several ranks on a GPU
// and on several, over NCCL with as many ranks as GPUs; with jitter and poison, and as a CUDA graph. Exit 1
// if a number is wrong, 77 without a GPU.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "exec/buffer_image.hpp"
#include "exec/cpu/executor.hpp"
#include "exec/gpu/executor.hpp"
#include "exec/gpu/machine.hpp"
#include "tests/hand_plans/communication_plans.hpp"
#include "tests/hand_plans/hand_plans.hpp"

namespace cplab {
namespace {

struct Case {
  std::string name;
  Plan plan;
  std::string nccl;         // the call that carries it
  bool sums = false;        // over NCCL in an order of its own
  double epsilon = 0x1p-8;  // of the dtype of the sums
  bool graph = false;
};

std::vector<Case> cases(int P) {
  using namespace hand;
  const std::string all_gather = "ncclAllGather", messages = "ncclSend/ncclRecv";
  std::vector<Case> list;
  // 6 rows begin where no 16 bytes begin, 64 do; 4096 are several blocks' work.
  for (const std::int64_t rows : {6, 64, 4096}) {
    const std::string size = ", " + std::to_string(rows) + " rows";
    list.push_back({"gather K and V" + size, gather({.P = P, .rows = rows}), all_gather});
    list.push_back({"gather zigzag" + size, gather({.P = P, .rows = rows, .zigzag = true}),
                    P == 1 ? all_gather : messages});
    for (const Role role : {Role::nominal, Role::wide}) {
      const double epsilon = role == Role::wide ? 0x1p-24 : 0x1p-8;
      const std::string of = (role == Role::wide ? " in fp32" : " in bf16") + size;
      for (const bool in_place : {false, true}) {
        list.push_back({std::string("scatter") + (in_place ? " in place" : "") + of,
                        scatter({.P = P, .rows = rows, .in_place = in_place, .role = role}),
                        "ncclReduceScatter", true, epsilon});
      }
      list.push_back({"scatter zigzag" + of, scatter({.P = P, .rows = rows, .zigzag = true, .role = role}),
                      P == 1 ? "ncclReduceScatter" : "ncclReduce", true, epsilon});
      for (const std::int32_t heads : {2, 4}) {
        for (const Layout layout : {Layout::rows_first, Layout::heads_first}) {
          for (const Reduction reduction : {Reduction::sum, Reduction::max}) {
            list.push_back({"all_reduce " + std::string(name(reduction)) + " of " + std::to_string(heads) +
                                " heads, " + std::string(name(layout)) + of,
                            reduce({.P = P, .rows = rows, .role = role}, reduction, layout, heads),
                            "ncclAllReduce", reduction == Reduction::sum, epsilon});
          }
        }
      }
    }
    list.push_back({"LSE for heads" + size,
                    trade_of_lse(P, rows, 2 * P, Layout::heads_first, Layout::heads_first), messages});
  }
  for (Case& each : list) {
    each.graph = each.name.ends_with(" 64 rows");
    for (int r = 0; r < P; ++r) {
      Rank rank(each.plan, r);
      rank.phase(Phase::forward);
      rank.communicate(comm, OpKind::barrier, {});
    }
  }
  return list;
}

std::vector<double> input(const Buffer& buffer, int rank) {
  std::vector<double> values(
      static_cast<std::size_t>(buffer.slots * buffer.rows * buffer.heads * buffer.width));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = std::sin(static_cast<double>(i) + 10.0 * rank) * std::pow(8.0, static_cast<double>(i % 5));
  if (rank == 1) values[7] = std::numeric_limits<double>::quiet_NaN();
  return values;
}

void write_inputs(const Plan& plan, Executor& executor) {
  for (const RankPlan& rank : plan.ranks)
    for (const Buffer& buffer : rank.buffers)
      if (buffer.category == Category::input)
        executor.write(rank.rank, buffer.name, input(buffer, rank.rank));
}

// Over copy bit for bit; sums over NCCL within the roundings of P - 1 sums, of numbers below P 4096.
int wrong_numbers(const Case& of, Executor& cpu, Executor& gpu, bool nccl) {
  const auto P = static_cast<double>(of.plan.ranks.size());
  const double off = nccl && of.sums && P > 2 ? (P - 1) * of.epsilon * P * 4096 : 0;
  int wrong = 0;
  for (const RankPlan& rank : of.plan.ranks) {
    for (const Buffer& buffer : rank.buffers) {
      if (buffer.category != Category::output) continue;
      const auto expected = cpu.read(rank.rank, buffer.name), found = gpu.read(rank.rank, buffer.name);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        // What NCCL makes of a maximum with a NaN is its own.
        if (std::isnan(expected[i]) && (nccl || std::isnan(found[i]))) continue;
        wrong += !(std::abs(expected[i] - found[i]) <= off);
      }
    }
  }
  return wrong;
}

int failures = 0;

void fail(const std::string& what) {
  std::cout << "WRONG: " << what << '\n';
  ++failures;
}

void run_case(Case& of, Transport transport, int ranks_per_gpu) {
  hand::set_transport(of.plan, transport);
  const bool nccl = transport == Transport::nccl;
  const std::string name = std::to_string(of.plan.ranks.size()) + " ranks, " + std::to_string(ranks_per_gpu) +
                           " a GPU, " + std::string(cplab::name(transport)) +
                           (of.graph ? ", graph: " : ": ") + of.name;
  CpuExecutor cpu(of.plan, {});
  write_inputs(of.plan, cpu);
  cpu.run();
  GpuOptions options;
  options.ranks_per_gpu = ranks_per_gpu;
  options.iterations = 3;
  options.timeout_s = 60;
  options.cuda_graph = of.graph;
  options.poison = !of.graph;
  if (!of.graph) options.jitter = 5;
  try {
    GpuExecutor gpu(of.plan, options);
    write_inputs(of.plan, gpu);
    const ExecutionResult result = gpu.run();
    const int wrong = wrong_numbers(of, cpu, gpu, nccl);
    if (wrong > 0) fail(name + ": " + std::to_string(wrong) + " numbers");
    if (!result.overrun_ranks.empty()) fail(name + ": written outside the arena");
    if (!gpu.facts().allocation_log_equals_plan) fail(name + ": the allocation log is not the plan's");
    std::set<std::string> calls;
    const RankPlan& first = of.plan.ranks.front();
    for (std::size_t i = 0; i < first.operations.size(); ++i) {
      const OpKind kind = first.operations[i].kind;
      if (is_communication(kind) && kind != OpKind::barrier) calls.emplace(result.timeline.variants[0][i]);
    }
    if (nccl && calls != std::set<std::string>{of.nccl}) fail(name + ": not carried by " + of.nccl);
  } catch (const std::exception& error) {
    fail(name + ": " + error.what());
  }
}

int run() {
  int gpus = 0;
  for (; gpus < 8; ++gpus) {
    try {
      require_gpus(gpus + 1, 1, false);
    } catch (const GpuError& none) {
      if (gpus > 0) break;
      std::cout << none.what() << '\n';
      return 77;
    }
  }
  int count = 0;
  for (const int P : {1, 2, 3, 4, 8}) {
    for (Case& of : cases(P)) {
      const std::set<int> shares{P, (P + gpus - 1) / gpus};  // all on one GPU; spread over all
      for (const int share : shares) run_case(of, Transport::copy, share), ++count;
      if (P <= gpus) run_case(of, Transport::nccl, 1), ++count;
    }
    std::cout << P << " ranks: " << count << " runs so far, " << failures << " wrong\n" << std::flush;
  }
  std::cout << count << " runs on " << gpus << " GPUs, " << failures << " wrong\n";
  return failures > 0 ? 1 : 0;
}

}  // namespace
}  // namespace cplab

int main() {
  return cplab::run();
}
