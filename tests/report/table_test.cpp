// Tables, CSV, colour rules and number formats, character by character.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <sstream>
#include <stdexcept>

#include "report/table.hpp"

using namespace cplab;

namespace {

TextTable example() {
  TextTable table({{"algorithm", "", Align::left}, {"time", "ms"}, {"exposed comm", "%"}});
  table.add_row({"ring", "12.346", "7.0"});
  table.add_row({"größe", "1.000", "100.0"});
  return table;
}

std::string table_text(const TextTable& table, bool color) {
  std::ostringstream out;
  table.write(out, color);
  return out.str();
}

}  // namespace

TEST_CASE("columns are aligned by code points, numbers to the right") {
  CHECK(table_text(example(), false) ==
        "algorithm  time (ms)  exposed comm (%)\n"
        "---------  ---------  ----------------\n"
        "ring          12.346               7.0\n"
        "größe          1.000             100.0\n");
}

TEST_CASE("the best row is marked, and coloured only on demand") {
  TextTable table = example();
  table.mark_best(1);
  CHECK(table_text(table, false) ==
        "  algorithm  time (ms)  exposed comm (%)\n"
        "  ---------  ---------  ----------------\n"
        "  ring          12.346               7.0\n"
        "* größe          1.000             100.0\n");
  CHECK(table_text(table, true) ==
        "\x1b[1m  algorithm  time (ms)  exposed comm (%)\x1b[0m\n"
        "  ---------  ---------  ----------------\n"
        "  ring          12.346               7.0\n"
        "\x1b[1;32m* größe          1.000             100.0\x1b[0m\n");
}

TEST_CASE("a row of another width is refused") {
  TextTable table = example();
  CHECK_THROWS_AS(table.add_row({"ring", "1"}), std::invalid_argument);
  CHECK(table.rows() == 2);
}

TEST_CASE("CSV: headers with units, quotes where RFC 4180 wants them") {
  std::ostringstream out;
  TextTable table({{"algorithm", "", Align::left}, {"time", "ms"}, {"exposed comm", "%"}, {"link", "GB/s"}});
  table.add_row({"a,b", "say \"1\"", "two\nlines", "plain"});
  table.mark_best(0);
  table.write_csv(out);
  CHECK(out.str() ==
        "algorithm,time_ms,exposed_comm_percent,link_gb_s\n\"a,b\",\"say "
        "\"\"1\"\"\",\"two\nlines\",plain\n");
}

TEST_CASE("wide tables are folded by words, numbers are not, and nothing is lost") {
  TextTable table({{"name", "", Align::left}, {"what it is", "", Align::left}, {"bytes sent", ""}});
  table.add_row({"ring", "keys and values travel around", "1 234 567"});
  std::ostringstream out;
  table.write(out, {false, 34});
  CHECK(out.str() ==
        "name  what it is             bytes\n"
        "                              sent\n"
        "----  -----------------  ---------\n"
        "ring  keys and values    1 234 567\n"
        "      travel around\n");
  std::ostringstream narrow;  // too narrow for three columns: the third follows beneath
  table.write(narrow, {false, 20});
  for (const char* word : {"keys", "and", "values", "travel", "around", "1 234 567"})
    CHECK(narrow.str().find(word) != std::string::npos);
  std::istringstream lines(narrow.str());
  for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 20);
}

TEST_CASE("times have the unit in which they are legible") {
  CHECK(time_text(0.0046860) == "4.686 ms");
  CHECK(time_text(9.9) == "9900.000 ms");
  CHECK(time_text(13.455202) == "13.455 s");
  CHECK(time_text(1200) == "20.000 min");
  CHECK(time_text(2056114.438268) == "571.143 h");
}

TEST_CASE("when to colour") {
  const ColorEnvironment terminal{true, nullptr, nullptr, "xterm"}, pipe{false, nullptr, nullptr, "xterm"};
  const auto automatic = [](ColorEnvironment e) { return use_color(ColorMode::automatic, e); };
  CHECK(automatic(terminal));
  CHECK_FALSE(automatic(pipe));
  CHECK(automatic({true, "", nullptr, "xterm"}));  // an empty NO_COLOR says nothing
  CHECK_FALSE(automatic({true, "1", nullptr, "xterm"}));
  CHECK_FALSE(automatic({true, "1", "1", "xterm"}));  // NO_COLOR wins
  CHECK(automatic({false, nullptr, "1", "xterm"}));
  CHECK(automatic({false, nullptr, "1", "dumb"}));
  CHECK_FALSE(automatic({false, nullptr, "0", "xterm"}));
  CHECK(automatic({true, nullptr, "0", "xterm"}));
  CHECK_FALSE(automatic({true, nullptr, nullptr, "dumb"}));
  CHECK(automatic({true, nullptr, nullptr, nullptr}));
  CHECK(use_color(ColorMode::always, {false, "1", nullptr, "dumb"}));
  CHECK_FALSE(use_color(ColorMode::never, {true, nullptr, "1", "xterm"}));
  CHECK(parse_color_mode("auto") == ColorMode::automatic);
  CHECK(parse_color_mode("always") == ColorMode::always);
  CHECK(parse_color_mode("never") == ColorMode::never);
  CHECK_FALSE(parse_color_mode("Auto").has_value());
}

TEST_CASE("number formats") {
  CHECK(format_ms(0.0123456) == "12.346");
  CHECK(format_gib(std::int64_t{3} << 29) == "1.50");
  CHECK(format_mib(std::int64_t{24112} << 20, 0) == "24112");
  CHECK(format_gb_s(384.04e9) == "384.0");
  CHECK(format_percent(0.1234) == "12.3");
  CHECK(format_signed_percent(0.1234) == "+12.3");
  CHECK(format_signed_percent(-0.1234) == "-12.3");
  CHECK(format_fixed(-0.0001, 1) == "0.0");
  CHECK(format_fixed(-0.06, 1) == "-0.1");
  CHECK(format_ms(std::nan("")) == "-");
  CHECK(format_ms(std::numeric_limits<double>::infinity()) == "-");
  CHECK(format_signed_percent(std::nan("")) == "-");
  CHECK(format_count(0) == "0");
  CHECK(format_count(999) == "999");
  CHECK(format_count(1000) == "1 000");
  CHECK(format_count(-123456) == "-123 456");
  CHECK(format_count(1234567) == "1 234 567");
}
