// The GPUs of this machine as a Measurer: a part by its name, what a context takes, who else is there.
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "calibrate/between_nodes.hpp"
#include "calibrate/check_attend.hpp"
#include "calibrate/gpu_parts.hpp"
#include "calibrate/loads.hpp"
#include "calibrate/measurer.hpp"
#include "calibrate/team.hpp"

namespace cplab::measure {
namespace {

class GpuMeasurer final : public Measurer {
 public:
  explicit GpuMeasurer(const GpuRequest& request) : request_(request) {
    const int there = gpus_there(), gpus = request.gpus;
    if (there == 0) throw Error("there is no GPU in this machine");
    if (gpus > there)
      throw Error(std::to_string(gpus) + " GPUs asked for, " + std::to_string(there) + " there");
    machine_.nodes = request.nodes;
    machine_.gpus = gpus > 0 ? gpus : there;
    machine_.date = today();
    for (int gpu = 0; gpu < machine_.gpus; ++gpu) look_for_others(gpu);
    measure_contexts();
    machine_.environment = environment(0);
    machine_.driver = fact("driver");
  }

  const Machine& machine() const override { return machine_; }

  Measurement measure(std::string_view part, double most_s, int channels) override {
    const Options options{machine_.gpus, machine_.sms,  channels,      machine_.l2_bytes,
                          most_s,        request_.seed, request_.asked};
    Measurement into;
    if (part == "host") measure_host(options, into);
    if (part == "copies") measure_copies(options, into);
    if (part == "attention 128") measure_attention(options, {128, false}, into);
    if (part == "attention 64") measure_attention(options, {64, false}, into);
    if (part == "attention 128 fine") measure_attention(options, {128, true}, into);
    if (part == "attention 64 fine") measure_attention(options, {64, true}, into);
    if (part == "exchanges") measure_messages(options, machine_.gpus, MessageKinds::exchanges, into);
    if (part == "collectives") measure_messages(options, machine_.gpus, MessageKinds::collectives, into);
    if (part == "pairs") measure_messages(options, 2, MessageKinds::all, into);
    if (part == "linear 128") measure_linear(options, 128, into);
    if (part == "linear 64") measure_linear(options, 64, into);
    if (part == "interference") measure_interference(options, into);
    if (part == "nodes") measure_nodes(into);
    if (part == "forms 128") measure_forms(options, 128, into);
    if (part == "forms 64") measure_forms(options, 64, into);
    if (part == "copies in pieces") measure_copies_in_pieces(options, into);
    if (part == "exchanges in pieces") measure_exchanges_in_pieces(options, into);
    if (part == "exchanges beside attention") measure_exchanges_beside(options, into);
    if (part == "gemm") measure_gemms(options, into);
    if (part == "launches") measure_launches(options, into);
    if (part == "cards") measure_cards(options, into);
    return into;
  }

  double reference_s() override {
    double seconds = 0;
    Team team(1);
    team.run([&](int rank) {
      kernels::load_cuda_kernels();
      Bench bench(team, rank);
      const DeviceMemory arena(std::int64_t{1} << 29);
      Load load(arena, machine_.l2_bytes, {1, 8192, 16, 128, false}, false);
      load.prepare(request_.seed, bench.stream());
      seconds = bench.typical([&](std::int64_t i, CudaStream stream) { load.queue(i, stream); },
                              {.sample_s = 0.1, .least = 2, .most = 200, .samples = 5, .settle_s = 1});
    });
    return seconds;
  }

  std::string wrong_results() override {
    std::string wrong;
    Team team(1);
    team.run([&](int) { wrong = wrong_attend(request_.seed); });
    return wrong;
  }

  std::vector<std::string> others() const override { return others_; }

  std::string clocks() const override {
    for (const auto& [key, value] : environment(0))
      if (key == "clock_sm") return value;
    return "unknown";
  }

  double now_s() const override { return measure::now_s(); }

 private:
  void measure_nodes(Measurement& into) const {
    const std::string id = new_nccl_id();
    request_.call_others(id);
    measure_between_nodes(id, 0, request_.nodes, request_.seed, into);
  }

  static int gpus_there() {
    try {
      return count_gpus();
    } catch (const Error& error) {
      throw Error(std::string("there is no GPU that this program can use: ") + error.what());
    }
  }

  std::string fact(const std::string& key) const {
    for (const auto& [name, value] : machine_.environment)
      if (name == key) return value;
    return "unknown";
  }

  // To be called before anything made a context.
  void look_for_others(int gpu) {
    // One that has just been killed is listed for some seconds more.
    int processes = processes_by_driver(gpu);
    constexpr int most_looks = 12;
    for (int look = 0; processes > 0 && look < most_looks; ++look) {
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      processes = processes_by_driver(gpu);
    }
    if (processes > 0)
      others_.push_back("GPU " + std::to_string(gpu) + " has " + std::to_string(processes) +
                        " of other programs");
    constexpr std::int64_t of_driver = 2'000'000'000;  // itself takes up to 0.7 GB of an H200
    const std::int64_t used = used_bytes_by_driver(gpu);
    if (processes <= 0 && used > of_driver)
      others_.push_back(std::to_string(used >> 20) + " MiB of GPU " + std::to_string(gpu) + " are in use");
  }

  void measure_contexts() {
    std::vector<std::int64_t> before;
    for (int gpu = 0; gpu < machine_.gpus; ++gpu) before.push_back(used_bytes_by_driver(gpu));
    const bool by_driver =
        std::all_of(before.begin(), before.end(), [](std::int64_t bytes) { return bytes >= 0; });
    for (int gpu = 0; gpu < machine_.gpus; ++gpu) {
      use_gpu(gpu);
      require_cuda(cudaFree(nullptr), "cudaFree");
      kernels::load_cuda_kernels();
      const DeviceFacts facts = device_facts(gpu);
      if (gpu == 0)
        take_facts(facts);
      else if (facts.name != machine_.gpu)
        throw Error("GPU " + std::to_string(gpu) + " is another kind: " + facts.name + ", not " +
                    machine_.gpu + "; --gpus " + std::to_string(gpu) + " measures those before it");
      const std::int64_t used = by_driver ? used_bytes_by_driver(gpu) - before[static_cast<std::size_t>(gpu)]
                                          : facts.capacity_bytes - facts.free_bytes;
      machine_.context_bytes = std::max(machine_.context_bytes, used);
    }
    machine_.context_source =
        by_driver ? "growth of used memory as the driver counts it (NVML)"
                  : "all used memory after the first context (cudaMemGetInfo): that of other processes and "
                    "the driver's own included";
  }

  void take_facts(const DeviceFacts& facts) {
    machine_.gpu = facts.name;
    machine_.sms = facts.sms;
    machine_.l2_bytes = facts.l2_bytes;
    machine_.capacity_bytes = facts.capacity_bytes;
    machine_.sm_major = std::stoi(facts.compute_capability);
    machine_.sm_minor = std::stoi(facts.compute_capability.substr(facts.compute_capability.find('.') + 1));
  }

  GpuRequest request_;
  Machine machine_;
  std::vector<std::string> others_;
};

}  // namespace

std::unique_ptr<Measurer> gpu_measurer(const GpuRequest& request) {
  return std::make_unique<GpuMeasurer>(request);
}

}  // namespace cplab::measure
