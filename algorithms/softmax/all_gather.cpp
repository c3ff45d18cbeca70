// All-gather attention: TransformerEngine's AttnFuncWithCPAndKVAllGather (packed sequences: its PR 2829), the
// context parallelism of Llama 3 (arXiv 2407.21783, section 3.3.2).
//
// Every rank gathers the K and V of all, then attends its queries chunk by chunk: a chunk sees its keys at
// once, so nothing is merged. Backward, gradients are added up, and a reduce-scatter brings them home.
#include <utility>

#include "algorithms/core/options.hpp"
#include "algorithms/core/pieces.hpp"
#include "algorithms/softmax/head_gather.hpp"
#include "algorithms/softmax/softmax_sum.hpp"

namespace cplab {
namespace {

class AllGather final : public SoftmaxAlgorithm {
 public:
  explicit AllGather(const Scope& scope) : s(scope) {
    // Where pieces say what a rank holds its chunks are many and small: one call takes them all.
    const Holding& own = s.tokens[s.place()];
    std::vector<std::vector<TokenRun>> chunks{own.runs};
    if (!in_pieces(b.scenario().placement)) chunks = query_chunks(own);
    for (const std::vector<TokenRun>& runs : chunks)
      tiles.push_back(row_tile(runs, all.runs(), b.visible(), Take::queries));
  }

  void forward(const Forward& f) override {
    const Category kept = keeps && b.between_layers() ? Category::saved : Category::working;
    kv = all.buffer("kv_all", Role::nominal, kept, keeps ? all.strides() : slots, width);
    all.run(f.kv, held, [&](int stride, const Box& kv_held) {
      for (std::size_t c = 0; c < tiles.size(); ++c) all.attend(lane(c), stride, f, kv_held, tiles[c]);
    });
  }

  void backward(const Backward& of_rank) override {
    const bool alone = s.P() == 1;
    Backward g = all.begin_backward(of_rank, tiles, !all.local() && !keeps);
    const Role wire = gradient_wire_of(o);
    const Box sums =
        alone ? g.dkv
              : all.buffer("dkv_all", wire, Category::working, slots, width, {}, HeadGather::Holds::dkv);
    const auto attend = [&](int stride, const Box& kv_held) {
      const Box sum = alone ? g.dkv.of_problem(all.keys(stride)) : all.slot(sums, stride % slots, stride);
      FirstTouch touched;
      for (std::size_t c = 0; c < tiles.size(); ++c)
        all.attend_backward(lane(c), stride, g, kv_held, sum, tiles[c], touched);
      touched.finish(b, compute_lane, sum, all.rows());  // keys that no query here sees
      if (alone) return;
      all.local() ? sum_over_all(sum, g.dkv.of_problem(all.keys(stride)))
                  : all.send_home(stride, sum, g.dkv, wire);
    };
    if (!keeps) kv = all.buffer("kv_again", Role::nominal, Category::working, slots, width);
    keeps ? all.run_kept(g.kv, held, attend) : all.run(g.kv, held, attend);
    all.drain();
    take_sum();
  }

  bool stores_dq_once() const override { return all.store_dq_once(tiles, o.count("compute_lanes")); }

 private:
  Lane lane(std::size_t tile) const {
    return {LaneKind::compute, static_cast<std::uint8_t>(tile % o.count("compute_lanes"))};
  }

  // Gradients of keys that every rank holds: the sums of all are taken a stride later.
  void sum_over_all(const Box& sum, const Box& into) {
    take_sum();
    b.all_reduce(comm_lane, transport_of(o), s.team, Reduction::sum, sum, sum);
    summed = {sum, into};
  }
  void take_sum() {
    if (summed.first.given()) b.convert(compute_lane, summed.first, summed.second);
    summed = {};
  }

  const Scope& s;
  Builder& b = s.b;
  const Schedule& o = b.scenario().schedule;
  const bool keeps = o.is_word("backward_gather", "keep"), some = o.is_word("gather", "needed") && s.P() > 1;
  const std::int64_t chunk = o.count("gather_head_chunk"), width = chunk ? chunk : b.problem().kv_heads;
  HeadGather all{s,
                 s.keys.everywhere ? s.keys
                 : some            ? b.shared().seen(s.tokens, s.keys, b.visible())
                                   : b.shared().all_tokens(s.keys),
                 equal_parts(s.key_heads(), width)};
  const int slots = all.strides() < 2 ? all.strides() : 2;
  std::vector<Tile> tiles;  // by chunk of the own queries
  Box kv;
  std::pair<Box, Box> summed;
  const HeadGather::At held = [&](int stride) { return all.slot(kv, stride % b.declared(kv).slots, stride); };
};

OptionInfo gather_option() {
  OptionInfo option =
      word_option("gather", {"all", "needed"}, "K, V of all tokens, or of those that queries here see");
  option.default_rule = "all; needed with placements balanced and dynamic";
  return option;
}

// Placements in pieces gather what is needed, and a fourth of the key heads at a time: what comes hides
// behind the tiles of those before, and gradients that come from many ranks are not all there at once.
void resolve_all_gather_defaults(Scenario& s) {
  if (!in_pieces(s.placement)) return;
  if (!s.schedule.find("gather")) s.schedule.set("gather", std::string("needed"));
  if (s.schedule.find("gather_head_chunk")) return;
  std::int64_t heads = (s.problem.kv_heads + 3) / 4;
  while (s.problem.kv_heads % heads != 0) ++heads;
  s.schedule.set("gather_head_chunk", heads);
}

OptionInfo gather_head_chunk_option() {
  OptionInfo option = least_option("gather_head_chunk", 0, 0, "key heads gathered at a time; 0: all at once");
  option.default_rule = "0; a fourth of kv_heads with placements balanced and dynamic";
  return option;
}

void validate_all_gather(const Scenario& s) {
  require_softmax(s);
  const std::int64_t chunk = s.schedule.count("gather_head_chunk");
  if (chunk != 0 && s.problem.kv_heads % chunk != 0)
    throw ScenarioError("schedule.gather_head_chunk", std::to_string(chunk) + " does not divide kv_heads (" +
                                                          std::to_string(s.problem.kv_heads) +
                                                          "); legal: a divisor, or 0 for all at once");
}

}  // namespace

Algorithm all_gather_algorithm() {
  Algorithm a;
  a.name = "all_gather";
  a.aliases = {"ag", "allgather"};
  a.summary = "K and V of all ranks are gathered, then attended (TransformerEngine PR 2829; Llama 3)";
  a.placements = {"zigzag", "contiguous", "striped", "stream", "balanced", "dynamic"};
  a.dynamic_masks = true;
  a.cross = a.keys_everywhere = true;
  a.options = {
      count_option("compute_lanes", {1, 2}, "lanes that the chunks of a rank's queries alternate on"),
      word_option("backward_gather", {"again", "keep"}, "backward: gather again, or forward keeps all"),
      gather_head_chunk_option(),
      gather_option(),
      gradient_wire_option(),
      accumulator_option(),
      row_dot_option(),
      pack_above_option(),
      least_option("balance_chunk", 0, 0, "placement balanced: rows of a chunk; 0: 8 chunks for each rank")};
  a.resolve_defaults = resolve_all_gather_defaults;
  a.validate = validate_all_gather;
  a.build = run_over_whole_group<AllGather>;
  return a;
}

}  // namespace cplab
