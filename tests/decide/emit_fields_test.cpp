// Nothing of a layout is left out: whatever changes in it changes a flag or a comment of every framework, and
// the degrees that are emitted multiply to its GPUs.
#include <doctest/doctest.h>

#include <functional>
#include <set>

#include "tests/decide/emitted.hpp"

using namespace cplab;

namespace {

// Of one field several values, as changes of a case.
struct Field {
  std::string name;
  std::vector<std::function<void(Case&)>> values;
};

template <class Member>
Field of_layout(const std::string& name, Member ModelLayout::*member, const std::vector<Member>& values) {
  Field field{name, {}};
  for (const Member& value : values) field.values.emplace_back([=](Case& c) { c.layout.*member = value; });
  return field;
}

template <class Member>
Field of_training(const std::string& name, Member Training::*member, const std::vector<Member>& values) {
  Field field{name, {}};
  for (const Member& value : values) field.values.emplace_back([=](Case& c) { c.training.*member = value; });
  return field;
}

Field of_choice(const std::string& name, std::string AttentionChoice::*member,
                const std::vector<std::string>& values) {
  Field field{name, {}};
  for (const std::string& value : values)
    field.values.emplace_back([=](Case& c) { c.layout.attention.back().*member = value; });
  return field;
}

Field of_option(const std::string& algorithm, const std::string& key,
                const std::vector<OptionValue>& values) {
  Field field{algorithm + "." + key, {}};
  for (const OptionValue& value : values)
    field.values.emplace_back([=](Case& c) {
      c.layout.attention.back().algorithm = algorithm;
      c.layout.attention.back().schedule.set(key, value);
    });
  return field;
}

std::vector<Field> fields() {
  using Count = std::int64_t;
  return {
      of_layout<Count>("tp", &ModelLayout::tp, {1, 2, 4}),
      of_layout<Count>("cp", &ModelLayout::cp, {1, 2, 4}),
      of_layout<Count>("pp", &ModelLayout::pp, {1, 2, 4}),
      of_layout<Count>("dp", &ModelLayout::dp, {1, 2, 4}),
      of_layout<Count>("ep", &ModelLayout::ep, {1, 2, 4, 8}),
      of_layout<Count>("etp", &ModelLayout::etp, {1, 2, 4}),
      of_layout<Count>("pipeline_chunks", &ModelLayout::pipeline_chunks, {1, 2, 3}),
      of_layout<Count>("micro_batch", &ModelLayout::micro_batch, {1, 2, 4}),
      of_layout<Count>("micro_batches", &ModelLayout::micro_batches, {1, 2, 8}),
      of_layout<int>("zero", &ModelLayout::zero, {0, 1, 2, 3}),
      of_layout<Recompute>("recompute", &ModelLayout::recompute,
                           {Recompute::none, Recompute::selective, Recompute::full}),
      of_layout<Count>("loss_chunks", &ModelLayout::loss_chunks, {1, 2, 8}),
      of_layout<bool>("offload_checkpoints", &ModelLayout::offload_checkpoints, {false, true}),
      of_layout<bool>("offload_optimizer", &ModelLayout::offload_optimizer, {false, true}),
      of_choice("algorithm", &AttentionChoice::algorithm,
                {"ring", "all_gather", "all_to_all", "hierarchical", "usp", "head_strided", "lasp_all_gather",
                 "affine_all_gather"}),
      of_choice("placement", &AttentionChoice::placement, {"zigzag", "contiguous", "striped"}),
      of_option("ring", "kv_slots", {std::int64_t{2}, std::int64_t{3}, std::string("all")}),
      of_option("hierarchical", "inner_ranks", {std::int64_t{1}, std::int64_t{2}, std::int64_t{4}}),
      of_training<Mode>("mode", &Training::mode, {Mode::training, Mode::prefill, Mode::decode}),
      of_training<Count>("sequence", &Training::sequence, {8192, 131072}),
      of_training<std::vector<std::pair<Count, double>>>(
          "lengths", &Training::lengths,
          {{}, {{4096, 0.7}, {131072, 0.3}}, {{4096, 0.6}, {131072, 0.4}}, {{8192, 0.7}, {131072, 0.3}}}),
      of_training<bool>("balanced", &Training::balanced, {false, true}),
      of_training<std::string>("dtype", &Training::dtype, {"bf16", "fp16", "fp8", "fp4"}),
      of_training<int>("parameter_bytes", &Training::parameter_bytes, {2, 4}),
      of_training<int>("gradient_bytes", &Training::gradient_bytes, {2, 4}),
      of_training<int>("master_bytes", &Training::master_bytes, {0, 2, 4}),
      of_training<int>("optimizer_bytes", &Training::optimizer_bytes, {2, 4, 8}),
      of_training<Count>("lora_rank", &Training::lora_rank, {0, 16, 32}),
  };
}

// Without what is there for the reader: how it is launched, and the sum of a step.
std::string told(const Case& c, Framework framework) {
  const std::string text = c.text(framework);
  std::string kept;
  for (std::size_t begin = text.find('\n') + 1; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    const std::string line = text.substr(begin, end - begin);
    if (line.find("# a step:") == std::string::npos) kept += line + "\n";
    begin = end + 1;
  }
  return kept;
}

// Bases in which each framework's several ways of being told occur.
std::vector<std::pair<std::string, Case>> bases() {
  std::vector<std::pair<std::string, Case>> all;
  all.emplace_back("dense", dense());
  all.emplace_back("experts", experts());
  all.emplace_back("windows", windows());
  Case ulysses = dense();
  ulysses.layout.tp = 1;
  ulysses.layout.zero = 3;
  ulysses.layout.recompute = Recompute::full;
  ulysses.layout.attention[0] = {"all_to_all", "contiguous", {}};
  all.emplace_back("ulysses", ulysses);
  Case prefill = experts();
  prefill.training.mode = Mode::prefill;
  prefill.layout.attention[0].algorithm = "all_gather";
  all.emplace_back("prefill", prefill);
  Case decode = prefill;
  decode.training.mode = Mode::decode;
  decode.layout.attention[0].placement = "striped";
  all.emplace_back("decode", decode);
  return all;
}

}  // namespace

TEST_CASE("every value of every field is told, in a flag or in a comment") {
  for (const auto& [base_name, base] : bases())
    for (const Framework framework : frameworks())
      for (const Field& field : fields()) {
        std::set<std::string> outputs;
        for (const auto& change : field.values) {
          Case c = base;
          change(c);
          outputs.insert(told(c, framework));
        }
        CAPTURE(base_name);
        CAPTURE(name(framework));
        CAPTURE(field.name);
        CHECK(outputs.size() == field.values.size());
      }
}

TEST_CASE("degrees multiply to the GPUs, and batches to the step's sequences") {
  for (const std::int64_t tp : {1, 2})
    for (const std::int64_t cp : {1, 2, 4})
      for (const std::int64_t pp : {1, 2})
        for (const std::int64_t dp : {1, 3})
          for (const int zero : {0, 3}) {
            Case c = dense();
            c.layout.tp = tp;
            c.layout.cp = cp;
            c.layout.pp = pp;
            c.layout.dp = dp;
            c.layout.zero = zero;
            c.layout.micro_batch = 2;
            c.layout.attention[0] = {"all_to_all", "contiguous", {}};
            const std::int64_t gpus = tp * cp * pp * dp, batch = 2 * 8 * dp;
            const std::string said = " " + std::to_string(gpus) + " GPUs";
            for (const Framework framework : frameworks())
              CHECK(c.emitted(framework).launch.find(said) != std::string::npos);

            const Emitted megatron = c.emitted(Framework::megatron);
            const std::int64_t replica = megatron.count("--tensor-model-parallel-size") *
                                         megatron.count("--context-parallel-size") *
                                         megatron.count("--pipeline-model-parallel-size");
            CHECK(megatron.count("--global-batch-size") == batch);
            // Megatron cuts the global batch over the replicas that GPUs make, and each part into
            // micro-batches.
            CHECK(megatron.count("--global-batch-size") / megatron.count("--micro-batch-size") /
                      (gpus / replica) ==
                  8);

            const Emitted titan = c.emitted(Framework::torchtitan);
            CHECK(titan.count("--parallelism.tensor_parallel_degree") *
                      titan.count("--parallelism.context_parallel_degree") *
                      titan.count("--parallelism.pipeline_parallel_degree") *
                      titan.count("--parallelism.data_parallel_replicate_degree") *
                      titan.count("--parallelism.data_parallel_shard_degree") ==
                  gpus);
            CHECK(titan.count("--training.num_tokens_per_train_step") == batch * 131072);

            // DeepSpeed divides by what it calls its world, which is dp where sequences are parallel.
            const Emitted speed = c.emitted(Framework::deepspeed);
            CHECK(speed.count("train_batch_size") == speed.count("train_micro_batch_size_per_gpu") *
                                                         speed.count("gradient_accumulation_steps") * dp);

            for (const Mode mode : {Mode::prefill, Mode::decode}) {
              c.training.mode = mode;
              const Emitted vllm = c.emitted(Framework::vllm), sglang = c.emitted(Framework::sglang);
              const std::int64_t prompts =
                  mode == Mode::prefill ? vllm.count("--prefill-context-parallel-size") : 1;
              CHECK(vllm.count("--tensor-parallel-size") * prompts * vllm.count("--pipeline-parallel-size") *
                        vllm.count("--data-parallel-size") ==
                    gpus);
              CHECK(sglang.count("--tp-size") * sglang.count("--pp-size") * sglang.count("--dp-size") ==
                    gpus);
            }
          }
}
