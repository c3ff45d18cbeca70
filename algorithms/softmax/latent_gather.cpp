// All-gather attention of latent keys and values, which travel instead of what they are projected to: context
// parallelism as NVIDIA-NeMo/Automodel#3243 asks for DeepSeek's models.
//
// Every rank gathers the latents that its queries see, and makes K and V of a few heads at a time of those
// rows. Backward, the gradients of these heads go through the weights at once, into sums of gradients
// of latents, which are sent home and added there: what travels is as narrow as in the forward.
#include "algorithms/softmax/latent_gather.hpp"

#include <limits>
#include <string>

#include "algorithms/core/options.hpp"
#include "algorithms/softmax/head_gather.hpp"

namespace cplab {
namespace {

// The tokens of all members, as the one head that latents are.
const Distribution& latents_at(Shared& shared, const Distribution& keys) {
  return shared.made("latents", keys, [&] { return with_heads(keys, {0, 1}); });
}

class LatentGather final : public SoftmaxAlgorithm {
 public:
  explicit LatentGather(const Scope& scope) : s(scope) {
    for (const auto& runs : query_chunks(s.tokens[s.place()], b.scenario().placement)) {
      tiles.push_back(row_tile(runs, all.runs(), b.visible(), Take::queries));
      read = read.united(tiles.back().k_rows);
    }
    options.transport = transport_of(o);
    options.most_pieces = o.count("pack_above");
  }

  void forward(const Forward& f) override {
    held = gathered(f.latents.rows, "latent_all",
                    keeps && b.between_layers() ? Category::saved : Category::working);
    if (read.empty()) return see_nothing(f);
    const Box slot = all.buffer("kv_heads", Role::nominal, Category::working, 1, width);
    for (int stride = 0; stride < all.strides(); ++stride) {
      b.step(stride);
      const Box kv = projected(f.latents, slot, stride);
      for (std::size_t c = 0; c < tiles.size(); ++c) all.attend(lane(c), stride, f, kv, tiles[c]);
    }
  }

  void backward(const Backward& of_rank) override {
    // Without a key to see there are gradients of sinks at most that read delta.
    const bool no_delta = read.empty() && (!b.problem().sink || rows_of_tokens(s).empty());
    Backward g = no_delta ? of_rank : all.begin_backward(of_rank, tiles, true);
    if (!keeps) held = gathered(g.latents.rows, "latent_again", Category::working);
    const Box sums = latent_buffer(b, "dlatent_all", gradient_wire_of(o), Category::working, 1, all.rows());
    if (const Rows rest = Rows::range(0, all.rows()).minus(read); !rest.empty())
      b.fill(compute_lane, sums.rows(rest), 0);  // keys that no query here sees
    read.empty() ? see_nothing(g) : differentiate(g, sums);
    send_home(sums, g.dlatents.rows);
  }

  bool projects() const override { return true; }
  bool stores_dq_once() const override { return all.store_dq_once(tiles, o.count("compute_lanes")); }

 private:
  Lane lane(std::size_t i) const { return {LaneKind::compute, static_cast<std::uint8_t>(i % lanes)}; }

  Box gathered(const Box& own, std::string_view name, Category category) {
    if (s.P() == 1) return own;
    const Box into = latent_buffer(b, name, Role::nominal, category, 1, all.rows());
    Transfer(b, s.team, options, {{"latent", &how, own, into}}).all(compute_lane, comm_lane);
    return into;
  }

  // No query here sees a key: K and V of no row are made, and there is nothing to attend.
  void see_nothing(const Forward& f) {
    if (f.sink.given() && !rows_of_tokens(s).empty())
      throw ScenarioError(
          "problem.sink",
          "queries of rank " + std::to_string(s.team.ranks[static_cast<std::size_t>(s.place())]) +
              " see no key, and have their sinks for lse, which schedule.travels = \"latent\" "
              "does not compute; legal: travels = \"kv\"");
    b.fill(compute_lane, f.out, 0);
    b.fill(compute_lane, f.lse, -std::numeric_limits<double>::infinity());
  }
  void see_nothing(const Backward& g) {
    b.fill(compute_lane, g.rounded_dq.given() ? g.rounded_dq : g.dq, 0);
    if (g.dbias.given()) b.fill(compute_lane, g.dbias, 0);
    b.fill(compute_lane, g.dlatents.weights.of_keys, 0);
    b.fill(compute_lane, g.dlatents.weights.of_values, 0);
  }

  void differentiate(Backward& g, const Box& sums) {
    const Box slot = all.buffer("kv_heads_again", Role::nominal, Category::working, 1, width),
              gradients = all.buffer("dkv_heads", wide ? Role::wide : Role::nominal, Category::working, 1,
                                     width, {}, HeadGather::Holds::dkv);
    for (int stride = 0; stride < all.strides(); ++stride) {
      b.step(stride);
      const Box kv = projected(g.latents, slot, stride), dkv = all.slot(gradients, 0, stride);
      FirstTouch touched;
      for (std::size_t c = 0; c < tiles.size(); ++c)
        all.attend_backward(lane(c), stride, g, kv, dkv, tiles[c], touched);
      project_back(g, dkv, sums, stride == 0 ? WriteMode::store : WriteMode::add);
    }
  }

  // K and V of the stride's heads, of the rows that tiles read.
  Box projected(const Latents& latents, const Box& slot, int stride) {
    const Box kv = all.slot(slot, 0, stride);
    b.project(compute_lane, held.rows(read), latents.weights, kv.rows(read));
    return kv;
  }

  void project_back(const Backward& g, const Box& dkv, const Box& sums, WriteMode mode) {
    b.project_backward(compute_lane, dkv.rows(read), g.latents.weights, sums.rows(read), mode);
    b.weight_gradient(compute_lane, held.rows(read), dkv.rows(read), g.dlatents.weights, WriteMode::store);
  }

  void send_home(const Box& sums, const Box& dlatents) {
    if (s.P() == 1) return b.convert(compute_lane, sums, dlatents);
    TransferOptions back = options;
    back.adjoint = true;
    back.wire = gradient_wire_of(o);
    Transfer(b, s.team, back, {{"dlatent", &how, sums, dlatents}}).all(compute_lane, comm_lane);
  }

  const Scope& s;
  Builder& b = s.b;
  const Schedule& o = b.scenario().schedule;
  const bool keeps = o.is_word("backward_gather", "keep"), wide = wide_accumulator(o) && b.has_wide();
  const std::size_t lanes = static_cast<std::size_t>(o.count("compute_lanes"));
  const std::int64_t chunk = o.count("gather_head_chunk"), width = chunk ? chunk : b.problem().kv_heads;
  const Distribution& to = s.P() > 1 ? b.shared().seen(s.tokens, s.keys, b.visible())
                                     : b.shared().all_tokens(s.keys);
  const HeadGather all{s, to, equal_parts(s.key_heads(), width)};
  const Redistribution& how =
      b.shared().redistribution(latents_at(b.shared(), s.keys), latents_at(b.shared(), to));
  TransferOptions options;
  std::vector<Tile> tiles;  // by chunk of the own queries
  Rows read;                // gathered rows that they read
  Box held;
};

}  // namespace

void build_latent_gather(Builder& b) {
  run_over_whole_group<LatentGather>(b);
}

}  // namespace cplab
