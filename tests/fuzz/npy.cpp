// Fuzz target: a .npy file. What is read has as many values as its shape says and is written back bit by bit.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "cli/files/toml_table.hpp"
#include "cli/verify/npy.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  cplab::NpyArray array;
  try {
    array = cplab::parse_npy(bytes, "x.npy");
  } catch (const cplab::InputError&) {
    return 0;
  }
  const std::string written = cplab::format_npy(array.shape, array.values, array.fp64);
  const std::size_t body = array.values.size() * (array.fp64 ? 8 : 4);
  if (written.size() < body) std::abort();
  // Signalling NaNs become quiet on the way through double: the numbers are compared, not the bits.
  const cplab::NpyArray again = cplab::parse_npy(written, "y.npy");
  if (again.shape != array.shape || again.fp64 != array.fp64 || again.values.size() != array.values.size())
    std::abort();
  for (std::size_t i = 0; i < array.values.size(); ++i) {
    const double a = array.values[i], b = again.values[i];
    if (!(a == b || (a != a && b != b))) std::abort();
  }
  return 0;
}
