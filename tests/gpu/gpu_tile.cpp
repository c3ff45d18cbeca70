// Copies in device memory, single calls, the report; see gpu_tile.hpp.
#include "tests/gpu/gpu_tile.hpp"

#include <cstdio>
#include <stdexcept>

namespace cplab::testing {

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
    std::vector<std::byte> all(copy.memory.size());
    copy.memory.copy_out(all);
    memories.emplace_back(all.begin() + static_cast<std::ptrdiff_t>(copy.begin), all.end());
  }
  return memories;
}

void Mirror::assign(const std::vector<std::vector<std::byte>>& memories) const {
  for (std::size_t n = 0; n < copies_.size(); ++n) copies_[n].tensor->set_memory(memories[n]);
}

GpuRun run_on_gpu(std::span<Tensor* const> tensors, std::int64_t shift,
                  const std::function<std::size_t(kernels::CudaCalls&, const Mirror&)>& add) {
  Mirror mirror(tensors, shift);
  kernels::CudaCalls calls;
  const std::size_t numbers[] = {add(calls, mirror)};
  kernels::DeviceMemory tables(calls.table_bytes());
  calls.upload(tables.data());
  kernels::launch_and_wait(calls, numbers);
  const std::vector<std::vector<std::byte>> first = mirror.download();
  mirror.upload();
  kernels::launch_and_wait(calls, numbers);
  GpuRun run{.variant = calls.variant(numbers[0]), .repeatable = mirror.download() == first};
  mirror.assign(first);
  return run;
}

void Report::share(const std::string& variant, const std::string& where, const char* what, double share) {
  const std::lock_guard lock(mutex_);
  Variant& entry = variants_[variant];
  ++entry.checks;
  if (!(share <= entry.worst)) entry.worst = share;
  if (share <= 1) return;
  ++entry.failures;
  std::printf("FAILED  %s: %s is off by %.3g of its tolerance  [%s]\n", variant.c_str(), what, share,
              where.c_str());
}

void Report::holds(const std::string& variant, const std::string& where, const char* what, bool holds) {
  const std::lock_guard lock(mutex_);
  Variant& entry = variants_[variant];
  ++entry.checks;
  if (holds) return;
  ++entry.failures;
  std::printf("FAILED  %s: %s  [%s]\n", variant.c_str(), what, where.c_str());
}

bool Report::summary() const {
  const std::lock_guard lock(mutex_);
  bool fine = !variants_.empty();
  for (const auto& [name, entry] : variants_) {
    std::printf("%-34s %7lld checks, %lld failed, worst error/tolerance %.3g\n", name.c_str(),
                static_cast<long long>(entry.checks), static_cast<long long>(entry.failures), entry.worst);
    fine = fine && entry.failures == 0;
  }
  return fine;
}

}  // namespace cplab::testing
