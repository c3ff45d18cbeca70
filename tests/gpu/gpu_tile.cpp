// Copies in device memory, single calls, the report; see gpu_tile.hpp.
#include "tests/gpu/gpu_tile.hpp"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <stdexcept>

#include "kernels/choice/choose.hpp"
#include "kernels/compiled.hpp"
#include "kernels/cuda/kernel_table.hpp"
#include "kernels/families/family.hpp"
#include "kernels/families/parts/cuda_error.hpp"

namespace cplab::testing {

kernels::KernelChoice kernel_choice = kernels::KernelChoice::best;
bool small_tiles = false;
bool few_queries = false;
bool alone = false;

std::string_view with_small_tiles(const kernels::AttendBackward& call) {
  if (!small_tiles) return {};
  for (const auto& variant : attend_backward_variants(kernels::cuda::compiled_kernels()->build))
    if (variant.small_tiles && variant.fits(call)) return variant.name;
  return {};
}

std::string_view one_for_few_queries(const kernels::Attend& call) {
  if (!few_queries) return {};
  std::vector<std::string_view> heights;
  for (const auto& variant : attend_variants(kernels::cuda::compiled_kernels()->build))
    if (variant.family->name() == "decode" && variant.fits(call)) heights.push_back(variant.name);
  return heights.empty() ? std::string_view()
                         : heights[static_cast<std::size_t>(call.q.rows + call.k.rows) % heights.size()];
}

std::string_view one_of_kernels(const kernels::AttendBackward& call) {
  const bool any_bits = kernel_choice == kernels::KernelChoice::best;
  if ((!any_bits && kernel_choice != kernels::KernelChoice::deterministic) ||
      kernels::cuda::device_major() != 9)
    return {};
  const auto takes = [&](const kernels::cuda::AttendBackwardVariant& variant) {
    using kernels::cuda::DqSum;
    return variant.sm_major == 9 && variant.dq != (any_bits ? DqSum::stored : DqSum::any_order);
  };
  std::vector<std::string_view> tiles;
  for (const auto& variant : attend_backward_variants(kernels::cuda::compiled_kernels()->build))
    if (takes(variant) && variant.fits(call)) tiles.push_back(variant.name);
  return tiles.empty()
             ? std::string_view()
             : tiles[static_cast<std::size_t>(call.q.rows + call.k.rows + call.q.rows / 128) % tiles.size()];
}

namespace {

// Elements of a row that a single warp copies, 2 bytes at a time because it begins at no multiple of 4: takes
// longer than launching whatever stands behind it.
constexpr std::int64_t slow_row = 1 << 17;
// So many of the copies stand behind it. A call's second kernel then has three between it and the slow one.
// With more than six between an H100 begins nothing early (tests/gpu/launch_chain.cu).
constexpr std::size_t behind_slow = 2;

// As bf16, of which a copy changes no bit.
View row_at(std::byte* data, std::int64_t width) {
  return {data, DType::bf16, 1, 1, width, width, width, {}};
}

}  // namespace

Mirror::Mirror(std::span<Tensor* const> tensors, std::int64_t shift) : slow_((2 * slow_row + 1) * 2) {
  for (Tensor* tensor : tensors) {
    const std::size_t begin = static_cast<std::size_t>(shift) * kernels::bytes_of(tensor->dtype());
    copies_.push_back({tensor, begin, kernels::DeviceMemory(begin + tensor->memory().size())});
  }
  upload();
}

void Mirror::upload() {
  for (Copy& copy : copies_) copy.memory.copy_in(copy.tensor->memory(), copy.begin);
}

void Mirror::poison() {
  for (Copy& copy : copies_)
    copy.memory.copy_in(std::vector<std::byte>(copy.tensor->memory().size(), std::byte{0xFF}), copy.begin);
}

std::vector<std::size_t> Mirror::add_copies(kernels::CudaCalls& calls, const Mirror& other) const {
  std::vector<std::size_t> numbers;
  const std::size_t count = copies_.size();
  std::size_t bytes = 0;
  for (const Copy& copy : copies_) bytes += copy.tensor->memory().size();
  for (std::size_t n = 0; n < count; ++n) {
    if (n == count - std::min(count, behind_slow))
      numbers.push_back(calls.add_copy(row_at(slow_.data() + 2, slow_row),
                                       row_at(slow_.data() + 2 + 2 * slow_row, slow_row)));
    const std::size_t each = (bytes / 2 + n) % count;
    const Copy &from = other.copies_[each], &into = copies_[each];
    const auto elements = static_cast<std::int64_t>(into.tensor->memory().size() / 2);
    if (elements > 0)
      numbers.push_back(calls.add_copy(row_at(from.memory.data() + from.begin, elements),
                                       row_at(into.memory.data() + into.begin, elements)));
  }
  return numbers;
}

View Mirror::device(View view) const {
  const auto* data = static_cast<const std::byte*>(view.data);
  for (const Copy& copy : copies_) {
    const std::vector<std::byte>& memory = copy.tensor->memory();
    if (data < memory.data() || data >= memory.data() + memory.size()) continue;
    view.data = copy.memory.data() + copy.begin + (data - memory.data());
    return view;
  }
  throw std::logic_error("a view of no mirrored tensor");
}

std::vector<std::vector<std::byte>> Mirror::download() const {
  std::vector<std::vector<std::byte>> memories;
  for (const Copy& copy : copies_) {
    memories.emplace_back(copy.tensor->memory().size());
    copy.memory.copy_out(memories.back(), copy.begin);
  }
  return memories;
}

void Mirror::assign(const std::vector<std::vector<std::byte>>& memories) const {
  for (std::size_t n = 0; n < copies_.size(); ++n) copies_[n].tensor->set_memory(memories[n]);
}

TileRun run_on_gpu(std::span<Tensor* const> tensors, std::int64_t shift,
                   const std::function<std::size_t(kernels::CudaCalls&, const Mirror&)>& add,
                   const std::function<kernels::CallOptions(const Mirror&)>& options) {
  Mirror mirror(tensors, shift);
  const Mirror source(tensors, shift);
  kernels::CallOptions taken = options ? options(mirror) : kernels::CallOptions{};
  taken.choice = kernel_choice;
  kernels::CudaCalls calls(taken);
  const std::size_t number = add(calls, mirror);
  std::vector<std::size_t> again = alone ? std::vector<std::size_t>() : mirror.add_copies(calls, source);
  again.push_back(number);
  kernels::DeviceMemory tables(calls.table_bytes());
  calls.upload(tables.data());
  kernels::launch_and_wait(calls, {&number, 1});
  const std::vector<std::vector<std::byte>> first = mirror.download();
  if (alone)
    mirror.upload();
  else
    mirror.poison();
  kernels::launch_and_wait(calls, again);
  const std::vector<std::vector<std::byte>> second = mirror.download();
  mirror.assign(second);
  return {.variant = calls.variant(number), .repeatable = !calls.deterministic(number) || second == first};
}

namespace {

kernels::CallOptions options_of(const View& rows) {
  return {.reserved_sms = on_one_multiprocessor(rows) ? kernels::cuda::device_sms() - 1 : 0};
}

}  // namespace

TileRunner gpu_attention() {
  TileRunner runner;
  runner.attend = [](TileRunner::Tensors tensors, std::int64_t shift, const kernels::Attend& host) {
    bool out_of_turn = false;
    const auto on_device = [&](const Mirror& mirror) {
      kernels::Attend call = host;
      for (View* view : {&call.q, &call.k, &call.v, &call.out, &call.lse}) *view = mirror.device(*view);
      if (call.max_logit) call.max_logit = mirror.device(*call.max_logit);
      if (call.sink) call.sink = mirror.device(*call.sink);
      return call;
    };
    const auto options = [&](const Mirror& mirror) {
      kernels::CallOptions taken = options_of(host.q);
      taken.choice = kernel_choice;
      taken.only = one_for_few_queries(on_device(mirror));
      return taken;
    };
    const auto add = [&](kernels::CudaCalls& calls, const Mirror& mirror) {
      const kernels::Attend call = on_device(mirror);
      out_of_turn = choose_variant(call, kernels::cuda::variants_of_device(options(mirror))).work.out_of_turn;
      return calls.add(call);
    };
    TileRun run = run_on_gpu(tensors, shift, add, options);
    if (out_of_turn) run.variant += " (out of turn)";
    return run;
  };
  runner.attend_backward = [](TileRunner::Tensors tensors, std::int64_t shift,
                              const kernels::AttendBackward& host) {
    const auto on_device = [&](const Mirror& mirror) {
      kernels::AttendBackward call = host;
      for (View* view :
           {&call.q, &call.k, &call.v, &call.dout, &call.lse, &call.delta, &call.dq, &call.dk, &call.dv})
        *view = mirror.device(*view);
      for (std::optional<View>* view : {&call.rounded_dq, &call.rounded_dk, &call.rounded_dv, &call.out})
        if (*view) *view = mirror.device(**view);
      return call;
    };
    const auto add = [&](kernels::CudaCalls& calls, const Mirror& mirror) {
      return calls.add(on_device(mirror));
    };
    const auto options = [&](const Mirror& mirror) {
      const kernels::AttendBackward call = on_device(mirror);
      kernels::CallOptions taken = options_of(call.k);
      taken.only = with_small_tiles(call);
      if (taken.only.empty()) taken.only = one_of_kernels(call);
      // Of calls that may do either, half do each: the model would hardly sum dk and dv of tiles as small.
      taken.sums_dkv = call.k.rows % 2 == 0;
      return taken;
    };
    return run_on_gpu(tensors, shift, add, options);
  };
  const std::vector<kernels::CudaKernel> all = kernels::cuda_kernels();
  runner.has_fp64 = std::any_of(all.begin(), all.end(), [](const kernels::CudaKernel& kernel) {
    return kernel.name == "attend general fp64";
  });
  // Of this build; the same cases in all builds that have the same sizes.
  runner.tensor_core_sizes = {{64, 64}, {128, 128}};
  for (const auto& variant : attend_variants(kernels::cuda::compiled_kernels()->build))
    if (variant.rank == kernels::cuda::Rank::portable && variant.dtype == DType::bf16 &&
        variant.head_size != 64 && variant.head_size != 128)
      runner.tensor_core_sizes.push_back({variant.head_size, variant.value_size});
  // Hopper's own beyond 128, and what its kernels pad.
  if (kernels::cuda::compiled_kernels()->build.hopper)
    for (const HeadPair& pair : std::initializer_list<HeadPair>{
             {192, 128}, {256, 256}, {96, 96}, {80, 80}, {72, 72}, {112, 96}, {40, 40}, {160, 136}})
      runner.tensor_core_sizes.push_back(pair);
  if (few_queries) {
    runner.tensor_core_sizes = {{64, 64}, {128, 128}, {192, 128}, {256, 256}, {576, 512}};
    runner.most_rows = 700;
    runner.most_queries = 6;
    runner.most_group = 20;
  }
  return runner;
}

MaskedRunner gpu_masked_attention() {
  const auto of_device = [](kernels::PairMask mask, const Mirror& mirror) {
    for (std::optional<View>* view : {&mask.bias, &mask.keep})
      if (*view) *view = mirror.device(**view);
    return mask;
  };
  MaskedRunner runner;
  runner.attend = [of_device](MaskedRunner::Tensors tensors, std::int64_t shift,
                              const kernels::MaskedAttend& host, bool skips) {
    return run_on_gpu(tensors, shift, [&](kernels::CudaCalls& calls, const Mirror& mirror) {
      kernels::MaskedAttend call = host;
      for (View* view : {&call.tile.q, &call.tile.k, &call.tile.v, &call.tile.out, &call.tile.lse})
        *view = mirror.device(*view);
      call.mask = of_device(host.mask, mirror);
      return calls.add(call, skips);
    });
  };
  runner.attend_backward = [of_device](MaskedRunner::Tensors tensors, std::int64_t shift,
                                       const kernels::MaskedAttendBackward& host, bool skips) {
    return run_on_gpu(tensors, shift, [&](kernels::CudaCalls& calls, const Mirror& mirror) {
      kernels::MaskedAttendBackward call = host;
      kernels::AttendBackward& tile = call.tile;
      for (View* view :
           {&tile.q, &tile.k, &tile.v, &tile.dout, &tile.lse, &tile.delta, &tile.dq, &tile.dk, &tile.dv})
        *view = mirror.device(*view);
      call.mask = of_device(host.mask, mirror);
      if (call.dbias) call.dbias = mirror.device(*call.dbias);
      return calls.add(call, skips);
    });
  };
  runner.select = [](MaskedRunner::Tensors tensors, std::int64_t shift, const kernels::SelectKeys& host) {
    return run_on_gpu(tensors, shift, [&](kernels::CudaCalls& calls, const Mirror& mirror) {
      kernels::SelectKeys call = host;
      call.bias = mirror.device(host.bias);
      call.keep = mirror.device(host.keep);
      return calls.add(call);
    });
  };
  runner.has_fp64 = gpu_attention().has_fp64;
  return runner;
}

}  // namespace cplab::testing
