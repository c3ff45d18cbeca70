// Which transport a message takes where the schedule leaves it open (transport = "auto"): copy engines
// between ranks that share a node and reach each other's memory, NCCL between all others. The one home of
// that decision; who shares a node is a fact of the machine (Parallel::islands).
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "plan/plan.hpp"

namespace cplab {

// What a schedule asks for: one transport for everything, or, absent, of each message what its ends allow.
using TransportChoice = std::optional<Transport>;

// The link copy sums over so many members at most.
inline constexpr int most_summed_by_copy = 64;

// The islands of `world` ranks: in order of their numbers, each joins the first island of which it reaches
// all members and all of them reach it, else it begins one. reaches(a, b): a can write into the memory of b.
std::vector<int> islands_of(int world, const std::function<bool(int a, int b)>& reaches);
// `node` ranks on each node, in order.
std::vector<int> islands_of_nodes(int world, int node);

bool share_island(const Parallel&, int rank_a, int rank_b);
// Some ranks share an island, and some do not: one plan may need both transports.
bool mixes_transports(const Parallel&);
// Of a collective, or of all messages of an operation between these ranks: copy if all share an island.
Transport transport_within(const Parallel&, OpKind, std::span<const int> ranks);

// What goes over each transport, all ranks and phases; only transports that the plan uses.
struct TransportUse {
  Transport transport = Transport::nccl;
  std::int64_t operations = 0;  // of all ranks
  std::int64_t messages = 0;    // parts sent to other ranks
  std::int64_t bytes = 0;       // sent to other ranks; an all_reduce counts what its operation says
};
std::vector<TransportUse> transports_of(const Plan&);

}  // namespace cplab
