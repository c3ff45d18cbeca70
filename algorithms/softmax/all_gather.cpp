// All-gather attention: TransformerEngine's AttnFuncWithCPAndKVAllGather (packed sequences: its PR 2829), the
// context parallelism of Llama 3 (arXiv 2407.21783, section 3.3.2); of latents latent_gather.cpp.
// Every rank gathers the K and V of all, then attends its queries chunk by chunk: a chunk sees its keys at
// once, so nothing is merged. Backward, gradients are added up, and a reduce-scatter brings them home.
#include <utility>

#include "algorithms/core/options.hpp"
#include "algorithms/softmax/all_gather_options.hpp"
#include "algorithms/softmax/head_gather.hpp"
#include "algorithms/softmax/latent_gather.hpp"
#include "algorithms/softmax/softmax_sum.hpp"

namespace cplab {
namespace {

class AllGather final : public SoftmaxAlgorithm {
 public:
  explicit AllGather(const Scope& scope) : s(scope) {
    for (const auto& runs : query_chunks(s.tokens[s.place()], b.scenario().placement))
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
      if (!alone)
        all.local() ? sum_over_all(sum, g.dkv.of_problem(all.keys(stride)))
                    : all.send_home(stride, sum, g.dkv, wire);
    };
    if (!keeps) kv = all.buffer("kv_again", Role::nominal, Category::working, slots, width);
    keeps ? all.run_kept(g.kv, held, attend) : all.run(g.kv, held, attend);
    all.drain();
    take_sum();
  }

  bool stores_dq_once() const override { return all.store_dq_once(tiles, o.count("compute_lanes")); }
  bool rereads_kv() const override { return !keeps || all.local(); }

 private:
  Lane lane(std::size_t i) const { return {LaneKind::compute, static_cast<std::uint8_t>(i % lanes)}; }

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
  const std::size_t lanes = static_cast<std::size_t>(o.count("compute_lanes"));
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

}  // namespace

Algorithm all_gather_algorithm() {
  Algorithm a = all_gather_choices();
  a.name = "all_gather";
  a.aliases = {"ag", "allgather"};
  a.summary = "K and V of all ranks are gathered, then attended (TransformerEngine PR 2829; Llama 3)";
  a.build = build_what_travels<run_over_whole_group<AllGather>>;
  return a;
}

}  // namespace cplab
