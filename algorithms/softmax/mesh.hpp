// The two directions of a mesh: keys that are gathered in a column of the grid of ranks, and queries that
// travel in its row. The steps are in mesh.cpp, what they are made of in mesh_attention.cpp.
#pragma once

#include "algorithms/core/transfer.hpp"
#include "algorithms/softmax/pass_q.hpp"
#include "algorithms/softmax/two_level.hpp"

namespace cplab {

class Mesh final : public SoftmaxAlgorithm {
 public:
  // This rank's row, whose queries it meets, and its column, whose keys it gathers.
  Mesh(const Scope& whole, const Team& row, const Team& column);
  void forward(const Forward&) override;
  void backward(const Backward&) override;
  Lane comm() const override { return queries.comm(); }
  bool stores_dq_once() const override { return queries.stores_dq_once(); }
  bool rereads_kv() const override { return column.P() == 1 || !keeps; }

 private:
  Box gathered(const Box& own_kv, std::string_view name, Category);
  void sent_home(const Box& gradients, const Box& dkv);
  TransferOptions options(bool adjoint) const;

  Builder& b;
  const bool keeps;
  const Role wire;
  const Scope row, column;
  const Distribution& keys;   // by member of the row: what it has gathered
  const Redistribution& how;  // of the column
  const std::int64_t rows;    // of what is gathered
  PassQ queries;
  Box kv;
};

std::vector<OptionInfo> mesh_option_infos();
void resolve_mesh_defaults(Scenario&);

}  // namespace cplab
