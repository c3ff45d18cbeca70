// Layouts as arguments of Megatron-LM: the communication of each kind of layer, and what stands in for
// others.
#include <doctest/doctest.h>

#include <stdexcept>

#include "tests/decide/emitted.hpp"

using namespace cplab;

namespace {

using Flags = std::map<std::string, std::vector<std::string>>;

void choose(Case& c, const std::string& algorithm, const std::string& placement = "zigzag") {
  for (AttentionChoice& choice : c.layout.attention) choice = {algorithm, placement, {}};
}

}  // namespace

TEST_CASE("Megatron: tp 2, cp 4, a ring in zigzag") {
  const Emitted out = dense().emitted(Framework::megatron);
  const Flags expected = {{"--tensor-model-parallel-size", {"2"}},
                          {"--sequence-parallel", {}},
                          {"--context-parallel-size", {"4"}},
                          {"--cp-comm-type", {"p2p"}},
                          {"--pipeline-model-parallel-size", {"1"}},
                          {"--use-distributed-optimizer", {}},
                          {"--bf16", {}},
                          {"--micro-batch-size", {"1"}},
                          {"--global-batch-size", {"16"}},  // 1 x 8 x dp 2
                          {"--seq-length", {"131072"}}};
  CHECK(out.flags == expected);
  CHECK(out.says("not expressible") == 0);
  CHECK(out.says("illegal here") == 0);
}

TEST_CASE("Megatron: each algorithm has its communication, or says what stands in") {
  const auto type = [](const std::string& algorithm) {
    Case c = dense();
    choose(c, algorithm);
    return c.emitted(Framework::megatron);
  };
  CHECK(type("ring").value("--cp-comm-type") == "p2p");
  CHECK(type("p2p").value("--cp-comm-type") == "p2p");  // by its other name
  CHECK(type("all_gather").value("--cp-comm-type") == "all_gather");
  CHECK(type("all_gather").says("not expressible") == 0);
  CHECK(type("all_to_all").value("--cp-comm-type") == "a2a");
  CHECK(type("head_strided").value("--cp-comm-type") == "all_gather");
  CHECK(type("head_strided").says("not expressible: head_strided") == 1);
  CHECK(type("lasp_all_gather").says("not expressible: lasp_all_gather") == 1);
  Case c = dense();
  choose(c, "no_such_thing");
  CHECK_THROWS_AS(c.text(Framework::megatron), std::invalid_argument);
  c.layout.attention.clear();
  CHECK_THROWS_AS(c.text(Framework::megatron), std::invalid_argument);
}

TEST_CASE("Megatron: hierarchical names the ranks that trade heads first") {
  Case c = dense();
  c.layout.cp = 16;
  choose(c, "hierarchical");
  Emitted out = c.emitted(Framework::megatron);
  CHECK(out.value("--cp-comm-type") == "a2a+p2p");
  // 64 heads over tp 2 are 32; the most ranks up to 8 that divide 16 and 32 are 8.
  CHECK(out.value("--hierarchical-context-parallel-sizes") == "8 2");
  CHECK(out.says("illegal here: 4 key/value heads") == 1);  // 8 over tp 2, which 8 ranks cannot share
  c.layout.attention[0].schedule.set("inner_ranks", std::int64_t{4});
  out = c.emitted(Framework::megatron);
  CHECK(out.value("--hierarchical-context-parallel-sizes") == "4 4");
  CHECK(out.says("illegal here") == 0);
  c.layout.attention[0].schedule.set("inner_ranks", std::int64_t{1});
  CHECK(c.emitted(Framework::megatron).value("--cp-comm-type") == "p2p");
  CHECK(!c.emitted(Framework::megatron).has("--hierarchical-context-parallel-sizes"));
}

TEST_CASE("Megatron: layers of linear attention trade heads") {
  Case c = dense();
  AttentionKind delta = c.model.attention[0];
  delta.name = "gated delta";
  delta.mixer = Mixer::gated_delta;
  delta.heads = 32;
  delta.kv_heads = 16;
  c.model.attention.push_back(delta);
  c.model.layers = {{1, 0, 3}, {0, 0, 1}};
  c.layout.attention.push_back({"all_to_all", "contiguous", {}});
  Emitted out = c.emitted(Framework::megatron);
  CHECK(out.value("--cp-comm-type") == "a2a a2a a2a p2p");
  CHECK(out.says("not expressible: placement contiguous for all_to_all of gated delta layers") == 1);
  CHECK(out.says("not expressible") == 1);
  c.layout.attention[1] = {"affine_all_gather", "zigzag", {}};
  out = c.emitted(Framework::megatron);
  CHECK(out.says("not expressible: affine_all_gather of gated delta layers; a2a stands in") == 1);
}

TEST_CASE("Megatron: window layers have a communication of their own, and a halo is a comment") {
  Case c = windows();
  c.layout.attention[0] = {"ring", "zigzag", {}};
  c.layout.attention[1] = {"all_to_all", "zigzag", {}};
  Emitted out = c.emitted(Framework::megatron);
  CHECK(out.value("--cp-comm-type") == "a2a a2a a2a a2a a2a p2p a2a a2a a2a a2a a2a p2p");
  CHECK(out.value("--window-size") == "1023,0");  // 1024 keys with a query's own
  CHECK(out.value("--window-attn-skip-freq") == "[1]*5+[0]*1+[1]*5+[0]*1");
  CHECK(out.says("not expressible") == 0);
  c.layout.attention[1] = {"ring", "zigzag", {{{"rotation", std::string("needed")}}}};
  out = c.emitted(Framework::megatron);
  CHECK(out.flags.at("--cp-comm-type").front() == "all_gather");
  CHECK(out.flags.at("--cp-comm-type").size() == 12);
  CHECK(out.says("not expressible: ring of window 1024 layers with a window; all_gather stands in") == 1);
  CHECK(out.says("(a halo: only keys that a window reaches travel)") == 1);
  // gpt-oss: sinks go with a2a alone.
  for (AttentionKind& kind : c.model.attention) kind.sink = true;
  out = c.emitted(Framework::megatron);
  CHECK(out.value("--cp-comm-type") == "a2a");
  CHECK(out.value("--softmax-type") == "learnable");
  // ms-swift takes one communication for all layers.
  c = windows();
  const Emitted swift = c.emitted(Framework::ms_swift);
  CHECK(swift.value("--cp_comm_type") == "all_gather");
  CHECK(swift.says("a communication of its own for each kind of layer") == 1);
}
