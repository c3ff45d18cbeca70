// What other tools call our keys and values is understood in every place where one can be given, and never
// taken.
#include "cli/vocabulary.hpp"

#include <doctest/doctest.h>

#include <set>
#include <utility>

#include "cli/synonyms.hpp"
#include "tests/cli/program.hpp"
#include "tests/contains.hpp"

using cplab::testing::contains;

namespace {

using namespace cplab;

std::string error_of_program(const std::vector<std::string>& arguments) {
  const ProgramResult result = run_cplab(arguments);
  CAPTURE(arguments);
  CHECK(result.code == 2);
  CHECK(result.out.empty());
  return result.err;
}

std::string set_error(const std::string& set, const char* command = "check") {
  return error_of_program({command, some_scenario, "--set", set});
}

}  // namespace

TEST_CASE("keys by meaning: Hugging Face, Megatron, DeepSpeed, TransformerEngine, PyTorch") {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"problem.num_attention_heads", "\"heads\""},
      {"problem.numAttentionHeads", "\"heads\""},
      {"problem.seq_length", "\"sequence\""},
      {"problem.seqlen", "\"sequence\""},
      {"problem.context_length", "\"sequence\""},
      {"problem.num_key_value_heads", "\"kv_heads\""},
      {"problem.num_query_groups", "\"kv_heads\""},
      {"problem.head_dim", "\"head_size\""},
      {"problem.hidden_per_head", "\"head_size\""},
      {"problem.micro_batch_size", "\"batch\""},
      {"problem.mbs", "\"batch\""},
      {"problem.sliding_window", "window = [left, right]"},
      {"problem.causal", "mask = \"causal\""},
      {"problem.precision", "\"dtype\""},
      {"problem.torch_dtype", "\"dtype\""},
      {"problem.softmax_scale", "\"scale\""},
      {"problem.qkv_format", "\"format\""},
      {"problem.cu_seqlens", "\"lengths\""},
      {"parallel.cp", "\"ranks\""},
      {"parallel.context_parallel_size", "\"ranks\""},
      {"parallel.cp_comm_type", "\"algorithm\""},
      {"parallel.load_balance", "\"placement\""},
      {"schedule.sm_margin", "\"reserved_sms\""},
      {"schedule.backend", "\"transport\""},
      {"simulate.cuda_graphs", "\"cuda_graph\""},
      // In the wrong section, or in none.
      {"problem.cp_size", "\"parallel.ranks\""},
      {"problem.ranks", "\"parallel.ranks\""},
      {"parallel.seq_length", "\"problem.sequence\""},
      {"parallel.kv_slots", "\"schedule.kv_slots\""},
      {"schedule.placement", "\"parallel.placement\""},
      {"heads", "\"problem.heads\""},
      {"num_attention_heads", "\"problem.heads\""},
      {"is_causal", "problem.mask = \"causal\""},
      // Letters alone, where nothing is meant.
      {"problem.haeds", "\"heads\""},
      {"problem.widnow", "\"window\""},
  };
  for (const auto& [key, meant] : cases) {
    const std::string error = set_error(key + "=4");
    CAPTURE(error);
    CHECK(contains(error, "did you mean " + meant));
  }
}

TEST_CASE("keys of hardware files by meaning") {
  for (const auto& [key, meant] :
       {std::pair<std::string, std::string>{"hardware.gpu.memory", "\"capacity_bytes\""},
        {"hardware.gpu.memory_bandwidth", "\"copy_bytes_s\""},
        {"hardware.gpu.num_sms", "\"sms\""},
        {"hardware.node.nvlink", "\"link_bytes_s\""},
        {"hardware.node.gpus_per_node", "\"gpus\""},
        {"hardware.bandwidth", "\"node.link_bytes_s\""},
        {"hardware.gpu.smz", "\"sms\""}}) {
    const std::string error = set_error(key + "=4", "simulate");
    CAPTURE(error);
    CHECK(contains(error, "--set " + key + ": unknown key; did you mean " + meant));
  }
}

TEST_CASE("values by meaning are suggested and not taken") {
  for (const auto& [set, meant] : {std::pair<std::string, std::string>{"problem.dtype=bfloat16", "\"bf16\""},
                                   {"problem.dtype=torch.bfloat16", "\"bf16\""},
                                   {"problem.dtype=float16", "\"fp16\""},
                                   {"problem.dtype=half", "\"fp16\""},
                                   {"problem.dtype=BF16", "\"bf16\""},
                                   {"problem.dtype=double", "\"fp64\""},
                                   {"problem.mask=none", "\"full\""},
                                   {"problem.mask=lower_triangular", "\"causal\""},
                                   {"problem.direction=training", "\"forward+backward\""},
                                   {"problem.direction=fwd", "\"forward\""},
                                   {"problem.format=varlen", "\"thd\""},
                                   {"problem.attention=gqa", "\"softmax\""},
                                   {"parallel.placement=zig_zag", "\"zigzag\""},
                                   {"parallel.placement=dual_chunk", "\"zigzag\""},
                                   {"parallel.placement=load_balanced", "\"zigzag\""},
                                   {"parallel.placement=cyclic", "\"striped\""},
                                   {"parallel.algorithm=ring_attention", "\"ring\""},
                                   {"parallel.algorithm=rnig", "\"ring\""},
                                   {"parallel.groups=interleaved", "\"strided\""},
                                   {"schedule.transport=copy_engine", "\"copy\""},
                                   {"schedule.gradient_wire_dtype=bf16", "\"nominal\""},
                                   {"simulate.collective_model=table", "\"curve\""}}) {
    const std::string error = set_error(set);
    CAPTURE(error);
    CHECK(error.find("cplab: --set " + set.substr(0, set.find('=')) + ": ") == 0);
    CHECK(contains(error, "did you mean " + meant));
  }
  // Registered aliases are taken.
  for (const char* set : {"parallel.placement=head-tail", "parallel.algorithm=p2p"}) {
    CHECK(run_cplab({"check", "ring-small", "--set", set}).code == 0);
  }
}

TEST_CASE("what is understood and not there is said to be not in this version") {
  CHECK(contains(set_error("problem.dtype=fp8"), "it is not in this version. Legal: \"bf16\""));
  CHECK(contains(set_error("problem.dtype=e4m3"), "that is \"fp8\", which is not in this version"));
  // Whether it is there or not, the algorithm is named.
  CHECK(contains(meant_value("algorithm", "ulysses", {"ring"}),
                 "\"all_to_all\", which is not in this version"));
  CHECK(meant_value("algorithm", "ulysses", {"ring", "all_to_all"}) == "did you mean \"all_to_all\"?");
  CHECK(meant_value("algorithm", "a2a+p2p", {"ring", "hierarchical"}) == "did you mean \"hierarchical\"?");
}

TEST_CASE("commands and options by meaning") {
  CHECK(contains(error_of_program({"predict", some_scenario}), "did you mean simulate?"));
  CHECK(contains(error_of_program({"bench", some_scenario}), "did you mean run?"));
  CHECK(contains(error_of_program({"validate", some_scenario}), "did you mean verify?"));
  CHECK(contains(error_of_program({"check", some_scenario, "--cp", "4"}),
                 "did you mean --set parallel.ranks=...?"));
  CHECK(contains(error_of_program({"check", some_scenario, "--seq-length", "4"}),
                 "did you mean --set problem.sequence=...?"));
  CHECK(contains(error_of_program({"check", some_scenario, "--output", "4"}), "did you mean --json FILE?"));
  CHECK(contains(error_of_program({"check", some_scenario, "--no-color"}), "did you mean --color never?"));
  CHECK(contains(error_of_program({"run", "ring-small", "--device", "cuda"}), "did you mean gpu?"));
  CHECK(contains(error_of_program({"list", "machines"}), "did you mean hardware?"));
}

TEST_CASE("what a new user types") {
  CHECK(contains(error_of_program({"ring"}),
                 "ring: a scenario, not a command; did you mean cplab simulate ring"));
  CHECK(contains(error_of_program({"faults/ring"}), "did you mean cplab simulate faults/ring"));
  CHECK(run_cplab({"help", "simulate"}).out == run_cplab({"simulate", "--help"}).out);
  CHECK(contains(error_of_program({"help", "simulat"}), "did you mean simulate?"));
  CHECK(run_cplab({"check", some_scenario, "--set", " problem.heads = 64 "}).code == 0);
  CHECK(contains(set_error("hardware=h200x4"), "did you mean --set hardware.file=h200x4?"));
  CHECK(contains(set_error("problem.mask=true"), "did you mean \"causal\"?"));
  CHECK(contains(set_error("problem.mask=false"), "did you mean \"full\"?"));
  CHECK(contains(set_error("problem.window=4096"), "must be a list [left, right]"));
}

TEST_CASE("no word means two things in one table") {
  for (const auto* table : {&synonyms::keys(), &synonyms::hardware_keys(), &synonyms::commands_elsewhere(),
                            &synonyms::options_elsewhere()}) {
    std::set<std::string_view> seen;
    for (const synonyms::Synonyms& each : *table) {
      for (const std::string_view word : each.called) {
        CAPTURE(word);
        CHECK(seen.insert(word).second);
      }
    }
  }
  for (const synonyms::ValueSynonyms& key : synonyms::values()) {
    std::set<std::string_view> seen;
    for (const synonyms::Synonyms& each : key.values) {
      for (const std::string_view word : each.called) {
        CAPTURE(word);
        CHECK(seen.insert(word).second);
      }
    }
  }
}

TEST_CASE("the beginning of a word is near") {
  CHECK(nearest("te-p2p", {"ring", "packed", "te-p2p-memory"}) == "te-p2p-memory");
  CHECK(nearest("rin", {"link", "ring"}) == "ring");
  CHECK(nearest("ri", {"r", "ring"}).empty());
  CHECK(nearest("all", {"all_gather", "all_to_all"}).empty());
}
