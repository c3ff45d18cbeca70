// The GPU executor, and plans on a framework's tensors, in a build without CUDA: they say so.
#include <string>

#include "exec/gpu/executor.hpp"
#include "exec/gpu/tensor_run.hpp"
#include "kernels/no_gpu_code.hpp"

namespace cplab {

struct GpuExecutor::State {
  GpuRun facts;
};

bool have_gpu_device() {
  return false;
}

std::vector<int> islands_of_gpus(int, const GpuOptions&) {
  return {};
}

GpuExecutor::GpuExecutor(const Plan&, const GpuOptions&) {
  throw GpuError(std::string(kernels::no_gpu_code) + "; --device cpu executes the same plan on the CPU");
}
GpuExecutor::~GpuExecutor() = default;
bool GpuExecutor::has(int, std::string_view) const {
  return false;
}
void GpuExecutor::write(int, std::string_view, std::span<const double>) {}
std::vector<double> GpuExecutor::read(int, std::string_view) const {
  return {};
}
void GpuExecutor::randomize_inputs(std::uint64_t) {}
void GpuExecutor::select_keys(const KeySelection&) {}
ExecutionResult GpuExecutor::run() {
  return {};
}
const GpuRun& GpuExecutor::facts() const {
  return state_->facts;
}

std::int64_t GpuExecutor::capacity_bytes() const {
  return 0;
}

struct TensorRun::State {};

std::vector<char> TensorRun::make_id() {
  throw GpuError(kernels::no_gpu_code);
}
TensorRun::TensorRun(Plan, int, int, std::vector<char>, bool, std::size_t) {
  throw GpuError(kernels::no_gpu_code);
}
TensorRun::~TensorRun() = default;
const std::vector<PhaseTensor>& TensorRun::tensors(Phase) const {
  static const std::vector<PhaseTensor> none;
  return none;
}
std::int64_t TensorRun::scratch_bytes() const {
  return 0;
}
void TensorRun::queue(Phase, std::span<const TensorPlace>, std::byte*, void*) {}
std::int64_t TensorRun::known() const {
  return 0;
}
std::int64_t TensorRun::bound() const {
  return 0;
}
std::vector<std::pair<std::string, std::string>> TensorRun::variants(Phase) const {
  return {};
}

}  // namespace cplab
