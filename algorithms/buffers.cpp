// Shapes of common buffers.
#include "algorithms/buffers.hpp"

namespace cplab {

Box lse_buffer(Builder& b, std::string_view name, Category category, std::int64_t slots, std::int64_t rows) {
  return b.buffer({name, Role::wide, category, slots, rows, b.problem().heads, 1, 0, Layout::heads_first});
}

Box kv_buffer(Builder& b, std::string_view name, Role role, Category category, std::int64_t slots,
              std::int64_t rows) {
  const Problem& p = b.problem();
  return b.buffer({name, role, category, slots, rows, p.kv_heads, p.head_size + p.value_size, p.head_size});
}

Box keys(const Builder& b, const Box& kv) {
  return kv.columns(0, b.problem().head_size);
}

Box values(const Builder& b, const Box& kv) {
  return kv.columns(b.problem().head_size, b.problem().head_size + b.problem().value_size);
}

}  // namespace cplab
