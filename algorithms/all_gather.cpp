// All-gather attention: TransformerEngine's AttnFuncWithCPAndKVAllGather (packed sequences: its PR 2829), the
// context parallelism of Llama 3 (arXiv 2407.21783, section 3.3.2).
//
// Every rank gathers the K and V of all, then attends its queries chunk by chunk: a chunk sees its keys at
// once, so nothing is merged. Queries are not sliced and keys not cut: a call names its rows and, for every
// sequence, the keys that its chunk sees. Backward, a rank adds up the gradients of all keys that it saw, and
// a reduce-scatter brings them home. With gather_head_chunk some heads are attended while others move.
#include "algorithms/common_options.hpp"
#include "algorithms/head_gather.hpp"
#include "algorithms/softmax.hpp"
#include "algorithms/softmax_sum.hpp"

namespace cplab {
namespace {

std::vector<HeadRange> parts(const Scope& s, std::int64_t width) {
  std::vector<HeadRange> list;
  const HeadRange all = s.key_heads();
  if (width == 0) return {all};
  for (std::int64_t head = all.begin; head < all.end; head += width) list.push_back({head, head + width});
  return list;
}

class AllGather final : public SoftmaxAlgorithm {
 public:
  explicit AllGather(const Scope& scope) : s(scope) {
    for (const std::vector<TokenRun>& chunk : query_chunks(s.tokens[s.place()]))
      tiles.push_back(row_tile(chunk, all.runs(), b.problem().visible(), Take::queries));
  }

  void forward(const Forward& f) override {
    const bool saves = keeps && b.between_layers();
    kv = gathered("kv_all", saves ? Category::saved : Category::working, keeps ? all.parts() : 2);
    attend_parts(f.kv, [&](int part, const Box& held) {
      for (std::size_t c = 0; c < tiles.size(); ++c) {
        const Tile& t = tiles[c];
        const auto mine = [&](const Box& box) { return box.of_problem(all.queries(part)).rows(t.q_rows); };
        b.attend(lane(c), {mine(f.q), keys(b, held).rows(t.k_rows), values(b, held).rows(t.k_rows),
                           mine(f.out), mine(f.lse), t.segments});
      }
    });
    has = keeps;
  }

  void backward(const Backward& g) override {
    if (!has) kv = gathered("kv_again", Category::working, 2);
    const Role wire = o.is_word("gradient_wire_dtype", "fp32") ? Role::wide : Role::nominal;
    const std::int64_t slots = std::min(2, all.parts());
    const Box dkv = s.P() == 1 ? g.dkv
                               : all.buffer("dkv_all", wire, Category::working, slots, all.rows(), all.widest());
    std::vector<Transfer> home;
    attend_parts(g.kv, [&](int part, const Box& held) {
      const Box sum = s.P() == 1 ? dkv.of_problem(all.keys(part)) : all.slot(dkv, part % slots, part);
      FirstTouch touched;
      for (std::size_t c = 0; c < tiles.size(); ++c) {
        const Tile& t = tiles[c];
        const auto mine = [&](const Box& box) { return box.of_problem(all.queries(part)).rows(t.q_rows); };
        const WriteMode mode = touched.touch(b, lane(c), sum, t.k_rows);
        b.attend_backward(lane(c), {mine(g.q), keys(b, held).rows(t.k_rows), values(b, held).rows(t.k_rows),
                                    mine(g.dout), mine(g.lse), mine(g.delta), mine(g.dq),
                                    keys(b, sum).rows(t.k_rows), values(b, sum).rows(t.k_rows), t.segments,
                                    WriteMode::store, mode});
      }
      touched.finish(b, lane(0), sum, all.rows());
      if (!home.empty()) home.back().unpack(lane(0));  // of the part before, which moved beside this one
      if (s.P() == 1) return;
      home.push_back(all.scatter(part, sum, g.dkv, wire));
      home.back().pack(lane(0));
      home.back().move(comm_lane);
    });
    if (!home.empty()) home.back().unpack(lane(0));
  }

  bool rereads_kv() const override { return !keeps; }

 private:
  Box gathered(std::string_view name, Category category, int slots) const {
    return s.P() == 1 ? Box()
                      : all.buffer(name, Role::nominal, category, std::min(slots, all.parts()), all.rows(),
                                   all.widest());
  }

  // Calls attend(part, its K and V of all) for every part of the heads, which come while the ones before are
  // attended; without a gather where they are still there from the forward, or nobody else has any.
  template <class Attend>
  void attend_parts(const Box& own, Attend attend) {
    const auto at = [&](int part) {
      return s.P() == 1 ? own.of_problem(all.keys(part))
                        : all.slot(kv, part % b.declared(kv).slots, part);
    };
    std::vector<Transfer> moves;
    for (int part = 0; part <= all.parts(); ++part) {
      if (part < all.parts() && !has && s.P() > 1) {
        moves.push_back(all.gather(part, own, at(part)));
        moves.back().pack(lane(0));
        moves.back().move(comm_lane);
      }
      b.step(part);
      if (part > 0) attend(part - 1, at(part - 1));
      if (part < all.parts() && !moves.empty()) moves.back().unpack(lane(0));
    }
  }

  Lane lane(std::size_t chunk) const {
    return {LaneKind::compute, static_cast<std::uint8_t>(chunk % o.count("compute_lanes"))};
  }

  const Scope& s;
  Builder& b = s.b;
  const Schedule& o = b.scenario().schedule;
  const bool keeps = o.is_word("backward_gather", "keep");
  const bool some = o.is_word("gather", "needed");
  const HeadGather all{s, some ? seen(s.keys, b.problem().visible()) : all_tokens(s.keys),
                       parts(s, o.count("gather_head_chunk")), transport_of(o), o.count("pack_above")};
  std::vector<Tile> tiles;  // by chunk of the own queries
  Box kv;
  bool has = false;  // kv holds all parts
};

void build(Builder& b) {
  const Scope whole(b);
  AllGather algorithm(whole);
  run_whole(whole, algorithm);
}

void validate(const Scenario& s) {
  require_softmax(s);
  const std::int64_t chunk = s.schedule.count("gather_head_chunk");
  if (chunk != 0 && s.problem.kv_heads % chunk != 0)
    throw ScenarioError("schedule.gather_head_chunk",
                        std::to_string(chunk) + " does not divide kv_heads (" +
                            std::to_string(s.problem.kv_heads) + "); legal: a divisor, or 0 for all at once");
}

}  // namespace

Algorithm all_gather_algorithm() {
  Algorithm a;
  a.name = "all_gather";
  a.aliases = {"ag", "allgather"};
  a.summary = "K and V of all ranks are gathered, then attended (TransformerEngine PR 2829; Llama 3)";
  a.placements = {"zigzag", "contiguous", "striped"};
  a.options = {
      {.key = "compute_lanes",
       .legal = {option_count(1), option_count(2)},
       .default_value = option_count(1),
       .help = "lanes that the chunks of a rank's queries alternate on"},
      {.key = "backward_gather",
       .legal = {option_word("again"), option_word("keep")},
       .default_value = option_word("again"),
       .help = "the backward gathers K and V again, or the forward keeps them"},
      {.key = "gather_head_chunk",
       .legal = {option_count(0)},
       .any_count = true,
       .default_value = option_count(0),
       .help = "key heads gathered at a time, while the ones before are attended; 0: all at once"},
      {.key = "gather",
       .legal = {option_word("all"), option_word("needed")},
       .default_value = option_word("all"),
       .help = "K and V of all tokens, or of those that the rank's queries see"},
      {.key = "gradient_wire_dtype",
       .legal = {option_word("fp32"), option_word("nominal")},
       .default_value = option_word("fp32"),
       .help = "dtype in which dK and dV are summed and sent"},
      pack_above_option(),
  };
  a.validate = validate;
  a.build = build;
  return a;
}

}  // namespace cplab
