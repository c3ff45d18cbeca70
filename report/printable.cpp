// Escapes for what a terminal would obey.
#include "report/printable.hpp"

#include <algorithm>

namespace cplab {

namespace {

unsigned byte_at(std::string_view text, std::size_t i) {
  return static_cast<unsigned char>(text[i]);
}

std::string hex(std::uint32_t value, int digits) {
  std::string text;
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) text += "0123456789abcdef"[value >> shift & 15];
  return text;
}

// The code point of a well-formed UTF-8 sequence.
std::uint32_t code_point(std::string_view sequence) {
  if (sequence.size() == 1) return byte_at(sequence, 0);
  std::uint32_t value = byte_at(sequence, 0) & (0xFFU >> (sequence.size() + 1));
  for (std::size_t i = 1; i < sequence.size(); ++i) value = value << 6 | (byte_at(sequence, i) & 0x3F);
  return value;
}

// Line and paragraph separators, and what turns the direction of the text around it.
bool reorders(std::uint32_t c) {
  return (c >= 0x2028 && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069) || c == 0x200E || c == 0x200F ||
         c == 0x061C;
}

void append_printable(std::string& out, std::string_view sequence) {
  const std::uint32_t c = code_point(sequence);
  if (c == '\n') {
    out += "\\n";
  } else if (c == '\t') {
    out += "\\t";
  } else if (c == '\r') {
    out += "\\r";
  } else if (c < 0x20 || c == 0x7F) {
    out += "\\x" + hex(c, 2);
  } else if ((c >= 0x80 && c < 0xA0) || reorders(c)) {
    out += "\\u" + hex(c, 4);
  } else {
    out += sequence;
  }
}

bool is_plain(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x20 && byte < 0x7F;
}

// Is `text` the beginning of a sequence of UTF-8 that could still be completed?
bool may_continue(std::string_view text) {
  const unsigned lead = byte_at(text, 0);
  const std::size_t length = lead >= 0xF0 && lead <= 0xF4   ? 4
                             : lead >= 0xE0 && lead <= 0xEF ? 3
                             : lead >= 0xC2 && lead <= 0xDF ? 2
                                                            : 1;
  if (text.size() >= length) return false;
  return std::all_of(text.begin() + 1, text.end(),
                     [](char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; });
}

}  // namespace

std::size_t utf8_length(std::string_view text) {
  const unsigned lead = byte_at(text, 0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte_at(text, i) & 0xC0) != 0x80) return 0;
  const unsigned second = byte_at(text, 1);
  if ((lead == 0xE0 && second < 0xA0) || (lead == 0xED && second > 0x9F) || (lead == 0xF0 && second < 0x90) ||
      (lead == 0xF4 && second > 0x8F))
    return 0;
  return length;
}

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const auto end = std::find_if_not(text.begin(), text.end(), is_plain);
    const auto plain = static_cast<std::size_t>(end - text.begin());
    out += text.substr(0, plain);
    text.remove_prefix(plain);
    if (text.empty()) break;
    const std::size_t length = utf8_length(text);
    if (length == 0) {
      out += "\\x" + hex(byte_at(text, 0), 2);
    } else {
      append_printable(out, text.substr(0, length));
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

PrintableStream::PrintableStream(std::ostream& stream) : stream_(stream), filter_(stream.rdbuf()) {
  stream.rdbuf(&filter_);
}

PrintableStream::~PrintableStream() {
  filter_.pass_on(true);
  const std::ios::iostate state = stream_.rdstate();
  stream_.rdbuf(filter_.into_);  // clears the state
  stream_.clear(state);
}

bool PrintableStream::Filter::pass_on(bool all) {
  std::string_view rest = waiting_;
  std::string out;
  while (!rest.empty()) {
    // Lines end as they are: "\n", and "\r\n" in CSV.
    const bool line_end = rest.front() == '\n' || rest.front() == '\t' || rest.starts_with("\r\n");
    if (line_end) {
      const std::size_t length = rest.front() == '\r' ? 2 : 1;
      out += rest.substr(0, length);
      rest.remove_prefix(length);
      continue;
    }
    if (!all && (rest == "\r" || may_continue(rest))) break;
    const std::size_t stop = std::min(rest.find_first_of("\r\n\t"), rest.size());
    std::size_t count = stop == 0 ? 1 : stop;
    if (!all) {  // leave the beginning of a sequence at the very end for the next time
      for (std::size_t back = 1; back <= std::min<std::size_t>(3, count); ++back)
        if (count == rest.size() && may_continue(rest.substr(count - back))) {
          count -= back;
          break;
        }
    }
    if (count == 0) break;
    out += printable(rest.substr(0, count));
    rest.remove_prefix(count);
  }
  waiting_ = std::string(rest);
  return into_->sputn(out.data(), static_cast<std::streamsize>(out.size())) ==
         static_cast<std::streamsize>(out.size());
}

PrintableStream::Filter::int_type PrintableStream::Filter::overflow(int_type c) {
  if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
  waiting_ += traits_type::to_char_type(c);
  return pass_on(false) ? c : traits_type::eof();
}

std::streamsize PrintableStream::Filter::xsputn(const char* text, std::streamsize count) {
  waiting_.append(text, static_cast<std::size_t>(count));
  return pass_on(false) ? count : 0;
}

int PrintableStream::Filter::sync() {
  return pass_on(true) ? into_->pubsync() : -1;
}

void PrintableStream::Filter::write_control(std::string_view sequence) {
  pass_on(true);
  into_->sputn(sequence.data(), static_cast<std::streamsize>(sequence.size()));
}

void write_control(std::ostream& stream, std::string_view sequence) {
  if (auto* filter = dynamic_cast<PrintableStream::Filter*>(stream.rdbuf())) {
    filter->write_control(sequence);
  } else {
    stream << sequence;
  }
}

}  // namespace cplab
