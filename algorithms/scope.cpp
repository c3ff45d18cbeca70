// Scopes: the whole group, or a part with some of the heads.
#include "algorithms/scope.hpp"

#include <utility>

namespace cplab {

Scope::Scope(Builder& builder)
    : Scope(builder, builder.everyone(), placed(builder.problem(), builder.placement(), builder.P()),
            Layout::rows_first) {}

Scope::Scope(Builder& builder, const Team& members, Distribution of_queries, Layout buffers)
    : b(builder),
      team(members),
      tokens(std::move(of_queries)),
      keys(cplab::key_heads(builder.problem(), tokens)),
      layout(buffers),
      rows(tokens[members.place].rows()) {}

Tile Scope::tile(int key_place, Take take) const {
  return row_tile(tokens[place()].runs, keys[key_place].runs, b.problem().visible(), take);
}

Rows Scope::live_key_rows(int q_place, int key_place) const {
  return cplab::live_key_rows(tokens[q_place].runs, keys[key_place].runs, b.problem().visible());
}

Box Scope::query_buffer(std::string_view name, Role role, Category category, std::int64_t slots,
                        std::int64_t n, std::int64_t width) const {
  return b.buffer({name, role, category, slots, n, heads().count(), width, 0, layout, heads().begin});
}

Box Scope::kv_buffer(std::string_view name, Role role, Category category, std::int64_t slots,
                     std::int64_t n) const {
  return kv_buffer(name, role, category, slots, n, key_heads());
}

Box Scope::kv_buffer(std::string_view name, Role role, Category category, std::int64_t slots, std::int64_t n,
                     HeadRange of) const {
  const Problem& p = b.problem();
  return b.buffer({name, role, category, slots, n, of.count(), p.head_size + p.value_size, p.head_size,
                   layout, of.begin});
}

Box Scope::lse_buffer(std::string_view name, Category category, std::int64_t slots, std::int64_t n) const {
  return b.buffer(
      {name, Role::wide, category, slots, n, heads().count(), 1, 0, Layout::heads_first, heads().begin});
}

Box keys(const Builder& b, const Box& kv) {
  return kv.columns(0, b.problem().head_size);
}

Box values(const Builder& b, const Box& kv) {
  return kv.columns(b.problem().head_size, b.problem().head_size + b.problem().value_size);
}

}  // namespace cplab
