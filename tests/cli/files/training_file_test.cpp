// Sections [model] and [training]: what they mean, and what they refuse.
#include "cli/files/training_file.hpp"

#include <doctest/doctest.h>

#include "cli/files/model_file.hpp"
#include "tests/cli/program.hpp"
#include "tests/contains.hpp"

namespace {

using namespace cplab;
using cplab::testing::contains;

Model model_of(const std::string& lines) {
  return read_model(Table::parse("[model]\n" + lines, "study.toml").table("model"), "");
}

Training training_of(const std::string& lines) {
  return read_training(Table::parse("[training]\n" + lines, "study.toml").table("training"));
}

template <class Read>
std::string error_of(Read read) {
  try {
    (void)read();
    return "";
  } catch (const InputError& error) {
    return error.what();
  }
}

constexpr const char* by_hand = "layers = 12\nhidden = 64\nffn = 256\nvocabulary = 1000\nheads = 8\n";

}  // namespace

TEST_CASE("a model by hand: the sizes, grouped heads, windows, experts") {
  const Model dense = model_of(std::string(by_hand) + "kv_heads = 2\n");
  // 12 x (2 x 64^2 + 2 x 64 x 16 + 3 x 64 x 256 + 2 x 64) + 2 x 1000 x 64 + 64.
  CHECK(parameters(dense, false) == 12 * (8192 + 2048 + 49152 + 128) + 128'000 + 64);
  CHECK(dense.attention[0].head_size == 8);

  const Model windows = model_of(std::string(by_hand) + "window = \"4K\"\nglobal_every = 6\n");
  REQUIRE(windows.attention.size() == 2);
  CHECK(windows.attention[0].name == "window 4096");
  CHECK(windows.attention[1].name == "global");
  CHECK(windows.layer_count() == 12);
  CHECK(windows.layers_of_attention(1) == 2);

  const Model experts = model_of(
      "layers = 2\nhidden = 64\nvocabulary = 1000\nheads = 8\nexperts = 16\nexperts_per_token = "
      "2\nexpert_ffn = 32\n");
  CHECK(parameters(experts, false) - parameters(experts, true) == 2 * 14 * 3 * 64 * 32);
}

TEST_CASE("a preset with changes: fewer layers, other widths") {
  const Model model = model_of("preset = \"llama3-70b\"\nlayers = 12\n");
  CHECK(model.layer_count() == 12);
  // A twelfth of a layer's worth of rows: 855,654,400 a layer, 2,101,354,496 around them (model_test.cpp).
  CHECK(parameters(model, false) == 12 * std::int64_t{855'654'400} + 2'101'354'496);
  CHECK(model_of("preset = \"llama3-8b\"\nlayers = 64\n").layer_count() == 64);

  const Model deepseek = model_of("preset = \"deepseek-v3\"\nlayers = 5\nexperts = 64\n");
  CHECK(deepseek.layer_count() == 5);
  REQUIRE(deepseek.layers.size() == 2);
  CHECK(deepseek.layers[0].count == 3);
  CHECK(deepseek.feed_forward[1].name == "64 experts, 8 each");

  const Model window = model_of("preset = \"llama3-8b\"\nwindow = 4096\n");
  CHECK(window.attention[0].window == 4096);
  const Model oss = model_of("preset = \"gpt-oss-120b\"\nwindow = 512\n");
  CHECK(oss.attention[0].window == 512);
  CHECK(oss.attention[1].window == -1);
  CHECK(model_of("preset = \"llama3-8b\"\nname = \"mine\"\n").name == "mine");
}

TEST_CASE("a config beside the scenario") {
  const TemporaryFolder folder;
  folder.write("config.json",
               "{\"model_type\": \"llama\", \"hidden_size\": 64, \"intermediate_size\": 128, "
               "\"num_hidden_layers\": 3, \"num_attention_heads\": 4, \"vocab_size\": 100}");
  const Table table = Table::parse("[model]\nconfig = \"config.json\"\n", folder.path("study.toml"));
  CHECK(read_model(table.table("model"), folder.path("study.toml")).layer_count() == 3);
  CHECK(contains(error_of([&] { return read_model(table.table("model"), ""); }),
                 "model.config: \"config.json\" is not there"));
}

TEST_CASE("[model] refuses what no model has, with file, line and key") {
  struct Bad {
    std::string lines, where, fragment;
  };
  for (const Bad& bad : std::vector<Bad>{
           {"preset = \"llama3-7b\"\n", "study.toml:2: model.preset: ", "\"llama3-7b\" is not known"},
           {"preset = \"llama3-8b\"\nconfig = \"a\"\n",
            "study.toml:2: model.preset: ", "goes without config"},
           {"layers = 3\n", "study.toml:1: model.hidden: ", "missing; a model by hand needs"},
           {std::string(by_hand) + "kv_heads = 3\n", "study.toml:7: model.kv_heads: ", "legal: 1 2 4 8"},
           {std::string(by_hand) + "head_dim = 3\n",
            "study.toml:7: model.head_dim: ", "did you mean \"head_size\"?"},
           {std::string(by_hand) + "global_every = 3\n", "model.global_every: ", "needs window"},
           {std::string(by_hand) + "expert_ffn = 3\n", "model.expert_ffn: ", "needs experts"},
           {"preset = \"deepseek-v3\"\nlayers = 62\n", "study.toml:3: model.layers: ", "legal: from 1 to 61"},
           {"preset = \"deepseek-v3\"\nkv_heads = 8\n", "model.kv_heads: ", "no layer of softmax attention"},
           {"preset = \"llama3-8b\"\nexperts = 8\n", "model.experts: ", "the model has no experts"},
           {"preset = \"llama3-8b\"\nheads = 12\n", "model.", "must divide heads = 12"},
           {"preset = \"qwen3-30b-a3b\"\nexperts_per_token = 500\n",
            "study.toml:3: model.experts_per_token: ", "from 1 to 128"},
           {"preset = \"llama3-8b\"\nwindow = 0\n", "model.window: ", "legal: -1"},
           {"preset = \"llama3-8b\"\nlayers = \"twelve\"\n", "model.layers: ", "must be an integer"},
           {"preset = \"llama3-8b\"\nbias = true\n", "model.bias: ", "only a model by hand"}}) {
    CAPTURE(bad.lines);
    const std::string error = error_of([&] { return model_of(bad.lines); });
    CAPTURE(error);
    CHECK(contains(error, bad.where));
    CHECK(contains(error, bad.fragment));
  }
}

TEST_CASE("[training]: every key, and what is meant without it") {
  const Training least = training_of("gpus = 8\nsequence = \"128K\"\n");
  CHECK(least.gpus == 8);
  CHECK(least.sequence == 131072);
  CHECK(least.mode == Mode::training);
  CHECK(least.tp == 0);
  CHECK(least.zero == -1);
  CHECK_FALSE(least.recompute_given);
  CHECK(least.parameter_bytes == 2);
  CHECK(least.gradient_bytes == 4);
  CHECK(least.master_bytes == 4);
  CHECK(least.optimizer_bytes == 8);

  const Training all = training_of(
      "gpus = 64\nlengths = [[\"128K\", 3], [4096, 7]]\nbalanced = true\ntokens_per_step = \"4M\"\n"
      "micro_batch = 2\ntp = 2\ncp = 4\npp = 2\ndp = 4\nep = 8\netp = 1\npipeline_chunks = 2\nfsdp = true\n"
      "recompute = \"full\"\ndtype = \"fp8\"\nparameter_dtype = \"fp32\"\ngradient_dtype = \"bf16\"\n"
      "master_dtype = \"none\"\noptimizer = \"muon\"\noptimizer_dtype = \"bf16\"\nlora_rank = "
      "16\nloss_chunks = 8\n"
      "offload_checkpoints = true\noffload_optimizer = true\nhost_bytes = \"2TiB\"\n"
      "offload_parameters = true\noverlap_tensor = false\nfused_kernels = false\nfeed_forward_chunks = 4\n");
  REQUIRE(all.lengths.size() == 2);
  CHECK(all.lengths[0].first == 4096);  // by length
  CHECK(all.lengths[0].second == doctest::Approx(0.7));
  CHECK(all.lengths[1].second == doctest::Approx(0.3));
  CHECK(all.balanced);
  CHECK(all.tokens_per_step == 4 << 20);
  CHECK(all.micro_batch == 2);
  CHECK(all.dp == 4);
  CHECK(all.ep == 8);
  CHECK(all.pipeline_chunks == 2);
  CHECK(all.zero == 3);
  CHECK(all.recompute_given);
  CHECK(all.recompute == Recompute::full);
  CHECK(all.dtype == "fp8");
  CHECK(all.parameter_bytes == 4);
  CHECK(all.gradient_bytes == 2);
  CHECK(all.master_bytes == 0);
  CHECK(all.optimizer_bytes == 2);
  CHECK(all.lora_rank == 16);
  CHECK(all.loss_chunks == 8);
  CHECK(all.offload_checkpoints);
  CHECK(all.offload_optimizer);
  CHECK(all.host_bytes == std::int64_t{2} << 40);
  CHECK(all.offload_parameters);
  CHECK_FALSE(all.overlap_tensor);
  CHECK_FALSE(all.fused_kernels);
  CHECK(all.feed_forward_chunks == 4);
  CHECK(least.overlap_tensor);
  CHECK(least.fused_kernels);
  CHECK(training_of("gpus = 8\nsequence = 1\nzero = 2\n").zero == 2);
  CHECK(training_of("gpus = 8\nsequence = 1\nfsdp = false\n").zero == 1);
  CHECK(training_of("gpus = 8\nsequence = 1\nmode = \"prefill\"\n").mode == Mode::prefill);
}

TEST_CASE("[training] refuses what cannot be, with file, line and key") {
  struct Bad {
    std::string lines, where, fragment;
  };
  for (const Bad& bad : std::vector<Bad>{
           {"sequence = 1\n", "study.toml:1: training.gpus: ", "missing"},
           {"gpus = 0\nsequence = 1\n", "study.toml:2: training.gpus: ", "from 1 to"},
           {"gpus = 8\n", "training.sequence: ", "or lengths"},
           {"gpus = 8\nsequence = 1\noffload_parameters = true\n",
            "training.offload_parameters: ", "zero = 3"},
           {"gpus = 8\nsequence = 1\nfeed_forward_chunks = 0\n", "training.feed_forward_chunks: ", "from 1"},
           {"gpus = 8\nsequence = 1\nlengths = [[1, 1]]\n",
            "study.toml:3: training.sequence: ", "goes without"},
           {"gpus = 8\nlengths = []\n", "training.lengths: ", "is empty"},
           {"gpus = 8\nlengths = [[4096]]\n", "training.lengths: ", "holds 1 numbers"},
           {"gpus = 8\nlengths = [[4096, -1]]\n", "training.lengths: ", "not above 0"},
           {"gpus = 8\nlengths = [[4096, inf]]\n", "training.lengths: ", "must be finite"},
           {"gpus = 8\nlengths = [[0.5, 1]]\n", "training.lengths: ", "no whole number"},
           {"gpus = 8\nlengths = [[8, 1], [8, 2]]\n", "training.lengths: ", "there twice"},
           {"gpus = 8\nlengths = 4096\n", "training.lengths: ", "must be a list of lists"},
           {"gpus = 8\nsequence = 1\nbalanced = true\n", "training.balanced: ", "needs lengths"},
           {"gpus = 8\nsequence = 1\ntp = 3\n",
            "study.toml:4: training.tp: ", "tp = 3 does not divide gpus = 8; legal: 1 2 4 8"},
           {"gpus = 8\nsequence = 1\ntp = 4\ncp = 4\n", "training.cp: ",
            "tp x cp = 16 does not divide gpus = 8; "
            "legal: 1 2"},
           {"gpus = 8\nsequence = 1\ntp = 2\ncp = 2\npp = 1\ndp = 1\n",
            "training.gpus: ", "tp x cp x pp x dp = 4; legal: gpus = 4, or dp = 2"},
           {"gpus = 8\nsequence = 1\npp = 2\nep = 8\n",
            "training.ep: ", "does not divide the 4 GPUs of a stage"},
           {"gpus = 8\nsequence = 1\nfsdp = true\nzero = 1\n", "training.fsdp: ", "goes without zero"},
           {"gpus = 8\nsequence = 1\nzero = 4\n", "training.zero: ", "from 0 to 3"},
           {"gpus = 8\nsequence = 1\nrecompute = \"some\"\n", "training.recompute: ", "\"selective\""},
           {"gpus = 8\nsequence = 1\ndtype = \"fp32\"\n", "training.dtype: ", "\"bf16\""},
           {"gpus = 8\nsequence = 1\nmode = \"prefill\"\nrecompute = \"full\"\n",
            "study.toml:5: training.recompute: ", "only training has it"},
           {"gpus = 8\nsequence = 4096\ntokens_per_step = 1024\n",
            "training.tokens_per_step: ", "less than one micro-batch"},
           {"gpus = 8\nsequence = 1\nhost_bytes = \"2 apples\"\n", "training.host_bytes: ", ""},
           {"gpus = 8\nsequence = 1\npp = 1\npipeline_chunks = 2\n",
            "training.pipeline_chunks: ", "legal with pp = 1: 1"},
           {"gpus = 8\nsequence = 1\ntensor_parallel = 2\n",
            "training.tensor_parallel: ", "did you mean \"tp\"?"},
           {"gpus = 8\nsequence = 1\ncontext_parallel_size = 2\n",
            "training.context_parallel_size: ", "did you mean \"cp\"?"}}) {
    CAPTURE(bad.lines);
    const std::string error = error_of([&] { return training_of(bad.lines); });
    CAPTURE(error);
    CHECK(contains(error, bad.where));
    CHECK(contains(error, bad.fragment));
  }
}

TEST_CASE("degrees that the model does not allow name those that it does") {
  const auto error = [](const std::string& preset, const std::string& lines) {
    const Table table = Table::parse("[training]\nsequence = 4096\n" + lines, "study.toml").table("training");
    const Model model = find_model(preset);
    return error_of([&] {
      require_legal(table, read_training(table), model);
      return 0;
    });
  };
  // Qwen2.5-7B has 28 heads.
  CHECK(contains(
      error("qwen2.5-7b", "gpus = 24\ntp = 3\n"),
      "study.toml:4: training.tp: tp = 3: layers of kind \"global\" have 28 heads; legal: 1 2 4 7 14 28"));
  CHECK(error("qwen2.5-7b", "gpus = 28\ntp = 14\n").empty());
  CHECK(contains(error("qwen3-30b-a3b", "gpus = 12\nep = 3\n"), "128 experts; legal: 1 2 4 8 16 32 64 128"));
  CHECK(contains(error("qwen3-30b-a3b", "gpus = 64\npp = 64\n"), "48 layers"));
  CHECK(contains(error("qwen3-30b-a3b", "gpus = 64\npp = 32\npipeline_chunks = 2\n"), "legal: from 1 to 1"));
  CHECK(contains(error("llama3-8b", "gpus = 8\nep = 2\n"), "no experts; legal: 1"));
  CHECK(why_illegal("cp", 7, find_model("llama3-8b")).empty());
}
