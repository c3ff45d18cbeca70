// Kernels alone and beside communication, by turns; see gpu_parts.hpp.
#include <memory>
#include <optional>

#include "calibrate/gpu_parts.hpp"
#include "calibrate/links.hpp"
#include "calibrate/loads.hpp"

namespace cplab::measure {
namespace {

// Large enough that few of them last as long as a sample. NCCL's are below the size from which it sends in
// another way.
constexpr std::int64_t nccl_bytes = 128 << 20, copy_bytes = 256 << 20;
constexpr AttentionShape beside_shape{1, 8192, 16, 128, false};  // many waves of thread blocks
constexpr std::int64_t elementwise_bytes = 256 << 20;
constexpr int samples = 5;
constexpr int most_shifts = 150;  // more cannot be queued behind a closed gate

struct Subject {
  const char* kind;
  Effort effort;
};
constexpr Subject subjects[] = {{"attend", {0.020, 2, 10, 0}},   {"attend_backward", {0.020, 2, 10, 0}},
                                {"row_dot", {0.006, 10, 80, 0}}, {"merge", {0.006, 10, 80, 0}},
                                {"copy", {0.006, 10, 80, 0}},    {"cast", {0.006, 10, 80, 0}},
                                {"add", {0.006, 10, 80, 0}},     {"fill", {0.006, 10, 80, 0}}};

std::unique_ptr<Load> load_of(const Subject& subject, const DeviceMemory& arena, std::int64_t l2_bytes) {
  const std::string kind = subject.kind;
  if (kind.starts_with("attend"))
    return std::make_unique<Load>(arena, l2_bytes, beside_shape, kind == "attend_backward");
  return std::make_unique<Load>(arena, l2_bytes, kind, elementwise_bytes);
}

// One rank's part in the sequence alone, beside, alone, beside. The same row on all ranks; none if the kernel
// lasts longer than messages can be queued to run beside it.
std::optional<Interference> measure_pair(const Subject& subject, const char* transport, Bench& bench,
                                         const Load& load, double shift_s, const Bench::Queue& shift) {
  const auto queue = [&](std::int64_t i, CudaStream stream) { load.queue(i, stream); };
  bench.warm_up(queue, 2);
  const int count = bench.count_for(bench.sample(2, queue), subject.effort);
  Interference row;
  row.kind = subject.kind;
  row.beside = transport;
  int shifts = 0;
  for (int turn = 0; turn < 2; ++turn) {
    std::vector<double> alone, beside;
    for (int i = 0; i < samples; ++i) alone.push_back(bench.sample(count, queue));
    row.alone_s[turn] = median(std::move(alone));
    if (shifts == 0) shifts = static_cast<int>(1.5 * row.alone_s[0] * count / shift_s) + 2;
    while (static_cast<int>(beside.size()) < samples) {
      if (shifts > most_shifts) return std::nullopt;
      bool covered = false;
      const double seconds = bench.sample_beside(count, queue, shifts, shift, covered);
      if (covered)
        beside.push_back(seconds);
      else
        shifts += shifts / 2 + 1;  // the messages ended before the kernels: repeat with more of them
    }
    row.beside_s[turn] = median(std::move(beside));
  }
  row.slowdown = (row.beside_s[0] + row.beside_s[1]) / (row.alone_s[0] + row.alone_s[1]);
  return row;
}

}  // namespace

void measure_interference(const Options& options, Measurement& into) {
  Team team(options.gpus);
  CopyRing copies(team);
  team.run([&](int rank) {
    kernels::load_cuda_kernels();
    Bench bench(team, rank);
    const DeviceMemory arena(Load::arena_bytes()), send(copy_bytes), receive(copy_bytes);
    send.fill_random(options.seed + 77 + static_cast<std::uint64_t>(rank), send.bytes(), bench.stream());
    bench.warm_up([](std::int64_t, CudaStream) {}, 0);
    const NcclRank nccl(team, rank);
    copies.prepare(rank, receive.data());
    const Bench::Queue by_nccl = [&](std::int64_t, CudaStream stream) {
      nccl.shift(send.data(), receive.data(), nccl_bytes, stream);
    };
    const Bench::Queue by_copy = [&](std::int64_t, CudaStream stream) {
      copies.shift(rank, send.data(), copy_bytes, stream);
    };
    const double nccl_s = bench.typical(by_nccl, {0.02, 10, 20, 3});
    const double copy_s = copies.possible() ? bench.typical(by_copy, {0.02, 10, 20, 3}) : 0;
    std::uint64_t seed = options.seed + 2000;
    for (const Subject& subject : subjects) {
      const std::unique_ptr<Load> load = load_of(subject, arena, options.l2_bytes);
      load->prepare(++seed, bench.stream());
      for (const bool is_nccl : {true, false}) {
        if (!is_nccl && !copies.possible()) continue;
        const char* transport = is_nccl ? "nccl" : "copy";
        std::optional<Interference> row = measure_pair(
            subject, transport, bench, *load, is_nccl ? nccl_s : copy_s, is_nccl ? by_nccl : by_copy);
        if (rank != 0) continue;
        if (row) {
          row->channels = is_nccl ? options.channels : 0;
          into.interference.push_back(*row);
        } else {
          into.left_out.push_back(std::string("interference of ") + subject.kind + " beside " + transport +
                                  ": the kernel is too slow to be covered by messages");
        }
      }
    }
    team.meet();
  });
}

}  // namespace cplab::measure
