// Copies in device memory, single calls, the report; see gpu_tile.hpp.
#include "tests/gpu/gpu_tile.hpp"

#include <algorithm>
#include <stdexcept>

namespace cplab::testing {

kernels::KernelChoice kernel_choice = kernels::KernelChoice::best;

Mirror::Mirror(std::span<Tensor* const> tensors, std::int64_t shift) {
  for (Tensor* tensor : tensors) {
    const std::size_t begin = static_cast<std::size_t>(shift) * kernels::bytes_of(tensor->dtype());
    copies_.push_back({tensor, begin, kernels::DeviceMemory(begin + tensor->memory().size())});
  }
  upload();
}

void Mirror::upload() {
  for (Copy& copy : copies_) copy.memory.copy_in(copy.tensor->memory(), copy.begin);
}

View Mirror::device(View view) const {
  const auto* data = static_cast<const std::byte*>(view.data);
  for (const Copy& copy : copies_) {
    const std::vector<std::byte>& memory = copy.tensor->memory();
    if (data < memory.data() || data >= memory.data() + memory.size()) continue;
    view.data = copy.memory.data() + copy.begin + (data - memory.data());
    return view;
  }
  throw std::logic_error("a view of no mirrored tensor");
}

std::vector<std::vector<std::byte>> Mirror::download() const {
  std::vector<std::vector<std::byte>> memories;
  for (const Copy& copy : copies_) {
    memories.emplace_back(copy.tensor->memory().size());
    copy.memory.copy_out(memories.back(), copy.begin);
  }
  return memories;
}

void Mirror::assign(const std::vector<std::vector<std::byte>>& memories) const {
  for (std::size_t n = 0; n < copies_.size(); ++n) copies_[n].tensor->set_memory(memories[n]);
}

TileRun run_on_gpu(std::span<Tensor* const> tensors, std::int64_t shift,
                   const std::function<std::size_t(kernels::CudaCalls&, const Mirror&)>& add) {
  Mirror mirror(tensors, shift);
  kernels::CudaCalls calls(kernel_choice);
  const std::size_t numbers[] = {add(calls, mirror)};
  kernels::DeviceMemory tables(calls.table_bytes());
  calls.upload(tables.data());
  kernels::launch_and_wait(calls, numbers);
  const std::vector<std::vector<std::byte>> first = mirror.download();
  mirror.upload();
  kernels::launch_and_wait(calls, numbers);
  TileRun run{.variant = calls.variant(numbers[0]),
              .repeatable = !calls.deterministic(numbers[0]) || mirror.download() == first};
  mirror.assign(first);
  return run;
}

TileRunner gpu_attention() {
  TileRunner runner;
  runner.attend = [](TileRunner::Tensors tensors, std::int64_t shift, const kernels::Attend& host) {
    return run_on_gpu(tensors, shift, [&](kernels::CudaCalls& calls, const Mirror& mirror) {
      kernels::Attend call = host;
      for (View* view : {&call.q, &call.k, &call.v, &call.out, &call.lse}) *view = mirror.device(*view);
      if (call.max_logit) call.max_logit = mirror.device(*call.max_logit);
      return calls.add(call);
    });
  };
  runner.attend_backward = [](TileRunner::Tensors tensors, std::int64_t shift,
                              const kernels::AttendBackward& host) {
    return run_on_gpu(tensors, shift, [&](kernels::CudaCalls& calls, const Mirror& mirror) {
      kernels::AttendBackward call = host;
      for (View* view :
           {&call.q, &call.k, &call.v, &call.dout, &call.lse, &call.delta, &call.dq, &call.dk, &call.dv})
        *view = mirror.device(*view);
      return calls.add(call);
    });
  };
  const std::vector<kernels::CudaKernel> all = kernels::cuda_kernels();
  runner.has_fp64 = std::any_of(all.begin(), all.end(), [](const kernels::CudaKernel& kernel) {
    return kernel.name == "attend general fp64";
  });
  return runner;
}

}  // namespace cplab::testing
