// The reader of shell scripts and the rule about commands, shown small scripts: what they must see and pass
// over.
#include <doctest/doctest.h>

#include "tests/tidy/rules.hpp"
#include "tests/tidy/shell_words.hpp"

namespace cplab::tidy {
namespace {

// "name:line" of each command, in order.
std::string commands(std::string_view script) {
  std::string all;
  for (const ShellCommand& command : read_shell(script).commands) {
    if (!all.empty()) all += ' ';
    all += command.name + ':' + std::to_string(command.line);
  }
  return all;
}

TEST_CASE("tidy shell: where a command stands") {
  CHECK(commands("a b c\nd") == "a:1 d:2");
  CHECK(commands("a | b && c || d; e & f") == "a:1 b:1 c:1 d:1 e:1 f:1");
  CHECK(commands("if a; then b; elif ! c; then d; else e; fi; while f; do g; done") ==
        "a:1 b:1 c:1 d:1 e:1 f:1 g:1");
  CHECK(commands("for x in a b; do c; done; for ((i = 0; i < n; ++i)); do d; done") == "c:1 d:1");
  CHECK(commands("(a; b) | { c; }") == "a:1 b:1 c:1");
  CHECK(commands("A=1 B=\"$(a x)\" b; C=$((1 + n)); exec c") == "a:1 b:1 c:1");
  CHECK(commands("a \\\n  b\nc") == "a:1 c:3");
}

TEST_CASE("tidy shell: what is no command") {
  CHECK(commands("echo a; cd b; [ -f c ] && read -r d # e") == "");
  CHECK(commands("[[ $x == a && b < c ]] && d") == "d:1");
  CHECK(commands("scripts/a.sh; ./b; \"$c\"; $d; ${e:-f}") == "");
  CHECK(commands("a >b 2>&1 <c >>\"d\" && e <<<\"f g\"") == "a:1 e:1");
  CHECK(commands("a 'b; c' \"d; e\"") == "a:1");
  CHECK(commands("x=(a b) y+=(c)") == "");
  CHECK(commands("a <<'END'\nb\nEND\nc") == "a:1 c:4");
}

TEST_CASE("tidy shell: commands within others") {
  CHECK(commands("echo \"$(a \"$(b)\" | c) ${d:-$(e)}\"") == "a:1 b:1 c:1 e:1");
  CHECK(commands("a <(b) >(c)") == "a:1 b:1 c:1");
  CHECK(commands("timeout -k 2 30s a b; env X=1 c; d | xargs -r e") ==
        "timeout:1 a:1 env:1 c:1 d:1 xargs:1 e:1");
  CHECK(commands("case $1 in a | b) c ;; (d) e ;; *) f ;; esac; g") == "c:1 e:1 f:1 g:1");
  CHECK(commands("x=(a\n  -b)\n\"${x[@]}\" c") == "a:1");
  CHECK(commands("x=()\nx=(sudo)\ny=(\"${x[@]}\" env A=b a -q)\n\"${y[@]}\" b") == "env:3 a:3 sudo:2");
}

TEST_CASE("tidy shell: functions of the script") {
  const ShellWords words = read_shell("f() {\n  a\n}\nf b\n");
  CHECK(words.functions == std::set<std::string>{"f"});
}

constexpr const char* setup_text =
    "\nneed_picture() {\n  x || missing+=(python3-matplotlib)\n}\n"
    "case $1 in\n    build)\n      need_command cmake cmake\n      ;;\n"
    "    test) need_command python3 python3 ;;\n    figures) need_picture ;;\n"
    "    lint) need_command shellcheck shellcheck ;;\nesac\n";

// What the rule says of one file and one list beside that setup.sh.
std::string said(const std::string& path, const std::string& text, const std::string& list) {
  std::string all;
  for (const Finding& finding : check_commands(
           {{"scripts/setup.sh", setup_text}, {"tests/tidy/commands.txt", "# x\n" + list}, {path, text}}))
    all += finding.path + ": " + finding.message + '\n';
  return all;
}

TEST_CASE("tidy rules: commands that nobody installs") {
  const auto found = [](const std::string& path, const std::string& text, const std::string& list) {
    const std::string all = said(path, text, list);
    CAPTURE(all);
    return all.find(path + ": runs ") != std::string::npos;
  };
  CHECK(found("scripts/a.sh", "jq x\n", ""));
  CHECK_FALSE(found("scripts/a.sh", "jq x\n", "jq bare\n"));
  CHECK(found(".ci/run", "#!/usr/bin/env bash\njq x\n", ""));
  CHECK(found("Makefile", "a:\n\t@jq $(FILE)\n", ""));
  CHECK_FALSE(found("Makefile", "jq: a\n\t@$(RUN) a\n", ""));
  CHECK(found("docs/a.md", "```console\n$ jq x\n```\n", ""));
  CHECK_FALSE(found("docs/a.md", "```console\n$ build/release/cplab x\njq\n```\n\n$ jq\n", ""));
  CHECK(found("tests/a.py", "subprocess.run([\"jq\", x])\n", ""));
  CHECK(found("tests/exec/a.cpp", "std::system(\"jq x\")\n", ""));
  CHECK(found("exec/CMakeLists.txt", "find_program(JQ jq)\n", ""));
  // Installed, but not for this caller.
  CHECK(found("scripts/build.sh", "python3 x\n", "python3 test\n"));
  CHECK_FALSE(found("tests/a.sh", "python3 x\n", "python3 test\n"));
  CHECK_FALSE(found("scripts/build.sh", "ctest\n", "ctest build cmake\n"));
  CHECK(found("tests/a.sh", "shellcheck x\n", "shellcheck lint\n"));
  CHECK_FALSE(found("tests/a.sh", "shellcheck x || exit 77\n", "shellcheck lint\n"));
  CHECK(found("scripts/gpu/a.sh", "ncu x\n", "ncu asked\n"));
  CHECK(found("scripts/gpu/a.py", "subprocess.run([\"ncu\"])\n", "ncu asked\n"));
  CHECK_FALSE(found("scripts/gpu/a.py", "try:\n  subprocess.run([\"ncu\"])\nexcept (OSError, X):\n  pass\n",
                    "ncu asked\n"));
  CHECK_FALSE(found("scripts/gpu/a.sh", "need() {\n  command -v $1\n}\nneed ncu\nncu x\n", "ncu asked\n"));
}

TEST_CASE("tidy rules: a list of commands that is wrong") {
  const auto found = [](const std::string& row) {
    const std::string all = said("tests/a.sh", "a\nshellcheck\npython3\nctest\n", row + "\n");
    CAPTURE(all);
    return all.find("commands.txt: ") != std::string::npos;
  };
  CHECK(found("a test"));  // setup.sh does not install it
  CHECK(found("a lint cmake"));
  CHECK(found("a somewhere"));
  CHECK(found("a without"));
  CHECK(found("a ours"));
  CHECK(found("b bare"));  // nobody runs it
  CHECK_FALSE(found("a without nothing"));
  CHECK_FALSE(found("ctest build cmake"));
  CHECK_FALSE(found("python3 figures python3-matplotlib"));
  CHECK(check_commands({{"scripts/setup.sh", setup_text}}).size() == 1);  // no list
}

}  // namespace
}  // namespace cplab::tidy
