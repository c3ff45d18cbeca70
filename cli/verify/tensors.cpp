// Tensors in global token order; see tensors.hpp.
#include "cli/verify/tensors.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <limits>
#include <numbers>
#include <numeric>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "cli/files/toml_table.hpp"
#include "cli/verify/npy.hpp"
#include "cli/verify/problem_buffers.hpp"
#include "cli/verify/selection.hpp"
#include "kernels/kernels.hpp"
#include "report/output_file.hpp"

namespace cplab {

namespace {

constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();

Tensor filled(std::vector<std::int64_t> shape, double value) {
  std::size_t count = 1;
  for (const std::int64_t extent : shape) count *= static_cast<std::size_t>(extent);
  return {std::move(shape), std::vector<double>(count, value)};
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

double uniform(std::uint64_t key) {
  return (static_cast<double>(hashed(key) >> 11) + 0.5) * 0x1p-53;  // in (0, 1)
}

double random_value(Values values, std::uint64_t key) {
  constexpr double least_log_factor = -0.2;
  switch (values) {
    case Values::log_factor: return least_log_factor * uniform(key);
    case Values::strength: return uniform(key);
    default: return normal(key);
  }
}

// Calls visit(first element of the row, sequence, position) for every token of a [tokens, ...] tensor, and
// for the one row of a tensor without tokens, which is no padding.
template <class Visit>
void for_each_row(const Problem& p, const ProblemTensor& tensor, std::int64_t row_elements, Visit visit) {
  std::int64_t token = 0;
  if (!tensor.per_token()) return visit(std::int64_t{0}, std::size_t{0}, std::int64_t{-1});
  const std::vector<std::int64_t>& padded = p.padded_lengths_of(tensor.side());
  for (std::size_t b = 0; b < padded.size(); ++b) {
    for (std::int64_t position = 0; position < padded[b]; ++position) {
      visit(token++ * row_elements, b, position);
    }
  }
}

// Numbers per token.
std::int64_t row_elements(const Problem& p, const ProblemTensor& tensor) {
  const TokenRow row = token_row(p, tensor);
  return row.heads * row.width;
}

Tensor random_tensor(const Problem& p, std::uint64_t stream, const ProblemTensor& of) {
  Tensor tensor = filled(shape_of(p, of), nan_value);
  const std::int64_t count = row_elements(p, of);
  const double summed = static_cast<double>(p.has_latent() ? p.kv_latent : p.convolution),
               size = of.values == Values::weights ? 1 / std::sqrt(summed) : 1;
  const std::vector<std::int64_t>& lengths = p.lengths_of(of.side());
  for_each_row(p, of, count, [&](std::int64_t first, std::size_t b, std::int64_t position) {
    if (position >= 0 && position >= lengths[b]) return;
    for (std::int64_t i = first; i < first + count; ++i) {
      const double value =
          size * random_value(of.values, hashed(stream ^ hashed(static_cast<std::uint64_t>(i))));
      tensor.values[static_cast<std::size_t>(i)] = rounded(value, dtype_of(of.role, p.dtype));
    }
  });
  return tensor;
}

// Rows of length 1: with them and strengths below 1 the steps of a delta rule shrink states.
void normalise_rows(const Problem& p, std::int64_t width, Tensor& tensor) {
  for (auto row = tensor.values.begin(); row != tensor.values.end(); row += width) {
    const double length = std::sqrt(std::inner_product(row, row + width, row, 0.0));
    for (auto value = row; value != row + width; ++value) *value = rounded(*value / length, p.dtype);
  }
}

// "[0, 5, 3, 1]": the place of an element in C order.
std::string index_text(std::size_t element, const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> index(shape.size());
  auto rest = static_cast<std::int64_t>(element);
  for (std::size_t axis = shape.size(); axis-- > 0; rest /= shape[axis]) index[axis] = rest % shape[axis];
  return shape_text(index);
}

// Rounds in place. Padding rows may hold anything; all others hold numbers of the tensor's dtype.
void round_values(const Problem& p, const std::string& path, const ProblemTensor& of,
                  const std::vector<std::int64_t>& shape, std::vector<double>& values) {
  const std::int64_t row = row_elements(p, of);
  const DType dtype = dtype_of(of.role, p.dtype);
  const std::vector<std::int64_t>& lengths = p.lengths_of(of.side());
  for_each_row(p, of, row, [&](std::int64_t first, std::size_t b, std::int64_t position) {
    for (std::int64_t i = first; i < first + row; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const double given = values[at];
      values[at] = rounded(given, dtype);
      const bool positive = of.values == Values::log_factor && values[at] > 0;
      const bool no_key = of.axes.ends_with('K') && i % p.pair_columns() >= p.lengths_of(Side::keys)[b];
      if (no_key || position >= lengths[b] || (std::isfinite(values[at]) && !positive)) continue;
      std::ostringstream text;
      text << path << ": element " << index_text(at, shape) << " is ";
      if (std::isnan(given)) {
        text << "nan";
      } else {
        text << given;
      }
      if (positive) {
        text << "; it is the logarithm of a factor that makes states smaller: legal are numbers up to 0";
      } else {
        if (std::isfinite(given)) text << ", which is beyond the range of " << name(dtype);
        text << "; rows that are not padding must hold finite numbers";
      }
      throw InputError(text.str());
    }
  });
}

// "[B, S, heads, size]": what the axes of a file are.
std::string axes_text(std::string_view axes) {
  std::string text;
  for (const char axis : axes) {
    text += text.empty() ? "[" : ", ";
    if (axis == 'H' || axis == 'G') {
      text += "heads";
    } else if (axis == 'D' || axis == 'E' || axis == 'X') {
      text += "size";
    } else if (axis == 'C' || axis == 'R') {
      text += axis == 'C' ? "kv_latent" : "rope_size";
    } else if (axis == 'W') {
      text += "convolution";
    } else if (axis == 'K') {
      text += "keys";
    } else if (axis == 'N') {
      text += "buckets";
    } else if (axis == 'L' || axis == 'U') {
      text += axis == 'L' ? "Skv" : "Tkv";
    } else {
      text += axis;
    }
  }
  return text + "]";
}

// As it is stored.
Tensor read_stored(const Problem& p, const std::string& path, const ProblemTensor& of) {
  const std::vector<std::int64_t> shape = shape_of(p, of);
  NpyArray array = read_npy(path, [&](const std::vector<std::int64_t>& given) {
    if (given == shape) return;
    throw InputError(path + ": has shape " + shape_text(given) + "; the scenario asks for " +
                     shape_text(shape) + " " + axes_text(axes_of(p, of)));
  });
  return {shape, std::move(array.values)};
}

std::string path_of(const std::string& directory, const ProblemTensor& tensor) {
  return (std::filesystem::path(directory) / npy_file(tensor.name)).string();
}

Tensor read_tensor(const Problem& p, const std::string& directory, const ProblemTensor& of) {
  const std::string path = path_of(directory, of);
  Tensor tensor = read_stored(p, path, of);
  round_values(p, path, of, tensor.shape, tensor.values);
  return tensor;
}

void require_directory(const std::string& directory) {
  std::error_code error;
  if (!std::filesystem::is_directory(directory, error)) throw InputError(directory + ": no such directory");
}

// Calls copy(element of the global tensor, element of the rank's buffer [rows, heads, width]) for every
// element of those local rows that are no padding.
template <class Copy>
void for_each_element(const Problem& p, const ProblemTensor& tensor, const std::vector<LocalRow>& rows,
                      Copy copy) {
  const TokenRow row = token_row(p, tensor);
  const TokenStrides strides = token_strides(axes_of(p, tensor), shape_of(p, tensor));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].valid) continue;
    const std::int64_t token = rows[i].sequence * strides.sequence + rows[i].position * strides.position +
                               rows[i].token * strides.token;
    for (std::int64_t head = 0; head < row.heads; ++head) {
      const std::int64_t local =
          (static_cast<std::int64_t>(i) * row.heads + head) * row.buffer_width + row.first_column;
      for (std::int64_t x = 0; x < row.width; ++x) {
        const std::int64_t global = token + head * strides.head + x * strides.column;
        copy(static_cast<std::size_t>(global), static_cast<std::size_t>(local + x));
      }
    }
  }
}

// The maximum, element by element; NaN stays.
void raise(std::vector<double>& values, const std::vector<double>& by) {
  for (std::size_t i = 0; i < values.size(); ++i)
    if (by[i] > values[i] || std::isnan(by[i])) values[i] = by[i];
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

TokenStrides token_strides(std::string_view axes, std::span<const std::int64_t> shape) {
  TokenStrides strides;
  std::int64_t stride = 1;
  for (std::size_t i = axes.size(); i-- > 0; stride *= shape[i]) {
    switch (axes[i]) {
      case 'B': strides.sequence = stride; break;
      case 'S':
      case 'L': strides.position = stride; break;
      case 'U':
      case 'T': strides.token = stride; break;
      case 'H':
      case 'G': strides.head = stride; break;
      default:
        if (strides.column == 0) strides.column = stride;  // of two axes of columns that of the last
    }
  }
  return strides;
}

Inputs random_inputs(const Problem& p, std::uint64_t seed) {
  Inputs inputs;
  const std::vector<ProblemTensor> wanted = tensors_of(p, Category::input);
  std::uint64_t number =
      0;  // in the table, so that a tensor's values do not depend on which others there are
  for (const ProblemTensor& tensor : tensor_table()) {
    if (tensor.category != Category::input) continue;
    const std::uint64_t stream = hashed(hashed(seed) + number++);
    const bool has = std::ranges::any_of(wanted, [&](const ProblemTensor& other) {
      return other.name == tensor.name && other.axes == tensor.axes;
    });
    if (has && tensor.values != Values::selected) inputs.add(tensor.name, random_tensor(p, stream, tensor));
  }
  if (p.transition == Transition::matrix) {
    normalise_rows(p, p.head_size, inputs["k"]);
    if (p.convolves()) normalise_rows(p, p.convolution, inputs["conv_k"]);  // so that they stay so on average
  }
  add_selection(p, inputs);
  return inputs;
}

Inputs read_inputs(const Problem& p, const std::string& directory) {
  require_directory(directory);
  Inputs inputs;
  for (const ProblemTensor& tensor : tensors_of(p, Category::input))
    if (tensor.values != Values::selected) inputs.add(tensor.name, read_tensor(p, directory, tensor));
  add_selection(p, inputs);
  return inputs;
}

Outputs read_outputs(const Problem& p, const std::string& directory, const std::vector<std::string>& only) {
  require_directory(directory);
  const std::vector<ProblemTensor> tensors = tensors_of(p, Category::output);
  std::string legal;
  for (const ProblemTensor& tensor : tensors) legal += (legal.empty() ? "" : ", ") + std::string(tensor.name);
  for (const std::string& name : only)
    if (std::ranges::none_of(tensors, [&](const ProblemTensor& tensor) { return tensor.name == name; }))
      throw InputError("--tensors " + name + ": no output of this problem; legal: " + legal);
  Outputs outputs;
  for (const ProblemTensor& tensor : tensors)
    if (only.empty() || std::ranges::find(only, tensor.name) != only.end())
      outputs.add(tensor.name, read_stored(p, path_of(directory, tensor), tensor));
  return outputs;
}

std::vector<double> local_values(const Scenario& scenario, const RankPlan& rank, std::string_view buffer,
                                 Category category, const Tensors& global) {
  const Problem& p = scenario.problem;
  std::vector<double> local;
  for (const ProblemTensor& tensor : tensors_of(p, category)) {  // those of one buffer lie side by side
    if (tensor.buffer != buffer) continue;
    const Tensor* const found = global.find(tensor.name);
    if (found == nullptr && !tensor.per_token()) return local;
    const TokenRow row = token_row(p, tensor);
    const std::vector<LocalRow> rows = local_rows(scenario, rank.replica, rank.position, tensor.side());
    local.resize(rows.size() * static_cast<std::size_t>(row.heads * row.buffer_width), nan_value);
    if (found == nullptr) continue;
    const std::vector<double>& values = found->values;
    if (!tensor.per_token()) return values;
    for_each_element(p, tensor, rows, [&](std::size_t from, std::size_t at) { local[at] = values[from]; });
  }
  return local;
}

void scatter(const Plan& plan, const Inputs& inputs, Executor& executor) {
  require_problem_buffers(plan);
  const std::vector<ProblemTensor> tensors = tensors_of(plan.scenario.problem, Category::input);
  for (const RankPlan& rank : plan.ranks) {
    std::string_view buffer;
    for (const ProblemTensor& tensor : tensors) {
      if (tensor.buffer == buffer) continue;
      buffer = tensor.buffer;
      executor.write(rank.rank, buffer, local_values(plan.scenario, rank, buffer, Category::input, inputs));
    }
  }
}

Outputs gather(const Plan& plan, const Executor& executor) {
  const Problem& p = plan.scenario.problem;
  const std::vector<ProblemTensor> tensors = tensors_of(p, Category::output);
  Outputs outputs;
  for (const ProblemTensor& tensor : tensors)
    outputs.add(tensor.name, filled(shape_of(p, tensor), tensor.padding));
  for (const RankPlan& rank : plan.ranks) {
    const std::vector<LocalRow> queries = local_rows(plan.scenario, rank.replica, rank.position),
                                keys = local_rows(plan.scenario, rank.replica, rank.position, Side::keys);
    std::string_view buffer;
    std::vector<double> local;
    for (const ProblemTensor& tensor : tensors) {
      if (tensor.buffer != buffer) local = executor.read(rank.rank, buffer = tensor.buffer);
      std::vector<double>& values = outputs[tensor.name].values;
      if (!tensor.per_token()) {
        if (tensor.over_tokens == Reduction::max) raise(values, local);
        // Every rank of a group holds the sum over its tokens.
        if (tensor.over_tokens == Reduction::sum && rank.position == 0)
          std::ranges::transform(values, local, values.begin(), std::plus<>());
        continue;
      }
      for_each_element(p, tensor, tensor.side() == Side::keys ? keys : queries,
                       [&](std::size_t global, std::size_t at) { values[global] = local[at]; });
    }
  }
  return outputs;
}

std::string npy_file(std::string_view tensor) {
  return std::string(tensor) + ".npy";
}

void save_tensors(const Problem& p, const std::vector<SavedTensors>& all) {
  for (const SavedTensors& saved : all) make_output_folder(saved.directory);
  OutputSet files;
  for (const SavedTensors& saved : all) {
    for (const ProblemTensor& of : tensors_of(p, saved.category)) {
      if (of.values == Values::selected) continue;
      const Tensor& tensor = saved.tensors[of.name];
      const std::string bytes = format_npy(tensor.shape, tensor.values, p.dtype == DType::fp64);
      files.open(path_of(saved.directory, of))
          .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    }
  }
  files.commit();
}

void Tensors::add(std::string_view name, Tensor tensor) {
  tensors_.insert_or_assign(std::string(name), std::move(tensor));
}

const Tensor* Tensors::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

const Tensor& Tensors::operator[](std::string_view name) const {
  if (const Tensor* tensor = find(name)) return *tensor;
  throw std::out_of_range("there is no tensor " + std::string(name));
}

Tensor& Tensors::operator[](std::string_view name) {
  return const_cast<Tensor&>(std::as_const(*this)[name]);
}

bool Tensors::same_bits(const Tensors& other) const {
  const auto same_value = [](double x, double y) {
    return std::bit_cast<std::uint64_t>(x) == std::bit_cast<std::uint64_t>(y);
  };
  return std::ranges::equal(tensors_, other.tensors_, [&](const auto& a, const auto& b) {
    return a.first == b.first && std::ranges::equal(a.second.values, b.second.values, same_value);
  });
}

}  // namespace cplab
