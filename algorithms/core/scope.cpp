// Scopes: the whole group, or some of its ranks with some of the heads.
#include "algorithms/core/scope.hpp"

namespace cplab {

namespace {

const Distribution& placed(Builder& b, Side side) {
  return side == Side::keys && b.problem().is_cross() ? b.shared().placed_keys(b.scenario(), b.replica())
                                                      : b.shared().placed(b.problem(), b.placement(), b.P());
}

}  // namespace

Scope::Scope(Builder& builder)
    : Scope(builder, builder.everyone(), placed(builder, Side::queries), placed(builder, Side::keys),
            Layout::rows_first) {}

Scope::Scope(Builder& builder, const Team& members, const Distribution& of_queries,
             const Distribution& of_keys, Layout buffers)
    : b(builder),
      team(members),
      tokens(builder.shared().kept(of_queries)),
      key_tokens(builder.shared().kept(of_keys)),
      keys(builder.shared().key_heads(builder.problem(), key_tokens)),
      layout(buffers),
      rows(tokens[members.place].rows()),
      key_rows(keys[members.place].rows()) {}

Tile Scope::tile(int key_place, Take take) const {
  return row_tile(tokens[place()].runs, keys[key_place].runs, b.visible(), take);
}

Rows Scope::live_key_rows(int q_place, int key_place) const {
  return cplab::live_key_rows(tokens[q_place].runs, keys[key_place].runs, b.visible());
}

Box Scope::query_buffer(std::string_view name, Role role, Category category, std::int64_t slots,
                        std::int64_t n, std::int64_t width) const {
  return b.buffer({name, role, category, slots, n, heads().count(), width, 0, layout, heads().begin});
}

Box Scope::kv_buffer(std::string_view name, Role role, Category category, std::int64_t slots,
                     std::int64_t n) const {
  const Problem& p = b.problem();
  return b.buffer({name, role, category, slots, n, key_heads().count(),
                   p.head_size + p.value_size + p.key_columns(), p.head_size, layout, key_heads().begin});
}

Box Scope::dkv_buffer(std::string_view name, Role role, Category category, std::int64_t slots,
                      std::int64_t n) const {
  return dkv_buffer(name, role, category, slots, n, key_heads());
}

Box Scope::dkv_buffer(std::string_view name, Role role, Category category, std::int64_t slots, std::int64_t n,
                      HeadRange of) const {
  const Problem& p = b.problem();
  return b.buffer({name, role, category, slots, n, of.count(),
                   p.head_size + p.value_size + p.key_gradient_columns(), p.head_size, layout, of.begin});
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

Box behind_keys(const Builder& b, const Box& kv) {
  return kv.columns(b.problem().head_size, b.declared(kv).width);
}

Box bias_gradients(const Builder& b, const Box& dkv) {
  const std::int64_t behind = b.problem().head_size + b.problem().value_size;
  return dkv.columns(behind, behind + 1);
}

Builder::PairMask pair_mask(const Builder& b, const Box& kv, const Box& dkv, WriteMode dkv_mode,
                            const PairBoxes& pairs, const RowsOfRuns& queries, const RowsOfRuns& keys) {
  const Problem& p = b.problem();
  if (p.bias == BiasForm::full)
    return {pairs.bias, pairs.keep, pairs.dbias, pairs.dbias_mode, positions(keys.runs, keys.rows)};
  if (p.places_bias()) {
    Builder::PairMask mask;
    mask.columns = positions(keys.runs, keys.rows);
    const std::vector<RowRange> of_queries = positions(queries.runs, queries.rows);
    mask.columns.insert(mask.columns.end(), of_queries.begin(), of_queries.end());
    mask.table = pairs.table, mask.dtable = pairs.dtable;
    return mask;
  }
  Builder::PairMask mask;
  if (p.bias == BiasForm::none) return mask;
  const std::int64_t behind = p.head_size + p.value_size;
  mask.bias = kv.columns(behind, behind + 1);
  if (p.keep != Keep::none) mask.keep = kv.columns(behind + 1, behind + 2);
  if (dkv.given()) mask.dbias = bias_gradients(b, dkv);
  mask.dbias_mode = dkv_mode;
  return mask;
}

}  // namespace cplab
