// Layouts that are common, and the flags by which each framework's own recipes ask for them.
#include <doctest/doctest.h>

#include "tests/decide/emitted.hpp"

using namespace cplab;

namespace {

using Flags = std::map<std::string, std::vector<std::string>>;

void choose(Case& c, const std::string& algorithm, const std::string& placement = "zigzag") {
  for (AttentionChoice& choice : c.layout.attention) choice = {algorithm, placement, {}};
}

// dp 8, everything sharded, nothing else.
Case fsdp_only() {
  Case c = dense();
  c.layout.tp = c.layout.cp = 1;
  c.layout.dp = 8;
  c.layout.zero = 3;
  c.layout.recompute = Recompute::full;
  return c;
}

}  // namespace

TEST_CASE("what is pasted is bash, and a configuration of DeepSpeed is JSON below its comments") {
  Case c = windows();
  c.layout.tp = 1;
  c.layout.cp = 1;
  c.layout.dp = 2;
  CHECK(c.text(Framework::megatron) ==
        "# Megatron-LM, 2 GPUs = tp 1 x cp 1 x pp 1 x dp 2: torchrun ... pretrain_gpt.py "
        "\"${MEGATRON_ARGS[@]}\"\n"
        "MEGATRON_ARGS=(\n"
        "  # a step: micro-batch 1 x 8 times x dp 2 = 16 sequences of 131072 tokens\n"
        "  --tensor-model-parallel-size 1\n"
        "  --context-parallel-size 1\n"
        "  --pipeline-model-parallel-size 1\n"
        "  # dp 2 is what the number of GPUs leaves\n"
        "  --use-distributed-optimizer\n"
        "  --bf16\n"
        "  --window-size 1023,0\n"
        "  --window-attn-skip-freq '[1]*5+[0]*1+[1]*5+[0]*1'\n"
        "  --micro-batch-size 1\n"
        "  --global-batch-size 16\n"
        "  --seq-length 131072\n"
        ")\n");
  c.layout.offload_checkpoints = true;
  CHECK(c.text(Framework::deepspeed) ==
        "# DeepSpeed, 2 GPUs = tp 1 x cp 1 x pp 1 x dp 2: deepspeed ... --deepspeed_config FILE with this "
        "(Hjson: "
        "comments may stay)\n"
        "# a step: micro-batch 1 x 8 times x dp 2 = 16 sequences of 131072 tokens\n"
        "# the program cuts its sequences at 131072 tokens\n"
        "# for checkpoints made by deepspeed.checkpointing alone, not by the model's own\n"
        "{\n"
        "  \"sequence_parallel_size\": 1,\n"
        "  \"train_micro_batch_size_per_gpu\": 1,\n"
        "  \"gradient_accumulation_steps\": 8,\n"
        "  \"train_batch_size\": 16,\n"
        "  \"zero_optimization\": {\n"
        "    \"stage\": 1\n"
        "  },\n"
        "  \"activation_checkpointing\": {\n"
        "    \"cpu_checkpointing\": true\n"
        "  },\n"
        "  \"bf16\": {\n"
        "    \"enabled\": true\n"
        "  }\n"
        "}\n");
}

TEST_CASE("full recompute") {
  Case c = dense();
  c.layout.recompute = Recompute::full;
  const Emitted megatron = c.emitted(Framework::megatron);
  CHECK(megatron.value("--recompute-granularity") == "full");
  CHECK(megatron.value("--recompute-method") == "uniform");
  CHECK(megatron.value("--recompute-num-layers") == "1");
  CHECK(c.emitted(Framework::torchtitan).has("activation-checkpoint:full"));
  CHECK(c.emitted(Framework::verl).value("engine.override_transformer_config.recompute_granularity") ==
        "full");
  CHECK(c.emitted(Framework::ms_swift).value("--recompute_num_layers") == "1");
  CHECK(c.emitted(Framework::deepspeed).says("not expressible: full recompute") == 1);
  c = fsdp_only();
  CHECK(c.emitted(Framework::verl).value("model.enable_gradient_checkpointing") == "True");
  CHECK(c.emitted(Framework::ms_swift).value("--gradient_checkpointing") == "true");
  // Megatron's own offload of kept activations refuses recompute.
  c.layout.offload_checkpoints = true;
  CHECK(!c.emitted(Framework::megatron).has("--cpu-offloading-num-layers"));
  CHECK(c.emitted(Framework::megatron).says("not expressible: kept inputs") == 1);
  c.layout.recompute = Recompute::none;
  CHECK(c.emitted(Framework::megatron).value("--cpu-offloading-num-layers") == "79");
}

TEST_CASE("selective recompute computes feed-forward parts and norms again, not attention") {
  Case c = dense();
  c.layout.recompute = Recompute::selective;
  CHECK(c.emitted(Framework::megatron).value("--recompute-modules") == "mlp layernorm");
  Case e = experts();
  e.layout.recompute = Recompute::selective;
  CHECK(e.emitted(Framework::megatron).value("--recompute-modules") == "moe layernorm");
  CHECK(e.emitted(Framework::verl).value("engine.override_transformer_config.recompute_modules") ==
        "[moe,layernorm]");
  c.training.dtype = "fp8";
  CHECK(c.emitted(Framework::megatron).value("--recompute-modules") == "mlp");
  CHECK(c.emitted(Framework::megatron).says("not expressible: that norms") == 1);
}

TEST_CASE("experts over ranks that the rest shares otherwise") {
  const Case c = experts();
  const Emitted megatron = c.emitted(Framework::megatron);
  CHECK(megatron.value("--expert-model-parallel-size") == "4");
  CHECK(megatron.value("--expert-tensor-parallel-size") == "1");
  CHECK(c.emitted(Framework::torchtitan).value("--parallelism.expert_parallel_degree") == "4");
  CHECK(c.emitted(Framework::verl).value("engine.expert_model_parallel_size") == "4");
  CHECK(c.emitted(Framework::ms_swift).value("--expert_model_parallel_size") == "4");
  const Emitted speed = c.emitted(Framework::deepspeed);
  CHECK(speed.value("expert_parallel.enabled") == "true");
  CHECK(speed.value("expert_parallel.autoep_size") == "4");
  CHECK(speed.says("illegal here: tensor and sequence parallelism") == 1);
  CHECK(c.emitted(Framework::vllm).has("--enable-expert-parallel"));
  Case wrong = c;
  wrong.layout.etp = 2;
  CHECK(wrong.emitted(Framework::deepspeed).says("illegal here: experts cut over etp 2") == 1);
  CHECK(wrong.emitted(Framework::megatron).says("illegal here") == 0);
  wrong.layout.etp = 1;
  wrong.layout.ep = 3;  // of 128 experts, and of 16 ranks
  CHECK(wrong.emitted(Framework::megatron).says("illegal here") == 2);
  wrong = dense();
  wrong.layout.ep = 2;
  CHECK(wrong.emitted(Framework::torchtitan).says("illegal here: ep 2") == 1);
}

TEST_CASE("FSDP alone") {
  const Case c = fsdp_only();
  const Emitted megatron = c.emitted(Framework::megatron);
  CHECK(megatron.has("--use-megatron-fsdp"));
  CHECK(megatron.value("--data-parallel-sharding-strategy") == "optim_grads_params");
  CHECK(megatron.value("--ckpt-format") == "fsdp_dtensor");
  CHECK(!megatron.has("--cp-comm-type"));
  CHECK(!megatron.has("--sequence-parallel"));
  const Emitted titan = c.emitted(Framework::torchtitan);
  CHECK(titan.value("--parallelism.data_parallel_shard_degree") == "8");
  CHECK(titan.value("--parallelism.data_parallel_replicate_degree") == "1");
  CHECK(titan.value("--parallelism.fsdp_reshard_after_forward") == "always");
  CHECK(titan.says("not expressible") == 0);
  const Emitted verl = c.emitted(Framework::verl);
  CHECK(verl.has("engine=fsdp"));
  CHECK(verl.value("engine.fsdp_size") == "-1");
  CHECK(verl.value("engine.reshard_after_forward") == "True");
  CHECK(verl.value("engine.ulysses_sequence_parallel_size") == "1");
  const Emitted swift = c.emitted(Framework::ms_swift);
  CHECK(swift.launch.ends_with(": swift sft \"${SWIFT_ARGS[@]}\""));
  CHECK(swift.value("--deepspeed") == "zero3");
  CHECK(swift.value("--per_device_train_batch_size") == "1");
  CHECK(swift.value("--gradient_accumulation_steps") == "8");
  CHECK(c.emitted(Framework::deepspeed).value("zero_optimization.stage") == "3");
  Case replicas = c;
  replicas.layout.zero = 0;
  CHECK(replicas.emitted(Framework::verl).value("engine.fsdp_size") == "1");
  CHECK(replicas.emitted(Framework::torchtitan).value("--parallelism.data_parallel_replicate_degree") == "8");
  // Megatron-LM's stages 0 to 2.
  for (const int zero : {0, 1, 2}) {
    Case other = c;
    other.layout.zero = zero;
    const Emitted out = other.emitted(Framework::megatron);
    CHECK(out.has("--use-distributed-optimizer") == (zero > 0));
    CHECK(out.has("--use-megatron-fsdp") == (zero == 2));
  }
}

TEST_CASE("Ulysses of verl, ms-swift and DeepSpeed") {
  Case c = fsdp_only();
  c.layout.cp = 4;
  c.layout.dp = 2;
  choose(c, "all_to_all", "contiguous");
  const Emitted verl = c.emitted(Framework::verl);
  CHECK(verl.value("engine.ulysses_sequence_parallel_size") == "4");
  CHECK(verl.value("model.use_remove_padding") == "True");
  CHECK(verl.says("not expressible") == 0);
  const Emitted swift = c.emitted(Framework::ms_swift);
  CHECK(swift.value("--sequence_parallel_size") == "4");
  CHECK(!swift.has("--padding_free"));
  const Flags expected = {{"sequence_parallel_size", {"4"}},
                          {"zero_optimization.stage", {"3"}},
                          {"bf16.enabled", {"true"}},
                          {"train_micro_batch_size_per_gpu", {"1"}},
                          {"gradient_accumulation_steps", {"8"}},
                          {"train_batch_size", {"16"}}};
  CHECK(c.emitted(Framework::deepspeed).flags == expected);
  // 28 heads over 8 ranks: refused, except by ms-swift, where 4 trade heads and a ring of 2 joins them.
  c.model.attention[0].heads = 28;
  c.model.attention[0].kv_heads = 4;
  c.layout.cp = 8;
  CHECK(c.emitted(Framework::verl).says("illegal here: 28 heads") == 1);
  CHECK(c.emitted(Framework::deepspeed).says("illegal here: 28 heads") == 1);
  c.layout.attention[0] = {"hierarchical", "zigzag", {{{"inner_ranks", std::int64_t{4}}}}};
  const Emitted mixed = c.emitted(Framework::ms_swift);
  CHECK(mixed.value("--sequence_parallel_size") == "8");
  CHECK(mixed.value("--padding_free") == "true");
  CHECK(mixed.says("of 8 ranks 4 trade heads") == 1);
  CHECK(mixed.says("not expressible") == 0);
  // Fewer key/value heads than ranks are repeated by both; 4 over 6 is neither.
  c.model.attention[0].heads = 24;
  c.layout.attention[0] = {"all_to_all", "contiguous", {}};
  CHECK(c.emitted(Framework::verl).says("illegal here") == 0);
  c.layout.cp = 6;
  CHECK(c.emitted(Framework::verl).says("illegal here: 4 key/value heads") == 1);
}

TEST_CASE("a ring of verl and ms-swift goes to their Megatron engines") {
  const Emitted verl = dense().emitted(Framework::verl);
  CHECK(verl.has("engine=megatron"));
  CHECK(verl.value("engine.context_parallel_size") == "4");
  CHECK(verl.value("+engine.override_transformer_config.cp_comm_type") == "p2p");
  CHECK(verl.value("engine.sequence_parallel") == "True");
  CHECK(verl.value("data.train_batch_size") == "16");
  const Emitted swift = dense().emitted(Framework::ms_swift);
  CHECK(swift.launch.find(": megatron sft ") != std::string::npos);
  CHECK(swift.value("--cp_comm_type") == "p2p");
  CHECK(swift.value("--global_batch_size") == "16");
  CHECK(swift.value("--max_length") == "131072");
  Case contiguous = dense();
  choose(contiguous, "all_gather", "contiguous");
  CHECK(contiguous.emitted(Framework::ms_swift).value("--cp_partition_mode") == "contiguous");
  CHECK(contiguous.emitted(Framework::megatron).says("not expressible: placement contiguous") == 1);
}

TEST_CASE("torchtitan gathers K and V") {
  Case c = dense();
  c.layout.zero = 2;
  c.layout.loss_chunks = 8;
  choose(c, "all_gather");
  Emitted out = c.emitted(Framework::torchtitan);
  CHECK(out.value("--parallelism.context_parallel_degree") == "4");
  CHECK(out.value("--parallelism.context_parallel_load_balancer") == "headtail");
  CHECK(out.value("--parallelism.fsdp_reshard_after_forward") == "never");
  CHECK(out.value("--training.num_tokens_per_train_step") == "2097152");  // 16 x 131072
  CHECK(out.value("--loss.num_chunks") == "8");
  CHECK(out.says("not expressible") == 0);
  choose(c, "all_gather", "contiguous");
  CHECK(c.emitted(Framework::torchtitan).value("--parallelism.context_parallel_load_balancer") == "None");
  choose(c, "ring");
  CHECK(
      c.emitted(Framework::torchtitan).says("not expressible: ring of global layers; all_gather stands in") ==
      1);
  c.layout.pp = 4;
  c.layout.pipeline_chunks = 2;
  out = c.emitted(Framework::torchtitan);
  CHECK(out.value("--parallelism.pipeline_parallel_schedule") == "Interleaved1F1B");
  CHECK(out.value("--parallelism.pipeline_parallel_layers_per_stage") == "10");  // 80 / (4 x 2)
  CHECK(out.value("--parallelism.num_pp_microbatches") == "8");
}

TEST_CASE("a pipeline whose stages hold several pieces") {
  Case c = dense();
  c.layout.pp = 4;
  c.layout.pipeline_chunks = 2;
  CHECK(c.emitted(Framework::megatron).value("--num-virtual-stages-per-pipeline-rank") == "2");
  CHECK(c.emitted(Framework::ms_swift).value("--virtual_pipeline_model_parallel_size") == "2");
  CHECK(c.emitted(Framework::verl).value("engine.virtual_pipeline_model_parallel_size") == "2");
  CHECK(c.emitted(Framework::deepspeed).says("not expressible: a pipeline of 4 stages") == 1);
  c.layout.pipeline_chunks = 3;  // 80 layers over 12
  CHECK(c.emitted(Framework::megatron).says("illegal here: 80 layers do not divide into 12 pieces") == 1);
}

TEST_CASE("LoRA, and what goes to the host") {
  Case c = fsdp_only();
  c.training.lora_rank = 16;
  CHECK(c.emitted(Framework::verl).value("model.lora_rank") == "16");
  CHECK(c.emitted(Framework::ms_swift).value("--tuner_type") == "lora");
  CHECK(c.emitted(Framework::ms_swift).value("--lora_rank") == "16");
  CHECK(c.emitted(Framework::megatron).says("not expressible: LoRA of rank 16") == 1);
  CHECK(c.emitted(Framework::vllm).value("--max-lora-rank") == "16");
  c.layout.tp = 2;
  CHECK(c.emitted(Framework::verl).value("model.lora.rank") == "16");
  c.training.lora_rank = 0;
  CHECK(c.emitted(Framework::ms_swift).value("--tuner_type") == "full");
  c.layout.offload_optimizer = true;
  c.layout.zero = 1;
  const Emitted megatron = c.emitted(Framework::megatron);
  CHECK(megatron.has("--optimizer-cpu-offload"));
  CHECK(megatron.has("--use-precision-aware-optimizer"));
  CHECK(c.emitted(Framework::verl).value("+optim.override_optimizer_config.optimizer_cpu_offload") == "True");
  CHECK(c.emitted(Framework::deepspeed).value("zero_optimization.offload_optimizer.device") == "\"cpu\"");
  c.layout.tp = 1;
  CHECK(c.emitted(Framework::ms_swift).value("--deepspeed") == "zero2_offload");
  c.layout.zero = 0;
  CHECK(c.emitted(Framework::megatron).says("illegal here: an optimizer on the host") == 1);
}

TEST_CASE("lengths: zigzag wants 2 cp pieces, packed ones fill a budget of tokens") {
  Case c = dense();
  c.training.sequence = 131076;
  CHECK(c.emitted(Framework::megatron).says("illegal here: 131076 tokens") == 1);  // 8 x 16384 + 4
  c.training.lengths = {{4096, 0.7}, {131072, 0.3}};
  c.training.sequence = 0;
  const Emitted verl = c.emitted(Framework::verl);
  CHECK(verl.value("data.use_dynamic_bsz") == "True");
  CHECK(verl.value("data.max_token_len_per_gpu") == "32768");  // 131072 / 4, which verl multiplies by cp
  CHECK(!verl.has("data.micro_batch_size_per_gpu"));
  CHECK(verl.says("4096 tokens in a share of 0.7, 131072 tokens in a share of 0.3") == 1);
  CHECK(c.emitted(Framework::ms_swift).value("--packing") == "true");
  CHECK(c.emitted(Framework::megatron).value("--seq-length") == "131072");
}

TEST_CASE("servers: cp of a prompt is apart from tp, cp of decoding is inside it") {
  Case c = dense();
  c.layout = ModelLayout{};
  c.layout.tp = 8;
  c.layout.cp = 4;
  c.layout.zero = 0;
  c.layout.attention = {{"all_gather", "zigzag", {}}};
  c.training.mode = Mode::prefill;
  const Flags prompts = {{"--tensor-parallel-size", {"8"}},
                         {"--prefill-context-parallel-size", {"4"}},
                         {"--pipeline-parallel-size", {"1"}},
                         {"--data-parallel-size", {"1"}},
                         {"--max-model-len", {"131072"}},
                         {"--max-num-seqs", {"1"}},
                         {"--dtype", {"bfloat16"}}};
  Emitted vllm = c.emitted(Framework::vllm);
  CHECK(vllm.flags == prompts);
  CHECK(vllm.says("not expressible") == 0);
  Emitted sglang = c.emitted(Framework::sglang);
  CHECK(sglang.value("--tp-size") == "32");
  CHECK(sglang.value("--attn-cp-size") == "4");
  CHECK(sglang.value("--cp-strategy") == "zigzag");
  CHECK(sglang.has("--enable-prefill-cp"));
  CHECK(sglang.says("not expressible") == 0);
  CHECK(c.emitted(Framework::megatron).says("not expressible: prefill") == 1);

  c.training.mode = Mode::decode;
  c.layout.attention[0].placement = "striped";
  vllm = c.emitted(Framework::vllm);
  CHECK(vllm.value("--tensor-parallel-size") == "32");
  CHECK(vllm.value("--decode-context-parallel-size") == "4");
  CHECK(!vllm.has("--prefill-context-parallel-size"));
  CHECK(vllm.says("not expressible") == 0);
  CHECK(vllm.says("illegal here") == 0);  // 32 ranks over 8 key/value heads leave 4 for each
  CHECK(c.emitted(Framework::sglang).value("--dcp-size") == "4");
  c.layout.tp = 2;  // 8 ranks over 8 heads leave 1
  CHECK(c.emitted(Framework::vllm).says("illegal here: 8 key/value heads") == 1);
  c.layout.tp = 8;
  c.model.attention[0].heads = 48;  // 6 query heads for each key/value head, over cp 4
  CHECK(c.emitted(Framework::vllm).says("illegal here: 6 query heads") == 1);
  c.training.dtype = "fp8";
  CHECK(c.emitted(Framework::vllm).value("--quantization") == "fp8");
  c.model.max_positions = 131072;
  CHECK(c.emitted(Framework::vllm).says("positions") == 0);
  c.model.max_positions = 131071;
  CHECK(c.emitted(Framework::vllm).says("illegal here: 131072 tokens beyond the 131071 positions") == 1);
  CHECK(c.emitted(Framework::sglang).says("illegal here: 131072 tokens beyond the 131071 positions") == 1);
}

TEST_CASE("precision") {
  Case c = dense();
  c.training.dtype = "fp8";
  const Emitted megatron = c.emitted(Framework::megatron);
  CHECK(megatron.has("--bf16"));
  CHECK(megatron.value("--fp8-format") == "hybrid");
  CHECK(c.emitted(Framework::ms_swift).value("--fp8_format") == "hybrid");
  CHECK(c.emitted(Framework::torchtitan).says("not expressible: fp8") == 1);
  CHECK(c.emitted(Framework::deepspeed).says("not expressible: fp8") == 1);
  c.training.dtype = "fp16";
  CHECK(c.emitted(Framework::megatron).has("--fp16"));
  CHECK(!c.emitted(Framework::megatron).has("--bf16"));
  CHECK(c.emitted(Framework::deepspeed).has("fp16.enabled"));
}
