// Attention in which queries travel: every member keeps its K and V and attends the queries of the others,
// whose partial results come home and are merged there. The loops are in pass_q.cpp (which mesh runs too),
// what they are made of is in pass_q_attention.cpp.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "algorithms/core/route.hpp"
#include "algorithms/softmax/softmax.hpp"
#include "algorithms/softmax/softmax_sum.hpp"

namespace cplab {

struct PassQOptions {
  bool wide = true;  // accumulators in fp32
  Role gradient_wire = Role::wide;
  Lane comm = comm_lane;
  TransportChoice transport = Transport::nccl;
};
PassQOptions pass_q_options(const Schedule& resolved);
// What an algorithm registers in which queries travel.
std::vector<OptionInfo> pass_q_option_infos();

class PassQ final : public SoftmaxAlgorithm {
 public:
  // The queries of the scope's tokens travel on that route. `keys`: by member what it attends them with, in
  // the rows in which these lie in Forward::kv, which may be more than the scope's own.
  PassQ(const Scope&, const Distribution& keys, const Route&, const PassQOptions&);
  void forward(const Forward&) override;
  void backward(const Backward&) override;
  Lane comm() const override { return o.comm; }
  bool stores_dq_once() const override { return route.visits() == 1; }

 private:
  // A tensor of queries that goes around: where it is at a visit.
  struct Carried {
    Box own, slots;
    Box at(int visit) const { return visit == 0 ? own : slots.slot((visit - 1) % 2); }
  };
  // A result of queries of others, which goes home: here, and where those of the own queries come.
  struct Returned {
    Box made, received;
  };
  Box slots_of(const Box& like, const std::string& suffix) const;
  Carried carried(const Box& own) const {
    return {own, route.visits() > 1 ? slots_of(own, "_slots") : Box()};
  }
  Returned returned(const Box& like, Role) const;
  // Beside the work of a visit: queries of the next one come, results of the one before go home.
  void exchange(int visit, const std::vector<Carried>&, const std::vector<Returned>&);
  Box received(const Returned&, int visit) const;  // absent where nothing came
  // Where dK and dV are summed: in fp32, unless accumulators are not, or nothing is added.
  Box sum_of(const Box& dkv) const;
  void add(const Box& share, const Box& sum_of_all) const;

  int visits() const { return route.visits(); }
  int owner(int visit) const { return route.owner(s.place(), visit); }
  Tile tile(int queries_of, int keys_of) const;
  const Tile& here(int visit) const { return here_[static_cast<std::size_t>(visit)]; }
  const Tile& home(int visit) const { return home_[static_cast<std::size_t>(visit)]; }
  // Of the queries that visit, with the own keys; `kv`, `dkv`: their rows.
  Builder::PairMask mask(int visit, const Box& kv, const Box& dkv, WriteMode, const PairBoxes&) const;
  // Of the queries: q, in the backward dout, lse and delta too, and last a bias that has rows of theirs.
  void attend(const Forward&, int visit, const std::vector<Carried>&, const Returned& out,
              const Returned& lse);
  void differentiate(const Backward&, int visit, const std::vector<Carried>&,
                     const std::vector<Returned>& shares, const Box& dkv);

  const Scope& s;
  Builder& b;
  const Distribution& keys_;
  const Route route;
  const PassQOptions o;
  std::vector<Tile> here_,
      home_;  // by visit: of what is here with the own keys, of the own queries elsewhere
  std::optional<SoftmaxSum> sum;
};

}  // namespace cplab
