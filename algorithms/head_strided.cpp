// Head-strided all-gather attention: aqlaboratory/ring-flash-attention, llama_fwd_ring_bwd_flash_attn.py,
// after the llama3 form of zhuzilin/ring-flash-attention.
//
// K and V of all ranks are gathered a stride of key heads at a time: the next stride moves while this one is
// attended. Backward likewise, and the gradients of a stride are reduce-scattered beside the next one: staged
// in the wire's dtype, moved, drained one stride later. Only the first gather and the last reduce-scatter are
// exposed; smaller first and last strides shorten both, at the price of buffers of more widths.
#include <map>

#include "algorithms/common_options.hpp"
#include "algorithms/head_gather.hpp"
#include "algorithms/softmax_sum.hpp"
#include "algorithms/strides.hpp"

namespace cplab {
namespace {

class HeadStrided final : public SoftmaxAlgorithm {
 public:
  explicit HeadStrided(const Scope& scope) : s(scope) {}

  void forward(const Forward& f) override {
    const auto pattern = stride_pattern(G, h, o.count("forward_first_stride"), 0);
    const HeadGather all(s, tokens, ranges(pattern));
    const Tile tile = row_tile(s.tokens[s.place()].runs, all.runs(), b.problem().visible(), Take::queries);
    const bool pack_first = !pattern[0].whole && o.is_on("pack_first_gather");
    const auto attend = [&](int part, const Box& kv) { all.attend(compute_lane, part, f, kv, tile); };
    all.run(f.kv, kv_buffers(all, pattern), attend, [=](int part) { return part > 0 || !pack_first; });
  }

  void backward(const Backward& g) override {
    const auto pattern =
        stride_pattern(G, h, o.count("backward_first_stride"), o.count("backward_last_stride"));
    HeadGather all(s, tokens, ranges(pattern));
    const Tile tile = row_tile(s.tokens[s.place()].runs, all.runs(), b.problem().visible(), Take::queries);
    const bool stage_first = o.is_word("staging", "stage_first");
    const auto attend = [&](int part, const Box& kv) {
      const Box sum =
          s.P() == 1 ? g.dkv.of_problem(all.keys(part)) : of_width(all, part, "dkv", Role::nominal, 0, 1);
      FirstTouch touched;
      all.attend_backward(compute_lane, part, g, kv, sum, tile, touched);
      touched.finish(b, compute_lane, sum, all.rows());  // keys of later ranks
      if (s.P() == 1) return;
      const Box staged =
          of_width(all, part, "staging", wire, stage_first ? part % 2 : 0, stage_first ? 2 : 1);
      all.send_home(part, sum, g.dkv, wire, staged, stage_first);
    };
    all.run(g.kv, kv_buffers(all, pattern), attend, [](int) { return true; });
    all.drain();
  }

 private:
  static std::vector<HeadRange> ranges(const std::vector<Stride>& pattern) {
    std::vector<HeadRange> list;
    for (const Stride& stride : pattern) list.push_back(stride.heads);
    return list;
  }

  // Whole strides alternate between the slots of one pair, parts of a stride have buffers of their own; or
  // every other stride lies in one of two slabs.
  HeadGather::At kv_buffers(const HeadGather& all, const std::vector<Stride>& pattern) {
    return [&, pattern](int part) {
      if (slab || pattern[static_cast<std::size_t>(part)].whole)
        return of_width(all, part, "kv", Role::nominal, part % 2, 2);
      return of_width(all, part, "kv_part" + std::to_string(part), Role::nominal, 0, 1);
    };
  }

  // The slot of the buffer for strides of this width; as slabs, slots of all widths share their bytes.
  Box of_width(const HeadGather& all, int part, std::string name, Role role, int slot, int slots) {
    const std::int64_t width = all.keys(part).count();
    const std::string shared = name + "_slab" + std::to_string(slot);
    const std::string phase = b.in_backward() ? "_backward" : "";
    name += "_" + std::to_string(width) + (slab ? "_" + std::to_string(slot) : "") + phase;
    Box& box = buffers[name];
    if (!box.given())
      box = all.buffer(name, role, Category::working, slab ? 1 : slots, width, slab ? shared + phase : "");
    return all.slot(box, slab ? 0 : slot, part);
  }

  const Scope& s;
  Builder& b = s.b;
  const Schedule& o = b.scenario().schedule;
  const std::int64_t G = b.problem().kv_heads, h = o.count("head_stride");
  const Role wire = gradient_wire_of(o);
  const bool slab = o.is_word("buffers", "slab");
  const Distribution tokens = all_tokens(s.keys);
  std::map<std::string, Box> buffers;
};

void validate(const Scenario& s) {
  require_softmax(s);
  require_strides(s);
}

}  // namespace

Algorithm head_strided_algorithm() {
  Algorithm a;
  a.name = "head_strided";
  a.aliases = {"llama", "llama3"};
  a.summary =
      "K and V gathered a few heads at a time, reduce-scatter one step behind (ring-flash-attention llama)";
  a.placements = {"contiguous", "zigzag", "striped"};
  a.options = {
      least_option("head_stride", 1, 1, "key heads gathered at a time; divides kv_heads"),
      least_option("forward_first_stride", 0, 0,
                   "key heads of the forward's first gather, below head_stride; 0: no cut"),
      switch_option("pack_first_gather", true,
                    "the first gather of a cut stride takes K and V in one communication"),
      least_option("backward_first_stride", 0, 0, "key heads of the backward's first gather; 0: no cut"),
      least_option("backward_last_stride", 0, 0, "key heads of the last reduce-scatter; 0: no cut"),
      gradient_wire_option(),
      word_option(
          "staging", {"drain_first", "stage_first"},
          "before gradients are staged those before are drained (one staging buffer), or after (two)"),
      word_option("buffers", {"per_width", "slab"},
                  "a buffer for every width of a stride, or one memory for all"),
      pack_above_option(),
  };
  a.validate = validate;
  a.build = run_over_whole_group<HeadStrided>;
  return a;
}

}  // namespace cplab
