// Each rule of rules.hpp shown small good and bad trees: what it must find, and what it must let pass.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/tidy/rules.hpp"

namespace cplab::tidy {
namespace {

// Findings for a tree of one file.
template <typename Rule>
std::size_t count(Rule rule, const std::string& path, const std::string& text) {
  return rule(Tree{{path, text}}).size();
}

TEST_CASE("tidy rules: folders of ours") {
  const auto bad = [](const std::string& path, const std::string& header) {
    return count(check_includes, path, "// x\n#include \"" + header + "\"\n") == 1;
  };
  CHECK(bad("algorithms/a.cpp", "report/timeline.hpp"));
  CHECK(bad("algorithms/a.hpp", "cli/scenario.hpp"));
  CHECK(bad("sim/a.cpp", "exec/executor.hpp"));
  CHECK(bad("exec/a.hpp", "sim/simulate.hpp"));
  CHECK(bad("sim/a.cpp", "kernels/cuda/calls.hpp"));
  CHECK(bad("sim/a.cpp", "algorithms/core/builder.hpp"));
  CHECK(bad("calls/a.cpp", "kernels/tiles/work_list.hpp"));
  CHECK(bad("calls/a.cpp", "derive/walk.hpp"));
  CHECK(bad("check/a.cpp", "algorithms/core/builder.hpp"));  // the checker shares no code with the builder
  CHECK(bad("check/a.cpp", "derive/memory.hpp"));
  CHECK(bad("plan/a.hpp", "derive/memory.hpp"));
  CHECK(bad("kernels/cpu/a.cpp", "plan/plan.hpp"));
  CHECK(bad("reference/a.cpp", "kernels/kernels.hpp"));
  CHECK(bad("report/a.cpp", "sim/simulate.hpp"));
  CHECK(bad("exec/a.cpp", "cmake/version.hpp"));
  CHECK(bad("cli/a.cpp", "tests/tidy/rules.hpp"));
  CHECK(bad("cli/a.cpp", "scenario.hpp"));
  CHECK(bad("cli/a.cpp", "utils/strings.hpp"));
  CHECK(bad("tests/cli/test_a.cpp", "helper.hpp"));

  CHECK_FALSE(bad("algorithms/a.cpp", "plan/plan.hpp"));
  CHECK_FALSE(bad("sim/a.cpp", "report/timeline.hpp"));
  CHECK_FALSE(bad("exec/a.cpp", "kernels/kernels.hpp"));
  CHECK_FALSE(bad("sim/a.cpp", "kernels/tiles/work_list.hpp"));
  CHECK_FALSE(bad("check/a.cpp", "plan/plan.hpp"));
  CHECK_FALSE(bad("kernels/cpu/a.cpp", "kernels/cpu/tile.hpp"));
  CHECK_FALSE(bad("cli/a.cpp", "cmake/version.hpp"));
  CHECK_FALSE(bad("tests/sim/test_a.cpp", "exec/executor.hpp"));
  CHECK(count(check_includes, "utils/a.cpp", "// x\n") == 1);  // a folder that the table lacks
}

TEST_CASE("tidy rules: third parties and standard headers") {
  const auto bad = [](const std::string& path, const std::string& header) {
    return count(check_includes, path, "// x\n  #  include <" + header + ">\n") == 1;
  };
  CHECK(bad("algorithms/a.cpp", "unistd.h"));
  CHECK(bad("algorithms/a.cpp", "math.h"));
  CHECK(bad("algorithms/a.cpp", "fmt/core.h"));
  CHECK(bad("algorithms/a.cpp", "doctest/doctest.h"));
  CHECK(bad("kernels/cpu/a.hpp", "Eigen/Core"));
  CHECK(bad("exec/a.cpp", "Eigen/Core"));
  CHECK(bad("sim/a.hpp", "simgrid/s4u.hpp"));
  CHECK(bad("cli/a.cpp", "simgrid/s4u.hpp"));
  CHECK(bad("report/a.hpp", "nlohmann/json.hpp"));
  CHECK(bad("report/a.hpp", "nlohmann/json_fwd.hpp"));
  CHECK(bad("sim/a.cpp", "fmt/core.h"));
  CHECK(bad("report/a.cpp", "boost/program_options.hpp"));
  CHECK(bad("report/a.cpp", "toml++/toml.h"));
  CHECK(bad("sim/a.cpp", "cuda_runtime.h"));
  CHECK(bad("kernels/cuda/a.hpp", "cuda_bf16.h"));
  CHECK(bad("exec/a.hpp", "nccl.h"));
  CHECK(bad("reference/a.cpp", "sys/mman.h"));
  CHECK(bad("cli/a.hpp", "unistd.h"));
  CHECK(bad("cli/a.cpp", "CLI/CLI.hpp"));

  CHECK_FALSE(bad("algorithms/a.hpp", "vector"));
  CHECK_FALSE(bad("kernels/cpu/a.cpp", "Eigen/Core"));
  CHECK_FALSE(bad("reference/a.cpp", "Eigen/Dense"));
  CHECK_FALSE(bad("kernels/cuda/a.cu", "cuda_bf16.h"));
  CHECK_FALSE(bad("kernels/cuda/a.cuh", "cuda_bf16.h"));
  CHECK_FALSE(bad("exec/a.cpp", "nccl.h"));
  CHECK_FALSE(bad("cli/a.cpp", "toml++/toml.h"));
  CHECK_FALSE(bad("cli/a.cpp", "unistd.h"));
  CHECK_FALSE(bad("tests/cli/helper.hpp", "nlohmann/json.hpp"));

  const std::string simgrid = "// x\n#include <simgrid/s4u.hpp>\n";
  const Tree two = {{"sim/a.cpp", simgrid}, {"sim/b.cpp", simgrid}};
  CHECK(check_includes(two).empty());
  Tree three = two;
  three["sim/c.cpp"] = simgrid;
  CHECK(check_includes(three).size() == 1);

  const std::vector<Finding> found = check_includes({{"sim/a.cpp", "// x\n\n#include \"exec/a.hpp\"\n"}});
  REQUIRE(found.size() == 1);
  CHECK(found[0].path == "sim/a.cpp");
  CHECK(found[0].line == 3);
  CHECK(count(check_includes, "sim/a.cpp", "// #include \"exec/a.hpp\"\n") == 0);
}

TEST_CASE("tidy rules: links") {
  const auto bad = [](const std::string& folder, const std::string& libraries) {
    return count(check_links, folder + "/CMakeLists.txt",
                 "target_link_libraries(cplab_x\n  PRIVATE " + libraries + ")\n") == 1;
  };
  CHECK(bad("sim", "cplab_exec"));
  CHECK(bad("algorithms", "fmt::fmt"));
  CHECK(bad("check", "cplab_derive"));
  CHECK(bad("report", "cplab_check"));
  CHECK(bad("kernels", "cplab_algorithms"));
  CHECK(bad("reference", "cplab_kernels"));
  CHECK(bad("exec", "cplab_version"));
  CHECK(bad("report", "tomlplusplus::tomlplusplus"));
  CHECK(bad("exec", "$<$<BOOL:ON>:PkgConfig::simgrid>"));
  CHECK(bad("sim", "simgrid"));
  CHECK_FALSE(bad("sim", "cplab_flags cplab_plan PUBLIC cplab_report PkgConfig::simgrid"));
  CHECK_FALSE(bad("exec", "cplab::nccl CUDA::cudart Threads::Threads"));
  CHECK_FALSE(bad("cli", "cplab_sim cplab_exec cplab_version Boost::program_options fmt::fmt"));
  CHECK_FALSE(bad("sim", "cplab_report  # not cplab_exec"));
}

TEST_CASE("tidy rules: budgets") {
  const auto lines = [](int n) {
    std::string text = "Algorithm ring_algorithm() {\n";
    for (int i = 1; i < n; ++i) text += "\n";
    return text;
  };
  CHECK(count(check_budgets, "algorithms/softmax/ring.cpp", lines(100)) == 0);
  CHECK(count(check_budgets, "algorithms/softmax/ring.cpp", lines(101)) == 1);
  CHECK(count(check_budgets, "algorithms/core/builder_edges.cpp", std::string(400, '\n')) == 0);
  CHECK(count(check_budgets, "algorithms/softmax/ring.hpp", lines(151)) == 0);
  CHECK(count(check_budgets, "derive/memory.cpp", std::string(400, '\n')) == 0);
  CHECK(count(check_budgets, "sim/a.cpp", lines(451)) == 1);
  CHECK(count(check_budgets, "docs/01-tiles.md", lines(451)) == 0);
  const auto members = [](const std::string& more, std::size_t n) {
    return "// x\nnamespace {\n\nint own(int x) {\n}\n\n}  // namespace\n\n" + more +
           "std::vector<int> Engine::run(int x) {\n" + std::string(n - 9, '\n');
  };
  CHECK(count(check_budgets, "sim/a.cpp", members("Engine::Engine() {}\n", 599)) == 0);
  CHECK(count(check_budgets, "sim/a.cpp", members("Engine::Engine() {}\n", 600)) == 1);
  CHECK(count(check_budgets, "sim/a.cpp", members("Walk::Walk() {}\n", 500)) == 1);  // of two
  CHECK(count(check_budgets, "sim/a.cpp", members("int shared(int x) {\n", 500)) == 1);
  const std::string whole = "// x\nclass Engine final : public Clock {\n public:\n  void run();\n";
  CHECK(count(check_budgets, "sim/a.hpp", whole + std::string(500, '\n')) == 0);
  CHECK(count(check_budgets, "sim/a.hpp", whole + "class Other {\n" + std::string(500, '\n')) == 1);
}

TEST_CASE("tidy rules: every source is built") {
  CHECK(check_listed({{"sim/a.cpp", ""}, {"sim/CMakeLists.txt", "add_library(x a.cpp)\n"}}).empty());
  CHECK(check_listed({{"kernels/cpu/a.cpp", ""}, {"kernels/CMakeLists.txt", "cpu/a.cpp\n"}}).empty());
  CHECK(check_listed({{"sim/a.cpp", ""}, {"sim/CMakeLists.txt", "add_library(x aa.cpp)\n"}}).size() == 1);
  CHECK(check_listed({{"sim/a.cpp", ""}, {"sim/CMakeLists.txt", "b/a.cpp  # a.cpp\n"}}).size() == 1);
  CHECK(check_listed({{"sim/a.cpp", ""}, {"sim/CMakeLists.txt", "# a.cpp\n"}}).size() == 1);
  CHECK(check_listed({{"sim/a.cpp", ""}, {"exec/CMakeLists.txt", "a.cpp\n"}}).size() == 1);
}

TEST_CASE("tidy rules: first comment") {
  CHECK(count(check_first_comment, "sim/a.cpp", "#include <vector>\n") == 1);
  CHECK(count(check_first_comment, "sim/a.cpp", "") == 1);
  CHECK(count(check_first_comment, "sim/a.cpp", "\n// late\n") == 1);
  CHECK(count(check_first_comment, "sim/CMakeLists.txt", "add_library(x)\n") == 1);
  CHECK(count(check_first_comment, "scripts/a.sh", "#!/bin/sh\nset -e\n") == 1);
  CHECK(count(check_first_comment, "scripts/a.sh", "#!/bin/sh\n# what\n") == 0);
  CHECK(count(check_first_comment, "plots/a.py", "\"\"\"What it draws.\"\"\"\n") == 0);
  CHECK(count(check_first_comment, "sim/a.hpp", "// what\n") == 0);
  CHECK(count(check_first_comment, "README.md", "# title\n") == 0);
}

TEST_CASE("tidy rules: trailing blanks") {
  CHECK(count(check_trailing_blanks, "sim/a.cpp", "// x\nint a; \n") == 1);
  CHECK(count(check_trailing_blanks, "Makefile", "x:\t\n") == 1);
  CHECK(count(check_trailing_blanks, "README.md", "a\r\n") == 1);
  CHECK(count(check_trailing_blanks, "docs/a.svg", "L 1 2 \n") == 0);
  CHECK(count(check_trailing_blanks, "sim/a.cpp", "// x\n\nint a;") == 0);
}

TEST_CASE("tidy rules: paths of one machine") {
  const auto bad = [](const std::string& line) {
    return !check_machine_paths({{"docs/a.md", line}}, {"/srv/machine7/cplab", "/tmp"}).empty();
  };
  const std::string home = "/home";  // apart from what follows, as this file is read too
  CHECK(bad("see " + home + "/ada/x"));
  CHECK(bad("\"/srv/machine7/cplab\""));
  CHECK(bad("/srv/machine7/cplab/build"));
  CHECK_FALSE(bad("/srv/machine7/cplab2/build"));
  CHECK_FALSE(bad("/data/srv/machine7/cplab/x"));
  CHECK_FALSE(bad("docs" + home + "/page"));
  CHECK_FALSE(bad("/usr/local/cuda and /tmp/x"));
}

TEST_CASE("tidy rules: a tree without git is read from its folders") {
  const std::filesystem::path root = std::filesystem::temp_directory_path() / "cplab_tidy_tree";
  std::filesystem::remove_all(root);
  for (const char* path : {"sim/a.cpp", ".ci/run", "build/x.cpp", ".git/config", "docs/b.png"}) {
    std::filesystem::create_directories((root / path).parent_path());
    std::ofstream(root / path, std::ios::binary) << (std::string(path).ends_with(".png") ? '\0' : 'x');
  }
  const Tree tree = read_tree(root);
  std::filesystem::remove_all(root);
  CHECK(tree.size() == 2);
  CHECK(tree.contains("sim/a.cpp"));
  CHECK(tree.contains(".ci/run"));
}

TEST_CASE("tidy rules: quoted CMake lists") {
  const auto bad = [](const std::string& line) {
    return count(check_quoted_lists, "exec/CMakeLists.txt", "# x\n" + line + "\n") == 1;
  };
  CHECK(bad("set_target_properties(a PROPERTIES CUDA_COMPILER_LAUNCHER \"strict.sh;${launcher}\")"));
  CHECK(bad("set(launchers \"${first};strict.sh\")"));
  CHECK_FALSE(bad("set(launchers strict.sh ${launcher})"));
  CHECK_FALSE(bad("set(launchers \"${launchers}\" ${launcher}) # \";${launcher}\""));
  CHECK_FALSE(bad("set(x \"A=\\\"${a}\\\";B=\\\"${b}\\\"\")"));
}

TEST_CASE("tidy rules: names of test cases") {
  const auto bad = [](const std::string& line) {
    return count(check_case_names, "tests/sim/a_test.cpp", "// x\n" + line + " {}\n") == 1;
  };
  CHECK(bad("TEST_CASE(\"one; two\")"));
  CHECK_FALSE(bad("TEST_CASE(\"one, two\")"));
}

TEST_CASE("tidy rules: standard headers of the names that are used") {
  const auto bad = [](const std::string& text) { return count(check_standard_headers, "sim/a.cpp", text); };
  CHECK(bad("// x\nstd::vector<int> a;\n") == 1);
  CHECK(bad("// x\nstd::vector<int> a, b;\nstd::vector<int> c;\n") == 1);  // told once
  CHECK(bad("// x\n#include <vector>\nstd::vector<std::string> a;\n") == 1);
  CHECK(bad("// x\n#include <vector>\nint b = std::ranges::max(a);\n") == 1);
  CHECK(bad("// x\n#include <vector>\nstd::vector<int> a;\n") == 0);
  CHECK(bad("// std::vector\nconst char* a = \"std::vector\";\n") == 0);
  CHECK(bad("// x\nstd::vectors a;\n") == 0);
  const std::string uses = "// x\n#include \"sim/a.hpp\"\nstd::vector<int> a;\n";
  CHECK(check_standard_headers({{"sim/a.cpp", uses},
                                {"sim/a.hpp", "// x\n#include \"plan/b.hpp\"\n"},
                                {"plan/b.hpp", "// x\n#include <vector>\n"}})
            .empty());
  CHECK(check_standard_headers({{"sim/a.cpp", uses}, {"sim/a.hpp", "// x\n"}}).size() == 1);
}

TEST_CASE("tidy rules: records, their index and their readers") {
  const auto entry = [](const std::string& file, const std::string& claim, const std::string& reader,
                        const std::string& supersedes = "") {
    return "[[record]]\nclaim = \"" + claim + "\"\nsays = \"Rings\"\npage = \"a.md\"\nreaders = [\"" +
           reader +
           "\"]\nmachine = \"2 x GPU\"\ncommit = \"0123456-dirty\"\ndate = \"2026-11-28\"\nfile = \"" + file +
           "\"\nsupersedes = \"" + supersedes + "\"\n";
  };
  const std::string folder = "scenarios/measured/";
  const Tree good = {{folder + "INDEX.toml", "# what\n" + entry("new.jsonl", "ring", "a.md")},
                     {folder + "new.jsonl", "{}\n"},
                     {"a.md", "# a\n\n<!-- $ b.sh scenarios/measured/new.jsonl -->\n"},
                     {"b.sh", "# reads new.jsonl\n"}};
  const auto with = [&](const std::string& path, const std::string& text) {
    Tree tree = good;
    tree[path] = text;
    return check_records(tree).size();
  };
  CHECK(check_records(good).empty());
  CHECK(check_records({}).size() == 1);                           // no index
  CHECK(with(folder + "other.json", "{}") == 1);                  // not in it
  CHECK(with(folder + "h200/run.json", "{}") == 1);               // a folder of points is no campaign
  CHECK(with("a.md", "# a\n\nThe record is new.jsonl.\n") == 1);  // prose opens nothing
  const std::string index = good.at(folder + "INDEX.toml");
  CHECK(with(folder + "INDEX.toml", index + entry("gone.json", "other", "a.md")) ==
        2);  // no file, not opened
  CHECK(with(folder + "INDEX.toml", index + "colour = \"red\"\n") == 1);
  CHECK(with(folder + "INDEX.toml", index + "colour\n") == 1);
  CHECK(with(folder + "INDEX.toml", entry("new.jsonl", "ring", "b.sh")) == 1);  // a comment opens nothing
  Tree two = good;
  two[folder + "old.jsonl"] = "{}\n";
  two["a.md"] += "<!-- $ b.sh scenarios/measured/old.jsonl -->\n";
  two[folder + "INDEX.toml"] =
      entry("new.jsonl", "ring", "a.md", "old.jsonl") + entry("old.jsonl", "ring", "a.md");
  CHECK(check_records(two).empty());
  two[folder + "INDEX.toml"] = entry("new.jsonl", "ring", "a.md") + entry("old.jsonl", "ring", "a.md");
  CHECK(check_records(two).size() == 1);  // which of the two holds?
  CHECK(with(folder + "new.jsonl", std::string(3'000'000, ' ')) == 1);
  Tree many = good;
  std::string all = index;
  for (int n = 0; n < 150; ++n) {
    const std::string name = "n" + std::to_string(n) + ".json";
    many[folder + name] = "{}";
    all += entry(name, name.substr(0, name.size() - 5), "a.md");
    many["a.md"] += "$ b.sh " + name + "\n";
  }
  many[folder + "INDEX.toml"] = all;
  CHECK(check_records(many).size() == 1);  // 152 files
}

}  // namespace
}  // namespace cplab::tidy
