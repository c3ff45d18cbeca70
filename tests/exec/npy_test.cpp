// .npy files: what is written can be read, also by NumPy's rules, and what is malformed is refused with a
// reason.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include "cli/files/toml_table.hpp"
#include "cli/verify/npy.hpp"

namespace cplab {
namespace {

std::string error_of(const std::string& bytes) {
  try {
    parse_npy(bytes, "x.npy");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

bool mentions(const std::string& text, const std::string& part) {
  return text.find("x.npy") == 0 && text.find(part) != std::string::npos;
}

std::string with_header(const std::string& dictionary, const std::string& data, char major = 1) {
  std::string bytes = "\x93NUMPY";
  bytes += major;
  bytes += '\0';
  const auto length = static_cast<unsigned>(dictionary.size());
  for (int i = 0; i < (major == 1 ? 2 : 4); ++i) bytes += static_cast<char>(length >> (8 * i) & 0xFF);
  return bytes + dictionary + data;
}

TEST_CASE("arrays survive the way into a file and back") {
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> values{0, -0.0, 1.0 / 3, -1e300, 5e-324, inf, -inf, 1, 2, 3, 4, 5};
  for (const bool fp64 : {true, false}) {
    for (const std::vector<std::int64_t>& shape :
         {std::vector<std::int64_t>{12}, {3, 4}, {2, 1, 6}, {1, 2, 2, 3}}) {
      const NpyArray array = parse_npy(format_npy(shape, values, fp64), "x.npy");
      CHECK(array.shape == shape);
      CHECK(array.fp64 == fp64);
      REQUIRE(array.values.size() == values.size());
      for (std::size_t i = 0; i < values.size(); ++i) {
        const double expected = fp64 ? values[i] : static_cast<double>(static_cast<float>(values[i]));
        CHECK(array.values[i] == expected);
        CHECK(std::signbit(array.values[i]) == std::signbit(values[i]));
      }
    }
  }
  const std::vector<double> nan{std::nan("")};
  const std::vector<std::int64_t> scalar, one{1}, empty{0, 3};
  CHECK(std::isnan(parse_npy(format_npy(one, nan, false), "x.npy").values[0]));
  CHECK(parse_npy(format_npy(scalar, nan, true), "x.npy").shape.empty());
  CHECK(parse_npy(format_npy(empty, {}, true), "x.npy").values.empty());
}

// The layout of numpy.lib.format: data begin at a multiple of 64 bytes and the header ends with a newline.
TEST_CASE("the header is NumPy's") {
  const std::vector<std::int64_t> shape{2};
  const std::string bytes = format_npy(shape, std::vector<double>{1, 2}, true);
  CHECK(bytes.substr(0, 8) == std::string("\x93NUMPY\x01\x00", 8));
  CHECK((bytes.size() - 16) % 64 == 0);
  CHECK(bytes[bytes.size() - 17] == '\n');
  CHECK(bytes.substr(10, 58) == "{'descr': '<f8', 'fortran_order': False, 'shape': (2,), } ");
}

TEST_CASE("headers of versions 2 and 3 and other orders of keys are read") {
  const std::string data(16, '\0');
  for (const char major : {'\x01', '\x02', '\x03'}) {
    const NpyArray array = parse_npy(
        with_header("{\"shape\":(2,1),'fortran_order' : False,'descr':'<f8'}\n", data, major), "x.npy");
    CHECK(array.shape == std::vector<std::int64_t>{2, 1});
  }
  // Fortran order of one axis is C order.
  CHECK(parse_npy(with_header("{'descr': '<f8', 'fortran_order': True, 'shape': (2,), }", data), "x.npy")
            .values.size() == 2);
}

TEST_CASE("malformed files are refused") {
  const std::vector<std::int64_t> shape{2, 3};
  const std::string good = format_npy(shape, std::vector<double>(6, 1.5), false);
  REQUIRE(error_of(good).empty());
  for (std::size_t cut = 0; cut < good.size(); ++cut) CHECK_FALSE(error_of(good.substr(0, cut)).empty());
  CHECK(mentions(error_of(""), "not a NumPy"));
  CHECK(mentions(error_of("PK\x03\x04 an npz file"), "not a NumPy"));
  CHECK(mentions(error_of(good.substr(0, 40)), "header is cut off"));
  CHECK(mentions(error_of(good.substr(0, good.size() - 4)), "20 bytes of data"));
  CHECK(mentions(error_of(good + "xxxx"), "28 bytes of data"));
  CHECK(mentions(error_of(with_header("{}", "", 4)), "version 4"));

  const auto with = [](const std::string& descr, const std::string& order, const std::string& tuple) {
    return with_header("{'descr': " + descr + ", 'fortran_order': " + order + ", 'shape': " + tuple + ", }",
                       std::string(8, '\0'));
  };
  REQUIRE(error_of(with("'<f4'", "False", "(2, 1)")).empty());
  CHECK(mentions(error_of(with("'<f4'", "True", "(2, 1)")), "Fortran order"));
  for (const char* dtype : {"'>f4'", "'<f2'", "'<i8'", "'|b1'", "'<c8'", "'|O'", "''"}) {
    CHECK(mentions(error_of(with(dtype, "False", "(2,)")), "dtype"));
  }
  CHECK(mentions(error_of(with("[('a', '<f4')]", "False", "(2,)")), "structured"));
  CHECK(mentions(error_of(with("'<f4'", "0", "(2,)")), "fortran_order"));
  CHECK(mentions(error_of(with("'<f4'", "False", "(-2,)")), "no size"));
  CHECK(mentions(error_of(with("'<f4'", "False", "2")), "expected '('"));
  CHECK(mentions(error_of(with("'<f4'", "False", "(99999999999999999999,)")), "too large"));
  CHECK(mentions(error_of(with("'<f4'", "False", "(4294967296, 4294967296, 4)")), "more than can be"));
  CHECK(mentions(error_of(with_header("{'descr': '<f4'}", "")), "missing"));
  CHECK(mentions(error_of(with_header("{'descr': '<f4', 'descr': '<f4'}", "")), "repeated"));
  CHECK(mentions(error_of(with_header("[1, 2]", "")), "expected '{'"));
  CHECK(mentions(error_of(with_header("{'descr: '<f4'", "")), "malformed"));
}

TEST_CASE("files that are missing or no files are refused") {
  const auto folder = std::filesystem::temp_directory_path();
  CHECK_THROWS_AS(read_npy((folder / "cplab-no-such-file.npy").string()), InputError);
  CHECK_THROWS_AS(read_npy(folder.string()), InputError);
}

TEST_CASE("a header is tested before room is made for what it promises") {
  const auto file =
      (std::filesystem::temp_directory_path() / ("cplab-header-" + std::to_string(getpid()) + ".npy"))
          .string();
  const auto error = [&](const std::string& bytes, std::uintmax_t size, const NpyShapeCheck& check) {
    std::ofstream(file, std::ios::binary) << bytes;
    if (size > 0)
      std::filesystem::resize_file(file, size);  // a hole: as large as it likes, and takes no room
    try {
      (void)read_npy(file, check);
    } catch (const InputError& refused) {
      return std::string(refused.what());
    }
    return std::string();
  };
  const auto refuse = [](const std::vector<std::int64_t>& shape) {
    throw InputError("refused " + shape_text(shape));
  };
  const std::uintmax_t huge = std::uintmax_t{1} << 42;
  const std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627766,), }";
  const std::string start = with_header(header, "");
  REQUIRE(start.size() == 79);
  // Shape and size agree on 4 TiB; the caller wants another shape.
  CHECK(error(with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627756,), } ", ""), huge,
              refuse) == "refused [1099511627756]");
  CHECK(error(start, huge, {}).find("bytes of data, and its shape") != std::string::npos);
  CHECK(error("not an array", huge, {}).find("not a NumPy") != std::string::npos);
  CHECK(error(std::string("\x93NUMPY\x02\0\xff\xff\xff\xff{", 13), huge, {}).find("at most 65536 are read") !=
        std::string::npos);
  // More than one piece of 1 MiB, of each width.
  for (const bool fp64 : {false, true}) {
    std::vector<double> values(300001);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
    const std::vector<std::int64_t> shape{300001};
    std::ofstream(file, std::ios::binary) << format_npy(shape, values, fp64);
    CHECK(read_npy(file).values == values);
  }
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace cplab
