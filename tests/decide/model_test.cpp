// Parameters of models that are published with their number of parameters, from their sizes by hand.
#include "decide/model.hpp"

#include <doctest/doctest.h>

namespace {

using namespace cplab;

AttentionKind grouped(std::int64_t heads, std::int64_t kv_heads, std::int64_t head_size) {
  AttentionKind kind{.name = "global"};
  kind.heads = heads;
  kind.kv_heads = kv_heads;
  kind.head_size = kind.value_size = head_size;
  return kind;
}

FeedForwardKind dense(std::int64_t width) {
  return {.name = "dense", .width = width};
}

FeedForwardKind mixture(std::int64_t experts, std::int64_t chosen, std::int64_t width) {
  return {.name = "experts", .width = width, .experts = experts, .chosen = chosen};
}

Model uniform(std::int64_t layers, std::int64_t hidden, std::int64_t vocabulary, AttentionKind attention,
              FeedForwardKind feed_forward) {
  Model model;
  model.name = "model";
  model.hidden = hidden;
  model.vocabulary = vocabulary;
  model.attention = {std::move(attention)};
  model.feed_forward = {std::move(feed_forward)};
  model.layers = {{0, 0, layers}};
  return model;
}

Model deepseek_v3() {
  AttentionKind latent{.name = "latent", .mixer = Mixer::latent};
  latent.heads = latent.kv_heads = 128;
  latent.head_size = 192;
  latent.value_size = 128;
  latent.query_latent = 1536;
  latent.kv_latent = 512;
  latent.rope_size = 64;
  FeedForwardKind experts = mixture(256, 8, 2048);
  experts.shared_width = 2048;
  Model model = uniform(3, 7168, 129280, latent, dense(18432));
  model.feed_forward.push_back(experts);
  model.layers.push_back({0, 1, 58});
  model.prediction_layers = 1;
  return model;
}

}  // namespace

// A layer of Llama 3 of hidden width h, G kv heads of 128 and a feed-forward of width f has
// 2 h^2 + 2 h 128 G + 3 h f + 2 h parameters; around the layers stand 2 V h + h.
TEST_CASE("Llama 3 has the parameters that its checkpoints have") {
  // 8B: 2 x 16,777,216 + 2 x 4,194,304 + 3 x 58,720,256 + 8,192 = 218,112,000 a layer;
  // 32 of them are 6,979,584,000; 2 x 128,256 x 4096 + 4096 = 1,050,677,248.
  CHECK(parameters(uniform(32, 4096, 128256, grouped(32, 8, 128), dense(14336)), false) == 8'030'261'248);
  // 70B: 855,654,400 a layer of hidden width 8192 and width 28,672; 80 of them and 2,101,354,496.
  CHECK(parameters(uniform(80, 8192, 128256, grouped(64, 8, 128), dense(28672)), false) == 70'553'706'496);
  // 405B: 3,187,703,808 a layer of hidden width 16,384 and width 53,248; 126 of them and 4,202,708,992.
  CHECK(parameters(uniform(126, 16384, 128256, grouped(128, 8, 128), dense(53248)), false) ==
        405'853'388'800);
}

TEST_CASE("heads may be wider together than the hidden width, and have norms") {
  // Qwen3-32B: q and out 2 x 5120 x 8192, k and v 2 x 5120 x 1024, norms of heads 2 x 128, three matrices of
  // 5120 x 25,600 and two norms: 487,598,336 a layer; 64 of them, 2 x 151,936 x 5120 + 5120.
  AttentionKind attention = grouped(64, 8, 128);
  attention.head_norms = true;
  CHECK(parameters(uniform(64, 5120, 151936, attention, dense(25600)), false) == 32'762'123'264);
}

TEST_CASE("of experts the active parameters have the chosen ones, whole models all") {
  // Qwen3-30B-A3B: attention 2 x 2048 x 4096 + 2 x 2048 x 512 + 256 = 18,874,624; an expert 3 x 2048 x 768 =
  // 4,718,592, of which 128 (603,979,776) or 8 (37,748,736); the router 262,144; norms 4096. Around 48
  // layers 2 x 151,936 x 2048 + 2048 = 622,331,904.
  AttentionKind attention = grouped(32, 4, 128);
  attention.head_norms = true;
  const Model small = uniform(48, 2048, 151936, attention, mixture(128, 8, 768));
  CHECK(parameters(small, false) ==
        std::int64_t{48} * (18'874'624 + 603'979'776 + 262'144 + 4096) + 622'331'904);
  CHECK(parameters(small, false) == 30'532'122'624);  // 30.5 billion, as its card says
  CHECK(parameters(small, true) ==
        std::int64_t{48} * (18'874'624 + 37'748'736 + 262'144 + 4096) + 622'331'904);
  CHECK(parameters(small, true) == 3'353'032'704);  // 3.3 billion

  // Qwen3-235B-A22B: attention 2 x 4096 x 8192 + 2 x 4096 x 512 + 256 = 71,303,424; an expert 3 x 4096 x 1536
  // = 18,874,368; router 524,288; norms 8192; 94 layers; around them 1,244,663,808.
  attention = grouped(64, 4, 128);
  attention.head_norms = true;
  const Model large = uniform(94, 4096, 151936, attention, mixture(128, 8, 1536));
  CHECK(parameters(large, false) ==
        std::int64_t{94} * (71'303'424 + std::int64_t{128} * 18'874'368 + 524'288 + 8192) + 1'244'663'808);
  CHECK(parameters(large, false) == 235'093'634'560);
  CHECK(parameters(large, true) == 22'190'763'520);
}

TEST_CASE("DeepSeek-V3: latents, three dense layers, a shared expert, a prediction layer") {
  const Model model = deepseek_v3();
  validate(model);
  // Latents: q 7168 x 1536 + 1536 + 1536 x 24,576; keys and values 7168 x 576 + 512 + 512 x 128 x 256; out
  // 16,384 x 7168: 187,107,328.
  CHECK(attention_parameters(model, model.attention[0]) == 187'107'328);
  // 671.0 billion, as published; the checkpoint adds 256 x 58 offsets of its routers.
  CHECK(parameters(model, false) == 671'026'404'352);
  CHECK(parameters(model, true) == 37'552'282'624);  // "37B activated", both embeddings among them
  // Its prediction layer has 11.6 billion of its own; the 685 billion of the checkpoint also count its copies
  // of both embeddings.
  CHECK(prediction_parameters(model, false) == 11'610'067'968);
  CHECK(parameters(model, false) + prediction_parameters(model, false) + embedding_parameters(model) ==
        684'489'830'400);
}

TEST_CASE("gpt-oss: sinks, biases everywhere, windows in every second layer") {
  AttentionKind global = grouped(64, 8, 64);
  global.bias = global.output_bias = global.sink = true;
  AttentionKind window = global;
  window.name = "window 128";
  window.window = 128;
  FeedForwardKind experts = mixture(128, 4, 2880);
  experts.bias = true;
  Model model = uniform(1, 2880, 201088, window, experts);
  model.attention.push_back(global);
  model.layers.clear();
  for (int pair = 0; pair < 18; ++pair) {
    model.layers.push_back({0, 0, 1});
    model.layers.push_back({1, 0, 1});
  }
  validate(model);
  CHECK(model.layer_count() == 36);
  CHECK(model.layers_of_attention(1) == 18);
  // q 2880 x 4096 + 4096, k and v 2 x (2880 x 512 + 512), out 4096 x 2880 + 2880, 64 sinks.
  CHECK(attention_parameters(model, global) == 26'550'144);
  // Its card: 116.83 billion, 5.13 billion of them active, where the token embedding is not counted.
  CHECK(parameters(model, false) == 116'829'156'672);
  CHECK(parameters(model, true) - embedding_parameters(model) / 2 == 5'132'849'472);
}

TEST_CASE("Qwen3-Next: three of four layers keep a state, one attends with a gate") {
  AttentionKind delta{.name = "gated delta", .mixer = Mixer::gated_delta};
  delta.heads = 32;
  delta.kv_heads = 16;
  delta.head_size = delta.value_size = 128;
  delta.output_gate = true;
  delta.convolution = 4;
  AttentionKind global = grouped(16, 2, 256);
  global.output_gate = global.head_norms = true;
  FeedForwardKind experts = mixture(512, 10, 512);
  experts.shared_width = 512;
  experts.shared_gate = true;
  Model model = uniform(1, 2048, 151936, delta, experts);
  model.attention.push_back(global);
  model.layers.clear();
  for (int block = 0; block < 12; ++block) {
    model.layers.push_back({0, 0, 3});
    model.layers.push_back({1, 0, 1});
  }
  validate(model);
  // q, k 2 x 2048, v 4096 and gate 4096 from 2048; b and g 2 x 32; four taps over 8192; 32 rates, 32 biases,
  // a norm of 128; out 4096 x 2048.
  CHECK(attention_parameters(model, delta) == 2048 * (12288 + 64) + 4 * 8192 + 64 + 128 + 4096 * 2048);
  // q and gate 2 x 2048 x 4096, k and v 2 x 2048 x 512, two norms of 256, out 4096 x 2048.
  CHECK(attention_parameters(model, global) == 3 * 2048 * 4096 + 2 * 2048 * 512 + 512);
  CHECK(parameters(model, false) / 100'000'000 == 796);  // "80B"
  CHECK(parameters(model, true) / 100'000'000 == 38);    // "3B" without both embeddings of 0.3 each
}

TEST_CASE("a head's keys that come from an earlier layer are not projected") {
  AttentionKind own = grouped(8, 2, 16), shared = own;
  shared.shares_keys = true;
  const Model model = uniform(1, 64, 100, own, dense(256));
  CHECK(attention_parameters(model, own) - attention_parameters(model, shared) == 2 * 64 * 2 * 16);
}

TEST_CASE("one matrix for tokens and logits counts once, and a layer may lack a feed-forward part") {
  Model model = uniform(2, 64, 100, grouped(4, 4, 16), dense(256));
  const std::int64_t untied = parameters(model, false);
  model.tied_embeddings = true;
  CHECK(untied - parameters(model, false) == 100 * 64);
  model.feed_forward = {{.name = "none"}};
  CHECK(parameters(model, false) == 100 * 64 + 64 + 2 * (4 * 64 * 64 + 64));
}

TEST_CASE("a model that cannot be is refused by the field that is wrong") {
  const auto key_of = [](const Model& model) -> std::string {
    try {
      validate(model);
      return "";
    } catch (const ModelError& error) {
      return error.key;
    }
  };
  const Model good = uniform(2, 64, 100, grouped(28, 4, 16), dense(256));
  CHECK(key_of(good).empty());
  const auto spoilt = [&](auto change) {
    Model model = good;
    change(model);
    return key_of(model);
  };
  CHECK(spoilt([](Model& m) { m.hidden = 0; }) == "hidden");
  CHECK(spoilt([](Model& m) { m.hidden = std::int64_t{1} << 40; }) == "hidden");
  CHECK(spoilt([](Model& m) { m.vocabulary = -1; }) == "vocabulary");
  CHECK(spoilt([](Model& m) { m.attention[0].kv_heads = 3; }) == "kv_heads");
  CHECK(spoilt([](Model& m) { m.attention[0].window = 0; }) == "window");
  CHECK(spoilt([](Model& m) { m.attention[0].mixer = Mixer::latent; }) == "kv_latent");
  CHECK(spoilt([](Model& m) { m.feed_forward[0].experts = 4; }) == "chosen");
  CHECK(spoilt([](Model& m) { m.layers.clear(); }) == "layers");
  CHECK(spoilt([](Model& m) { m.layers[0].attention = 1; }) == "layers");
  CHECK(spoilt([](Model& m) { m.layers[0].count = 0; }) == "layers");
  // Each size is legal, all together are not: the largest numbers overflow nothing.
  CHECK(spoilt([](Model& m) {
          m.hidden = std::int64_t{1} << 18;
          m.feed_forward[0] = {.name = "e", .width = std::int64_t{1} << 22, .experts = 1 << 14, .chosen = 1};
          m.layers[0].count = 1 << 14;
        }) == "hidden");
  CHECK(divisors_text(28) == "1 2 4 7 14 28");
}
