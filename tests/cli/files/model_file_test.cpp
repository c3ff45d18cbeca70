// Reading model configs: real ones as they are published, the presets, and broken ones.
#include "cli/files/model_file.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/cli/program.hpp"
#include "tests/contains.hpp"

namespace {

using namespace cplab;
using cplab::testing::contains;

// {"model_type": TYPE, ...}, a line a key; the type is in line 2.
std::string config(const std::string& type, const std::vector<std::string>& members) {
  std::string text = "{\n\"model_type\": \"" + type + "\"";
  for (const std::string& member : members) text += ",\n" + member;
  return text + "\n}\n";
}

const std::vector<std::string> small_llama{
    "\"hidden_size\": 64",            // 3
    "\"intermediate_size\": 256",     // 4
    "\"num_hidden_layers\": 4",       // 5
    "\"num_attention_heads\": 8",     // 6
    "\"num_key_value_heads\": 2",     // 7
    "\"vocab_size\": 1000",           // 8
    "\"tie_word_embeddings\": false"  // 9
};

std::vector<std::string> with(std::vector<std::string> members, const std::string& more) {
  members.push_back(more);
  return members;
}

std::string error_of(const std::string& text) {
  try {
    (void)parse_model(text, "config.json");
    return "";
  } catch (const InputError& error) {
    return error.what();
  }
}

std::string kinds_of(const Model& model) {
  std::string text;
  for (const LayerRun& run : model.layers)
    text += (text.empty() ? "" : "; ") + std::to_string(run.count) + " " +
            model.attention[run.attention].name + " + " + model.feed_forward[run.feed_forward].name;
  return text;
}

}  // namespace

TEST_CASE("presets have the parameters that their checkpoints have") {
  struct Known {
    const char* name;
    std::int64_t parameters;
  };
  // Elements of the checkpoints, as their repositories state them.
  for (const Known& known : std::vector<Known>{{"llama3-8b", 8'030'261'248},
                                               {"llama3-70b", 70'553'706'496},
                                               {"llama3-405b", 405'853'388'800},
                                               {"qwen3-0.6b", 596'049'920},
                                               {"qwen3-4b", 4'022'468'096},
                                               {"qwen3-8b", 8'190'735'360},
                                               {"qwen3-32b", 32'762'123'264},
                                               {"qwen3-30b-a3b", 30'532'122'624},
                                               {"qwen3-235b-a22b", 235'093'634'560},
                                               {"qwen2.5-3b", 3'085'938'688},
                                               {"qwen2.5-7b", 7'615'616'512},
                                               {"mistral-7b", 7'248'023'552},
                                               {"deepseek-v2-lite", 15'706'484'224}}) {
    CAPTURE(known.name);
    const Model model = find_model(known.name);
    CHECK(parameters(model, false) == known.parameters);
    CHECK(model.unread.empty());
    CHECK(model.name == known.name);
  }
  // To the digits of their cards: 671 of 37, 116.8, 20.9, 106 of 12, 80 of 3, 141 of 39 billion.
  CHECK(parameters(find_model("deepseek-v3"), false) / 1'000'000'000 == 671);
  CHECK(parameters(find_model("deepseek-v3"), true) / 1'000'000'000 == 37);
  CHECK(parameters(find_model("gpt-oss-120b"), false) / 100'000'000 == 1168);
  CHECK(parameters(find_model("gpt-oss-20b"), false) / 100'000'000 == 209);
  CHECK(parameters(find_model("glm-4.5-air"), false) / 1'000'000'000 == 106);
  CHECK(parameters(find_model("qwen3-next-80b-a3b"), false) / 1'000'000'000 == 79);
  CHECK(parameters(find_model("mixtral-8x22b"), false) / 1'000'000'000 == 140);
  CHECK(parameters(find_model("mixtral-8x22b"), true) / 1'000'000'000 == 39);
}

TEST_CASE("configs of other architectures: parameters as published, kinds in order of depth") {
  // Gemma 2 9B: 9,241,705,984; tied unless it says otherwise, four norms, windows in every second layer.
  const Model gemma2 = parse_model(
      config("gemma2",
             {"\"hidden_size\": 3584", "\"intermediate_size\": 14336", "\"num_hidden_layers\": 42",
              "\"num_attention_heads\": 16", "\"num_key_value_heads\": 8", "\"head_dim\": 256",
              "\"attn_logit_softcapping\": 50.0", "\"sliding_window\": 4096", "\"vocab_size\": 256000"}),
      "gemma.json");
  CHECK(parameters(gemma2, false) == 9'241'705'984);
  CHECK(gemma2.attention.size() == 2);
  CHECK(gemma2.attention[0].name == "window 4096");
  CHECK(gemma2.attention[0].softcap == 50);
  CHECK(gemma2.layers_of_attention(0) == 21);

  // Qwen1.5-MoE-A2.7B: 14,315,784,192; biases of q, k and v, a shared expert with a gate.
  const Model qwen =
      parse_model(config("qwen2_moe",
                         {"\"hidden_size\": 2048", "\"intermediate_size\": 5632", "\"num_hidden_layers\": 24",
                          "\"num_attention_heads\": 16", "\"num_key_value_heads\": 16", "\"num_experts\": 60",
                          "\"num_experts_per_tok\": 4", "\"moe_intermediate_size\": 1408",
                          "\"shared_expert_intermediate_size\": 5632", "\"vocab_size\": 151936"}),
                  "qwen.json");
  CHECK(parameters(qwen, false) == 14'315'784'192);
  CHECK(parameters(qwen, true) == 2'689'173'504);  // "2.7 billion activated"

  // OLMo 2 7B: 7,298,617,344; norms of q and k over all heads.
  const Model olmo = parse_model(
      config("olmo2", {"\"hidden_size\": 4096", "\"intermediate_size\": 11008", "\"num_hidden_layers\": 32",
                       "\"num_attention_heads\": 32", "\"vocab_size\": 100352"}),
      "olmo.json");
  CHECK(parameters(olmo, false) == 7'298'617'344);

  // Mamba-2 2.7B: 2,702,599,680; Python writes Infinity.
  const Model mamba = parse_model(
      config("mamba2", {"\"hidden_size\": 2560", "\"num_hidden_layers\": 64", "\"num_heads\": 80",
                        "\"head_dim\": 64", "\"state_size\": 128", "\"n_groups\": 1", "\"vocab_size\": 50288",
                        "\"tie_word_embeddings\": true", "\"time_step_limit\": [0.0, Infinity]"}),
      "mamba.json");
  CHECK(parameters(mamba, false) == 2'702'599'680);
  CHECK(kinds_of(mamba) == "64 mamba2 + none");
}

TEST_CASE("a config with images is read for its language part, what it leaves out is the architecture's") {
  // Gemma 3 4B names neither heads nor vocabulary; of the 4,300,079,472 parameters of its
  // checkpoint 419,816,304 are those of the vision tower and its projector.
  const Model gemma = parse_model(
      "{\"model_type\": \"gemma3\", \"image_token_index\": 262144, \"text_config\": {\"hidden_size\": 2560,\n"
      "\"intermediate_size\": 10240, \"model_type\": \"gemma3_text\", \"num_hidden_layers\": 34,\n"
      "\"rope_scaling\": {\"factor\": 8.0}, \"sliding_window\": 1024}, \"vision_config\": {\"hidden_size\": "
      "1152}}",
      "models/gemma-3-4b-it/config.json");
  CHECK(parameters(gemma, false) == 4'300'079'472 - 419'816'304);
  CHECK(gemma.name == "gemma-3-4b-it");
  CHECK(gemma.layers_of_attention(0) == 29);  // every sixth of 34 sees all: 5
  CHECK(gemma.unread == std::vector<std::string>{"vision_config"});
  CHECK(gemma.assumed == std::vector<std::string>{"head_dim = 256", "num_attention_heads = 8",
                                                  "num_key_value_heads = 4", "vocab_size = 262208"});
}

TEST_CASE("layers: lists, intervals and steps say which is which") {
  const std::vector<std::string> delta{"\"hidden_size\": 64",
                                       "\"num_hidden_layers\": 8",
                                       "\"num_attention_heads\": 4",
                                       "\"num_key_value_heads\": 2",
                                       "\"head_dim\": 16",
                                       "\"vocab_size\": 100",
                                       "\"linear_num_key_heads\": 2",
                                       "\"linear_num_value_heads\": 4",
                                       "\"linear_key_head_dim\": 8",
                                       "\"linear_value_head_dim\": 8",
                                       "\"num_experts\": 4",
                                       "\"num_experts_per_tok\": 2",
                                       "\"moe_intermediate_size\": 32",
                                       "\"shared_expert_intermediate_size\": 32"};
  CHECK(kinds_of(parse_model(config("qwen3_next", delta), "a")) ==
        "3 gated delta + 4 experts, 2 each; 1 global + 4 experts, 2 each; "
        "3 gated delta + 4 experts, 2 each; 1 global + 4 experts, 2 each");
  CHECK(kinds_of(parse_model(config("qwen3_next", with(delta, "\"full_attention_interval\": 8")), "a")) ==
        "7 gated delta + 4 experts, 2 each; 1 global + 4 experts, 2 each");

  const auto typed = [&](const std::string& types) {
    return kinds_of(
        parse_model(config("qwen3", with(with(small_llama, "\"sliding_window\": 16"), types)), "a"));
  };
  CHECK(typed("\"layer_types\": [\"full_attention\", \"sliding_attention\", \"sliding_attention\", "
              "\"full_attention\"]") == "1 global + dense; 2 window 16 + dense; 1 global + dense");
  CHECK(typed("\"use_sliding_window\": true, \"max_window_layers\": 3") ==
        "3 global + dense; 1 window 16 + dense");
  CHECK(typed("\"use_sliding_window\": false, \"max_window_layers\": 3") == "4 global + dense");

  const auto mistral = [&](const std::string& more) {
    return kinds_of(parse_model(config("mistral", with(small_llama, more)), "a"));
  };
  CHECK(mistral("\"sliding_window\": 16") == "4 window 16 + dense");
  CHECK(mistral("\"sliding_window\": null") == "4 global + dense");
  // As wide as the longest sequence: none.
  CHECK(mistral("\"sliding_window\": 4096, \"max_position_embeddings\": 4096") == "4 global + dense");

  const std::vector<std::string> llama4{"\"hidden_size\": 64",
                                        "\"num_hidden_layers\": 8",
                                        "\"num_attention_heads\": 4",
                                        "\"num_key_value_heads\": 2",
                                        "\"head_dim\": 16",
                                        "\"vocab_size\": 100",
                                        "\"num_local_experts\": 4",
                                        "\"num_experts_per_tok\": 1",
                                        "\"intermediate_size\": 32",
                                        "\"intermediate_size_mlp\": 64",
                                        "\"interleave_moe_layer_step\": 2",
                                        "\"attention_chunk_size\": 512"};
  CHECK(kinds_of(parse_model(config("llama4_text", llama4), "a"))
            .starts_with("1 chunk 512 + dense; 1 chunk 512 + 4 experts, 1 each; 1 chunk 512 + dense; 1 "
                         "global + 4 experts, 1 each"));
}

TEST_CASE("deepseek: dense layers first, none at all without experts, prediction layers") {
  const std::vector<std::string> latent{
      "\"hidden_size\": 64",        "\"intermediate_size\": 128",  "\"num_hidden_layers\": 5",
      "\"num_attention_heads\": 4", "\"kv_lora_rank\": 16",        "\"q_lora_rank\": null",
      "\"qk_nope_head_dim\": 8",    "\"qk_rope_head_dim\": 4",     "\"v_head_dim\": 8",
      "\"vocab_size\": 100",        "\"first_k_dense_replace\": 2"};
  CHECK(kinds_of(parse_model(config("deepseek_v2", latent), "a")) == "5 latent + dense");
  std::vector<std::string> experts = latent;
  for (const char* more :
       {"\"n_routed_experts\": 8", "\"num_experts_per_tok\": 2", "\"moe_intermediate_size\": 32",
        "\"n_shared_experts\": 2", "\"num_nextn_predict_layers\": 1"})
    experts.emplace_back(more);
  const Model model = parse_model(config("deepseek_v3", experts), "a");
  CHECK(kinds_of(model) == "2 latent + dense; 3 latent + 8 experts, 2 each");
  CHECK(model.prediction_layers == 1);
  CHECK(model.feed_forward[1].shared_width == 64);
  CHECK(model.attention[0].head_size == 12);
  CHECK(model.attention[0].query_latent == 0);
}

TEST_CASE("ernie4_5_moe: a span of layers has experts") {
  // ERNIE-4.5-21B-A3B: of 28 layers all but the first have 64 experts, 6 each and 2 shared; 21.8 billion
  // parameters, 3 of them active.
  const std::vector<std::string> members{"\"hidden_size\": 2560",           "\"intermediate_size\": 12288",
                                         "\"num_hidden_layers\": 28",       "\"num_attention_heads\": 20",
                                         "\"num_key_value_heads\": 4",      "\"vocab_size\": 103424",
                                         "\"moe_num_experts\": 64",         "\"moe_k\": 6",
                                         "\"moe_intermediate_size\": 1536", "\"moe_num_shared_experts\": 2",
                                         "\"moe_layer_start_index\": 1",    "\"moe_layer_interval\": 1"};
  for (const char* end : {"\"moe_layer_end_index\": -1", "\"moe_layer_end_index\": 27"}) {
    const Model model = parse_model(config("ernie4_5_moe", with(members, end)), "a");
    CHECK(kinds_of(model) == "1 global + dense; 27 global + 64 experts, 6 each");
    CHECK(parameters(model, false) / 100'000'000 == 218);
    CHECK(parameters(model, true) / 1'000'000'000 == 3);
  }
  CHECK(kinds_of(parse_model(config("ernie4_5_moe", with(members, "\"moe_layer_end_index\": 25")), "a")) ==
        "1 global + dense; 25 global + 64 experts, 6 each; 2 global + dense");
}

TEST_CASE("states: the object of Kimi Linear, the letters of Nemotron-H") {
  // Kimi-Linear-48B-A3B: of 27 layers every fourth and the last attend through latents; one dense layer.
  const Model kimi = parse_model(
      config("kimi_linear",
             {"\"hidden_size\": 2304", "\"intermediate_size\": 9216", "\"num_hidden_layers\": 27",
              "\"num_attention_heads\": 32", "\"kv_lora_rank\": 512", "\"q_lora_rank\": null",
              "\"qk_nope_head_dim\": 128", "\"qk_rope_head_dim\": 64", "\"v_head_dim\": 128",
              "\"vocab_size\": 163840", "\"num_experts\": 256", "\"num_experts_per_token\": 8",
              "\"num_shared_experts\": 1", "\"moe_intermediate_size\": 1024", "\"first_k_dense_replace\": 1",
              "\"linear_attn_config\": {\"full_attn_layers\": [4, 8, 12, 16, 20, 24, 27], \"head_dim\": 128,"
              "\"num_heads\": 32, \"short_conv_kernel_size\": 4, \"kda_layers\": [1]}"}),
      "kimi.json");
  CHECK(kimi.layers_of_attention(0) == 20);
  CHECK(kimi.attention[1].name == "latent");
  // q, k, v and out 4 x 2304 x 4096; gate and decays 2 x (2304 + 4096) x 128; b 2304 x 32; four taps over
  // 12,288; a bias a column, a rate a head, a norm of 128.
  CHECK(attention_parameters(kimi, kimi.attention[0]) ==
        4 * 2304 * 4096 + 2 * 6400 * 128 + 2304 * 32 + 4 * 12288 + 4096 + 32 + 128);
  CHECK(parameters(kimi, false) / 1'000'000'000 == 49);
  CHECK(parameters(kimi, true) / 1'000'000'000 == 3);

  const std::vector<std::string> blocks{"\"hidden_size\": 64",
                                        "\"intermediate_size\": 256",
                                        "\"num_hidden_layers\": 7",
                                        "\"num_attention_heads\": 4",
                                        "\"num_key_value_heads\": 2",
                                        "\"head_dim\": 16",
                                        "\"vocab_size\": 100",
                                        "\"mamba_num_heads\": 8",
                                        "\"mamba_head_dim\": 16",
                                        "\"ssm_state_size\": 32",
                                        "\"n_groups\": 2",
                                        "\"conv_kernel\": 4"};
  CHECK(kinds_of(parse_model(config("nemotron_h", with(blocks, "\"hybrid_override_pattern\": \"M-MM-*-\"")),
                             "a")) ==
        "1 mamba2 + dense; 1 mamba2 + none; 1 mamba2 + dense; 1 global + dense");
  CHECK(kinds_of(
            parse_model(config("nemotron_h", with(blocks,
                                                  "\"layers_block_type\": [\"mamba\", \"mlp\", "
                                                  "\"mamba\", \"mlp\", \"attention\", \"mlp\", \"mamba\"]")),
                        "a")) == "2 mamba2 + dense; 1 global + dense; 1 mamba2 + none");
  const auto wrong = [&](const std::string& pattern) {
    return error_of(config("nemotron_h", with(blocks, "\"hybrid_override_pattern\": \"" + pattern + "\"")));
  };
  CHECK(contains(wrong("M-M"), "config.json:15: hybrid_override_pattern: holds 3 blocks"));
  CHECK(contains(wrong("M--M*-M"), "without an attention or state block"));
  CHECK(contains(wrong("M-X"), "the letter X is not known"));
}

TEST_CASE("keys that nobody knows are listed, those without effect are not") {
  const Model model = parse_model(
      config("llama", with(small_llama,
                           "\"rope_theta\": 1e6, \"bos_token_id\": 1, \"attention_dropout\": 0.0, "
                           "\"quantization_config\": {\"bits\": 4}, \"altup_inputs\": 4, "
                           "\"_source\": \"somewhere\", \"use_new_thing\": false")),
      "a");
  CHECK(model.unread == std::vector<std::string>{"altup_inputs", "quantization_config"});
}

TEST_CASE("an unknown model_type names the known ones, nearest first") {
  const std::string error = error_of(config("qwen3moe", small_llama));
  CHECK(contains(error, "config.json:2: model_type: \"qwen3moe\" is not known; did you mean \"qwen3_moe\"?"));
  CHECK(contains(error, "Legal, nearest first: \"qwen3_moe\", \"qwen3"));
  CHECK(contains(error, "\"deepseek_v3\""));
  CHECK(contains(
      error_of(config("deepseek_v32", small_llama)),
      "model_type: \"deepseek_v32\" attends to keys that an indexer selects, which is not planned. Legal, "
      "nearest first: \"deepseek_v3\""));
  CHECK(contains(error_of("{\"hidden_size\": 64}"), "config.json:1: model_type: missing"));
  CHECK(contains(error_of("{\"model_type\": 3}"), "model_type: must be a string"));
}

TEST_CASE("a missing key is named with the place") {
  const std::vector<std::string> keys{"hidden_size", "intermediate_size", "num_hidden_layers",
                                      "num_attention_heads", "vocab_size"};
  for (const std::string& key : keys) {
    std::vector<std::string> members = small_llama;
    std::erase_if(members, [&](const std::string& each) { return each.starts_with("\"" + key + "\""); });
    CHECK(contains(error_of(config("llama", members)),
                   "config.json:1: " + key + ": missing; legal: a whole number"));
  }
  CHECK(contains(error_of("{\n\"model_type\": \"x\",\n\"text_config\": {\n\"model_type\": \"llama\"}}"),
                 "config.json:3: text_config.hidden_size: missing"));
  CHECK(contains(error_of(config("mixtral", small_llama)), "num_experts: missing"));
  CHECK(contains(error_of(config("mixtral", small_llama)), "or under the name num_local_experts"));
}

TEST_CASE("broken configs: file, line, key and what is legal") {
  struct Bad {
    std::size_t line;  // of small_llama, from 3
    std::string text, key, fragment;
  };
  for (const Bad& bad : std::vector<Bad>{
           {3, "\"hidden_size\": \"64\"", "hidden_size", "must be a whole number from 1 to 262144"},
           {3, "\"hidden_size\": 64.5", "hidden_size", "must be a whole number"},
           {3, "\"hidden_size\": -64", "hidden_size", "must be a whole number from 1"},
           {3, "\"hidden_size\": 99999999999999999999", "hidden_size", "must be a whole number"},
           {3, "\"hidden_size\": null", "hidden_size", "missing"},
           {3, "\"hidden_size\": 60", "head_dim", "no multiple of num_attention_heads = 8"},
           {5, "\"num_hidden_layers\": 0", "num_hidden_layers", "from 1 to 16384"},
           {7, "\"num_key_value_heads\": 3", "num_key_value_heads",
            "must divide num_attention_heads = 8, but is 3; "
            "legal: 1 2 4 8"},
           {9, "\"tie_word_embeddings\": 1", "tie_word_embeddings", "must be true or false"},
           {9, "\"layer_types\": [\"full_attention\"]", "layer_types",
            "holds 1 entries, but num_hidden_layers is 4"},
           {9, "\"layer_types\": [\"full\", \"full\", \"full\", \"full\"]", "layer_types",
            "\"full\" is not known"},
           {9,
            "\"layer_types\": [\"sliding_attention\", \"full_attention\", \"full_attention\", "
            "\"full_attention\"]",
            "sliding_window", "missing"},
           {9,
            "\"layer_types\": [\"linear_attention\", \"full_attention\", \"full_attention\", "
            "\"full_attention\"]",
            "layer_types", "which llama does not have"},
           {9, "\"layer_types\": 4", "layer_types", "must be a list of strings"},
           {9, "\"num_experts\": 8", "num_experts", "has no experts"},
           {9, "\"is_encoder_decoder\": true", "is_encoder_decoder", "not planned"}}) {
    CAPTURE(bad.text);
    std::vector<std::string> members = small_llama;
    members.at(bad.line - 3) = bad.text;
    const std::string error = error_of(config("llama", members));
    CHECK(contains(error, "config.json:"));
    CHECK(contains(error, ": " + bad.key + ": "));
    CHECK(contains(error, bad.fragment));
    if (bad.text.starts_with("\"" + bad.key) && bad.fragment != "missing")
      CHECK(contains(error, "config.json:" + std::to_string(bad.line) + ": "));
  }
  CHECK(contains(error_of("{\"model_type\": \"llama\","), "no JSON"));
  CHECK(contains(error_of("[1, 2]"), "no JSON object"));
  CHECK(contains(error_of(""), "no JSON"));
  CHECK(contains(error_of("{\"model_type\": \"llama\", \"model_type\": \"qwen3\"}"), "occurs twice"));
}

TEST_CASE("find_model: a preset, a file, a folder, or the nearest preset") {
  const TemporaryFolder folder;
  const std::string path = folder.write("config.json", config("llama", small_llama));
  CHECK(find_model(path).layer_count() == 4);
  CHECK(find_model(path.substr(0, path.rfind('/'))).layer_count() == 4);
  CHECK_THROWS_WITH_AS(find_model("llama3-8"), doctest::Contains("did you mean llama3-8b?"), InputError);
  CHECK_THROWS_WITH_AS(find_model(folder.path("none.json")), doctest::Contains("no such model"), InputError);
}

TEST_CASE("list models names every preset with its parameters") {
  const ProgramResult text = run_cplab({"list", "models"});
  CHECK(text.code == 0);
  for (const std::string& name : model_names()) CHECK(contains(text.out, name));
  CHECK(contains(text.out, "671.03"));
  CHECK(contains(text.out, "36 gated delta, 12"));
}
