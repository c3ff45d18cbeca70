// Which code a GPU runs; see compiled.hpp.
#include "kernels/compiled.hpp"

#include <cstdlib>

namespace cplab::kernels::cuda {

const CompiledCode* CompiledKernel::code_for(const Architecture& gpu) const {
  const int wanted = 10 * gpu.major + gpu.minor;
  const CompiledCode* best = nullptr;
  int nearest = 0;
  for (const CompiledCode& code : codes) {
    char* end = nullptr;
    const int has = static_cast<int>(std::strtol(code.architecture.c_str() + 3, &end, 10));  // "sm_90a"
    const bool runs = *end == '\0' ? has / 10 == gpu.major && has <= wanted : has == wanted;
    // Of two for the same GPU the one with an "a", which the driver prefers.
    if (!runs || has < nearest || (has == nearest && *end == '\0')) continue;
    best = &code;
    nearest = has;
  }
  return best;
}

BlockNeeds CompiledKernel::needs(const CompiledCode& code) const {
  return {.threads = entry->threads,
          .registers = code.registers,
          .barriers = code.barriers,
          .shared_bytes = code.static_shared_bytes + dynamic_shared_bytes};
}

}  // namespace cplab::kernels::cuda
