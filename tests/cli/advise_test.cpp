// cplab advise from outside: the contract's keys and what holds between them, and every form of question.
#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>

#include "tests/cli/advise_questions.hpp"
#include "tests/cli/json_program.hpp"
#include "tests/cli/program.hpp"

using namespace advise_questions;
using nlohmann::json;

namespace {

double sum_of(const json& list, const char* key) {
  return std::accumulate(list.begin(), list.end(), 0.0,
                         [&](double sum, const json& each) { return sum + each.at(key).get<double>(); });
}

double of_token(const json& candidate) {
  return candidate.at("time_s").get<double>() / candidate.at("tokens").get<double>();
}

// What holds of every candidate by itself.
void check_candidate(const json& c, std::int64_t gpus) {
  CAPTURE(c.dump());
  for (const char* key : {"tp",
                          "cp",
                          "pp",
                          "dp",
                          "ep",
                          "algorithm",
                          "placement",
                          "schedule",
                          "time_s",
                          "low_s",
                          "high_s",
                          "equal_to_best",
                          "tokens_s_gpu",
                          "share_of_peak",
                          "limit_s",
                          "exposed_wait_s",
                          "exposed_transfer_s",
                          "memory",
                          "host_bytes",
                          "fits",
                          "headroom_bytes",
                          "proved",
                          "binds"})
    CHECK(c.contains(key));
  CHECK(c.at("tp").get<std::int64_t>() * c.at("cp").get<std::int64_t>() * c.at("pp").get<std::int64_t>() *
            c.at("dp").get<std::int64_t>() ==
        gpus);
  CHECK(sum_of(c.at("memory"), "bytes") == c.at("memory_bytes").get<double>());
  const double time_s = c.at("time_s").get<double>();
  CHECK(sum_of(c.at("terms"), "seconds") == doctest::Approx(time_s).epsilon(1e-9));
  CHECK(c.at("low_s").get<double>() <= time_s);
  CHECK(time_s <= c.at("high_s").get<double>());
  CHECK(c.at("limit_s").get<double>() <= time_s);
  CHECK(c.at("share_of_peak").get<double>() > 0);
  CHECK(c.at("share_of_peak").get<double>() < 1);
  CHECK(c.at("tokens_s_gpu").get<double>() ==
        doctest::Approx(c.at("tokens").get<double>() / time_s / static_cast<double>(gpus)));
  double waits = 0, moves = 0;
  for (const json& term : c.at("terms")) {
    if (term.at("kind") == "wait") waits += term.at("seconds").get<double>();
    if (term.at("kind") == "transfer") moves += term.at("seconds").get<double>();
  }
  CHECK(waits == doctest::Approx(c.at("exposed_wait_s").get<double>()));
  CHECK(moves == doctest::Approx(c.at("exposed_transfer_s").get<double>()));
  CHECK((c.at("headroom_bytes").get<std::int64_t>() >= 0 || !c.at("fits").get<bool>()));
}

void check_answer(const json& answer, std::int64_t gpus) {
  for (const char* key : {"schema", "command", "scenario", "versions", "candidates", "changes", "break_even",
                          "fit", "refused", "emit", "binds"})
    CHECK(answer.contains(key));
  const json& all = answer.at("candidates");
  REQUIRE_FALSE(all.empty());
  for (const json& candidate : all) check_candidate(candidate, gpus);
  CHECK(sum_of(answer.at("binds"), "share") == doctest::Approx(1));
}

std::size_t widest(const std::string& text) {
  std::size_t most = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) most = std::max(most, line.size());
  return most;
}

}  // namespace

TEST_CASE("advise: the contract's keys, and what holds between them") {
  const json answer = json_of(small());
  check_answer(answer, 8);
  const json& all = answer.at("candidates");
  CHECK(answer.at("command") == "advise");
  CHECK(answer.at("considered").get<std::int64_t>() > answer.at("pruned").get<std::int64_t>());
  // Best first: what fits; by time, but for those equal to the fastest and near it, which go by memory.
  const auto fitting = std::find_if(all.begin(), all.end(), [](const json& c) { return !c.at("fits"); });
  CHECK(std::none_of(fitting, all.end(), [](const json& c) { return c.at("fits").get<bool>(); }));
  double fastest = of_token(all.front());
  for (auto at = all.begin(); at != fitting; ++at) fastest = std::min(fastest, of_token(*at));
  CHECK(all.front().at("equal_to_best"));
  CHECK(of_token(all.front()) <= fastest * 1.02);
  double last = 0;
  for (auto at = all.begin(); at != fitting; ++at) {
    CHECK(at->at("tokens") == all.front().at("tokens"));
    if (of_token(*at) <= fastest * 1.02) {
      if (at->at("equal_to_best").get<bool>())
        CHECK(at->at("memory_bytes").get<std::int64_t>() >=
              all.front().at("memory_bytes").get<std::int64_t>());
      continue;
    }
    CHECK(of_token(*at) >= last);
    last = of_token(*at);
  }
}

TEST_CASE("advise: text folds to 100 columns, whatever the question") {
  TemporaryFolder folder;
  for (const std::vector<std::string>& words :
       {small(), small({"--price", "2.5", "--baseline", "tp=8"}),
        std::vector<std::string>{"advise", "--model", "llama3-8b", "--gpus", "2", "--sequence", "8K",
                                 "--hardware", "h100x8", "--brief", "--fit", "--over", "tp=1,algorithm=ring"},
        std::vector<std::string>{"advise",
                                 folder.write("gpt.toml", model_toml("preset = \"gpt-oss-120b\"",
                                                                     "gpus = 16\nsequence = \"32K\""))}}) {
    CAPTURE(words);
    const ProgramResult result = run_cplab(words);
    CHECK(result.code == 0);
    CHECK(widest(result.out) <= 100);
  }
}

TEST_CASE("advise: options and --set change what the scenario's sections say") {
  TemporaryFolder folder;
  const std::string file = folder.write(
      "model.toml", model_toml("preset = \"llama3-8b\"", "gpus = 8\nsequence = \"32K\"\ntp = 2"));
  CHECK(json_of({"advise", file, "--brief"}).at("gpus") == 8);
  const json other =
      json_of({"advise", file, "--brief", "--gpus", "4", "--sequence", "16K", "--set",
               "training.recompute=full", "--set", "training.tp=1", "--set", "model.layers=8"});
  CHECK(other.at("gpus") == 4);
  CHECK(other.at("tokens_per_row") == 16384);
  for (const json& c : other.at("candidates")) {
    CHECK(c.at("tp") == 1);
    CHECK(c.at("recompute") == "full");
  }
  // Without --gpus the file's degrees are held against the file's GPUs, with it against those.
  check_bad({{"advise", file, "--gpus", "7"}, {"training.tp", "does not divide gpus = 7"}});
  CHECK(json_of({"advise", file, "--brief", "--unset", "training.tp"}).at("gpus") == 8);
  check_bad(
      {{"advise", file, "--unset", "training.cp"}, {"--unset training.cp", "the file does not set it"}});
  // A machine with a slower link takes longer.
  const double as_is =
      of_token(json_of({"advise", file, "--brief", "--over", "cp=4"}).at("candidates").at(0));
  const double slower = of_token(
      json_of({"advise", file, "--brief", "--over", "cp=4", "--set", "hardware.node.link_bytes_s=5e9"})
          .at("candidates")
          .at(0));
  CHECK(slower > as_is);
}

TEST_CASE("advise: more GPUs than a node has get a network that is assumed, and it is said") {
  const std::vector<std::string> words{"advise", "--model",    "llama3-8b", "--gpus",  "16",     "--sequence",
                                       "32K",    "--hardware", "h100x8",    "--brief", "--over", "cp=16"};
  const json answer = json_of(words);
  const std::string notes = answer.at("notes").dump();
  CHECK(notes.find("400 Gb/s NIC a GPU") != std::string::npos);
  CHECK(notes.find("assumed") != std::string::npos);
  CHECK(run_cplab(words).err.find("400 Gb/s NIC a GPU") != std::string::npos);
}

TEST_CASE("advise: what the architecture says in place of the config is a note") {
  CHECK(json_of(small()).at("notes").dump().find("head_dim = 128") != std::string::npos);
  TemporaryFolder folder;
  const std::string config = folder.write("config.json", R"({"model_type": "llama", "hidden_size": 1024,
    "intermediate_size": 2048, "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 8,
    "vocab_size": 32000, "max_position_embeddings": 131072, "a_new_trick": 3})");
  const json answer = json_of(
      {"advise", "--model", config, "--gpus", "4", "--sequence", "16K", "--hardware", "h100x8", "--brief"});
  CHECK(answer.at("notes").dump().find("a_new_trick") != std::string::npos);
}

TEST_CASE("advise: nothing fits is an answer, with what frees most first") {
  const std::vector<std::string> words{"advise",     "--model", "llama3-405b", "--gpus", "8",
                                       "--sequence", "128K",    "--hardware",  "h100x8", "--brief"};
  const json answer = json_of(words);
  check_answer(answer, 8);
  CHECK_FALSE(answer.at("candidates").at(0).at("fits"));
  const json& levers = answer.at("fit").at("first_lever");
  REQUIRE_FALSE(levers.empty());
  for (const json& lever : levers) {
    CHECK(lever.at("frees_bytes").get<std::int64_t>() > 0);
    CHECK_FALSE(lever.at("what").get<std::string>().empty());
  }
  CHECK(run_cplab(words).out.find("Nothing fits") != std::string::npos);
  CHECK(run_cplab(with(words, {"--strict"})).code == 1);
  CHECK(run_cplab(small({"--strict"})).code == 0);
}

TEST_CASE("advise: one attention layer of a scenario, at its batch") {
  TemporaryFolder folder;
  const std::string file =
      folder.write("attention.toml", attention_toml("mask = \"causal\"\nbatch = 2\nsequence = \"16K\""));
  for (const char* direction : {"forward", "forward+backward"}) {
    const json answer =
        json_of({"advise", file, "--brief", "--set", std::string("problem.direction=") + direction});
    check_answer(answer, 4);
    for (const json& c : answer.at("candidates")) {
      CHECK(c.at("tokens").get<double>() == 2 * 16384);
      CHECK(c.at("micro_batches") == 1);
      CHECK(c.at("tp") == 1);
      for (const json& term : c.at("terms"))
        CHECK(term.at("name").get<std::string>().starts_with("attention"));
    }
  }
  const json fewer = json_of({"advise", file, "--brief", "--gpus", "2", "--sequence", "8K"});
  check_answer(fewer, 2);
  CHECK(fewer.at("tokens_per_row") == 8192);
  check_bad({{"advise", file, "--emit", "megatron"}, {"--emit megatron", "[model]"}});
  // The same layer with a window takes less time.
  const json narrow = json_of({"advise", file, "--brief", "--set", "problem.window=[1023, 0]"});
  CHECK(of_token(narrow.at("candidates").at(0)) <
        of_token(json_of({"advise", file, "--brief"}).at("candidates").at(0)));
}

TEST_CASE("advise: packed lengths of an attention layer stand by their shares of the tokens") {
  TemporaryFolder folder;
  const std::string file =
      folder.write("packed.toml", attention_toml("mask = \"causal\"\nlengths = [8192, 8192, 16384, 32768]"));
  const json answer = json_of({"advise", file, "--brief"});
  check_answer(answer, 4);
  CHECK(answer.at("tokens_per_row") == 65536);
  CHECK(answer.at("notes").dump().find("rows of documents of one length") != std::string::npos);
}

TEST_CASE("advise: rows of several lengths by weight") {
  TemporaryFolder folder;
  const std::string file =
      folder.write("lengths.toml",
                   model_toml("preset = \"llama3-8b\"", "gpus = 8\nlengths = [[4096, 0.7], [32768, 0.3]]"));
  const json answer = json_of({"advise", file, "--brief"});
  check_answer(answer, 8);
  CHECK(answer.at("tokens_per_row") == 32768);
  // Short documents have fewer pairs: faster than rows of one document.
  CHECK(of_token(answer.at("candidates").at(0)) < of_token(json_of(small()).at("candidates").at(0)));
  // --sequence takes the place of the lengths.
  CHECK(json_of({"advise", file, "--brief", "--sequence", "32K"}).at("candidates").at(0).at("time_s") ==
        json_of(small()).at("candidates").at(0).at("time_s"));
}

TEST_CASE("advise: low-rank adapters train with less memory") {
  const auto optimizer = [](const json& answer) {
    double bytes = 0;
    for (const json& part : answer.at("candidates").at(0).at("memory"))
      if (part.at("kind") == "optimizer") bytes = part.at("bytes").get<double>();
    return bytes;
  };
  const std::vector<std::string> fixed{"--over", "tp=1,cp=8,zero=1"};
  CHECK(optimizer(json_of(small(with(fixed, {"--set", "training.lora_rank=16"})))) <
        optimizer(json_of(small(fixed))) / 20);
}

TEST_CASE("advise: experts spread over the GPUs of a stage") {
  const json answer = json_of({"advise", "--model", "qwen3-30b-a3b", "--gpus", "8", "--sequence", "16K",
                               "--hardware", "h200x8", "--brief"});
  check_answer(answer, 8);
  for (const json& c : answer.at("candidates")) {
    CHECK(128 % c.at("ep").get<std::int64_t>() == 0);
    CHECK((8 / c.at("pp").get<std::int64_t>()) % c.at("ep").get<std::int64_t>() == 0);
  }
}

TEST_CASE("advise: layers of several kinds each have the algorithm that suits them") {
  const json answer = json_of({"advise", "--model", "gpt-oss-120b", "--gpus", "8", "--sequence", "64K",
                               "--hardware", "h100x64", "--brief", "--over", "cp=8"});
  check_answer(answer, 8);
  bool conflicts = false;
  for (const json& c : answer.at("candidates")) {
    REQUIRE(c.at("attention").size() == 2);
    const bool apart = c.at("attention").at(0).at("placement") != c.at("attention").at(1).at("placement");
    const bool moved = std::any_of(c.at("terms").begin(), c.at("terms").end(),
                                   [](const json& term) { return term.at("name") == "redistribution"; });
    CHECK(moved == apart);
    conflicts = conflicts || apart;
    CHECK(c.at("proved") != "not in the vocabulary");
    CHECK(c.at("formulas").empty());
  }
  CHECK(conflicts);
}

TEST_CASE(
    "advise: what no plan says is priced by a formula, and named, and all forms of attention have plans") {
  // All formulas: whatever is added to the vocabulary leaves this list.
  const auto formulas = [](const char* model, const char* sequence = "8K", const char* mode = "training") {
    const json answer =
        json_of({"advise", "--model", model, "--gpus", "16", "--sequence", sequence, "--hardware", "h200x8",
                 "--brief", "--over", "cp=2|4", "--set", std::string("training.mode=") + mode});
    for (const json& c : answer.at("candidates")) {
      const bool by_formula = !c.at("formulas").empty();
      CHECK((c.at("proved") == "not in the vocabulary") == by_formula);
      for (const json& term : c.at("terms"))
        if (by_formula && term.at("name") == "attention") CHECK(term.at("origin") == "assumed");
    }
    return answer.at("candidates").at(0).at("formulas").get<std::vector<std::string>>();
  };
  using Names = std::vector<std::string>;
  CHECK(formulas("llama3-8b") == Names{});
  CHECK(formulas("deepseek-v2-lite") == Names{});
  CHECK(formulas("gpt-oss-20b") == Names{});
  CHECK(formulas("qwen3-next-80b-a3b") == Names{});
  CHECK(formulas("llama3-8b", "8K", "decode") == Names{"decode over shards of the cache"});
}

TEST_CASE("advise: prefill and decode are timed until all is done") {
  for (const char* mode : {"prefill", "decode"}) {
    const json answer = json_of(small({"--set", std::string("training.mode=") + mode}));
    check_answer(answer, 8);
    for (const json& c : answer.at("candidates")) {
      const double rows = c.at("dp").get<double>() * c.at("micro_batch").get<double>();
      CHECK(c.at("tokens").get<double>() == rows * (std::string(mode) == "decode" ? 1 : 32768));
      for (const json& part : c.at("memory")) {
        CHECK(part.at("kind") != "gradients");
        CHECK(part.at("kind") != "optimizer");
      }
    }
  }
}

TEST_CASE("advise: a baseline is compared term by term, and a price is a cost") {
  const json answer = json_of(small({"--baseline", "tp=8", "--price", "3.6"}));
  check_candidate(
      [&] {
        json baseline = answer.at("baseline");
        for (const char* key : {"equal_to_best", "proved", "binds"}) baseline[key] = "";
        return baseline;
      }(),
      8);
  CHECK(answer.at("baseline").at("tp") == 8);
  // 3.6 an hour is a thousandth a second.
  CHECK(answer.at("price_per_million_tokens").get<double>() ==
        doctest::Approx(1e-3 * 1e6 / answer.at("candidates").at(0).at("tokens_s_gpu").get<double>()));
  CHECK(run_cplab(small({"--baseline", "tp=8"})).out.find("Baseline tp8") != std::string::npos);
}
