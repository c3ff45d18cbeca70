// What a terminal would obey is shown as an escape: in single texts and through a whole stream.
#include "report/printable.hpp"

#include <doctest/doctest.h>

#include <sstream>
#include <string>
#include <vector>

namespace cplab {
namespace {

std::string through_stream(const std::vector<std::string>& pieces) {
  std::ostringstream out;
  {
    const PrintableStream printable_out(out);
    for (const std::string& piece : pieces) out << piece;
  }
  return out.str();
}

TEST_CASE("control characters, invalid UTF-8 and marks that reorder text become escapes") {
  CHECK(printable("plain, \u00e4 \u65e5 \U0001F600") == "plain, \u00e4 \u65e5 \U0001F600");
  CHECK(printable("\x1b[31mred\x1b]0;title\x07") == "\\x1b[31mred\\x1b]0;title\\x07");
  CHECK(printable(std::string("a\0b\x7f", 4)) == "a\\x00b\\x7f");
  CHECK(printable("two\nlines\tand\rmore") == "two\\nlines\\tand\\rmore");
  CHECK(printable("\u0085\u009b31m") == "\\u0085\\u009b31m");
  CHECK(printable("\x9b"
                  "31m \xff \xc3") == "\\x9b31m \\xff \\xc3");
  CHECK(printable("\xed\xa0\x80 \xc0\xaf") ==
        "\\xed\\xa0\\x80 \\xc0\\xaf");  // a surrogate, an overlong slash
  CHECK(printable("a\u202egnp.exe\u2066") == "a\\u202egnp.exe\\u2066");
  CHECK(printable("").empty());
}

TEST_CASE("a stream passes lines and our own sequences, wherever a text is cut in pieces") {
  const std::string text = "a\tb\r\nc \x1b[2J \u00e4\u65e5\U0001F600 \u009b\xff \r end\n";
  const std::string expected = "a\tb\r\nc \\x1b[2J \u00e4\u65e5\U0001F600 \\u009b\\xff \\r end\n";
  CHECK(through_stream({text}) == expected);
  std::vector<std::string> bytes;
  for (const char c : text) bytes.emplace_back(1, c);
  CHECK(through_stream(bytes) == expected);
  for (std::size_t cut = 0; cut <= text.size(); ++cut)
    CHECK(through_stream({text.substr(0, cut), text.substr(cut)}) == expected);
  CHECK(through_stream({"cut off \xe6\x97"}) == "cut off \\xe6\\x97");

  std::ostringstream out;
  {
    const PrintableStream printable_out(out);
    write_control(out, "\x1b[1m");
    out << "bold\x1b[0m";
    write_control(out, "\x1b[0m");
    out << std::flush;
    CHECK(out.good());
  }
  out << "\x1b";  // as before
  CHECK(out.str() == "\x1b[1mbold\\x1b[0m\x1b[0m\x1b");
}

TEST_CASE("the state of a stream outlives the filter") {
  std::ostringstream out;
  {
    const PrintableStream printable_out(out);
    out.setstate(std::ios::failbit);
  }
  CHECK(out.fail());
}

}  // namespace
}  // namespace cplab
