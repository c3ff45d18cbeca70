// Attention of one layer: scenario, simulation, decoding by a formula; see layer_attention.hpp.
#include "decide/layer_attention.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "algorithms/core/build.hpp"
#include "algorithms/core/list.hpp"
#include "algorithms/core/resolve.hpp"
#include "decide/machine_rates.hpp"
#include "decide/memory.hpp"
#include "derive/memory.hpp"
#include "report/figures.hpp"
#include "sim/simulate.hpp"

namespace cplab {

namespace {

// Heads of a kind that one of `tp` ranks has. Fewer key heads than ranks are held several times.
std::int64_t share_of(std::int64_t heads, std::int64_t tp) {
  return std::max<std::int64_t>(1, heads / tp);
}

void set_lengths(Problem& p, const AttentionCase& of) {
  if (of.document <= 0 || of.document >= of.sequence) {
    p.batch = of.batch;
    p.sequence = of.sequence;
    p.lengths.assign(static_cast<std::size_t>(of.batch), of.sequence);
    p.padded_lengths = p.lengths;
    return;
  }
  p.format = Format::thd;
  p.packed = true;
  for (std::int64_t row = 0; row < of.batch; ++row) {
    std::int64_t left = of.sequence;
    for (; left >= of.document; left -= of.document) p.lengths.push_back(of.document);
    if (left > 0) p.lengths.push_back(left);
  }
  p.padded_lengths = p.lengths;
}

bool keeps_states(const AttentionKind& kind) {
  return kind.mixer == Mixer::gated_delta || kind.mixer == Mixer::decay;
}

// Keys and values of latent attention are projected before they go from rank to rank: a head of them for each
// query head. A state is of one value head, with q and k of the key head that it shares with others.
void set_heads(Problem& p, const AttentionKind& kind, std::int64_t tp) {
  p.heads = share_of(kind.heads, tp);
  p.kv_heads = kind.mixer == Mixer::softmax ? share_of(kind.kv_heads, tp) : p.heads;
  p.head_size = kind.head_size;
  p.value_size = kind.value_size;
}

// What states go through from token to token. Of constant decays the time does not depend on which they are.
void set_transition(Problem& p, const AttentionKind& kind) {
  p.attention = Attention::linear;
  if (kind.mixer == Mixer::gated_delta) {
    p.transition = Transition::matrix;
    p.gate = kind.gate_rank > 0 ? Gate::column : Gate::head;
  } else if (kind.token_decay) {
    p.transition = Transition::head;
  } else {
    p.slopes.assign(static_cast<std::size_t>(p.heads), 0.5);
  }
}

AttentionChoice choice(std::string algorithm, std::string placement,
                       std::vector<std::pair<std::string, OptionValue>> options = {}) {
  AttentionChoice chosen{std::move(algorithm), std::move(placement), {}};
  for (auto& [key, value] : options) chosen.schedule.set(key, std::move(value));
  return chosen;
}

std::string text_of(const Schedule& schedule) {
  std::string text;
  for (const auto& [key, value] : schedule.options) text += key + "=" + to_string(value) + " ";
  return text;
}

// The chain that ends last, by what it uses. What moves is dealt to links, NICs and start-ups as in the
// largest parts of the chain; of a chain without any to `carrier`.
ResourceSeconds path_of(const Simulation& simulation, Resource carrier) {
  const UseSeconds& use = simulation.critical_use;
  ResourceSeconds path, moves;
  path.add(Resource::attention, use.attention);
  path.add(Resource::memory, use.other_kernels);
  path.add(Resource::launches, use.host);
  for (const ChainPart& part : simulation.critical_parts.all()) {
    if (part.resource == ChainResource::link) moves.add(Resource::links, part.seconds);
    if (part.resource == ChainResource::nic) moves.add(Resource::nics, part.seconds);
    if (part.resource == ChainResource::startup) moves.add(Resource::launches, part.seconds);
  }
  if (moves.total() > 0)
    path.add(moves, use.communication / moves.total());
  else
    path.add(carrier, use.communication);
  return path;
}

// An algorithm that does it on one rank, where all do the same.
const char* of_one_rank(const AttentionKind& kind) {
  if (!keeps_states(kind)) return "ring";
  return kind.mixer == Mixer::decay && !kind.token_decay ? "lasp_blelloch" : "affine_blelloch";
}

}  // namespace

Hardware every_nth_gpu(const Hardware& whole, std::int64_t tp) {
  Hardware sliced = whole;
  if (tp <= 1) return sliced;
  const auto n = static_cast<int>(tp);
  sliced.node.gpus = std::max(1, whole.node.gpus / n);
  NetworkSpec& network = sliced.network;
  if (network.nics >= whole.node.gpus) {
    network.nics = sliced.node.gpus * whole.nics_per_gpu();
  } else if (network.nics > 0) {
    // The other groups of the node send at the same time through the NICs that they share with this one.
    network.nic_bytes_s *= static_cast<double>(network.nics) / n;
    network.nics = 1;
  }
  for (SwitchLevel& level : network.levels) level.up_bytes_s /= n;
  return sliced;
}

Scenario scenario_of(const Model& model, const AttentionCase& of, const AttentionChoice& chosen,
                     const Hardware& group_machine) {
  const AttentionKind& kind = model.attention[of.kind];
  Scenario s;
  Problem& p = s.problem;
  p.attention = Attention::softmax;
  set_heads(p, kind, of.tp);
  if (keeps_states(kind)) set_transition(p, kind);
  p.dtype = DType::bf16;
  p.causal = !of.full;
  p.sink = kind.sink;
  p.softcap = kind.softcap;
  if (kind.chunk < of.sequence) p.chunk = kind.chunk;
  set_lengths(p, of);
  if (kind.window > 0 && kind.window < of.sequence) p.window = {kind.window - 1, 0};
  p.scale = 1 / std::sqrt(static_cast<double>(p.head_size));
  p.direction = of.backward ? Direction::forward_backward : Direction::forward;
  s.parallel.ranks = of.cp;
  s.parallel.replicas = 1;
  s.algorithm = chosen.algorithm.empty() ? of_one_rank(kind) : chosen.algorithm;
  s.placement = chosen.placement;
  s.schedule = chosen.schedule;
  if (of.backward && s.schedule.find("between") == nullptr) s.schedule.set("between", std::string("layers"));
  require_ranks(group_machine, of.cp);
  s.parallel.islands = islands_of(group_machine, static_cast<int>(of.cp));
  return resolve(std::move(s));
}

std::vector<AttentionChoice> choices_of(const Model& model, const AttentionCase& of,
                                        const Hardware& group_machine) {
  // Decode gathers queries and partial results.
  if (of.cp == 1 || of.decode) return {choice(of.cp == 1 ? "" : "all_gather", "contiguous")};
  const AttentionKind& kind = model.attention[of.kind];
  // States go from rank to rank by a scan, or all are gathered; or heads are traded for tokens.
  if (keeps_states(kind)) {
    const bool constant = kind.mixer == Mixer::decay && !kind.token_decay;
    return {choice(constant ? "lasp_blelloch" : "affine_blelloch", "contiguous"),
            choice(constant ? "lasp_all_gather" : "affine_all_gather", "contiguous"),
            choice("all_to_all", "contiguous")};
  }
  std::vector<AttentionChoice> found;
  const bool narrow = kind.window > 0 && kind.window * of.cp < 2 * of.sequence;
  const auto both = [&](const char* algorithm,
                        std::vector<std::pair<std::string, OptionValue>> options = {}) {
    found.push_back(choice(algorithm, "zigzag", options));
    if (narrow || kind.chunk > 0) found.push_back(choice(algorithm, "contiguous", options));
  };
  both("ring");
  both("all_gather");
  found.push_back(choice("all_to_all", "contiguous"));
  found.push_back(choice("all_to_all", "zigzag"));
  found.push_back(choice("head_strided", "zigzag"));
  std::vector<std::int64_t> inner{2, 4, 8};
  if (std::find(inner.begin(), inner.end(), group_machine.node.gpus) == inner.end())
    inner.push_back(group_machine.node.gpus);
  for (const std::int64_t ranks : inner) {
    if (ranks < 2 || ranks >= of.cp || of.cp % ranks != 0) continue;
    found.push_back(choice("usp", "zigzag", {{"inner_ranks", ranks}}));
    found.push_back(choice("hierarchical", "zigzag", {{"inner_ranks", ranks}}));
  }
  // Over several nodes: rings within and across them, and a grid whose rows are nodes.
  const std::int64_t node = group_machine.node.gpus;
  if (node > 1 && of.cp > node && of.cp % node == 0) {
    found.push_back(choice("double_ring", "zigzag", {{"node_ranks", node}}));
    found.push_back(choice("mesh", "zigzag", {{"query_ranks", node}}));
  }
  return found;
}

namespace {

// As short runs are timed, made longer to what a step holds.
Hardware held_by_steps(Hardware hardware) {
  for (KernelTable& table : hardware.kernels) {
    if (table.kind != OpKind::attend && table.kind != OpKind::attend_backward) continue;
    for (KernelPoint& point : table.points) point.seconds /= hardware.efficiency.held;
  }
  return hardware;
}

}  // namespace

LayerAttention::LayerAttention(const Model& model, const Hardware& hardware)
    : model_(model), hardware_(held_by_steps(hardware)) {}
LayerAttention::~LayerAttention() = default;

const Hardware& LayerAttention::machine(std::int64_t tp) const {
  auto found = machines_.find(tp);
  if (found == machines_.end()) found = machines_.emplace(tp, every_nth_gpu(hardware_, tp)).first;
  return found->second;
}

Plan LayerAttention::plan(const AttentionCase& of, const AttentionChoice& chosen) const {
  return build_plan(scenario_of(model_, of, chosen, machine(of.tp)));
}

namespace {

// Of the GPUs that are slower those of the first CP group and its tensor-parallel neighbours, by position: a
// position is as slow as the slowest of its neighbours.
std::vector<SlowRank> slow_positions(const std::vector<SlowRank>& slow, const AttentionCase& of) {
  std::map<int, SlowRank> positions;
  for (const SlowRank& gpu : slow) {
    if (of.cp == 1 || gpu.rank >= of.tp * of.cp) continue;
    const int position = gpu.rank / static_cast<int>(of.tp);
    SlowRank& at = positions.try_emplace(position, SlowRank{.rank = position}).first->second;
    at.link = std::min(at.link, gpu.link);
    at.nic = std::min(at.nic, gpu.nic);
    at.compute = std::min(at.compute, gpu.compute);
  }
  std::vector<SlowRank> found;
  for (const auto& [position, rank] : positions) found.push_back(rank);
  return found;
}

}  // namespace

AttentionMemory LayerAttention::memory(const AttentionCase& of, const AttentionChoice& chosen) {
  if (of.decode) {
    const AttentionCost& priced = cost(of, chosen);
    return {priced.saved_bytes, priced.transient_bytes};
  }
  const Key key{of, chosen.algorithm, chosen.placement, text_of(chosen.schedule)};
  if (const auto known = memories_.find(key); known != memories_.end()) return known->second;
  const Scenario scenario = scenario_of(model_, of, chosen, machine(of.tp));
  const auto last = static_cast<int>(of.cp) - 1;
  AttentionMemory most;
  for (const int rank : std::set<int>{0, last / 2, last}) {
    const MemoryPlan planned = plan_memory(build_rank(scenario, rank));
    most.saved_bytes = std::max(most.saved_bytes, planned.saved_bytes);
    most.transient_bytes = std::max(most.transient_bytes, planned.live_peak_bytes - planned.saved_bytes);
  }
  return memories_.emplace(key, most).first->second;
}

AttentionCost LayerAttention::simulate_case(const AttentionCase& of, const AttentionChoice& chosen) const {
  const Plan plan = this->plan(of, chosen);
  SimulateOptions options;
  options.slow = slow_positions(hardware_.slow, of);
  const Simulation simulation = simulate(plan, machine(of.tp), options);
  std::vector<MemoryPlan> memory;
  for (const RankPlan& rank : plan.ranks) memory.push_back(plan_memory(rank));
  const Figures figures = derive_figures(plan, simulation.timeline, memory);
  AttentionCost cost;
  for (const PhaseTime& phase : figures.phases)
    (phase.phase == Phase::forward ? cost.forward_s : cost.backward_s) = phase.time_s;
  cost.low = simulation.low_s / simulation.time_s;
  cost.high = simulation.high_s / simulation.time_s;
  for (const RankFigures& rank : figures.ranks) {
    if (rank.exposed_communication_s > cost.exposed_transfer_s + cost.exposed_wait_s) {
      cost.exposed_transfer_s = rank.exposed_transfer_s;
      cost.exposed_wait_s = rank.exposed_wait_s;
    }
    cost.saved_bytes = std::max(cost.saved_bytes, rank.saved_bytes);
    cost.transient_bytes = std::max(cost.transient_bytes, rank.peak_bytes - rank.saved_bytes);
  }
  cost.origins = simulation.critical;
  const double times = (cost.forward_s + cost.backward_s) / simulation.critical_use.total();
  cost.critical.add(
      path_of(simulation, of.tp * of.cp > hardware_.node.gpus ? Resource::nics : Resource::links), times);
  return cost;
}

// Tree decode (arXiv 2408.04093): each rank reads its part of the keys and values once, and the partial
// results with their lse meet in log2(P) steps. Memory bandwidth is all that counts; states of linear layers
// are read and written.
AttentionCost LayerAttention::tree_decode(const AttentionCase& of) const {
  const AttentionKind& kind = model_.attention[of.kind];
  const MachineRates rates(hardware_);
  ModelLayout layout;
  layout.tp = of.tp, layout.cp = of.cp;
  Model one = model_;
  one.layers = {{of.kind, model_.layers.front().feed_forward, 1}};
  const double rows = static_cast<double>(of.batch);
  const double bytes = cache_bytes(one, layout, static_cast<double>(of.sequence), rows, 1);
  const bool writes = keeps_states(kind);
  AttentionCost cost;
  cost.formula = "decode over shards of the cache";
  const KernelTime moved = rates.move(bytes * (writes ? 2 : 1));
  cost.forward_s = moved.seconds;
  cost.critical.add(moved.bound, moved.seconds);
  if (of.cp > 1 && !writes) {
    const double partial = rows * static_cast<double>(share_of(kind.heads, of.tp)) *
                           (static_cast<double>(kind.value_size) + 1) * 4;
    const std::int64_t far = of.cp * of.tp > hardware_.node.gpus ? hardware_.node.gpus : of.tp;
    const WireTime step = rates.send(far, partial);
    const double steps = std::ceil(std::log2(static_cast<double>(of.cp)));
    cost.exposed_transfer_s = steps * step.seconds;
    cost.forward_s += cost.exposed_transfer_s;
    step.add_to(cost.critical, steps);
  }
  cost.origins.add(Origin::assumed, cost.forward_s);
  cost.low = band(Origin::assumed).low;
  cost.high = band(Origin::assumed).high;
  return cost;
}

const AttentionCost& LayerAttention::cost(const AttentionCase& of, const AttentionChoice& chosen) {
  const Key key{of, chosen.algorithm, chosen.placement, text_of(chosen.schedule)};
  const auto known = known_.find(key);
  if (known != known_.end()) return known->second;
  return known_.emplace(key, of.decode ? tree_decode(of) : simulate_case(of, chosen)).first->second;
}

AttentionCost LayerAttention::alone(AttentionCase of) {
  of.cp = 1;
  const AttentionChoice one = choice("", "contiguous");
  AttentionCost least = cost(of, one);
  const AttentionKind& kind = model_.attention[of.kind];
  if (of.decode || keeps_states(kind) || kind.window > 0 || kind.chunk > 0) return least;
  const auto length = static_cast<double>(of.document > 0 ? of.document : of.sequence);
  of.full = true;
  const AttentionCost& full = cost(of, one);
  const double pairs = (length + 1) / (2 * length), before_s = least.forward_s + least.backward_s;
  least.forward_s = std::min(least.forward_s, pairs * full.forward_s);
  least.backward_s = std::min(least.backward_s, pairs * full.backward_s);
  const double times = (least.forward_s + least.backward_s) / before_s;
  least.origins.scale(times);
  ResourceSeconds critical;
  critical.add(least.critical, times);
  least.critical = critical;
  return least;
}

}  // namespace cplab
