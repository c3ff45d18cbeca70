// How the attention tiles of the CPU are cut into blocks.
#pragma once

#include <cstdint>

namespace cplab::kernels {

inline constexpr std::int64_t query_block = 64;
inline constexpr std::int64_t key_block = 128;

}  // namespace cplab::kernels
