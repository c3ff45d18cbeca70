// What the compiler said of the kernels of this build: written at build time by resources.cmake.
#pragma once

#include <cstddef>

#include "kernels/compiled.hpp"

namespace cplab::kernels::cuda {

struct CompiledRow {
  const char* symbol;  // as the linker knows it; once for each object that has it
  CompiledCode code;
};
extern const CompiledRow compiled_rows[];
extern const std::size_t compiled_row_count;
extern const char* const
    compiled_hash;  // of the objects, and of the sources in kernels/tiles, families and choice

}  // namespace cplab::kernels::cuda
