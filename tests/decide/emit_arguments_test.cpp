// Every flag that may be emitted is an argument that the framework's source declares, in the file that the
// table names; every row of the table is emitted by some layout.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "tests/decide/emitted.hpp"

using namespace cplab;

namespace {

using Declared = std::set<std::pair<std::string, std::string>>;

// "REPOSITORY SEEN" of a list's first line -> its (argument, file).
std::map<std::string, Declared> lists() {
  std::map<std::string, Declared> all;
  for (const auto& entry : std::filesystem::directory_iterator(CPLAB_TEST_ARGUMENTS)) {
    std::ifstream file(entry.path());
    std::string line;
    REQUIRE(std::getline(file, line));
    REQUIRE(line.starts_with("# "));
    Declared& declared = all[line.substr(2)];
    while (std::getline(file, line)) {
      const std::size_t space = line.find(' ');
      REQUIRE(space != std::string::npos);
      declared.emplace(line.substr(0, space), line.substr(space + 1));
    }
    CHECK(declared.size() > 20);
  }
  return all;
}

// Layouts that between them ask for everything that a layout can hold.
std::vector<Case> many() {
  std::vector<Case> cases;
  const std::vector<std::string> algorithms = {"ring",         "all_gather", "all_to_all",
                                               "hierarchical", "usp",        "head_strided"};
  for (const Case& base : {dense(), experts(), windows()})
    for (int variant = 0; variant < 288; ++variant) {
      Case c = base;
      ModelLayout& l = c.layout;
      l.zero = variant % 4;
      l.recompute = static_cast<Recompute>(variant / 4 % 3);
      l.offload_optimizer = variant % 5 == 1;
      l.offload_checkpoints = variant % 7 == 1;
      l.loss_chunks = variant % 3 == 1 ? 8 : 1;
      c.training.dtype = std::vector<std::string>{"bf16", "fp16", "fp8", "fp4"}[variant / 3 % 4];
      c.training.lora_rank = variant % 11 == 3 ? 16 : 0;
      c.training.mode = static_cast<Mode>(variant / 12 % 3);
      if (variant % 13 == 5) c.training.lengths = {{4096, 0.7}, {131072, 0.3}};
      c.training.balanced = variant % 13 >= 5;
      if (variant % 2 == 0) l.tp = l.ep = l.etp = 1;
      if (variant % 8 >= 6) l.pp = 2;
      if (variant % 16 == 14) l.pipeline_chunks = 2;
      if (variant % 17 == 2) l.cp = 1;
      for (AttentionChoice& choice : l.attention) {
        choice.algorithm = algorithms[static_cast<std::size_t>(variant / 2) % algorithms.size()];
        choice.placement = std::vector<std::string>{"zigzag", "contiguous", "striped"}[variant / 5 % 3];
      }
      if (variant % 29 < 5) l.attention[0] = {"hierarchical", "zigzag", {{{"inner_ranks", std::int64_t{2}}}}};
      c.model.attention[0].sink = variant % 19 == 3;
      if (variant % 23 == 4) c.model.attention[0].heads = c.model.attention[0].kv_heads = 7;
      cases.push_back(c);
    }
  return cases;
}

}  // namespace

TEST_CASE("names of frameworks are read back") {
  CHECK(frameworks().size() == 7);
  for (const Framework framework : frameworks()) CHECK(framework_of(name(framework)) == framework);
  CHECK(!framework_of("megatron-lm"));
}

TEST_CASE("every flag of the table is declared where it says") {
  const std::map<std::string, Declared> all = lists();
  for (const Framework framework : frameworks()) {
    std::set<std::string_view> once;
    for (const EmittedFlag& row : flags_of(framework)) {
      CAPTURE(row.flag);
      CHECK(row.framework == framework);
      CHECK(!row.says.empty());
      CHECK(once.insert(row.flag).second);
      const auto list = all.find(std::string(row.repository) + " " + std::string(row.seen));
      REQUIRE(list != all.end());
      CHECK(list->second.contains({std::string(row.flag), std::string(row.file)}));
    }
    CHECK(once.size() > 10);
  }
}

TEST_CASE("what is emitted stands in the table, and the table holds nothing else") {
  const std::vector<Case> cases = many();
  for (const Framework framework : frameworks()) {
    CAPTURE(name(framework));
    std::set<std::string> rows, emitted;
    std::vector<std::string> open;
    for (const EmittedFlag& row : flags_of(framework)) {
      rows.emplace(row.flag);
      if (row.open) open.emplace_back(row.flag);
    }
    for (const Case& c : cases)
      for (const auto& [flag, words] : c.emitted(framework).flags) {
        std::string name = flag;
        for (const std::string& mapping : open)
          if (flag.starts_with("+" + mapping + ".")) name = mapping;
        CAPTURE(flag);
        CHECK(rows.contains(name));
        emitted.insert(name);
      }
    for (const std::string& row : rows) {
      CAPTURE(row);
      CHECK(emitted.contains(row));
    }
  }
}
