// Device, order and inputs from the command line.
#include "cli/execution.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>

#include "cli/console.hpp"
#include "cli/files/toml_table.hpp"
#include "cli/verify/selection.hpp"
#include "cli/verify/visible.hpp"
#include "kernels/no_gpu_code.hpp"

namespace cplab {

namespace {
constexpr double longest_s = 1e6;  // that may be given
}  // namespace

double timeout_of(const Arguments& arguments) {
  return arguments.number("timeout", 300, 1e-3, longest_s);
}

double time_limit(const Arguments& arguments, const Plan& plan, bool gpu, int repetitions) {
  const double given = timeout_of(arguments);
  if (arguments.has("timeout")) return given;
  // A tenth of what the slowest tiles do: of one core, which executes all ranks; of one GPU, which may have
  // them.
  const double flops_s = gpu ? 1e12 : 5e8, operations_s = 1e3;
  double work_s = 0;
  for (const RankPlan& rank : plan.ranks)
    for (const Operation& op : rank.operations) work_s += op.flops / flops_s + 1 / operations_s;
  return std::min(longest_s, given + repetitions * work_s);
}

std::string out_of_time(const Arguments& arguments, double limit_s, const std::string& what) {
  return fmt::format("{} (--timeout {:.6g}{}; more seconds may do)", what, limit_s,
                     arguments.has("timeout") ? "" : ", the default for this plan");
}

Participation participate(double timeout_s) {
  Participation own;
  try {
    const Launch launch = discover_launch();
    if (!launch.processes) return own;
    own.rendezvous = Rendezvous::join(launch, timeout_s);
    own.local_rank = launch.local_rank;
    own.local_world = launch.local_world;
  } catch (const std::runtime_error& error) {
    throw EnvironmentError(error.what());
  }
  return own;
}

bool on_gpu(const Arguments& arguments, const char* default_device) {
  if (arguments.word("device", default_device) == "cpu") {
    for (const char* option :
         {"ranks-per-gpu", "allocator", "jitter", "deterministic", "graph", "choose", "choices"}) {
      if (arguments.has(option)) throw InputError(std::string("--") + option + ": for --device gpu only");
    }
    return false;
  }
  if (arguments.has("order"))
    throw InputError("--order: for --device cpu only; --jitter shakes a GPU's order");
  if (have_gpu_device()) return true;
  throw EnvironmentError(std::string(kernels::no_gpu_code) +
                         " (and NCCL for that transport); --device cpu executes the same plan on the CPU");
}

void require_gpu_kernels(const Problem& problem) {
  if (problem.attention != Attention::linear || problem.transition == Transition::decay) return;
  constexpr std::int64_t most_keys = 128;  // of kernels/families/linear/gated
  if (problem.head_size > most_keys || problem.dtype == DType::fp64)
    throw InputError("--device gpu: linear attention with problem.transition = \"" +
                     std::string(name(problem.transition)) +
                     "\" has kernels for a head_size up to 128 in bf16, fp16 and fp32; legal here: cpu");
}

int ranks_per_gpu(const Arguments& arguments) {
  constexpr std::int64_t most_ranks = 64;
  return static_cast<int>(arguments.integer("ranks-per-gpu", 1, 1, most_ranks));
}

GpuOptions gpu_options(const Arguments& arguments, const Participation& with) {
  GpuOptions options;
  options.ranks_per_gpu = ranks_per_gpu(arguments);
  options.deterministic = arguments.has("deterministic");
  options.separate = arguments.word("allocator", "arena") == "separate";
  if (arguments.has("jitter")) {
    options.jitter = static_cast<std::uint64_t>(arguments.integer("jitter", 1, 0, INT64_MAX));
  }
  options.timeout_s = timeout_of(arguments);
  options.rendezvous = with.rendezvous.get();
  options.local_rank = with.local_rank;
  options.local_world = with.local_world;
  return options;
}

ExecutionResult run_with_random_inputs(const Plan& plan, std::uint64_t seed, GpuExecutor& executor) {
  executor.randomize_inputs(seed);
  select_keys_on_gpus(plan, nullptr, seed, executor);
  return executor.run();
}

void take_islands(const Arguments& arguments, const Participation& with, ScenarioFile& file) {
  if (!file.scenario.schedule.is_word("transport", "auto")) return;
  const GpuOptions options = gpu_options(arguments, with);
  try {
    file.scenario.parallel.islands =
        islands_of_gpus(static_cast<int>(file.scenario.parallel.world()), options);
  } catch (const GpuError& error) {
    if (with.rendezvous) with.rendezvous->announce_failure(error.what());
    throw EnvironmentError(error.what());
  }
}

CpuOptions cpu_options(const Arguments& arguments) {
  CpuOptions options;
  const std::string order = arguments.text("order", "program");
  const auto parsed = parse_order(order);
  if (!parsed) throw InputError("--order " + order + ": not known; legal: program, random:SEED");
  options.order = *parsed;
  return options;
}

void note_unused_of_execution(const Arguments& arguments, bool gpu, ScenarioFile& file) {
  for (const char* key :
       {"schedule.transport", "schedule.reserved_sms", "schedule.channels", "schedule.head_start_us"}) {
    if (gpu || !file.table.is_set(key)) continue;
    file.notes.push_back(std::string("--set ") + key +
                         ": not used by the execution on a CPU, which has no links and no multiprocessors");
  }
  if (!arguments.has("inputs")) return;
  std::set<std::string> read, of_gradients;
  for (const ProblemTensor& tensor : tensors_of(file.scenario.problem, Category::input))
    read.insert(npy_file(tensor.name));
  for (const ProblemTensor& tensor : tensor_table()) {
    if (tensor.category == Category::output)
      read.insert(npy_file(tensor.name));  // --save writes them there too
    if (tensor.category == Category::input && tensor.phase == Phase::backward)
      of_gradients.insert(npy_file(tensor.name));
  }
  std::set<std::string> others;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(arguments.text("inputs", ""), error)) {
    const std::string name = entry.path().filename().string();
    if (entry.path().extension() == ".npy" && !read.contains(name)) others.insert(name);
  }
  std::string text;
  for (const std::string& name : others) {
    text += (text.empty() ? "" : ", ") + name +
            (of_gradients.contains(name) ? " (the direction is forward)" : "");
  }
  if (!text.empty()) file.notes.push_back("--inputs: not read: " + text);
}

bool saves_into_inputs(const Arguments& arguments) {
  if (!arguments.has("inputs") || !arguments.has("save")) return false;
  std::error_code error;
  return std::filesystem::equivalent(arguments.text("inputs", ""), arguments.text("save", ""), error);
}

Inputs inputs_of(const Arguments& arguments, const Problem& problem,
                 const std::function<void(const std::string&)>& note) {
  if (arguments.has("inputs")) return read_inputs(problem, arguments.text("inputs", ""));
  const auto seed = static_cast<std::uint64_t>(arguments.integer("seed", 1, 0, INT64_MAX));
  VisibleInputs visible = visible_inputs(problem, seed);
  for (const std::string& text : visible.notes) note(text);
  return std::move(visible.inputs);
}

}  // namespace cplab
