// Times of the CUDA kernels on whole problems, for comparison between builds: no calibration, no
// checks.
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <sstream>
#include <stdexcept>

#include "algorithms/core/defaults.hpp"
#include "kernels/compiled.hpp"
#include "kernels/families/family.hpp"
#include "kernels/families/hopper_backward/shape.hpp"
#include "kernels/families/hopper_backward_apart/shape.hpp"
#include "tests/gpu/attention_problem.hpp"
#include "tests/gpu/gpu_tile.hpp"

namespace cplab::testing {
namespace {

using kernels::CudaCalls;
using kernels::DeviceMemory;

struct Shape {
  std::int64_t B, S, H, D;
  std::int64_t E = D;  // of values
};

// Sequences one after the other.
struct Packed {
  std::vector<std::int64_t> lengths;
  std::int64_t heads = 0, kv_heads = 0, width = 0, value_width = width;
  bool causal = false;

  std::int64_t rows() const { return std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0}); }
};

Packed packed(const Shape& shape, bool causal) {
  return {.lengths = std::vector<std::int64_t>(static_cast<std::size_t>(shape.B), shape.S),
          .heads = shape.H,
          .kv_heads = shape.H,
          .width = shape.D,
          .value_width = shape.E,
          .causal = causal};
}

// Everything of one dtype.
AttentionProblem problem_of(DType dtype, const Packed& packed) {
  return {{.q_rows = packed.rows(),
           .k_rows = packed.rows(),
           .heads = packed.heads,
           .kv_heads = packed.kv_heads,
           .width = packed.width,
           .dtype = dtype,
           .gradients = dtype,
           .value_width = packed.value_width},
          sequences(packed.lengths, packed.causal)};
}

// Others run on the kernels for every call, which would take minutes.
bool has_tensor_cores(const Shape& shape) {
  const auto variants = kernels::cuda::attend_variants(kernels::cuda::compiled_kernels()->build);
  return std::any_of(variants.begin(), variants.end(), [&](const kernels::cuda::AttendVariant& variant) {
    return variant.head_size == shape.D && variant.value_size == shape.E;
  });
}

void attention(DType dtype, const Shape& shape, bool causal) {
  // Enough copies that their operands, 5 tensors or more, do not stay in an L2 cache of 60 MB.
  const std::int64_t bytes =
      5 * shape.B * shape.S * shape.H * shape.D * static_cast<std::int64_t>(kernels::bytes_of(dtype));
  const std::int64_t copies = std::clamp<std::int64_t>((256 << 20) / bytes, 1, 16);
  CudaCalls calls(kernel_choice);
  std::vector<AttentionProblem> problems;
  std::vector<std::size_t> forward, backward;
  for (std::int64_t n = 0; n < copies; ++n) {
    problems.push_back(problem_of(dtype, packed(shape, causal)));
    forward.push_back(calls.add(problems.back().forward()));
  }
  CudaCalls gradients({.choice = kernel_choice, .only = with_small_tiles(problems.front().backward())});
  for (const AttentionProblem& problem : problems) backward.push_back(gradients.add(problem.backward()));
  const double flops = problems.front().flops();
  const DeviceMemory tables(calls.table_bytes()), gradient_tables(gradients.table_bytes());
  calls.upload(tables.data());
  gradients.upload(gradient_tables.data());
  const int rounds = flops * static_cast<double>(copies) > 4e12 ? 3 : 7;
  const double forward_s = kernels::seconds_per_call(calls, forward, rounds);
  // The backward reads the lse that the forward just wrote.
  const double backward_s = kernels::seconds_per_call(gradients, backward, rounds);
  std::string sizes = std::to_string(shape.D);
  if (shape.E != shape.D) sizes += "/" + std::to_string(shape.E);
  std::printf(
      "%-26s B=%lld S=%-6lld H=%lld D=%-4s %-6s  forward %9.3f ms %7.1f TFLOP/s   backward %9.3f ms %7.1f "
      "TFLOP/s\n",
      calls.variant(forward.front()).c_str(), static_cast<long long>(shape.B),
      static_cast<long long>(shape.S), static_cast<long long>(shape.H), sizes.c_str(),
      causal ? "causal" : "full", forward_s * 1e3, flops / forward_s * 1e-12, backward_s * 1e3,
      problems.front().backward_flops() / backward_s * 1e-12);
  std::fflush(stdout);
}

// What serve() may be asked to choose: a name of KernelChoice, or one of the kernels of the backward; and
// behind either "-stores-dkv" or "-sums-dkv" (CallOptions::sums_dkv), or "-row-dot": delta is then an
// operation of its own, as in plans whose backward calls add to dq.
struct ServedChoice {
  kernels::KernelChoice kernels = kernels::KernelChoice::best;
  std::string backward;  // the variant's name; empty: any
  std::optional<bool> sums_dkv = {};
  bool row_dot = false;
};
std::map<std::string, ServedChoice> served_choices(int head_size) {
  using namespace kernels::cuda;
  using kernels::KernelChoice;
  const auto only = [](std::string name) { return ServedChoice{KernelChoice::best, std::move(name)}; };
  constexpr DType dtype = DType::bf16;
  std::map<std::string, ServedChoice> choices = {
      {"best", {}},
      {"deterministic", {KernelChoice::deterministic, {}}},
      {"apart", {KernelChoice::apart, {}}},
      {"portable", {KernelChoice::portable, {}}},
      {"fused", only(hopper_backward_fused_name(dtype, head_size, hopper_backward_tile_rows))},
      {"fused-64", only(hopper_backward_fused_name(dtype, head_size, hopper_backward_small_tile_rows))},
      {"ordered", only(hopper_backward_ordered_name(dtype, head_size))},
      {"chains", only(hopper_backward_chains_name(dtype, head_size))},
      {"tiles-apart", only(hopper_backward_deterministic_name(dtype, head_size))}};
  const std::map<std::string, ServedChoice> alone = choices;
  for (const auto& [name, choice] : alone) {
    choices[name + "-stores-dkv"] = {choice.kernels, choice.backward, false};
    choices[name + "-sums-dkv"] = {choice.kernels, choice.backward, true};
    choices[name + "-row-dot"] = {choice.kernels, choice.backward, {}, true};
  }
  return choices;
}

// One problem for serve(), with one choice of kernels, as plans of one rank have it: the backward computes
// delta and sums dq in fp32; of short sequences it comes out rounded, of others a cast behind it does that.
// Of grouped heads it may sum dk and dv as well.
class Served {
 public:
  Served(const Packed& packed, const ServedChoice& choice, const DeviceMemory& memory)
      : calls_(choice.kernels),
        gradients_({.choice = choice.kernels, .only = choice.backward, .sums_dkv = choice.sums_dkv}),
        problem_(problem_of(DType::bf16, packed)),
        wide_dq_(DType::fp32, packed.rows(), packed.heads, packed.width),
        wide_dkv_(DType::fp32, 2 * grouped_rows(packed), packed.kv_heads, packed.width),
        dkv_(DType::bf16, 2 * grouped_rows(packed), packed.kv_heads, packed.width) {
    const kernels::Attend forward = problem_.forward();
    kernels::AttendBackward backward = problem_.backward();
    const View rounded_dq = backward.dq;
    const bool rounds = defaults::tiles_round_dq(std::ranges::max(packed.lengths));
    if (rounds) backward.rounded_dq = rounded_dq;
    backward.dq = wide_dq_.view();
    if (packed.heads > packed.kv_heads) {
      backward.rounded_dk = half(dkv_.view(), 0);
      backward.rounded_dv = half(dkv_.view(), 1);
      backward.dk = half(wide_dkv_.view(), 0);
      backward.dv = half(wide_dkv_.view(), 1);
    }
    forward_ = {calls_.add(forward)};
    if (choice.row_dot)
      backward_ = {gradients_.add_row_dot(backward.dout, forward.out, backward.delta)};
    else
      backward.out = forward.out;
    call_ = backward_.size();
    backward_.push_back(gradients_.add(backward));
    if (!rounds) backward_.push_back(gradients_.add_copy(backward.dq, rounded_dq));
    tables_.emplace(calls_.table_bytes());
    gradient_tables_.emplace(gradients_.table_bytes());
    calls_.upload(tables_->data());
    gradients_.upload(gradient_tables_->data());
    kernels::launch_and_wait(calls_, forward_);
    kernels::launch_and_wait(gradients_, backward_);
    kernels::seconds_hidden(gradients_, backward_, 3, memory);  // clocks rise meanwhile
  }

  double seconds(bool backward, int repeats, const DeviceMemory& memory) const {
    const double seconds = backward ? kernels::seconds_hidden(gradients_, backward_, repeats, memory)
                                    : kernels::seconds_hidden(calls_, forward_, repeats, memory);
    return seconds / repeats;
  }
  std::string variant(bool backward) const {
    return backward ? gradients_.variant(backward_[call_]) : calls_.variant(forward_[0]);
  }

 private:
  static std::int64_t grouped_rows(const Packed& packed) {
    return packed.heads > packed.kv_heads ? packed.rows() : 0;
  }
  // The first or the second half of its rows, as planes of a buffer of a plan lie.
  static View half(View view, int which) {
    view.rows /= 2;
    view.data = static_cast<std::byte*>(view.data) +
                which * view.rows * view.row_stride * static_cast<std::int64_t>(bytes_of(view.dtype));
    return view;
  }

  CudaCalls calls_, gradients_;
  AttentionProblem problem_;
  Operand wide_dq_, wide_dkv_, dkv_;
  std::vector<std::size_t> forward_, backward_;
  std::size_t call_ = 0;  // the attention among backward_
  std::optional<DeviceMemory> tables_, gradient_tables_;
};

// One row-wise operation; bytes: read plus written.
template <class Add>
void row_wise(const char* name, std::int64_t bytes, Add add) {
  CudaCalls calls;
  const std::vector<std::size_t> numbers(8, add(calls));
  const DeviceMemory tables(calls.table_bytes());
  calls.upload(tables.data());
  const double seconds = kernels::seconds_per_call(calls, numbers, 7);
  std::printf("%-26s %9.3f ms %9.1f GB/s\n", name, seconds * 1e3,
              static_cast<double>(bytes) / seconds * 1e-9);
  std::fflush(stdout);
}

void row_wise_kernels() {
  const std::int64_t rows = 32768, heads = 16, width = 128, n = rows * heads * width,
                     lse_bytes = 4 * rows * heads;
  const Operand bf16(DType::bf16, rows, heads, width), bf16_into(DType::bf16, rows, heads, width);
  const Operand fp32(DType::fp32, rows, heads, width), fp32_into(DType::fp32, rows, heads, width);
  const Operand lse(DType::fp32, rows, heads, 1), lse_into(DType::fp32, rows, heads, 1);
  row_wise("copy bf16", 4 * n,
           [&](CudaCalls& calls) { return calls.add_copy(bf16.view(), bf16_into.view()); });
  row_wise("copy fp32", 8 * n,
           [&](CudaCalls& calls) { return calls.add_copy(fp32.view(), fp32_into.view()); });
  row_wise("cast fp32 to bf16", 6 * n,
           [&](CudaCalls& calls) { return calls.add_copy(fp32.view(), bf16_into.view()); });
  row_wise("add fp32", 12 * n,
           [&](CudaCalls& calls) { return calls.add_add(fp32.view(), fp32_into.view()); });
  row_wise("add bf16 to fp32", 10 * n,
           [&](CudaCalls& calls) { return calls.add_add(bf16.view(), fp32_into.view()); });
  row_wise("fill fp32", 4 * n, [&](CudaCalls& calls) { return calls.add_fill(fp32_into.view(), 0.5); });
  row_wise("row_dot bf16", 4 * n + lse_bytes, [&](CudaCalls& calls) {
    return calls.add_row_dot(bf16.view(), bf16_into.view(), lse_into.view());
  });
  row_wise("merge bf16 into fp32", 10 * n + 3 * lse_bytes, [&](CudaCalls& calls) {
    return calls.add(kernels::Merge{.part_out = bf16.view(),
                                    .part_lse = lse.view(),
                                    .into_out = fp32_into.view(),
                                    .into_lse = lse_into.view()});
  });
  row_wise("merge_lse", 3 * lse_bytes, [&](CudaCalls& calls) {
    return calls.add(kernels::MergeLse{.part_lse = lse.view(), .into_lse = lse_into.view()});
  });
  row_wise("rescale bf16 into fp32", 10 * n + 2 * lse_bytes, [&](CudaCalls& calls) {
    return calls.add(kernels::Rescale{.part_out = bf16.view(),
                                      .part_lse = lse.view(),
                                      .final_lse = lse_into.view(),
                                      .into_out = fp32_into.view(),
                                      .write = kernels::Write::add});
  });
}

// The problems that serve() is asked for; see gpu_tile.hpp.
std::optional<Packed> read_shape(std::istream& words) {
  Shape shape{};
  std::string mask;
  if (!(words >> shape.B >> shape.S >> shape.H >> shape.D >> mask)) return std::nullopt;
  shape.E = shape.D;
  return packed(shape, mask == "causal");
}

std::optional<Packed> read_packed(std::istream& words) {
  Packed asked;
  std::string mask;
  if (!(words >> asked.heads >> asked.kv_heads >> asked.width >> mask)) return std::nullopt;
  asked.value_width = asked.width;
  asked.causal = mask == "causal";
  for (std::int64_t length = 0; words >> length;) asked.lengths.push_back(length);
  return asked;
}

}  // namespace

void serve() {
  const DeviceMemory memory(std::size_t{2} << 30);
  std::map<std::string, ServedChoice> choices = served_choices(0);
  std::map<std::string, Served> problems;  // by choice; the choices outlive them
  Packed asked;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string command;
    words >> command;
    const std::optional<Packed> next = command == "shape"    ? read_shape(words)
                                       : command == "packed" ? read_packed(words)
                                                             : std::nullopt;
    if (next) {
      problems.clear();
      asked = *next;
      choices = served_choices(static_cast<int>(asked.width));
      std::cout << "ok" << std::endl;
      continue;
    }
    std::string direction, choice;
    int repeats = 0;
    if (command != "time" || !(words >> direction >> choice >> repeats) || repeats < 1 ||
        !choices.contains(choice))
      throw std::invalid_argument("not understood: " + line);
    const auto found = problems.try_emplace(choice, asked, choices.at(choice), memory).first;
    const double seconds = found->second.seconds(direction == "backward", repeats, memory);
    std::cout << seconds << ' ' << found->second.variant(direction == "backward") << std::endl;
  }
}

// One token against many keys, by each of the kernels on tensor cores that take it, which of the families for
// long sequences are those of one height.
void decode(std::int64_t keys, std::int64_t heads, std::int64_t kv_heads, std::int64_t width,
            std::int64_t value_width) {
  const AttentionProblem problem({.q_rows = 1,
                                  .k_rows = keys,
                                  .heads = heads,
                                  .kv_heads = kv_heads,
                                  .width = width,
                                  .value_width = value_width},
                                 {{.q_count = 1, .k_count = keys, .offset = keys - 1, .right = 0}});
  const kernels::Attend call = problem.forward();
  for (const auto& variant : attend_variants(kernels::cuda::compiled_kernels()->build)) {
    const bool other = variant.family->name() != "decode" && variant.name.find(" rows") != std::string::npos;
    if (variant.rank == kernels::cuda::Rank::general || other || !variant.fits(call)) continue;
    CudaCalls calls({.choice = kernel_choice, .only = variant.name});
    const std::size_t number = calls.add(call);
    const DeviceMemory tables(calls.table_bytes());
    calls.upload(tables.data());
    const double seconds = kernels::seconds_per_call(calls, {&number, 1}, 7);
    const auto bytes = 2.0 * static_cast<double>(keys * kv_heads * (width + value_width));
    std::printf("%-36s keys=%-8lld H=%lld/%lld D=%lld/%lld  %9.1f us  %5.2f TB/s\n", variant.name.c_str(),
                static_cast<long long>(keys), static_cast<long long>(heads), static_cast<long long>(kv_heads),
                static_cast<long long>(width), static_cast<long long>(value_width), seconds * 1e6,
                bytes / seconds * 1e-12);
    std::fflush(stdout);
  }
}

void bench_decode() {
  for (const std::int64_t keys : {4096, 131072, 1048576}) {
    decode(keys, 32, 8, 64, 64);
    decode(keys, 32, 8, 128, 128);
    decode(keys, 64, 1, 128, 128);
    decode(keys, 32, 8, 192, 128);
    decode(keys, 32, 8, 256, 256);
    for (const std::int64_t heads : {16, 64, 128}) decode(keys, heads, 1, 576, 512);
  }
}

void bench(const std::string& only) {
  const auto wanted = [&](const char* name) { return std::string(name).find(only) != std::string::npos; };
  if (wanted("attend")) {
    const Shape shapes[] = {{8, 2048, 16, 128}, {2, 8192, 16, 128}, {1, 32768, 16, 128}, {8, 2048, 32, 64},
                            {2, 8192, 32, 64},  {1, 32768, 32, 64}, {1, 512, 16, 128},   {1, 1024, 16, 128},
                            {1, 2048, 16, 128}, {1, 4096, 16, 128}, {1, 512, 32, 64},    {1, 1024, 32, 64},
                            {1, 2048, 32, 64},  {1, 4096, 32, 64}};
    for (const Shape& shape : shapes)
      for (const bool causal : {false, true}) attention(DType::bf16, shape, causal);
    for (const Shape& shape : {Shape{2, 8192, 16, 192, 128}, Shape{2, 8192, 8, 256}})
      for (const bool causal : {false, true})
        if (has_tensor_cores(shape)) attention(DType::bf16, shape, causal);
    attention(DType::fp32, {1, 2048, 8, 128}, true);
  }
  if (wanted("decode")) bench_decode();
  if (wanted("segments")) bench_segments();
  if (wanted("linear")) bench_linear();
  if (wanted("masked")) bench_masked();
  if (wanted("rows")) row_wise_kernels();
}

}  // namespace cplab::testing
