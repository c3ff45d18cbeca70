// See drawn_scenarios.hpp.
#include "tests/properties/drawn_scenarios.hpp"

#include <algorithm>
#include <deque>
#include <memory>
#include <numeric>
#include <sstream>
#include <utility>

#include "algorithms/core/build.hpp"
#include "algorithms/core/list.hpp"
#include "algorithms/core/resolve.hpp"
#include "calls/converter.hpp"
#include "cli/files/hardware_file.hpp"
#include "derive/memory.hpp"
#include "tests/scenarios/any_scenario.hpp"

namespace cplab::testing {
namespace {

// What a data sheet says of an A100, and two tables of a library by hand: 0.6 of the peak.
const char* const data_sheet = R"(
name = "a100x8"
kernels_of = "a library"
[node]
gpus = 8
link_bytes_s = 300e9
origin = "assumed"
source = "data sheet"
[gpu]
name = "A100"
sms = 108
compute_capability = "8.0"
capacity_bytes = "80G"
copy_bytes_s = 1.7e12
peak_flops = { bf16 = 312e12, fp16 = 312e12 }
origin = "assumed"
source = "data sheet"
[host]
kernel_launch_s = 5e-6
communication_launch_s = 10e-6
copy_launch_s = 10e-6
launch_latency_s = 4e-6
dependency_s = 0.3e-6
sync_s = 4e-6
graph_launch_s = 4e-6
graph_node_s = 0
run_ahead = 1024
origin = "assumed"
source = "as on others"
[fixed]
bytes = "900M"
origin = "assumed"
source = "as on others"
[environment]
driver = "none"
[[kernel]]
class = "attend"
variant = "library"
dtype = "bf16"
head_size = 128
mask = "causal"
batch = [1]
sequence = [16384]
heads = [16]
seconds = [5.9e-3]
origin = "assumed"
source = "data sheet"
[[kernel]]
class = "attend_backward"
variant = "library"
dtype = "bf16"
head_size = 128
mask = "causal"
batch = [1]
sequence = [16384]
heads = [16]
seconds = [15.5e-3]
origin = "assumed"
source = "data sheet"
[[message]]
kind = "exchange"
transport = "nccl"
path = "intra"
group = 8
channels = 16
bytes = [4096, 1048576, 268435456]
seconds = [20e-6, 25e-6, 1.05e-3]
origin = "assumed"
source = "data sheet"
[[message]]
kind = "exchange"
transport = "copy"
path = "intra"
group = 8
bytes = [4096, 1048576, 268435456]
seconds = [6e-6, 11e-6, 0.98e-3]
origin = "assumed"
source = "data sheet"
)";

const char* const sheet_name = "a100x8";

std::string path_of(const std::string& name) {
  return CPLAB_TEST_SCENARIOS "/hardware/" + name + ".toml";
}

std::vector<std::string> softmax_families() {
  std::vector<std::string> names;
  for (const Algorithm& a : algorithms_for(Attention::softmax)) names.emplace_back(a.name);
  return names;
}

}  // namespace

Machine::Machine(const std::string& name_, Hardware hardware_)
    : name(name_),
      hardware(std::move(hardware_)),
      cost(standard_kernel_cost(hardware)),
      variants(std::make_shared<AttentionVariants>(hardware, true)) {}

const std::vector<const Machine*>& machines() {
  static std::deque<Machine> made;
  static const std::vector<const Machine*> all = [] {
    for (const char* name : {"h200x4", "h200x4-cudnn", "h100x8", "h100x64", "h200x64", "rtx5090x16"})
      made.emplace_back(name, read_hardware(path_of(name)));
    made.emplace_back(sheet_name, parse_hardware(data_sheet, "sheet.toml"));
    std::vector<const Machine*> found;
    for (const Machine& machine : made) found.push_back(&machine);
    return found;
  }();
  return all;
}

Machine changed_machine(const Machine& machine, const HardwareOverrides& overrides) {
  if (machine.name == sheet_name) return {machine.name, parse_hardware(data_sheet, "sheet.toml", overrides)};
  return {machine.name, read_hardware(path_of(machine.name), overrides)};
}

std::int64_t draw(Random& random, std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
}

void set_lengths(Problem& p, std::vector<std::int64_t> lengths) {
  if (!p.packed) p.sequence = lengths.front();
  if (!p.packed) p.batch = static_cast<std::int64_t>(lengths.size());
  p.lengths = p.padded_lengths = std::move(lengths);
}

Scenario changed(Scenario scenario) {
  return resolve(std::move(scenario));
}

namespace {

// Up to `most`, small ones as often as large ones.
std::int64_t log_uniform(Random& random, std::int64_t least, std::int64_t most) {
  std::int64_t top = least;
  while (top < most && draw(random, 0, 4) != 0) top = std::min(2 * top, most);
  return draw(random, std::max(least, top / 2), top);
}

void draw_lengths(Random& random, Problem& p, std::int64_t least, std::int64_t most) {
  std::vector<std::int64_t> lengths;
  p.packed = draw(random, 0, 3) == 0;
  if (p.packed) {
    p.format = Format::thd;
    const std::int64_t documents = draw(random, 2, 12);
    for (std::int64_t n = 0; n < documents; ++n)
      lengths.push_back(log_uniform(random, 16, most / documents + 16));
  } else {
    std::int64_t S = log_uniform(random, least, most);
    if (draw(random, 0, 1) == 0) S = std::max<std::int64_t>(S / 128, 1) * 128;
    lengths.assign(static_cast<std::size_t>(draw(random, 0, 2) == 0 ? draw(random, 2, 4) : 1), S);
  }
  set_lengths(p, lengths);
}

void draw_window(Random& random, Problem& p) {
  const std::int64_t longest = *std::max_element(p.lengths.begin(), p.lengths.end());
  p.window.left = draw(random, 1, longest);
  if (!p.causal) p.window.right = draw(random, 0, longest);
}

void draw_softmax(Random& random, Problem& p) {
  p.head_size = p.value_size = draw(random, 0, 2) == 0 ? 64 : 128;
  const std::int64_t G = std::int64_t{1} << draw(random, 0, 4);
  p.kv_heads = G;
  p.heads = G * (std::int64_t{1} << draw(random, 0, 2));
  p.causal = draw(random, 0, 2) != 0;
}

std::vector<const Machine*> machines_for(const Problem& p, std::int64_t ranks) {
  std::vector<const Machine*> fitting;
  for (const Machine* machine : machines()) {
    const Hardware& hardware = machine->hardware;
    if (hardware.network.fabric.empty() && ranks > hardware.node.gpus) continue;
    const bool attends = p.attention == Attention::softmax || p.attention == Attention::dynamic_mask;
    if (attends && machine->name == "rtx5090x16") continue;
    if (!attends && machine->name == sheet_name) continue;
    fitting.push_back(machine);
  }
  return fitting;
}

void draw_option(Random& random, Scenario& s, const char* key, std::vector<OptionValue> values) {
  const auto all = algorithms();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Algorithm& a) { return a.name == s.algorithm; });
  for (const auto& option : found->options)
    if (option.key == key && draw(random, 0, 1) == 0) s.schedule.set(key, one_of(random, values));
}

Drawn drawn(Random& random, Scenario s) {
  const std::vector<const Machine*> fitting = machines_for(s.problem, s.parallel.world());
  const Machine* machine = one_of(random, fitting);
  s.parallel.islands = islands_of(machine->hardware, static_cast<int>(s.parallel.world()));
  return {resolve(std::move(s)), machine};
}

Drawn try_draw(Random& random) {
  Scenario s;
  Problem& p = s.problem;
  p.scale = 0.1;
  const std::int64_t kind = draw(random, 0, 9);
  s.parallel.ranks = std::int64_t{1} << draw(random, 0, 3);
  if (draw(random, 0, 7) == 0) s.parallel.ranks = 3;
  if (draw(random, 0, 11) == 0) s.parallel.ranks = 16;
  p.direction = one_of(random, std::vector{Direction::forward, Direction::forward_backward});
  if (kind < 7) {
    static const std::vector<std::string> families = softmax_families();
    s.algorithm = one_of(random, families);
    draw_softmax(random, p);
    draw_lengths(random, p, 64 * s.parallel.ranks, 16384);
    if (p.packed && s.algorithm == "ring" && draw(random, 0, 1) == 0) s.placement = "hybrid";
    if (draw(random, 0, 3) == 0) draw_window(random, p);
    if (s.algorithm == "usp" || s.algorithm == "hierarchical" || s.algorithm == "all_to_all")
      while (p.heads % s.parallel.ranks != 0) s.parallel.ranks /= 2;
  } else if (kind < 9) {
    std::vector<std::string> scans;
    for (const Algorithm& a : algorithms())
      if (a.name.substr(0, 4) == "lasp") scans.emplace_back(a.name);
    s.algorithm = one_of(random, scans);
    p.head_size = 128;
    p.value_size = draw(random, 0, 1) == 0 ? 64 : 128;
    p.heads = p.kv_heads = std::int64_t{1} << draw(random, 0, 5);
    take_attention(p, Attention::linear);
    draw_lengths(random, p, 64 * s.parallel.ranks, 65536);
    if (p.packed) s.placement = "stream";
  } else {
    s.algorithm = one_of(random, std::vector<std::string>{"ring", "all_gather"});
    draw_softmax(random, p);
    draw_lengths(random, p, 64 * s.parallel.ranks, 4096);
    p.attention = Attention::dynamic_mask;
    p.bias = BiasForm::keys;
    p.softcap = draw(random, 0, 1) == 0 ? 30 : 0;
    p.keep = one_of(random, std::vector{Keep::none, Keep::relu});
  }
  draw_option(random, s, "gradient_wire_dtype", {std::string("fp32"), std::string("nominal")});
  draw_option(random, s, "state_wire_dtype", {std::string("fp32"), std::string("nominal")});
  draw_option(random, s, "transport", {std::string("nccl")});
  draw_option(random, s, "overlap", {false});
  draw_option(random, s, "between", {std::string("layers")});
  return drawn(random, std::move(s));
}

}  // namespace

Drawn draw_scenario(Random& random) {
  for (;;) {
    try {
      return try_draw(random);
    } catch (const ScenarioError&) {
      continue;  // the family refuses the combination
    }
  }
}

Drawn draw_one_rank(Random& random) {
  for (;;) {
    Scenario s;
    s.problem.scale = 0.1;
    s.algorithm = "ring";
    s.problem.direction = one_of(random, std::vector{Direction::forward, Direction::forward_backward});
    draw_softmax(random, s.problem);
    draw_lengths(random, s.problem, 64, 32768);
    if (draw(random, 0, 3) == 0) draw_window(random, s.problem);
    return drawn(random, std::move(s));
  }
}

std::string options_of(const Drawn& d) {
  const Problem& p = d.scenario.problem;
  std::ostringstream text;
  const auto set = [&](const std::string& key, const auto& value) {
    text << " --set " << key << "=" << value;
  };
  text << "- --set hardware.file=hardware/" << d.machine->name << ".toml";
  set("problem.attention", name(p.attention));
  if (p.packed) {
    text << " --set problem.lengths=[";
    for (std::size_t n = 0; n < p.lengths.size(); ++n) text << (n > 0 ? "," : "") << p.lengths[n];
    text << "]";
  } else {
    set("problem.batch", p.batch);
    set("problem.sequence", p.sequence);
  }
  set("problem.heads", p.heads);
  set("problem.kv_heads", p.kv_heads);
  set("problem.head_size", p.head_size);
  set("problem.value_size", p.value_size);
  set("problem.mask", p.causal ? "causal" : "full");
  text << " --set problem.window=[" << p.window.left << "," << p.window.right << "]";
  set("problem.direction", name(p.direction));
  set("parallel.ranks", d.scenario.parallel.ranks);
  set("parallel.algorithm", d.scenario.algorithm);
  set("parallel.placement", d.scenario.placement);
  for (const auto& [key, value] : d.scenario.schedule.options) set("schedule." + key, to_string(value));
  return text.str();
}

double Priced::kernels_s(bool by_tiles, bool casts) const {
  double longest = 0;
  for (const std::vector<PricedKernel>& kernels : ranks) {
    double sum = 0;
    for (const PricedKernel& kernel : kernels)
      if (casts || kernel.op->kind != OpKind::cast)
        sum += by_tiles && kernel.tiles_s > 0 ? kernel.tiles_s : kernel.cost.seconds;
    longest = std::max(longest, sum);
  }
  return longest;
}

Priced priced(const Scenario& scenario, const Machine& machine) {
  Priced result{build_plan(scenario), {}, 0};
  const int reserved = reserved_sms(scenario.schedule, machine.hardware.gpu.sms);
  for (const RankPlan& rank : result.plan.ranks) {
    const CallConverter calls(rank, scenario.problem.dtype, scenario.problem.slopes);
    std::vector<PricedKernel>& kernels = result.ranks.emplace_back();
    for (const Operation& op : rank.operations) {
      if (is_communication(op.kind) || op.kind == OpKind::host_sync) continue;
      PricedKernel& kernel = kernels.emplace_back();
      kernel.op = &op;
      kernel.cost = machine.cost(result.plan, calls, op);
      if (!has_square_points(op.kind)) continue;
      const AttentionVariant& variant = machine.variants->of(calls, op, reserved);
      kernel.taken = variant.name;
      kernel.tiles_s = variant.tiles_s;
    }
    result.peak_bytes = std::max(result.peak_bytes, plan_memory(rank).live_peak_bytes);
  }
  return result;
}

double simulated_s(const Priced& priced, const Machine& machine) {
  return simulate(priced.plan, machine.hardware, {}, machine.cost).time_s;
}

}  // namespace cplab::testing
