// Text from files on its way to a terminal: names, keys and values that users' files hold may contain escape
// sequences, which a terminal would obey. What is no text is shown as an escape instead.
#pragma once

#include <cstddef>
#include <ostream>
#include <streambuf>
#include <string>
#include <string_view>

namespace cplab {

// Length of the well-formed UTF-8 sequence at the front of `text` (RFC 3629: no surrogates, nothing overlong,
// nothing above U+10FFFF), 0 if there is none. `text` is not empty.
std::size_t utf8_length(std::string_view text);

// One line of text: control characters (C0, DEL, C1; line breaks too) become \n, \t, \x1b, \u009b; bytes that
// are no UTF-8 \xff; marks that reorder text (U+202A to U+202E, U+2066 to U+2069, ...) \u202e. The rest
// stays.
std::string printable(std::string_view text);

// While it lives, whatever goes through `stream` is made printable, except line breaks and tabs; the stream
// behaves as before otherwise. The place through which all talk and all results of the program go.
class PrintableStream {
 public:
  explicit PrintableStream(std::ostream& stream);
  ~PrintableStream();
  PrintableStream(const PrintableStream&) = delete;
  PrintableStream& operator=(const PrintableStream&) = delete;

 private:
  class Filter final : public std::streambuf {
   public:
    explicit Filter(std::streambuf* into) : into_(into) {}
    void write_control(std::string_view sequence);

   protected:
    int_type overflow(int_type c) override;
    std::streamsize xsputn(const char* text, std::streamsize count) override;
    int sync() override;

   private:
    friend class PrintableStream;
    bool pass_on(bool all);

    std::streambuf* into_;
    std::string waiting_;  // the beginning of a sequence whose end has not come yet
  };
  friend void write_control(std::ostream&, std::string_view);

  std::ostream& stream_;
  Filter filter_;
};

// Control sequences of our own (colour, "erase this line"): they pass a PrintableStream as they are.
void write_control(std::ostream&, std::string_view sequence);

}  // namespace cplab
