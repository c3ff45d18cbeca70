// What cplab advise refuses, each with what would be legal; and what other commands say of its sections.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/advise_questions.hpp"
#include "tests/cli/json_program.hpp"
#include "tests/cli/program.hpp"

using namespace advise_questions;
using nlohmann::json;

TEST_CASE("advise: a model is named once, and legibly") {
  TemporaryFolder folder;
  const std::string both =
      folder.write("both.toml", model_toml("preset = \"llama3-8b\"", "gpus = 8\nsequence = 4096"));
  const std::string config = folder.write("config.json", R"({"model_type": "lama", "hidden_size": 8})");
  for (const Bad& bad : std::vector<Bad>{
           {{"advise", both, "--model", "llama3-70b"}, {"both.toml:1", "model", "llama3-70b", "one of them"}},
           {{"advise"}, {"SCENARIO or --model", "llama3-8b"}},
           {small({"--model", "llama3-8b"}), {"--model"}},
           {{"advise", "--model", "llama3-8c", "--gpus", "8", "--sequence", "8K", "--hardware", "h100x8"},
            {"llama3-8c", "nearest first: \"llama3-8b\""}},
           {{"advise", "--model", config, "--gpus", "8", "--sequence", "8K", "--hardware", "h100x8"},
            {"config.json", "model_type", "llama"}}})
    check_bad(bad);
}

TEST_CASE("advise: what is missing or not known is said with what is legal") {
  const std::vector<std::string> model{"advise", "--model", "llama3-8b"};
  for (const Bad& bad : std::vector<Bad>{
           {with(model, {"--sequence", "8K", "--hardware", "h100x8"}), {"--gpus N"}},
           {with(model, {"--gpus", "8", "--hardware", "h100x8"}), {"--sequence L"}},
           {with(model, {"--gpus", "8", "--sequence", "8K"}), {"--hardware", "h100x8"}},
           {with(model, {"--gpus", "8", "--sequence", "8K", "--hardware", "h100x9"}),
            {"h100x9", "did you mean \"h100x8\""}},
           {with(model, {"--gpus", "0", "--sequence", "8K", "--hardware", "h100x8"}), {"--gpus"}},
           {with(model, {"--gpus", "8", "--sequence", "8Q", "--hardware", "h100x8"}),
            {"--sequence", "legal"}},
           {small({"--over", "tp=3"}), {"tp 3 does not divide 8 GPUs", "legal: 1 2 4 8"}},
           {small({"--gpus", "8", "--over", "qp=3"}), {"--gpus"}},
           {small({"--over", "qp=3"}), {"qp", "legal: tp cp"}},
           {small({"--over", "microbatch=3"}), {"did you mean micro_batch"}},
           {small({"--over", "tp=two"}), {"tp = two", "a count from 1 on"}},
           {small({"--over", "tp=0"}), {"a count from 1 on"}},
           {small({"--over", "micro_batch=0"}), {"a count from 1 on"}},
           {small({"--over", "zero=4"}), {"0 1 2 3"}},
           {small({"--over", "recompute=some"}), {"none selective full"}},
           {small({"--over", "algorithm=rnig"}), {"did you mean ring"}},
           {small({"--over", "placement=zagzig"}), {"legal: ", "zigzag"}},
           {small({"--over", "ep=8"}), {"ep 8", "legal: 1"}},
           {small({"--baseline", "fast"}), {"--baseline", "KEY=VALUE"}},
           {small({"--baseline", "tp=3"}), {"--baseline tp=3", "legal: 1 2 4 8"}},
           {small({"--price", "-1"}), {"--price"}},
           {small({"--emit", "megatronn"}), {"megatron"}},
           {small({"--set", "training.sequenec=3"}), {"training.sequenec", "did you mean \"sequence\""}},
           {small({"--set", "training.tp=3"}), {"training.tp", "legal"}}})
    check_bad(bad);
  // 7 is a prime, of which the heads and the rows of a step are no multiple: tp and dp are out of the
  // question.
  check_bad({{"advise", "--model", "llama3-8b", "--gpus", "7", "--sequence", "8K", "--hardware", "h100x8",
              "--over", "tp=2"},
             {"7 GPUs", "legal: 1 7"}});
}

TEST_CASE("advise: attention that it does not take is refused with the reason") {
  TemporaryFolder folder;
  const auto refused = [&](const std::string& problem, const std::vector<std::string>& said) {
    check_bad({{"advise", folder.write("refused.toml", attention_toml(problem)), "--brief"}, said});
  };
  refused("mask = \"full\"\nsequence = 4096", {"problem.mask", "causal"});
  refused("mask = \"causal\"\nsequence = 4096\ndirection = \"backward\"", {"problem.direction", "forward"});
  check_bad({{"advise", "lasp", "--hardware", "h100x8"}, {"problem.attention", "linear", "softmax"}});
  check_bad({{"advise", "dynamic-mask", "--hardware", "h100x8"}, {"problem.attention", "softmax"}});
  const std::string neither = folder.write("neither.toml", "[hardware]\nfile = \"h100x8\"\n");
  check_bad({{"advise", neither}, {"problem"}});
}

TEST_CASE("advise: other commands leave [model] and [training] alone where there is a [problem]") {
  TemporaryFolder folder;
  const std::string model = "[model]\npreset = \"llama3-8b\"\n[training]\ngpus = 8\nsequence = 4096\n";
  const std::string file =
      folder.write("both.toml", attention_toml("mask = \"causal\"\nsequence = 4096") + model);
  CHECK(run_cplab({"simulate", file}).code == 0);
  CHECK(run_cplab({"check", file}).code == 0);
  const json answer = json_of({"advise", file, "--brief"});
  CHECK(answer.at("model") == "llama3-8b");
  CHECK(answer.at("notes").dump().find("[problem]") != std::string::npos);
  const std::string alone = folder.write("alone.toml", model);
  for (const char* command : {"simulate", "check", "verify", "show"})
    check_bad({{command, alone}, {"model", "cplab advise", "[problem]"}});
  check_bad({{"simulate", folder.write("typo.toml", attention_toml("mask = \"causal\"\nsequence = 4096") +
                                                        "[training]\ngpsu = 8\n")},
             {"training.gpsu", "did you mean \"gpus\""}});
}
