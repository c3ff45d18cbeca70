// Rings in which latents travel (schedule.travels): what hops and sums have in the place of K and V, and the
// products between them and the tiles. A tile makes the K and V of its rows, and backward takes their
// gradients through the weights before they are added to the sum that goes on: every member projects what it
// attends, and links carry latents both ways.
#include "algorithms/softmax/ring_attention.hpp"

namespace cplab {

Box RingAttention::travelling(std::string_view name, Category category, std::int64_t count,
                              std::int64_t rows) const {
  return o.latents ? latent_buffer(b, name, Role::nominal, category, count, rows)
                   : s.kv_buffer(name, Role::nominal, category, count, rows);
}

Box RingAttention::gradients(std::string_view name, std::int64_t count, std::int64_t rows) const {
  return o.latents ? latent_buffer(b, name, o.gradient_wire, Category::working, count, rows)
                   : s.dkv_buffer(name, o.gradient_wire, Category::working, count, rows);
}

Box RingAttention::projected(Lane lane, const Box& latents, const Latents& of_rank, const Rows& rows,
                             HeadRange heads) {
  const bool backward_now = b.in_backward();
  Box& made = kv_made[backward_now];
  if (!made.given())  // the first heads are as many as any
    made = s.dkv_buffer(backward_now ? "kv_made_backward" : "kv_made", Role::nominal, Category::working,
                        backward_now ? 1 : o.compute_lanes, s.key_rows, heads);
  const Box kv = made.slot(backward_now ? 0 : lane.index).numbered(heads.begin).of_problem(heads).rows(rows);
  if (!rows.empty()) b.project(lane, latents.rows(rows), of_rank.weights, kv);
  return kv;
}

// Rows that earlier holders have summed are added to, and so are all of them by heads behind the first. Rows
// of padding may hold anything: no weight has a share of them.
void RingAttention::project_back(const Backward& g, int visit, const Box& of_tile, const Box& into) {
  const Lane lane = compute(0);
  const int owner = back.owner(visit);
  const HeadRange heads = of_tile.problem_heads();
  const Rows rows = tile(owner).k_rows, old = rows.common(back.seen(visit));
  const auto go_back = [&](const Rows& some, WriteMode mode) {
    if (!some.empty()) b.project_backward(lane, of_tile.rows(some), g.latents.weights, into.rows(some), mode);
  };
  go_back(old, WriteMode::add);
  go_back(rows.minus(old), heads.begin == s.key_heads().begin ? WriteMode::store : WriteMode::add);
  Rows tokens;
  for (const TokenRun& run : s.keys[owner].runs) tokens = tokens.united(Rows::range(run.row, run.valid));
  tokens = tokens.common(rows);
  const Box latents = kv_back[static_cast<std::size_t>(visit)];
  b.weight_gradient(lane, latents.rows(tokens), of_tile.rows(tokens), g.dlatents.weights,
                    has_weight_gradients ? WriteMode::add : WriteMode::store);
  has_weight_gradients = has_weight_gradients || heads.end == s.key_heads().end;
}

}  // namespace cplab
