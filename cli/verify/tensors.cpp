// Tensors in global token order; see tensors.hpp.
#include "cli/verify/tensors.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <limits>
#include <numbers>
#include <numeric>
#include <sstream>
#include <string_view>

#include "cli/toml_table.hpp"
#include "cli/verify/npy.hpp"
#include "kernels/kernels.hpp"
#include "report/output_file.hpp"

namespace cplab {

namespace {

constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();
constexpr double minus_infinity = -std::numeric_limits<double>::infinity();

std::int64_t total_tokens(const Problem& p) {
  return std::accumulate(p.padded_lengths.begin(), p.padded_lengths.end(), std::int64_t{0});
}

// First token of every sequence on the flattened [B,S] or [T] axis.
std::vector<std::int64_t> sequence_begins(const Problem& p) {
  std::vector<std::int64_t> begins(p.padded_lengths.size());
  std::exclusive_scan(p.padded_lengths.begin(), p.padded_lengths.end(), begins.begin(), std::int64_t{0});
  return begins;
}

std::vector<std::int64_t> shape_of(const Problem& p, std::int64_t heads, std::int64_t width) {
  if (p.packed) return {total_tokens(p), heads, width};
  return {p.batch, p.sequence, heads, width};
}

Tensor filled(std::vector<std::int64_t> shape, double value) {
  std::size_t count = 1;
  for (const std::int64_t extent : shape) count *= static_cast<std::size_t>(extent);
  return {std::move(shape), std::vector<double>(count, value)};
}

bool has_gradients(const Problem& p) {
  return p.has_backward();
}

// splitmix64's output function, as a hash of (seed, tensor, element).
std::uint64_t hashed(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// Box and Muller 1958. The result is cut to 40 binary places, so that the last bits of a library's log and
// cos are not seen.
double normal(std::uint64_t key) {
  const auto uniform = [](std::uint64_t x) { return (static_cast<double>(x >> 11) + 0.5) * 0x1p-53; };
  const double radius = std::sqrt(-2 * std::log(uniform(hashed(key))));
  const double angle = 2 * std::numbers::pi * uniform(hashed(key ^ 0xD1B54A32D192ED03u));
  return std::nearbyint(radius * std::cos(angle) * 0x1p40) * 0x1p-40;
}

// Calls visit(first element of the row, sequence, position) for every token of a [tokens, ...] tensor.
template <class Visit>
void for_each_token(const Problem& p, std::int64_t row_elements, Visit visit) {
  std::int64_t token = 0;
  for (std::size_t b = 0; b < p.padded_lengths.size(); ++b) {
    for (std::int64_t position = 0; position < p.padded_lengths[b]; ++position) {
      visit(token++ * row_elements, b, position);
    }
  }
}

Tensor random_tensor(const Problem& p, std::uint64_t seed, std::uint64_t which, std::int64_t heads,
                     std::int64_t width) {
  Tensor tensor = filled(shape_of(p, heads, width), nan_value);
  const std::uint64_t stream = hashed(hashed(seed) + which);
  for_each_token(p, heads * width, [&](std::int64_t first, std::size_t b, std::int64_t position) {
    if (position >= p.lengths[b]) return;
    for (std::int64_t i = first; i < first + heads * width; ++i) {
      const double value = normal(hashed(stream ^ hashed(static_cast<std::uint64_t>(i))));
      tensor.values[static_cast<std::size_t>(i)] = rounded(value, p.dtype);
    }
  });
  return tensor;
}

// "[0, 5, 3, 1]": the place of an element in C order.
std::string index_text(std::size_t element, const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> index(shape.size());
  auto rest = static_cast<std::int64_t>(element);
  for (std::size_t axis = shape.size(); axis-- > 0; rest /= shape[axis]) index[axis] = rest % shape[axis];
  return shape_text(index);
}

// Rounds in place. Padding rows may hold anything; all others hold numbers of the problem's dtype.
void round_values(const Problem& p, const std::string& path, const std::vector<std::int64_t>& shape,
                  std::int64_t row_elements, std::vector<double>& values) {
  for_each_token(p, row_elements, [&](std::int64_t first, std::size_t b, std::int64_t position) {
    for (std::int64_t i = first; i < first + row_elements; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const double given = values[at];
      values[at] = rounded(given, p.dtype);
      if (position >= p.lengths[b] || std::isfinite(values[at])) continue;
      std::ostringstream text;
      text << path << ": element " << index_text(at, shape) << " is ";
      if (std::isnan(given)) {
        text << "nan";
      } else {
        text << given;
      }
      if (std::isfinite(given)) text << ", which is beyond the range of " << name(p.dtype);
      text << "; rows that are not padding must hold finite numbers";
      throw InputError(text.str());
    }
  });
}

Tensor read_tensor(const Problem& p, const std::string& directory, std::string_view which, std::int64_t heads,
                   std::int64_t width) {
  const std::string path = (std::filesystem::path(directory) / (std::string(which) + ".npy")).string();
  const std::vector<std::int64_t> shape = shape_of(p, heads, width);
  NpyArray array = read_npy(path, [&](const std::vector<std::int64_t>& given) {
    if (given == shape) return;
    throw InputError(path + ": has shape " + shape_text(given) + "; the scenario asks for " +
                     shape_text(shape) + (p.packed ? " [T, heads, size]" : " [B, S, heads, size]"));
  });
  round_values(p, path, shape, heads * width, array.values);
  return {shape, std::move(array.values)};
}

// Copies rows between a flat global tensor [tokens, heads, width] and columns of local rows
// [rows, heads, local_width], for those local rows that are tokens of the tensor.
struct RowCopy {
  std::int64_t heads = 0;
  std::int64_t width = 0;
  std::int64_t local_width = 0;
  std::int64_t local_column = 0;

  template <class Copy>
  void for_each(std::int64_t token, std::size_t local_row, Copy copy) const {
    for (std::int64_t head = 0; head < heads; ++head) {
      for (std::int64_t x = 0; x < width; ++x) {
        const std::int64_t global = (token * heads + head) * width + x;
        const std::int64_t local =
            (static_cast<std::int64_t>(local_row) * heads + head) * local_width + local_column + x;
        copy(static_cast<std::size_t>(global), static_cast<std::size_t>(local));
      }
    }
  }
};

void take(const std::vector<LocalRow>& rows, const RowCopy& layout, const Tensor& from,
          std::vector<double>& into) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].valid) continue;
    layout.for_each(rows[i].token, i,
                    [&](std::size_t global, std::size_t local) { into[local] = from.values[global]; });
  }
}

void give(const std::vector<LocalRow>& rows, const RowCopy& layout, const std::vector<double>& from,
          Tensor& into) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].valid) continue;
    layout.for_each(rows[i].token, i,
                    [&](std::size_t global, std::size_t local) { into.values[global] = from[local]; });
  }
}

}  // namespace

double rounded(double value, DType dtype) {
  alignas(8) std::byte bits[8] = {};
  switch (dtype) {
    case DType::fp64: return value;
    case DType::fp32: return static_cast<double>(static_cast<float>(value));
    case DType::bf16:
      kernels::store_element(bits, kernels::DType::bf16, 0, value);
      return kernels::load_element(bits, kernels::DType::bf16, 0);
    case DType::fp16:
      kernels::store_element(bits, kernels::DType::fp16, 0, value);
      return kernels::load_element(bits, kernels::DType::fp16, 0);
  }
  return value;
}

std::vector<LocalRow> local_rows(const Scenario& scenario, int replica, int position) {
  const Problem& p = scenario.problem;
  const std::int64_t P = scenario.parallel.ranks;
  const bool zigzag = scenario.placement == "zigzag";
  const bool striped = scenario.placement == "striped";
  const std::int64_t unit = zigzag ? 2 * P : P;
  const std::vector<std::int64_t> begins = sequence_begins(p);
  std::vector<LocalRow> rows;
  for (std::size_t b = static_cast<std::size_t>(replica); b < p.lengths.size();
       b += static_cast<std::size_t>(scenario.parallel.replicas)) {
    const std::int64_t n = (p.padded_lengths[b] + unit - 1) / unit * (unit / P);
    for (std::int64_t i = 0; i < n; ++i) {
      LocalRow row;
      row.sequence = static_cast<std::int64_t>(b);
      const std::int64_t chunk = n / 2;
      if (zigzag) {
        row.position = i < chunk ? position * chunk + i : (2 * P - 1 - position) * chunk + (i - chunk);
      } else {
        row.position = striped ? position + i * P : position * n + i;
      }
      if (row.position < p.padded_lengths[b]) row.token = begins[b] + row.position;
      row.valid = row.position < p.lengths[b];
      rows.push_back(row);
    }
  }
  return rows;
}

Inputs random_inputs(const Problem& p, std::uint64_t seed) {
  Inputs inputs;
  inputs.q = random_tensor(p, seed, 0, p.heads, p.head_size);
  inputs.k = random_tensor(p, seed, 1, p.kv_heads, p.head_size);
  inputs.v = random_tensor(p, seed, 2, p.kv_heads, p.value_size);
  if (has_gradients(p)) inputs.dout = random_tensor(p, seed, 3, p.heads, p.value_size);
  return inputs;
}

Inputs read_inputs(const Problem& p, const std::string& directory) {
  std::error_code error;
  if (!std::filesystem::is_directory(directory, error)) throw InputError(directory + ": no such directory");
  Inputs inputs;
  inputs.q = read_tensor(p, directory, "q", p.heads, p.head_size);
  inputs.k = read_tensor(p, directory, "k", p.kv_heads, p.head_size);
  inputs.v = read_tensor(p, directory, "v", p.kv_heads, p.value_size);
  if (has_gradients(p)) inputs.dout = read_tensor(p, directory, "dout", p.heads, p.value_size);
  return inputs;
}

void scatter(const Plan& plan, const Inputs& inputs, Executor& executor) {
  const Problem& p = plan.scenario.problem;
  const std::int64_t D = p.head_size, E = p.value_size;
  for (const RankPlan& rank : plan.ranks) {
    const std::vector<LocalRow> rows = local_rows(plan.scenario, rank.replica, rank.position);
    const auto local = [&](std::int64_t heads, std::int64_t width) {
      return std::vector<double>(rows.size() * static_cast<std::size_t>(heads * width), nan_value);
    };
    std::vector<double> q = local(p.heads, D), kv = local(p.kv_heads, D + E);
    take(rows, {p.heads, D, D, 0}, inputs.q, q);
    take(rows, {p.kv_heads, D, D + E, 0}, inputs.k, kv);
    take(rows, {p.kv_heads, E, D + E, D}, inputs.v, kv);
    executor.write(rank.rank, "q", q);
    executor.write(rank.rank, "kv", kv);
    if (has_gradients(p)) {
      std::vector<double> dout = local(p.heads, E);
      take(rows, {p.heads, E, E, 0}, inputs.dout, dout);
      executor.write(rank.rank, "dout", dout);
    }
  }
}

Outputs gather(const Plan& plan, const Executor& executor) {
  const Problem& p = plan.scenario.problem;
  const std::int64_t D = p.head_size, E = p.value_size, H = p.heads;
  Outputs o;
  o.out = filled(shape_of(p, H, E), 0);
  o.lse = filled(p.packed ? std::vector<std::int64_t>{H, total_tokens(p)}
                          : std::vector<std::int64_t>{p.batch, H, p.sequence},
                 minus_infinity);
  if (has_gradients(p)) {
    o.dq = filled(shape_of(p, H, D), 0);
    o.dk = filled(shape_of(p, p.kv_heads, D), 0);
    o.dv = filled(shape_of(p, p.kv_heads, E), 0);
  }
  for (const RankPlan& rank : plan.ranks) {
    const std::vector<LocalRow> rows = local_rows(plan.scenario, rank.replica, rank.position);
    give(rows, {H, E, E, 0}, executor.read(rank.rank, "out"), o.out);
    const std::vector<double> lse = executor.read(rank.rank, "lse");  // [rows, H]
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (!rows[i].valid) continue;
      for (std::int64_t h = 0; h < H; ++h) {
        const std::int64_t global = p.packed ? h * total_tokens(p) + rows[i].token
                                             : (rows[i].sequence * H + h) * p.sequence + rows[i].position;
        o.lse.values[static_cast<std::size_t>(global)] = lse[i * static_cast<std::size_t>(H) + h];
      }
    }
    if (!has_gradients(p)) continue;
    give(rows, {H, D, D, 0}, executor.read(rank.rank, "dq"), o.dq);
    const std::vector<double> dkv = executor.read(rank.rank, "dkv");
    give(rows, {p.kv_heads, D, D + E, 0}, dkv, o.dk);
    give(rows, {p.kv_heads, E, D + E, D}, dkv, o.dv);
  }
  return o;
}

std::string npy_file(std::string_view tensor) {
  return std::string(tensor) + ".npy";
}

void save_outputs(const Problem& p, const Outputs& outputs, const std::string& directory) {
  make_output_folder(directory);
  const std::array<const Tensor*, saved_tensors.size()> tensors{&outputs.out, &outputs.lse, &outputs.dq,
                                                                &outputs.dk, &outputs.dv};
  OutputSet files;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& tensor = *tensors[i];
    if (tensor.shape.empty()) continue;
    const std::string bytes = format_npy(tensor.shape, tensor.values, p.dtype == DType::fp64);
    files.open((std::filesystem::path(directory) / npy_file(saved_tensors[i])).string())
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  files.commit();
}

bool Outputs::same_bits(const Outputs& other) const {
  const auto same = [](const Tensor& a, const Tensor& b) {
    return std::equal(a.values.begin(), a.values.end(), b.values.begin(), b.values.end(),
                      [](double x, double y) {
                        return std::bit_cast<std::uint64_t>(x) == std::bit_cast<std::uint64_t>(y);
                      });
  };
  return same(out, other.out) && same(lse, other.lse) && same(dq, other.dq) && same(dk, other.dk) &&
         same(dv, other.dv);
}

}  // namespace cplab
