// Pictures of characters: bars, and the front of time against memory; on terminals alone.
#include "cli/picture.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <sstream>

#include "report/folding.hpp"
#include "tests/cli/program.hpp"
#include "tests/cli/terminal.hpp"
#include "tests/contains.hpp"

using namespace cplab;
using cplab::testing::contains;

namespace {

constexpr std::int64_t gib = std::int64_t{1} << 30;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string bars(const std::vector<PicturePoint>& points, const PictureStyle& style) {
  std::ostringstream out;
  write_time_bars(out, points, style);
  return out.str();
}

std::string front(const std::vector<PicturePoint>& points, const PictureStyle& style) {
  std::ostringstream out;
  write_pareto(out, points, style);
  return out.str();
}

std::size_t count(const std::string& text, char c) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), c));
}

}  // namespace

TEST_CASE("a bar is as long as its time, its band as long as that goes on") {
  const std::vector<PicturePoint> points{{"a", 0.010, 0.009, 0.010, gib, true},
                                         {"b", 0.020, 0.015, 0.040, gib, false}};
  const std::vector<std::string> lines = lines_of(bars(points, {Glyphs::plain, false, 60}));
  REQUIRE(lines.size() == 2);
  const std::size_t most = count(lines[1], '#') + count(lines[1], '-');
  CHECK(lines[0].starts_with("* a"));
  CHECK(lines[1].starts_with("  b"));
  CHECK(contains(lines[0], "10.000 ms"));
  CHECK(lines[1].size() <= 60);
  CHECK(count(lines[1], '#') * 2 == doctest::Approx(static_cast<double>(most)).epsilon(0.05));
  CHECK(count(lines[0], '#') * 4 == doctest::Approx(static_cast<double>(most)).epsilon(0.1));
  CHECK(count(lines[0], '-') == 0);
}

TEST_CASE("blocks are as long as characters, in eighths") {
  const std::vector<PicturePoint> points{{"a", 0.013, 0.009, 0.013, gib, true},
                                         {"b", 0.020, 0.015, 0.020, gib, false}};
  const std::vector<std::string> blocks = lines_of(bars(points, {Glyphs::blocks, false, 60}));
  CHECK(contains(blocks[1], "█"));
  for (const std::string& line : blocks) CHECK(width_of(line) <= 60);
  CHECK(contains(bars(points, {Glyphs::blocks, true, 60}), "\033[1;32m"));
  CHECK_FALSE(contains(bars(points, {Glyphs::blocks, false, 60}), "\033"));
}

TEST_CASE("the front is what no other point beats in both: against brute force") {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<PicturePoint> points(1 + random() % 12);
    for (PicturePoint& point : points) {
      point.time_s = 0.001 * static_cast<double>(1 + random() % 6);
      point.peak_bytes = gib * static_cast<std::int64_t>(1 + random() % 6);
    }
    std::vector<std::size_t> places = pareto_front(points);
    for (std::size_t i = 0; i < points.size(); ++i) {
      bool beaten = false, same_before = false;
      for (std::size_t j = 0; j < points.size(); ++j) {
        const bool no_worse =
            points[j].time_s <= points[i].time_s && points[j].peak_bytes <= points[i].peak_bytes;
        const bool same =
            points[j].time_s == points[i].time_s && points[j].peak_bytes == points[i].peak_bytes;
        beaten = beaten || (no_worse && !same);
        same_before = same_before || (same && j < i);
      }
      const bool in = std::find(places.begin(), places.end(), i) != places.end();
      CHECK(in == (!beaten && !same_before));
    }
  }
}

TEST_CASE("letters stand where time and memory are, with a line each") {
  const std::vector<PicturePoint> points{{"fast", 0.010, 0, 0, 4 * gib, true},
                                         {"small", 0.020, 0, 0, gib, false},
                                         {"neither", 0.020, 0, 0, 4 * gib, false}};
  const std::vector<std::string> lines = lines_of(front(points, {Glyphs::plain, false, 80}));
  REQUIRE(lines.size() == 14 + 2 + 2);
  CHECK(contains(lines[0], "4.00 GiB |a"));  // above and to the left
  CHECK(lines[0].ends_with("."));            // beaten, above and to the right
  CHECK(contains(lines[13], "1.00 GiB |"));
  CHECK(lines[13].ends_with("b"));  // below and to the right
  CHECK(contains(lines[15], "10.000"));
  CHECK(contains(lines[15], "20.000 ms"));
  CHECK(contains(lines[16], "a  fast: 10.000 ms, 4.00 GiB"));
  CHECK(contains(lines[17], "b  small: 20.000 ms, 1.00 GiB"));
  CHECK(front({points.front()}, {Glyphs::plain, false, 80}).empty());
}

TEST_CASE("everything fits the width, however long names are") {
  std::vector<PicturePoint> points;
  for (int i = 0; i < 40; ++i)
    points.push_back(
        {"a very long name of an algorithm, zigzag, with=options and=others number " + std::to_string(i),
         0.01 * (i + 1), 0.009 * (i + 1), 0.02 * (i + 1), gib * (41 - i), false});
  for (const std::size_t width : {60, 80, 100})
    for (const Glyphs glyphs : {Glyphs::plain, Glyphs::blocks})
      for (const std::string& text :
           {bars(points, {glyphs, false, width}), front(points, {glyphs, false, width})})
        for (const std::string& line : lines_of(text)) CHECK(width_of(line) <= width);
}

TEST_CASE("the locale says whether there are blocks") {
  const auto glyphs_with = [](const char* all, const char* ctype, const char* lang, const char* term) {
    setenv("LC_ALL", all, 1);
    setenv("LC_CTYPE", ctype, 1);
    setenv("LANG", lang, 1);
    setenv("TERM", term, 1);
    return glyphs_of_environment();
  };
  const char* const names[] = {"LC_ALL", "LC_CTYPE", "LANG", "TERM"};
  std::vector<std::pair<const char*, std::string>> before;
  for (const char* name : names)
    if (const char* value = std::getenv(name)) before.emplace_back(name, value);
  CHECK(glyphs_with("", "", "de_DE.UTF-8", "xterm") == Glyphs::blocks);
  CHECK(glyphs_with("C.utf8", "", "C", "xterm") == Glyphs::blocks);
  CHECK(glyphs_with("C", "C.UTF-8", "C.UTF-8", "xterm") == Glyphs::plain);  // LC_ALL wins
  CHECK(glyphs_with("", "", "", "xterm") == Glyphs::plain);
  CHECK(glyphs_with("", "", "C.UTF-8", "dumb") == Glyphs::plain);
  for (const char* name : names) unsetenv(name);
  for (const auto& [name, value] : before) setenv(name, value.c_str(), 1);
}

TEST_CASE("simulate --algorithms and sweep show them on a terminal, and nowhere else") {
  if (!has_terminals()) return;
  const TemporaryFolder folder;
  const std::string study = folder.write(
      "study.toml",
      "scenario = \"ring\"\n[vary]\n\"problem.sequence\" = [\"8K\", \"16K\"]\n\"parallel.ranks\" = [4, 8]\n");
  const std::vector<std::vector<std::string>> commands{
      {"simulate", "ring", "--algorithms", "ring,all_to_all", "--quiet"},
      {"sweep", study, "--quiet", "--workers", "1"}};
  for (const std::vector<std::string>& words : commands) {
    CAPTURE(words.front());
    const auto shown = [&](const char* lang, const char* color) {
      std::vector<std::string> all = words;
      all.insert(all.end(), {"--color", color});
      const Terminal result = on_terminal(
          all, {.typed = "", .columns = 100, .environment = {{"LC_ALL", lang}, {"TERM", "xterm"}}});
      CHECK(result.code == 0);
      return result.text;
    };
    const std::string plain = shown("C", "never"), blocks = shown("C.UTF-8", "always");
    CHECK(contains(plain, "time against peak memory"));
    CHECK(contains(plain, "####"));
    CHECK_FALSE(contains(plain, "\033["));
    CHECK_FALSE(contains(plain, "█"));
    CHECK(contains(blocks, "█"));
    CHECK(contains(blocks, "\033[1;32m"));
    CHECK_FALSE(contains(run_cplab(words).out, "time against peak memory"));
  }
}
