// What every command says of a build without GPU code.
#pragma once

namespace cplab::kernels {

inline constexpr const char* no_gpu_code =
    "this build has no GPU code: it was made without nvcc, or by `make demo` on a machine without a GPU; "
    "`make build` adds it where nvcc is";

}  // namespace cplab::kernels
