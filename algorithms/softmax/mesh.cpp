// Mesh-Attention (arXiv 2512.20968): ranks on a grid, each computes a tile of the matrix of queries and keys
// that is several ranks' queries high and several ranks' keys wide. It needs K and V of a column and queries
// of a row of the grid only, so that traffic grows as the square root of the number of ranks.
//
// Keys are gathered across the columns; queries travel through the row and meet them all there, and partial
// results come home (pass_q.cpp). Backward, dK and dV are summed over the row's queries, then over the
// column.
#include "algorithms/softmax/mesh.hpp"

namespace cplab {

void Mesh::forward(const Forward& f) {
  Forward with_all = f;
  with_all.kv = kv =
      gathered(f.kv, "kv_all", keeps && b.between_layers() ? Category::saved : Category::working);
  queries.forward(with_all);
}

void Mesh::backward(const Backward& g) {
  Backward with_all = g;
  with_all.kv = !rereads_kv() ? kv : gathered(g.kv, "kv_again", Category::working);
  if (column.P() > 1) with_all.dkv = column.dkv_buffer("dkv_all", wire, Category::working, 1, rows);
  queries.backward(with_all);
  sent_home(with_all.dkv, g.dkv);
}

Algorithm mesh_algorithm() {
  Algorithm a;
  a.name = "mesh";
  a.aliases = {"mesh_attention"};
  a.summary = "a grid of ranks: queries travel in its rows, keys are gathered in columns (arXiv 2512.20968)";
  a.placements = {"zigzag", "contiguous", "striped"};
  a.options = mesh_option_infos();
  a.resolve_defaults = resolve_mesh_defaults;
  a.validate = [](const Scenario& s) {
    require_softmax(s);
    require_divided_ranks(s, "query_ranks");
  };
  a.build = [](Builder& b) {
    const Scope whole(b);
    const Grid grid(b, b.scenario().schedule.count("query_ranks"));
    Mesh mesh(whole, grid.inner(), grid.outer());
    run_summed(whole, mesh);
  };
  a.teams = [](const Scenario& s) {
    return two_level_teams(s.parallel.ranks, s.schedule.count("query_ranks"), InnerOrder::consecutive);
  };
  return a;
}

}  // namespace cplab
