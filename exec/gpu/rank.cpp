// One rank on its GPU; see rank.hpp.
#include "exec/gpu/rank.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "exec/buffer_image.hpp"
#include "exec/device.hpp"
#include "exec/executor.hpp"
#include "exec/gpu/device_work.hpp"
#include "kernels/normal_values.hpp"

namespace cplab {

namespace {

std::size_t add_call(kernels::CudaCalls& calls, const KernelCall& call) {
  return std::visit([&](const auto& c) { return calls.add(c); }, call);
}

}  // namespace

void cuda_require(int code, const char* call, int rank) {
  if (code == cudaSuccess) return;
  const auto error = static_cast<cudaError_t>(code);
  std::string message = rank >= 0 ? "rank " + std::to_string(rank) + ": " : "";
  throw GpuError(message + call + ": " + cudaGetErrorString(error) + " (" + cudaGetErrorName(error) + ")");
}

GpuRank::GpuRank(const RankPlan& plan, DType nominal, const GpuRankOptions& options)
    : plan_(plan),
      nominal_(nominal),
      options_(options),
      memory_(options.memory),
      calls_(kernels::CallOptions{.choice = options.deterministic ? kernels::KernelChoice::deterministic
                                                                  : kernels::KernelChoice::best,
                                  .reserved_sms = options.reserved_sms,
                                  .way = options.way,
                                  .choices = options.choices,
                                  .shared_gpu = options.shared_gpu,
                                  .rates = options.rates}) {
  use_device();
  if (options_.streams == nullptr) options_.streams = std::make_shared<GpuStreams>();
  const std::int64_t zone = red_zone_bytes;
  if (!memory_.empty()) {
    // The caller's.
  } else if (options.separate) {
    for (const Buffer& buffer : plan.buffers) {
      memory_.push_back(
          {static_cast<std::byte*>(allocate(buffer.bytes, "buffer " + buffer.name)), nullptr, {}});
    }
  } else {
    auto* memory = static_cast<std::byte*>(allocate(plan.arena_bytes + 2 * zone, "the arena"));
    const auto bytes = static_cast<std::size_t>(plan.arena_bytes + 2 * zone);
    cuda_require(cudaMemset(memory, 0xFF, bytes), "cudaMemset", plan.rank);
    // It is on the default stream, which the lanes do not wait for.
    cuda_require(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize", plan.rank);
    arena_ = memory + zone;
    for (const Buffer& buffer : plan.buffers) memory_.push_back({arena_ + buffer.offset, nullptr, {}});
  }
  binder_.emplace(plan_, nominal_, memory_, options.numbers);
}

GpuRank::~GpuRank() {
  // Errors are ignored: the failure that led here has been reported already.
  (void)cudaSetDevice(options_.device);
  for (const GpuEvent event : events_) (void)cudaEventDestroy(event);
  options_.streams.reset();
  for (void* memory : allocations_) (void)cudaFree(memory);
}

void GpuRank::use_device() const {
  cuda_require(cudaSetDevice(options_.device), "cudaSetDevice", plan_.rank);
}

void* GpuRank::allocate(std::int64_t bytes, std::string_view what) {
  void* memory = nullptr;
  const cudaError_t code = cudaMalloc(&memory, static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1)));
  if (code == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    std::size_t free = 0, total = 0;
    (void)cudaMemGetInfo(&free, &total);
    throw NotEnoughMemory("rank " + std::to_string(plan_.rank) + ": GPU " + std::to_string(options_.device) +
                          " has no " + std::to_string(bytes >> 20) + " MiB for " + std::string(what) +
                          " (free: " + std::to_string(free >> 20) + " of " + std::to_string(total >> 20) +
                          " MiB)");
  }
  cuda_require(code, "cudaMalloc", plan_.rank);
  allocations_.push_back(memory);
  return memory;
}

GpuEvent GpuRank::new_event(EventUse use) {
  cudaEvent_t event = nullptr;
  unsigned flags = cudaEventDefault;
  if (use == EventUse::order) flags = cudaEventDisableTiming;
  if (use == EventUse::between_processes) flags = cudaEventDisableTiming | cudaEventInterprocess;
  cuda_require(cudaEventCreateWithFlags(&event, flags), "cudaEventCreate", plan_.rank);
  events_.push_back(event);
  return event;
}

void GpuRank::prepare() {
  use_device();
  operations_.resize(plan_.operations.size());
  std::vector<bool> touched(plan_.buffers.size());
  std::vector<bool> waited(plan_.operations.size());
  for (std::uint32_t b = 0; b < plan_.buffers.size(); ++b) {
    touched[b] = plan_.buffers[b].category == Category::input;
  }
  for (std::uint32_t i = 0; i < plan_.operations.size(); ++i) {
    const Operation& op = plan_.operations[i];
    GpuOperation& prepared = operations_[i];
    auto found =
        std::find_if(lanes_.begin(), lanes_.end(), [&](const GpuLane& l) { return l.lane == op.lane; });
    if (found == lanes_.end()) {
      GpuLane lane;
      lane.lane = op.lane;
      lane.stream = options_.streams->of(op.lane, plan_.rank);
      found = lanes_.insert(lanes_.end(), std::move(lane));
    }
    prepared.lane = static_cast<std::uint32_t>(found - lanes_.begin());
    found->operations.push_back(i);
    if (op.phase == Phase::forward) found->forward = found->operations.size();
    for (const std::uint32_t edge : plan_.after(op)) waited[edge] = true;
    for (const std::uint32_t edge : plan_.after_started(op))
      if (operations_[edge].started == nullptr) operations_[edge].started = new_event(EventUse::order);
    for (const MemoryUse& use : binder_->uses(op)) {
      if (!touched[use.buffer]) prepared.fresh.push_back(use.buffer);
      touched[use.buffer] = true;
    }
    if (is_communication(op.kind) || op.kind == OpKind::host_sync) {
      waited[i] = true;
      continue;
    }
    try {
      for (const KernelCall& call : binder_->bind(op)) {
        const std::size_t number = add_call(calls_, call);
        if (prepared.calls++ == 0) prepared.first_call = number;
      }
    } catch (const std::invalid_argument& refused) {
      throw BadPlan(FindingKind::unmatched, plan_.rank, operation_id(plan_, op), "",
                    operation_id(plan_, op) + ": " + refused.what());
    }
  }
  for (const GpuLane& lane : lanes_) {
    waited[lane.operations.back()] = true;
    if (options_.times_forward && lane.forward > 0) waited[lane.operations[lane.forward - 1]] = true;
  }
  if (options_.poison) keep_ordered_poison();
  for (std::uint32_t i = 0; i < operations_.size(); ++i) {
    if (waited[i]) operations_[i].done = new_event(EventUse::order);
  }
  tables_bytes_ = static_cast<std::int64_t>(calls_.table_bytes());
  void* tables = options_.tables;
  if (tables_bytes_ > options_.tables_bytes) tables = allocate(tables_bytes_, "the kernels' tables");
  calls_.upload(tables, options_.streams->uploads(plan_.rank));
  if (options_.jitter) random_.seed(*options_.jitter * 1000003 + static_cast<std::uint64_t>(plan_.rank));
}

// Poisoning a whole buffer before its first use is right only if every other use comes after that one: slots
// of one buffer may be written on several lanes in any order.
void GpuRank::keep_ordered_poison() {
  const std::size_t count = plan_.operations.size();
  std::vector<std::vector<std::uint32_t>> users(plan_.buffers.size());
  for (std::uint32_t i = 0; i < count; ++i) {
    for (const MemoryUse& use : binder_->uses(plan_.operations[i])) users[use.buffer].push_back(i);
  }
  for (std::uint32_t first = 0; first < count; ++first) {
    if (operations_[first].fresh.empty()) continue;
    std::vector<bool> later(count);
    later[first] = true;
    std::vector<bool> lane_passed(lanes_.size());
    lane_passed[operations_[first].lane] = true;
    for (std::uint32_t i = first + 1; i < count; ++i) {
      bool ordered = lane_passed[operations_[i].lane];
      for (const std::uint32_t edge : plan_.after(plan_.operations[i])) ordered = ordered || later[edge];
      later[i] = ordered;
      if (ordered) lane_passed[operations_[i].lane] = true;
    }
    std::erase_if(operations_[first].fresh, [&](std::uint32_t b) {
      return !std::all_of(users[b].begin(), users[b].end(), [&](std::uint32_t i) { return later[i]; });
    });
  }
}

std::string GpuRank::variant(std::uint32_t operation) const {
  const GpuOperation& op = operations_[operation];
  return op.calls > 0 ? calls_.variant(op.first_call) : "";
}

std::string GpuRank::fall_back(std::uint32_t operation) const {
  const GpuOperation& op = operations_[operation];
  return op.calls > 0 ? calls_.fall_back(op.first_call) : "";
}

void GpuRank::make_timing_events() {
  if (operations_.empty() || operations_.front().begin != nullptr) return;
  for (std::uint32_t i = 0; i < operations_.size(); ++i) {
    GpuOperation& op = operations_[i];
    op.begin = new_event(EventUse::timing);
    op.end = new_event(EventUse::timing);
    if (!is_communication(plan_.operations[i].kind)) continue;
    op.moving = new_event(EventUse::timing);
    op.moved = new_event(EventUse::timing);
  }
}

std::byte* GpuRank::address(const Buffer& buffer) const {
  return memory_[static_cast<std::size_t>(&buffer - plan_.buffers.data())].data;
}

void GpuRank::write(const Buffer& buffer, std::span<const double> values) {
  use_device();
  std::vector<std::byte> image(static_cast<std::size_t>(buffer.bytes));
  store_buffer(buffer, nominal_, values, image.data());
  cuda_require(cudaMemcpy(address(buffer), image.data(), image.size(), cudaMemcpyHostToDevice), "cudaMemcpy",
               plan_.rank);
}

void GpuRank::randomize(const Buffer& buffer, std::uint64_t seed) {
  use_device();
  const kernels::DType dtype = kernel_dtype(buffer.role, nominal_);
  const auto size = static_cast<std::int64_t>(kernels::bytes_of(dtype));
  const auto index = static_cast<std::uint64_t>(&buffer - plan_.buffers.data());
  const std::uint64_t own = (seed << 20) + static_cast<std::uint64_t>(plan_.rank) * 64 + index;
  cuda_require(kernels::queue_normal(nullptr, address(buffer), dtype, buffer.bytes / size, own),
               "random inputs", plan_.rank);
  cuda_require(cudaDeviceSynchronize(), "cudaDeviceSynchronize", plan_.rank);
}

std::vector<std::byte> GpuRank::image(const Buffer& buffer) const {
  use_device();
  std::vector<std::byte> bytes(static_cast<std::size_t>(buffer.bytes));
  cuda_require(cudaMemcpy(bytes.data(), address(buffer), bytes.size(), cudaMemcpyDeviceToHost), "cudaMemcpy",
               plan_.rank);
  return bytes;
}

std::vector<double> GpuRank::read(const Buffer& buffer) const {
  return load_buffer(buffer, nominal_, image(buffer).data());
}

void GpuRank::queue_before(std::uint32_t i, bool jitter) {
  const CudaStream stream = lanes_[operations_[i].lane].stream;
  if (jitter && options_.jitter) {
    // Mostly short, sometimes long enough for the other lanes to get far ahead.
    const std::uint64_t draw = random_();
    const std::uint64_t most_ns = draw % 8 == 0 ? 400000 : 40000;
    cuda_require(queue_spin(stream, (draw >> 8) % most_ns), "spin", plan_.rank);
  }
  if (!options_.poison || options_.separate) return;
  for (const std::uint32_t b : operations_[i].fresh) {
    cuda_require(
        cudaMemsetAsync(memory_[b].data, 0xFF, static_cast<std::size_t>(plan_.buffers[b].bytes), stream),
        "cudaMemsetAsync", plan_.rank);
  }
}

// An event says that a kernel is next on its stream, not that it has its multiprocessors.
void GpuRank::queue_head_start(std::uint32_t lane) {
  if (options_.head_start_us == 0) return;
  const auto nanoseconds = static_cast<std::uint64_t>(options_.head_start_us) * 1000;
  cuda_require(queue_spin(lanes_[lane].stream, nanoseconds), "spin", plan_.rank);
}

void GpuRank::queue_kernels(std::uint32_t i) {
  const GpuOperation& op = operations_[i];
  try {
    for (std::size_t c = 0; c < op.calls; ++c) calls_.launch(op.first_call + c, lanes_[op.lane].stream);
  } catch (const std::runtime_error& error) {
    throw GpuError("rank " + std::to_string(plan_.rank) + ", operation " +
                   operation_id(plan_, plan_.operations[i]) + ": " + error.what());
  }
}

void GpuRank::record(GpuEvent event, std::uint32_t lane) {
  cuda_require(cudaEventRecord(event, lanes_[lane].stream), "cudaEventRecord", plan_.rank);
}

void GpuRank::wait(GpuEvent event, std::uint32_t lane) {
  cuda_require(cudaStreamWaitEvent(lanes_[lane].stream, event, 0), "cudaStreamWaitEvent", plan_.rank);
}

bool GpuRank::reached(GpuEvent event) const {
  const cudaError_t code = cudaEventQuery(event);
  if (code == cudaErrorNotReady) return false;
  cuda_require(code, "waiting for the GPU", plan_.rank);
  return true;
}

double GpuRank::elapsed_s(GpuEvent from, GpuEvent to) const {
  float ms = 0;
  cuda_require(cudaEventElapsedTime(&ms, from, to), "cudaEventElapsedTime", plan_.rank);
  return static_cast<double>(ms) * 1e-3;
}

void GpuRank::synchronize() const {
  use_device();
  cuda_require(cudaDeviceSynchronize(), "cudaDeviceSynchronize", plan_.rank);
}

bool GpuRank::red_zones_intact() const {
  if (arena_ == nullptr) return true;
  use_device();
  const auto zone = static_cast<std::size_t>(red_zone_bytes);
  std::vector<std::byte> bytes(2 * zone);
  cuda_require(cudaMemcpy(bytes.data(), arena_ - zone, zone, cudaMemcpyDeviceToHost), "cudaMemcpy",
               plan_.rank);
  cuda_require(cudaMemcpy(bytes.data() + zone, arena_ + plan_.arena_bytes, zone, cudaMemcpyDeviceToHost),
               "cudaMemcpy", plan_.rank);
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == poison_byte; });
}

std::int64_t GpuRank::used_bytes() const {
  use_device();
  std::size_t free = 0, total = 0;
  cuda_require(cudaMemGetInfo(&free, &total), "cudaMemGetInfo", plan_.rank);
  return static_cast<std::int64_t>(total - free);
}

}  // namespace cplab
