// Candidates on a GPU: random operands, results checked on the host, times by events; see tune/gpu_bench.hpp.
#include "kernels/tune/gpu_bench.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <random>
#include <stdexcept>
#include <utility>

#include "kernels/cuda/kernel_table.hpp"
#include "kernels/families/parts/cuda_error.hpp"
#include "kernels/tune/sampled_rows.hpp"

namespace cplab::kernels::tune {
namespace {

using cuda::require_cuda;

constexpr double longest_reference_s = 2;
constexpr std::size_t swept_bytes = std::size_t{256} << 20;  // several times an L2 cache; about 80 us
constexpr std::int64_t alignment = 256, known_remainder = 16;
constexpr std::byte poison{0xFF};  // NaN in every dtype

class DeviceMemory {
 public:
  explicit DeviceMemory(std::size_t bytes) {
    require_cuda(cudaMalloc(&data_, std::max<std::size_t>(bytes, 1)), "cudaMalloc");
  }
  ~DeviceMemory() { (void)cudaFree(data_); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  void* data_ = nullptr;
};

struct Stream {
  Stream() {
    require_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
    require_cuda(cudaEventCreate(&begin), "cudaEventCreate");
    require_cuda(cudaEventCreate(&end), "cudaEventCreate");
  }
  ~Stream() {
    (void)cudaEventDestroy(begin);
    (void)cudaEventDestroy(end);
    (void)cudaStreamDestroy(stream);
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  void wait() const { require_cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize"); }

  cudaStream_t stream = nullptr;
  cudaEvent_t begin = nullptr, end = nullptr;
};

std::int64_t bytes_spanned(const View& view) {
  std::int64_t last = view.rows - 1;
  for (const RowRun& run : view.runs) {
    if (run.count == 0) continue;
    last = std::max({last, run.begin, run.begin + (run.count - 1) * run.step});
  }
  if (view.rows == 0 || view.heads == 0) return 0;
  return (last * view.row_stride + (view.heads - 1) * view.head_stride + view.width) *
         static_cast<std::int64_t>(bytes_of(view.dtype));
}

// Standard normal. The pattern repeats after a prime number of elements, so that no two rows or heads are
// alike.
void fill_random(std::vector<std::byte>& image, DType dtype, std::mt19937_64& random) {
  constexpr std::int64_t prime = 1048573;
  const std::size_t size = bytes_of(dtype);
  std::vector<std::byte> pattern(static_cast<std::size_t>(prime) * size);
  std::normal_distribution<double> normal;
  for (std::int64_t n = 0; n < prime; ++n) store_element(pattern.data(), dtype, n, normal(random));
  for (std::size_t at = 0; at < image.size(); at += pattern.size())
    std::memcpy(image.data() + at, pattern.data(), std::min(pattern.size(), image.size() - at));
}

// A view of the call in all its places: which member it is, and what it holds.
struct Operand {
  View* view = nullptr;
  const char* name = "";
  bool result = false;
  bool random = true;                 // before the call; else poison
  bool scratch = false;               // a result that nobody may ask for
  std::vector<std::byte> image = {};  // on the host: an input, or a result before the call
  std::byte* device = nullptr;
};

std::vector<Operand> operands_of(Attend& call) {
  const bool merges = call.write == Write::merge;
  std::vector<Operand> all = {{&call.q, "q"},
                              {&call.k, "k"},
                              {&call.v, "v"},
                              {&call.out, "out", true, merges},
                              {&call.lse, "lse", true, merges}};
  if (call.max_logit) all.push_back({&*call.max_logit, "max_logit", true, true});
  return all;
}

std::vector<Operand> operands_of(AttendBackward& call) {
  const bool adds_q = call.write_dq == Write::add, adds_k = call.write_dk == Write::add;
  std::vector<Operand> all = {{&call.q, "q"},
                              {&call.k, "k"},
                              {&call.v, "v"},
                              {&call.dout, "dout"},
                              {&call.lse, "lse"},
                              {&call.delta, "delta", call.out.has_value(), !call.out.has_value()},
                              {&call.dq, "dq", true, adds_q, call.rounded_dq.has_value()},
                              {&call.dk, "dk", true, adds_k, call.rounded_dk.has_value()},
                              {&call.dv, "dv", true, adds_k, call.rounded_dv.has_value()}};
  if (call.out) all.push_back({&*call.out, "out"});
  if (call.rounded_dq) all.push_back({&*call.rounded_dq, "rounded_dq", true, false});
  if (call.rounded_dk) all.push_back({&*call.rounded_dk, "rounded_dk", true, false});
  if (call.rounded_dv) all.push_back({&*call.rounded_dv, "rounded_dv", true, false});
  return all;
}

using Images = std::vector<std::vector<std::byte>>;

// A call with operands on the device, and what its variants need to be launched.
class Problem {
 public:
  Problem(const Call& call, const cuda::VariantOptions& options, const Stream& stream)
      : call_(call), options_(options), stream_(stream) {
    operands_ = std::visit([](auto& of) { return operands_of(of); }, call_);
    place();
    fill();
    if (auto* backward = std::get_if<AttendBackward>(&call_)) find_lse_and_delta(*backward);
  }
  Problem(const Problem&) = delete;
  Problem& operator=(const Problem&) = delete;

  void launch(std::string_view variant) {
    const Prepared& prepared = prepare(variant);
    prepared.calls->launch(prepared.number, stream_.stream);
  }

  // Results as the variant leaves them.
  Images run(std::string_view variant) {
    for (const Operand& operand : operands_)
      if (operand.result) upload(operand);
    launch(variant);
    stream_.wait();
    Images images;
    for (const Operand& operand : operands_) {
      images.emplace_back();
      if (!operand.result) continue;
      images.back().resize(operand.image.size());
      download(operand, images.back());
    }
    return images;
  }

  // "" if CPU tiles agree on some rows.
  std::string wrong_in(Images& results) {
    return std::visit(
        [&](auto& of) {
          auto before = of, after = of;
          const std::vector<Operand> of_before = operands_of(before), of_after = operands_of(after);
          for (std::size_t n = 0; n < operands_.size(); ++n) {
            of_before[n].view->data = operands_[n].image.data();
            of_after[n].view->data = operands_[n].result ? results[n].data() : operands_[n].image.data();
          }
          return wrong_rows(after, before);
        },
        call_);
  }

  // "" if two results are the same in every row.
  std::string differs(Images& results, Images& others) {
    for (std::size_t n = 0; n < operands_.size(); ++n) {
      if (!operands_[n].result || operands_[n].scratch) continue;
      View a = *operands_[n].view, b = a;
      a.data = results[n].data();
      b.data = others[n].data();
      std::string text = difference(a, b, operands_[n].name, largest_error(operands_[0].view->dtype));
      if (!text.empty()) return text;
    }
    return {};
  }

 private:
  struct Prepared {
    std::unique_ptr<CudaCalls> calls;
    std::unique_ptr<DeviceMemory> tables;
    std::size_t number = 0;
  };

  void place() {
    std::int64_t bytes = 0;
    std::vector<std::int64_t> offsets;
    for (Operand& operand : operands_) {
      const auto remainder =
          static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(operand.view->data) % known_remainder);
      offsets.push_back(bytes + remainder);
      operand.image.resize(static_cast<std::size_t>(bytes_spanned(*operand.view)));
      bytes += (static_cast<std::int64_t>(operand.image.size()) + remainder + alignment - 1) / alignment *
               alignment;
    }
    memory_ = std::make_unique<DeviceMemory>(static_cast<std::size_t>(bytes));
    for (std::size_t n = 0; n < operands_.size(); ++n) {
      operands_[n].device = memory_->data() + offsets[n];
      operands_[n].view->data = operands_[n].device;
    }
  }

  void fill() {
    std::mt19937_64 random(1);
    for (Operand& operand : operands_) {
      if (operand.random)
        fill_random(operand.image, operand.view->dtype, random);
      else
        std::fill(operand.image.begin(), operand.image.end(), poison);
      upload(operand);
    }
    stream_.wait();
  }

  // lse, and out or delta, of the problem's own softmax, by the table's kernels: whether these are right
  // shows in the checks of their own calls, and here they are inputs like others.
  void find_lse_and_delta(AttendBackward& call) {
    const DeviceMemory out(call.out ? 0 : static_cast<std::size_t>(bytes_spanned(call.dout)));
    View of_out = call.dout;
    of_out.data = out.data();
    if (call.out) of_out = *call.out;
    CudaCalls calls(CallOptions{.choice = options_.choice, .shared_gpu = options_.shared_gpu});
    const std::size_t forward = calls.add(Attend{.q = call.q,
                                                 .k = call.k,
                                                 .v = call.v,
                                                 .out = of_out,
                                                 .lse = call.lse,
                                                 .segments = call.segments,
                                                 .scale = call.scale});
    const std::size_t dots = calls.add_row_dot(call.dout, of_out, call.delta);
    const DeviceMemory tables(calls.table_bytes());
    calls.upload(tables.data());
    calls.launch(forward, stream_.stream);
    calls.launch(dots, stream_.stream);
    stream_.wait();
    for (Operand& operand : operands_)
      if (!operand.result && (operand.view == &call.lse || operand.view == &call.delta ||
                              (call.out && operand.view == &*call.out)))
        download(operand, operand.image);
  }

  void upload(const Operand& operand) const {
    require_cuda(cudaMemcpyAsync(operand.device, operand.image.data(), operand.image.size(),
                                 cudaMemcpyHostToDevice, stream_.stream),
                 "cudaMemcpyAsync to the device");
  }
  void download(const Operand& operand, std::vector<std::byte>& image) const {
    require_cuda(
        cudaMemcpyAsync(image.data(), operand.device, image.size(), cudaMemcpyDeviceToHost, stream_.stream),
        "cudaMemcpyAsync from the device");
    stream_.wait();
  }

  const Prepared& prepare(std::string_view variant) {
    Prepared& prepared = prepared_[std::string(variant)];
    if (prepared.calls) return prepared;
    auto calls = std::make_unique<CudaCalls>(CallOptions{.choice = options_.choice,
                                                         .reserved_sms = cuda::device_sms() - options_.sms,
                                                         .shared_gpu = options_.shared_gpu,
                                                         .only = variant});
    prepared.number = std::visit([&](const auto& of) { return calls->add(of); }, call_);
    prepared.tables = std::make_unique<DeviceMemory>(calls->table_bytes());
    calls->upload(prepared.tables->data());
    prepared.calls = std::move(calls);
    return prepared;
  }

  Call call_;
  const cuda::VariantOptions& options_;
  const Stream& stream_;
  std::vector<Operand> operands_;
  std::unique_ptr<DeviceMemory> memory_;
  std::map<std::string, Prepared, std::less<>> prepared_;
};

class GpuBench final : public Bench {
 public:
  explicit GpuBench(const cuda::VariantOptions& options) : options_(options), swept_(swept_bytes) {
    load_cuda_kernels();
  }

  // Of streams that others made only those are seen that wait for the legacy stream. Nothing here runs while
  // an executor exists, which is what makes graphs.
  bool capturing() const override {
    for (const cudaStream_t stream : {cudaStreamPerThread, cudaStreamLegacy}) {
      cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
      const cudaError_t code = cudaStreamIsCapturing(stream, &status);
      if (code == cudaErrorStreamCaptureImplicit || status != cudaStreamCaptureStatusNone) {
        (void)cudaGetLastError();
        return true;
      }
      require_cuda(code, "cudaStreamIsCapturing");
    }
    return false;
  }

  std::string check(const Call& call, std::string_view variant) override {
    Problem& problem = problem_of(call);
    Images results = problem.run(variant);
    std::string wrong = problem.wrong_in(results);
    if (!wrong.empty()) return "not as CPU tiles: " + wrong;
    find_reference(call, problem);
    if (reference_.empty() || reference_ == variant) return {};
    wrong = problem.differs(results, reference_results_);
    return wrong.empty() ? wrong : "not as " + reference_ + ": " + wrong;
  }

  double sample_s(const Call& call, std::string_view variant) override {
    Problem& problem = problem_of(call);
    std::array<float, 3> ms{};
    for (float& each : ms) {
      require_cuda(cudaMemsetAsync(swept_.data(), 0, swept_bytes, stream_.stream), "cudaMemsetAsync");
      require_cuda(cudaEventRecord(stream_.begin, stream_.stream), "cudaEventRecord");
      problem.launch(variant);
      require_cuda(cudaEventRecord(stream_.end, stream_.stream), "cudaEventRecord");
      stream_.wait();
      require_cuda(cudaEventElapsedTime(&each, stream_.begin, stream_.end), "cudaEventElapsedTime");
    }
    std::sort(ms.begin(), ms.end());
    return 1e-3 * static_cast<double>(ms[1]);
  }

 private:
  Problem& problem_of(const Call& call) {
    const std::string which = call_class(call, options_);
    if (problem_ && of_ == &call && which == which_) return *problem_;
    problem_.reset();
    reference_results_.clear();
    reference_.clear();
    looked_for_reference_ = false;
    problem_ = std::make_unique<Problem>(call, options_, stream_);
    of_ = &call;
    which_ = which;
    return *problem_;
  }

  // The last of the table that is right and not too slow.
  void find_reference(const Call& call, Problem& problem) {
    if (looked_for_reference_) return;
    looked_for_reference_ = true;
    std::vector<cuda::Candidate> all = candidates(call, options_);
    std::reverse(all.begin(), all.end());
    for (const cuda::Candidate& candidate : all) {
      if (candidate.predicted_s > longest_reference_s) continue;
      try {
        Images results = problem.run(candidate.variant);
        if (!problem.wrong_in(results).empty()) continue;
        reference_ = candidate.variant;
        reference_results_ = std::move(results);
        return;
      } catch (const std::runtime_error&) {  // it cannot be launched: then another
      }
    }
  }

  cuda::VariantOptions options_;
  Stream stream_;
  DeviceMemory swept_;
  std::unique_ptr<Problem> problem_;
  const Call* of_ = nullptr;
  std::string which_;
  bool looked_for_reference_ = false;
  std::string reference_;
  Images reference_results_;
};

}  // namespace

std::unique_ptr<Bench> gpu_bench(const cuda::VariantOptions& variants) {
  return std::make_unique<GpuBench>(variants);
}

}  // namespace cplab::kernels::tune
