// The measurement as a whole: the machine, its memory before and after, and the parts in turn. See
// machine.hpp.
#include "calibrate/machine.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <ctime>

#include "calibrate/parts.hpp"
#include "calibrate/team.hpp"

namespace cplab::measure {
namespace {

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[16] = {};
  std::strftime(text, sizeof text, "%Y-%m-%d", &parts);
  return text;
}

// What a context with the kernels of this build takes on each GPU. To be called before anything else made
// one.
void measure_contexts(Measurement& into) {
  std::vector<std::int64_t> before;
  for (int gpu = 0; gpu < into.gpus; ++gpu) before.push_back(used_bytes_by_driver(gpu));
  const bool by_driver = std::all_of(before.begin(), before.end(), [](std::int64_t b) { return b >= 0; });
  for (int gpu = 0; gpu < into.gpus; ++gpu) {
    use_gpu(gpu);
    require_cuda(cudaFree(nullptr), "cudaFree");
    kernels::load_cuda_kernels();
    const DeviceFacts facts = device_facts(gpu);
    if (gpu == 0) {
      into.gpu = facts.name;
      into.sms = facts.sms;
      into.l2_bytes = facts.l2_bytes;
      into.capacity_bytes = facts.capacity_bytes;
    } else if (facts.name != into.gpu) {
      throw Error("GPU " + std::to_string(gpu) + " is another kind: " + facts.name + ", not " + into.gpu);
    }
    const std::int64_t used = by_driver ? used_bytes_by_driver(gpu) - before[static_cast<std::size_t>(gpu)]
                                        : facts.capacity_bytes - facts.free_bytes;
    into.context_bytes = std::max(into.context_bytes, used);
  }
  into.context_source = by_driver ? "growth of used memory as the driver counts it (NVML)"
                                  : "all used memory after the first context (cudaMemGetInfo): that of other "
                                    "processes and the driver's own included";
}

}  // namespace

Measurement machine(const Options& options, const Progress& progress) {
  Measurement result;
  const int there = count_gpus();
  if (there == 0) throw Error("no GPU");
  if (options.gpus > there)
    throw Error(std::to_string(options.gpus) + " GPUs asked for, " + std::to_string(there) + " there");
  result.gpus = options.gpus > 0 ? options.gpus : there;
  result.date = today();
  measure_contexts(result);
  result.environment = environment(0);
  progress(std::to_string(result.gpus) + " x " + result.gpu);
  if (options.messages) measure_messages(options, progress, result);
  if (options.host) measure_host(options, progress, result);
  if (options.interference) measure_interference(options, progress, result);
  if (options.kernels) measure_kernels(options, progress, result);
  if (options.linear) measure_linear(options, progress, result);
  return result;
}

}  // namespace cplab::measure
