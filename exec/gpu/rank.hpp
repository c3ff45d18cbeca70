// One rank on its GPU: memory, streams, events, and its plan as prepared kernel calls. Lanes of the plan are
// streams, edges are events.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exec/bind.hpp"
#include "exec/gpu/error.hpp"
#include "exec/gpu/streams.hpp"
#include "kernels/cuda.hpp"
#include "plan/plan.hpp"

struct CUevent_st;

namespace cplab {

using kernels::CudaStream;
using GpuEvent = CUevent_st*;

// Throws GpuError unless `code` (a cudaError_t) is cudaSuccess.
void cuda_require(int code, const char* call, int rank);

struct GpuRankOptions {
  int device = 0;
  bool separate = false;       // an allocation for every buffer (memory checkers), no red zones
  bool poison = false;         // fresh memory is NaN from its first use on, in every iteration
  bool deterministic = false;  // kernels that give the same bits in every run
  kernels::ChoiceWay way = kernels::ChoiceWay::table;
  const kernels::cuda::MeasuredChoices* choices = nullptr;
  const kernels::cuda::Rates* rates = nullptr;  // null: those of the device
  int reserved_sms = 0;                         // multiprocessors that persistent kernels leave free
  bool shared_gpu = false;                      // the device has other ranks too
  int head_start_us = 0;                // of what goes over nccl, before the attention kernel beside it
  ProblemNumbers numbers;               // of the problem
  bool times_forward = false;           // the host will ask when the forward has ended
  std::optional<std::uint64_t> jitter;  // random spins before the operations of every lane
  // By buffer, memory of the caller's that outlives the rank; empty: the rank allocates its own.
  std::vector<BufferMemory> memory;
  // Likewise of the kernels' tables, if they are no longer: what used it is before what is queued on
  // uploads().
  void* tables = nullptr;
  std::int64_t tables_bytes = 0;
  std::shared_ptr<GpuStreams> streams;  // null: streams of its own
};

enum class EventUse : std::uint8_t { order, between_processes, timing };

struct GpuLane {
  Lane lane;
  CudaStream stream = nullptr;
  std::vector<std::uint32_t> operations;  // in order
  std::size_t forward = 0;                // the first so many of them are of the forward
};

// Everything prepared for one operation.
struct GpuOperation {
  std::uint32_t lane = 0;  // index into GpuRank::lanes
  std::size_t first_call = 0, calls = 0;
  GpuEvent done = nullptr;                     // recorded behind the operation, where somebody waits
  GpuEvent started = nullptr;                  // recorded just before it, where somebody waits for its start
  GpuEvent begin = nullptr, moving = nullptr,  // timing, of instrumented iterations: after the waits for
      moved = nullptr, end = nullptr;          // edges; a copy exchange's first and last byte; the end
  std::vector<std::uint32_t> fresh;            // buffers whose first use this is
  std::vector<std::uint32_t> sends, receives;  // indices of messages (exec/gpu/messages.hpp)
};

class GpuRank {
 public:
  // Allocates the rank's memory, if it is not given, and fills it with NaN. Throws GpuError, NotEnoughMemory.
  GpuRank(const RankPlan& plan, DType nominal, const GpuRankOptions& options);
  ~GpuRank();
  GpuRank(const GpuRank&) = delete;
  GpuRank& operator=(const GpuRank&) = delete;

  void use_device() const;  // makes the rank's GPU the calling thread's current one
  // Binds all operations, uploads the kernels' tables, creates streams and events. Throws BadPlan, GpuError.
  void prepare();
  void make_timing_events();

  void write(const Buffer& buffer, std::span<const double> values);
  std::vector<double> read(const Buffer& buffer) const;
  void randomize(const Buffer& buffer, std::uint64_t seed);  // kernels/normal_values.hpp
  std::vector<std::byte> image(const Buffer& buffer) const;  // its bytes

  // Queues everything of an operation that is no communication: spin, poison, kernels.
  void queue_before(std::uint32_t operation, bool jitter);
  void queue_kernels(std::uint32_t operation);
  // Makes the lane wait for the head start of GpuRankOptions.
  void queue_head_start(std::uint32_t lane);
  void record(GpuEvent event, std::uint32_t lane);
  void wait(GpuEvent event, std::uint32_t lane);
  bool reached(GpuEvent event) const;  // what was queued before it is complete; throws GpuError
  double elapsed_s(GpuEvent from, GpuEvent to) const;
  void synchronize() const;
  GpuEvent new_event(EventUse use);  // of the current device; lives as long as the rank
  void* arena_allocation() const { return allocations_.front(); }  // with its red zones
  std::int64_t arena_offset() const { return arena_ - static_cast<std::byte*>(allocations_.front()); }

  bool red_zones_intact() const;
  std::int64_t used_bytes() const;  // of the whole GPU, now

  std::byte* address(const Buffer& buffer) const;  // in device memory
  const RankPlan& plan() const { return plan_; }
  const Binder& binder() const { return *binder_; }
  const GpuRankOptions& options() const { return options_; }
  std::vector<GpuLane>& lanes() { return lanes_; }
  GpuOperation& operation(std::uint32_t i) { return operations_[i]; }
  std::int64_t tables_bytes() const { return tables_bytes_; }
  // Of its first call (CudaCalls::variant, fall_back); empty of communication.
  std::string variant(std::uint32_t operation) const;
  std::string fall_back(std::uint32_t operation) const;

 private:
  void keep_ordered_poison();
  void* allocate(std::int64_t bytes, std::string_view what);

  const RankPlan& plan_;
  DType nominal_;
  GpuRankOptions options_;
  std::vector<void*> allocations_;
  std::vector<GpuEvent> events_;
  std::byte* arena_ = nullptr;  // null with separate allocations, and without any
  std::vector<BufferMemory> memory_;
  std::optional<Binder> binder_;
  kernels::CudaCalls calls_;
  std::int64_t tables_bytes_ = 0;
  std::vector<GpuLane> lanes_;
  std::vector<GpuOperation> operations_;
  std::mt19937_64 random_;
};

}  // namespace cplab
