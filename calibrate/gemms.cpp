// Matrix products of cuBLAS, which is asked for at run time and may be missing; see gpu_parts.hpp.
#include <dlfcn.h>

#include <algorithm>
#include <cstring>

#include "calibrate/gpu_parts.hpp"
#include "calibrate/team.hpp"

namespace cplab::measure {
namespace {

// The functions of cublas_v2.h that are called, with its numbers for types.
class Cublas {
 public:
  using Handle = void*;

  // Null where there is none.
  static const Cublas* found() {
    static const Cublas instance;
    return instance.there_ ? &instance : nullptr;
  }

  Handle open(CudaStream stream) const {
    Handle handle = nullptr;
    require(create_(&handle), "cublasCreate");
    require(set_stream_(handle, stream), "cublasSetStream");
    return handle;
  }
  void close(Handle handle) const { require(destroy_(handle), "cublasDestroy"); }

  // Row-major C[m,n] = A[m,k] B[k,n] of bf16, which to cuBLAS are the transposes.
  void multiply(Handle handle, const GemmPoint& p, const char* a, const char* b, char* c) const {
    constexpr int as_it_is = 0, bf16 = 14, compute_fp32 = 68, usual = -1;
    const float one = 1, zero = 0;
    const int m = static_cast<int>(p.m), n = static_cast<int>(p.n), k = static_cast<int>(p.k);
    require(gemm_(handle, as_it_is, as_it_is, n, m, k, &one, b, bf16, n, a, bf16, k, &zero, c, bf16, n,
                  compute_fp32, usual),
            "cublasGemmEx");
  }

  std::string name() const {
    int version = 0;
    Handle none = nullptr;
    if (version_ == nullptr || version_(none, &version) != 0) return "cuBLAS";
    return "cuBLAS " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
           std::to_string(version % 100);
  }

 private:
  Cublas() {
    void* library = nullptr;
    for (const char* name : {"libcublas.so.13", "libcublas.so.12", "libcublas.so"})
      if (library == nullptr) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return;
    const auto find = [&](auto& function, const char* name) {
      void* address = dlsym(library, name);
      std::memcpy(&function, &address, sizeof address);
      return address != nullptr;
    };
    (void)find(version_, "cublasGetVersion_v2");
    there_ = find(create_, "cublasCreate_v2") && find(destroy_, "cublasDestroy_v2") &&
             find(set_stream_, "cublasSetStream_v2") && find(gemm_, "cublasGemmEx");
  }

  static void require(int status, const char* call) {
    if (status != 0) throw Error(std::string(call) + ": status " + std::to_string(status));
  }

  bool there_ = false;
  int (*create_)(Handle*) = nullptr;
  int (*destroy_)(Handle) = nullptr;
  int (*set_stream_)(Handle, CudaStream) = nullptr;
  int (*version_)(Handle, int*) = nullptr;
  int (*gemm_)(Handle, int, int, int, int, int, const void*, const void*, int, int, const void*, int, int,
               const void*, void*, int, int, int, int) = nullptr;
};

}  // namespace

void measure_gemms(const Options& options, Measurement& into) {
  const Cublas* const cublas = Cublas::found();
  if (cublas == nullptr) {
    into.left_out.push_back(
        "gemm: there is no libcublas.so.13, .12 or libcublas.so on the path of libraries");
    return;
  }
  Team team(1);
  team.run([&](int rank) {
    Bench bench(team, rank);
    const DeviceMemory arena(std::int64_t{3} << 29);
    arena.fill_random(options.seed, arena.bytes(), bench.stream());
    const Cublas::Handle handle = cublas->open(bench.stream());
    GemmTable table;
    table.library = cublas->name();
    for (const std::int64_t m : {1024, 4096, 16384})
      for (const auto& [n, k] :
           {std::pair<std::int64_t, std::int64_t>{4096, 4096}, {14336, 4096}, {4096, 14336}}) {
        GemmPoint point{m, n, k, 0};
        const char *a = arena.data(), *b = a + 2 * m * k;
        char* const c = arena.data() + 2 * (m * k + k * n);
        const Bench::Queue queue = [&](std::int64_t, CudaStream) {
          cublas->multiply(handle, point, a, b, c);
        };
        point.seconds =
            bench.typical(queue, {.sample_s = 0.05, .least = 2, .most = 200, .samples = 5, .settle_s = 0.3});
        table.points.push_back(point);
      }
    cublas->close(handle);
    into.finer.gemms.push_back(std::move(table));
  });
}

}  // namespace cplab::measure
