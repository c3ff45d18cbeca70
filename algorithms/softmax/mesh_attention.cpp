// What mesh.cpp is made of: the grid's distributions, and the moves of keys and of their gradients.
#include <limits>

#include "algorithms/core/options.hpp"
#include "algorithms/core/transfer.hpp"
#include "algorithms/softmax/mesh.hpp"
#include "plan/tensors.hpp"

namespace cplab {
namespace {

// Of every member of a row the keys of its whole column: the same for each row.
const Distribution& gathered_by_row(const Scope& whole, int row) {
  return whole.b.shared().made("keys of a mesh's columns", whole.key_tokens, [&] {
    Distribution all;
    for (int place = 0; place < row; ++place) {
      std::vector<int> column;
      for (int position = place; position < whole.P(); position += row) column.push_back(position);
      all.members.push_back(column.size() == 1 ? whole.key_tokens[place]
                                               : all_tokens(of_members(whole.key_tokens, column))[0]);
    }
    return all;
  });
}

}  // namespace

Mesh::Mesh(const Scope& whole, const Team& of_row, const Team& of_column)
    : b(whole.b),
      keeps(b.scenario().schedule.is_word("backward_gather", "keep")),
      wire(gradient_wire_of(b.scenario().schedule)),
      row(b, of_row, of_members(whole.tokens, of_row.positions),
          of_members(whole.key_tokens, of_row.positions), whole.layout),
      column(b, of_column, of_members(whole.tokens, of_column.positions),
             of_members(whole.key_tokens, of_column.positions), whole.layout),
      keys(gathered_by_row(whole, of_row.size())),
      how(b.shared().redistribution(column.keys, b.shared().all_tokens(column.keys))),
      rows(keys[of_row.place].rows()),
      queries(row, keys, ring_route(row.P()), pass_q_options(b.scenario().schedule)) {}

TransferOptions Mesh::options(bool adjoint) const {
  TransferOptions o;
  o.adjoint = adjoint;
  if (adjoint) o.wire = wire;
  o.transport = transport_of(b.scenario().schedule);
  o.most_pieces = b.scenario().schedule.count("pack_above");
  return o;
}

Box Mesh::gathered(const Box& own_kv, std::string_view name, Category category) {
  if (column.P() == 1) return own_kv;
  const Box all = column.kv_buffer(name, Role::nominal, category, 1, rows);
  Transfer(b, column.team, options(false), {{"kv", &how, own_kv, all}}).all(compute_lane, queries.comm());
  return all;
}

void Mesh::sent_home(const Box& gradients, const Box& dkv) {
  if (column.P() == 1) return;
  Transfer(b, column.team, options(true), {{"dkv", &how, gradients, dkv}}).all(compute_lane, queries.comm());
}

std::vector<OptionInfo> mesh_option_infos() {
  std::vector<OptionInfo> options = pass_q_option_infos();
  OptionInfo query_ranks = least_option("query_ranks", 1, 1, "neighbouring ranks whose queries meet");
  query_ranks.default_rule = "what divides ranks and sends the fewest bytes";
  options.push_back(query_ranks);
  options.push_back(word_option("backward_gather", {"again", "keep"},
                                "K and V of the column are gathered twice, or kept for the backward"));
  options.push_back(pack_above_option());
  return options;
}

// A rank receives q and out of the others in its row, K and V of the others in its column; of other numbers
// of tokens so many times more.
void resolve_mesh_defaults(Scenario& s) {
  if (s.schedule.find("query_ranks")) return;
  const std::int64_t P = s.parallel.ranks;
  std::int64_t best = 1, least = std::numeric_limits<std::int64_t>::max();
  for (std::int64_t row = 1; row <= P; ++row) {
    if (P % row != 0) continue;
    const std::int64_t bytes = (row - 1) * s.problem.heads * total_tokens(s.problem) +
                               (P / row - 1) * s.problem.kv_heads * total_tokens(s.problem, Side::keys);
    if (bytes < least) best = row, least = bytes;
  }
  s.schedule.set("query_ranks", best);
}

}  // namespace cplab
