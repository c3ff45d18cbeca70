// Head-strided all-gather attention: aqlaboratory/ring-flash-attention, llama_fwd_ring_bwd_flash_attn.py,
// after the llama3 form of zhuzilin/ring-flash-attention.
//
// K and V are gathered a stride of key heads at a time: the next stride moves while this one is attended.
// Backward likewise, and a stride's gradients are reduce-scattered beside the next one: staged in the wire's
// dtype, moved, drained a stride later. Only the first gather and the last reduce-scatter are exposed;
// smaller first and last strides shorten both, at the price of buffers of more widths.
#include <map>

#include "algorithms/core/options.hpp"
#include "algorithms/softmax/head_gather.hpp"
#include "algorithms/softmax/softmax_sum.hpp"
#include "algorithms/softmax/strides.hpp"

namespace cplab {
namespace {

class HeadStrided final : public SoftmaxAlgorithm {
 public:
  explicit HeadStrided(const Scope& scope) : s(scope) {}

  void forward(const Forward& f) override {
    const HeadGather all(s, tokens, stride_pattern(G, h, o.count("forward_first_stride"), 0));
    const bool packs = o.is_on("pack_first_gather") && all.keys(0).count() < h;
    const auto attend = [&](int stride, const Box& kv) { all.attend(compute_lane, stride, f, kv, tile); };
    all.run(f.kv, kv_of(all), attend, [=](int stride) { return stride > 0 || !packs; });
  }

  void backward(const Backward& of_rank) override {
    const std::int64_t first = o.count("backward_first_stride"), last = o.count("backward_last_stride");
    HeadGather all(s, tokens, stride_pattern(G, h, first, last));
    const bool stage_first = o.is_word("staging", "stage_first"), alone = s.P() == 1;
    Backward g = all.begin_backward(of_rank, {&tile, 1}, !alone);
    const auto attend = [&](int stride, const Box& kv) {
      const Box own = g.dkv.of_problem(all.keys(stride));
      const Box sum = alone ? own : of_width(all, stride, "dkv", Role::nominal, 0, 1);
      FirstTouch touched;
      all.attend_backward(compute_lane, stride, g, kv, sum, tile, touched);
      touched.finish(b, compute_lane, sum, all.rows());  // keys of later ranks
      if (alone) return;
      const int slots = stage_first ? 2 : 1;
      const Box staged = of_width(all, stride, "staging", wire, stride % slots, slots);
      all.send_home(stride, sum, g.dkv, wire, staged, stage_first);
    };
    all.run(g.kv, kv_of(all), attend, [](int) { return true; });
    all.drain();
  }

  bool stores_dq_once() const override { return tile.q_rows.count() == s.rows; }

 private:
  // Whole strides and slabs alternate between two slots; smaller strides have buffers of their own.
  HeadGather::At kv_of(const HeadGather& all) {
    return [&](int stride) {
      const bool whole = slab || all.keys(stride).count() == h;
      if (whole) return of_width(all, stride, "kv", Role::nominal, stride % 2, 2);
      return of_width(all, stride, "kv_part" + std::to_string(stride), Role::nominal, 0, 1);
    };
  }

  // A slot of the buffer for strides of this width. As slabs, all widths of a slot share their bytes.
  Box of_width(const HeadGather& all, int stride, std::string name, Role role, int slot, int slots) {
    const std::int64_t width = all.keys(stride).count();
    name += b.in_backward() ? "_backward" : "";
    if (slab) name += "_slab" + std::to_string(slot);
    Box& box = buffers[name + "_" + std::to_string(width)];
    if (!box.given())
      box = all.buffer(name + "_" + std::to_string(width), role, Category::working, slab ? 1 : slots, width,
                       slab ? name : "");
    return all.slot(box, slab ? 0 : slot, stride);
  }

  const Scope& s;
  Builder& b = s.b;
  const Schedule& o = b.scenario().schedule;
  const std::int64_t G = b.problem().kv_heads, h = o.count("head_stride");
  const Role wire = gradient_wire_of(o);
  const bool slab = o.is_word("buffers", "slab");
  const Distribution& tokens = b.shared().all_tokens(s.keys);
  const Tile tile = row_tile(s.tokens[s.place()].runs, tokens[s.place()].runs, b.visible(), Take::queries);
  std::map<std::string, Box> buffers;
};

}  // namespace

Algorithm head_strided_algorithm() {
  Algorithm a;
  a.name = "head_strided";
  a.aliases = {"llama", "llama3"};
  a.summary =
      "K and V gathered a few heads at a time, reduce-scatter one step behind (ring-flash-attention llama)";
  a.placements = {"zigzag", "contiguous", "striped", "stream"};
  a.options = stride_options();
  a.validate = require_strides;
  a.build = run_over_whole_group<HeadStrided>;
  return a;
}

}  // namespace cplab
