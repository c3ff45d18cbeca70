// Buffers that every softmax algorithm has, and the two planes of K and V.
#pragma once

#include <cstdint>
#include <string_view>

#include "algorithms/builder.hpp"

namespace cplab {

// LSE or delta: wide, [slots, H, rows].
Box lse_buffer(Builder&, std::string_view name, Category, std::int64_t slots, std::int64_t rows);

// K and V, or their gradients: [slots, rows, G, D + E], K in front. A slot is one message and two contiguous
// tensors.
Box kv_buffer(Builder&, std::string_view name, Role, Category, std::int64_t slots, std::int64_t rows);
Box keys(const Builder&, const Box& kv);
Box values(const Builder&, const Box& kv);

}  // namespace cplab
