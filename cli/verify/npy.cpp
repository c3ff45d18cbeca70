// NumPy files; see npy.hpp. Magic "\x93NUMPY", version, header length (2 bytes little-endian in 1.0, else 4),
// then a Python dictionary literal with the keys descr, fortran_order and shape, then the data.
#include "cli/verify/npy.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <utility>

#include "cli/files/toml_table.hpp"

namespace cplab {

namespace {

static_assert(std::endian::native == std::endian::little, "data is copied as it lies in the file");

constexpr std::string_view magic = "\x93NUMPY";
constexpr std::size_t alignment = 64;

[[noreturn]] void fail_npy(const std::string& file, const std::string& message) {
  throw InputError(file + ": " + message);
}

struct Header {
  std::string descr;
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
};

// The dictionary literal that NumPy writes: strings, True, False, and a tuple of integers.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  Header parse() {
    Header header;
    bool descr = false, order = false, shape = false;
    expect('{');
    while (!accept('}')) {
      const std::string key = text_literal();
      expect(':');
      if (key == "descr" && !descr) {
        descr = true;
        if (peek() == '[') fail_npy(file_, "holds a structured array; save plain float32 or float64 arrays");
        header.descr = text_literal();
      } else if (key == "fortran_order" && !order) {
        order = true;
        header.fortran_order = boolean();
      } else if (key == "shape" && !shape) {
        shape = true;
        header.shape = tuple();
      } else {
        broken("unexpected or repeated key '" + key + "'");
      }
      if (accept('}')) break;
      expect(',');
    }
    if (peek() != '\0') broken("text behind the dictionary");
    if (!descr || !order || !shape) broken("descr, fortran_order or shape is missing");
    return header;
  }

 private:
  [[noreturn]] void broken(const std::string& what) const {
    fail_npy(file_, "malformed .npy header: " + what);
  }

  char peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool accept(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) broken(std::string("expected '") + c + "' at byte " + std::to_string(at_) + " of it");
  }
  bool accept_word(std::string_view word) {
    peek();
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  std::string text_literal() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') broken("expected a string at byte " + std::to_string(at_) + " of it");
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) broken("a string does not end");
    std::string out(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return out;
  }

  bool boolean() {
    if (accept_word("True")) return true;
    if (accept_word("False")) return false;
    broken("fortran_order is neither True nor False");
  }

  std::vector<std::int64_t> tuple() {
    std::vector<std::int64_t> out;
    expect('(');
    while (!accept(')')) {
      out.push_back(integer());
      if (accept(')')) break;
      expect(',');
    }
    return out;
  }

  std::int64_t integer() {
    constexpr std::int64_t limit = std::numeric_limits<std::int64_t>::max() / 10 - 1;
    if (peek() < '0' || peek() > '9') broken("the shape holds something that is no size");
    std::int64_t value = 0;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') {
      if (value > limit) broken("a size in the shape is too large");
      value = value * 10 + (text_[at_++] - '0');
    }
    return value;
  }

  std::string_view text_;
  const std::string& file_;
  std::size_t at_ = 0;
};

// Bytes of the data, or nothing if the product does not fit.
std::optional<std::size_t> data_bytes(const std::vector<std::int64_t>& shape, std::size_t element) {
  std::int64_t bytes = static_cast<std::int64_t>(element);
  for (const std::int64_t extent : shape) {
    if (__builtin_mul_overflow(bytes, extent, &bytes)) return std::nullopt;
  }
  return static_cast<std::size_t>(bytes);
}

template <class T>
void append_as(std::string& out, std::span<const double> values) {
  const std::size_t begin = out.size();
  out.resize(begin + values.size() * sizeof(T));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const T value = static_cast<T>(values[i]);
    std::memcpy(out.data() + begin + i * sizeof(T), &value, sizeof(T));
  }
}

// Appends the numbers whose bytes are `data`.
template <class T>
void append_values(std::string_view data, std::vector<double>& values) {
  for (std::size_t i = 0; i < data.size() / sizeof(T); ++i) {
    T value;
    std::memcpy(&value, data.data() + i * sizeof(T), sizeof(T));
    values.push_back(static_cast<double>(value));
  }
}

void append_values(std::string_view data, NpyArray& array) {
  array.fp64 ? append_values<double>(data, array.values) : append_values<float>(data, array.values);
}

// NumPy writes 128 bytes, and reads no more than 10,000 itself unless told to.
constexpr std::size_t longest_header = 65536;
constexpr std::size_t most_before_header = 12;  // magic, version, length

// What the first bytes say, without the values.
struct Start {
  NpyArray array;
  std::size_t data_begin = 0;
};

// Where the header begins and ends, from at least the first 12 bytes (or the whole file).
std::pair<std::size_t, std::size_t> header_place(std::string_view bytes, const std::string& file) {
  if (bytes.substr(0, magic.size()) != magic) fail_npy(file, "is not a NumPy .npy file (wrong first bytes)");
  if (bytes.size() < magic.size() + 4) fail_npy(file, "the .npy header is cut off");
  const auto byte = [&](std::size_t i) { return std::size_t{static_cast<unsigned char>(bytes[i])}; };
  const std::size_t major = byte(6);
  if (major < 1 || major > 3)
    fail_npy(file, "has .npy format version " + std::to_string(major) + "; 1 to 3 are read");
  const std::size_t begin = major == 1 ? 10 : most_before_header;
  if (bytes.size() < begin) fail_npy(file, "the .npy header is cut off");
  std::size_t length = byte(8) | byte(9) << 8;
  if (major > 1) length |= byte(10) << 16 | byte(11) << 24;
  if (length > longest_header)
    fail_npy(file, "has a header of " + std::to_string(length) + " bytes; at most " +
                       std::to_string(longest_header) + " are read");
  return {begin, begin + length};
}

// `bytes`: the file at least to the end of the header; `file_bytes`: the size of the whole.
Start parse_start(std::string_view bytes, std::uintmax_t file_bytes, const std::string& file) {
  const auto [begin, end] = header_place(bytes, file);
  if (bytes.size() < end) fail_npy(file, "the .npy header is cut off");
  Header header = HeaderParser(bytes.substr(begin, end - begin), file).parse();
  if (header.descr != "<f4" && header.descr != "<f8") {
    fail_npy(file, "has dtype '" + header.descr +
                       "'; float32 ('<f4') and float64 ('<f8') are read: save array.astype(numpy.float32)");
  }
  if (header.fortran_order && header.shape.size() > 1) {
    fail_npy(file, "is in Fortran order; save numpy.ascontiguousarray(array)");
  }
  Start start;
  start.data_begin = end;
  start.array.shape = std::move(header.shape);
  start.array.fp64 = header.descr == "<f8";
  const std::optional<std::size_t> expected = data_bytes(start.array.shape, start.array.fp64 ? 8 : 4);
  if (!expected || file_bytes - end != *expected) {
    fail_npy(file, "holds " + std::to_string(file_bytes - end) + " bytes of data, and its shape " +
                       shape_text(start.array.shape) + " takes " +
                       (expected ? std::to_string(*expected) : std::string("more than can be")));
  }
  return start;
}

}  // namespace

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string out = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) out += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  return out + "]";
}

NpyArray parse_npy(std::string_view bytes, const std::string& file) {
  Start start = parse_start(bytes, bytes.size(), file);
  append_values(bytes.substr(start.data_begin), start.array);
  return std::move(start.array);
}

NpyArray read_npy(const std::string& path, const NpyShapeCheck& check_shape) {
  std::error_code error;
  if (path.find('\0') != std::string::npos) fail_npy(path, "a file name holds no NUL");
  if (!std::filesystem::exists(path, error)) fail_npy(path, "no such file");
  if (!std::filesystem::is_regular_file(path, error)) fail_npy(path, "is not a file");
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  std::ifstream in(path, std::ios::binary);
  if (error || !in) fail_npy(path, "cannot be read");
  // As many of the next bytes as there are, `most` at most.
  std::string bytes;
  const auto read_on = [&](std::size_t most) {
    const std::size_t before = bytes.size();
    bytes.resize(before + most);
    in.read(bytes.data() + before, static_cast<std::streamsize>(most));
    bytes.resize(before + static_cast<std::size_t>(in.gcount()));
    if (in.bad()) fail_npy(path, "cannot be read");
  };
  read_on(most_before_header);
  const std::size_t header_end = header_place(bytes, path).second;
  if (header_end > bytes.size()) read_on(header_end - bytes.size());
  Start start = parse_start(bytes, size, path);
  if (check_shape) check_shape(start.array.shape);

  NpyArray array = std::move(start.array);
  const auto count = static_cast<std::size_t>((size - start.data_begin) / (array.fp64 ? 8 : 4));
  array.values.reserve(count);
  bytes.erase(0, start.data_begin);  // what was read of the data
  constexpr std::size_t chunk_bytes = std::size_t{1} << 20;
  while (true) {
    read_on(chunk_bytes - bytes.size());
    const std::size_t whole = bytes.size() / 8 * 8;
    append_values(std::string_view(bytes).substr(0, whole), array);
    bytes.erase(0, whole);
    if (!in) break;
  }
  append_values(bytes, array);  // one float32 may be left
  if (array.values.size() != count) fail_npy(path, "has changed while it was read");
  return array;
}

std::string format_npy(std::span<const std::int64_t> shape, std::span<const double> values, bool fp64) {
  std::string tuple = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) tuple += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  tuple += shape.size() == 1 ? ",)" : ")";
  std::string header = std::string("{'descr': '") + (fp64 ? "<f8" : "<f4") +
                       "', 'fortran_order': False, 'shape': " + tuple + ", }";
  const std::size_t before = magic.size() + 4;
  header.append((alignment - (before + header.size() + 1) % alignment) % alignment, ' ');
  header += '\n';
  std::string out(magic);
  out += {'\x01', '\x00', static_cast<char>(header.size() & 0xFF), static_cast<char>(header.size() >> 8)};
  out += header;
  fp64 ? append_as<double>(out, values) : append_as<float>(out, values);
  return out;
}

}  // namespace cplab
