// Views or contiguous copies; see tile_inputs.hpp.
#include "algorithms/softmax/tile_inputs.hpp"

#include <algorithm>

namespace cplab {

TileInputs::TileInputs(const Scope& s, bool copies, const std::vector<Tile>& tiles)
    : s_(s), b_(s.b), copies_(copies) {
  for (const Tile& t : tiles) {
    if (t.q_rows.count() < s.rows) most_queries_ = std::max(most_queries_, t.q_rows.count());
    if (t.k_rows.count() < s.key_rows) most_keys_ = std::max(most_keys_, t.k_rows.count());
  }
}

Box TileInputs::queries(Lane lane, const std::string& name, const Box& from, const Tile& t) {
  return read(lane, name, from, t.q_rows, s_.rows, most_queries_);
}

Box TileInputs::keys(Lane lane, const std::string& name, const Box& from, const Tile& t) {
  return read(lane, name, from, t.k_rows, s_.key_rows, most_keys_);
}

Box TileInputs::read(Lane lane, const std::string& name, const Box& from, const Rows& rows, std::int64_t all,
                     std::int64_t most) {
  if (!copies_ || rows.count() == all) return from.rows(rows);
  auto at = buffers_.find(name);
  if (at == buffers_.end()) {
    const Buffer& source = b_.declared(from);
    at = buffers_
             .emplace(name, b_.buffer({name, source.role, Category::working, 1, most, source.heads,
                                       source.width, source.planes, source.layout}))
             .first;
  }
  const Box part = at->second.first_rows(rows.count()).numbered(from.problem_heads().begin);
  b_.copy(lane, from.rows(rows), part);
  return part;
}

}  // namespace cplab
