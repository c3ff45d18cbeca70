// NumPy's .npy files (format versions 1.0, 2.0 and 3.0 of numpy.lib.format): little-endian float32 and
// float64 arrays in C order. Nothing else is accepted, and nothing is converted silently.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cplab {

struct NpyArray {
  std::vector<std::int64_t> shape;
  std::vector<double> values;  // C order; float32 widened exactly
  bool fp64 = false;           // stored as '<f8', else '<f4'
};

// `file_name` is for messages only. Throws InputError ("FILE: ...") for anything that is not such an array,
// with less or more data than its shape says included.
NpyArray parse_npy(std::string_view bytes, const std::string& file_name);

// Called with the shape that a header names, before any data are read; throws if it is not the one wanted.
using NpyShapeCheck = std::function<void(const std::vector<std::int64_t>& shape)>;
// The header is tested (format, dtype, order, shape, against the size of the file) before room is made for
// the data. Throws InputError for what is no regular file.
NpyArray read_npy(const std::string& path, const NpyShapeCheck& check_shape = {});

// The file's bytes, version 1.0, header padded to 64 bytes as NumPy does. Without fp64 values are rounded to
// float32 (to nearest even). `values` has as many elements as `shape`.
std::string format_npy(std::span<const std::int64_t> shape, std::span<const double> values, bool fp64);

// "[2, 8, 4]", as messages print shapes.
std::string shape_text(std::span<const std::int64_t> shape);

}  // namespace cplab
