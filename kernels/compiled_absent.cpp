// A build without nvcc: nothing was compiled for a GPU. See compiled.hpp and tune/gpu_bench.hpp.
#include <stdexcept>

#include "kernels/compiled.hpp"
#include "kernels/no_gpu_code.hpp"
#include "kernels/tune/gpu_bench.hpp"

namespace cplab::kernels {
namespace cuda {

const CompiledKernels* compiled_kernels() {
  return nullptr;
}

}  // namespace cuda
namespace tune {
namespace {

[[noreturn]] void fail() {
  throw std::runtime_error(no_gpu_code);
}

}  // namespace

Machine machine_of_gpu() {
  fail();
}

cuda::VariantOptions variants_of_gpu(const CallOptions&) {
  fail();
}

std::unique_ptr<Bench> gpu_bench(const cuda::VariantOptions&) {
  fail();
}

}  // namespace tune
}  // namespace cplab::kernels
