// Times of the tile operations on one GPU; see gpu_parts.hpp.
#include <cuda_runtime.h>

#include <algorithm>
#include <memory>

#include "calibrate/gpu_parts.hpp"
#include "calibrate/loads.hpp"
#include "calibrate/team.hpp"

namespace cplab::measure {
namespace {

// Of a variant, which may be several kernels, all with its tiles.
int tile_rows_of(const std::vector<kernels::CudaKernel>& kernels, const std::string& variant) {
  for (const kernels::CudaKernel& kernel : kernels)
    if (kernel.name == variant || kernel.name.starts_with(variant + ", part ")) return kernel.tile_rows;
  return 0;
}

struct Job {
  AttentionShape shape;
  bool backward = false;
  std::size_t table = 0;
};

std::string text_of(const Job& job) {
  const AttentionShape& s = job.shape;
  return std::string(job.backward ? "attend_backward" : "attend") + " D=" + std::to_string(s.head_size) +
         (s.causal ? " causal" : " full") + " batch " + std::to_string(s.batch) + " sequence " +
         std::to_string(s.sequence);
}

double pairs(const AttentionShape& s) {
  const auto n = static_cast<double>(s.sequence);
  return static_cast<double>(s.batch) * n * n / (s.causal ? 2 : 1);
}

// Coarse: lengths four apart, which the model of tiles joins (docs/05-cost-model.md); fine: those between,
// the longest, and batches of short ones.
// Points that were asked for are with the coarse ones, and none of them is left out.
std::vector<Job> attention_jobs(const AttentionGrid& grid, const std::vector<AttentionShape>& asked,
                                std::vector<AttentionTable>& tables) {
  std::vector<Job> jobs;
  for (const bool causal : {false, true})
    for (const bool backward : {false, true}) {
      const std::int64_t heads = grid.head_size == 64 ? 32 : 16;
      AttentionTable table;
      table.kind = backward ? "attend_backward" : "attend";
      table.head_size = grid.head_size;
      table.causal = causal;
      tables.push_back(table);
      const auto add = [&](std::int64_t batch, std::int64_t sequence) {
        jobs.push_back({{batch, sequence, heads, grid.head_size, causal}, backward, tables.size() - 1});
      };
      for (const std::int64_t sequence : {1024, 4096, 16384})
        if (!grid.fine) add(1, sequence);
      for (const AttentionShape& shape : asked)
        if (!grid.fine && shape.head_size == grid.head_size && shape.causal == causal)
          jobs.push_back({shape, backward, tables.size() - 1});
      if (!grid.fine) continue;
      for (const std::int64_t sequence : {512, 2048, 8192, 32768}) add(1, sequence);
      add(8, 2048);
      add(2, 8192);
    }
  // The long ones last: those are left out when the time is spent.
  std::stable_sort(jobs.begin(), jobs.end(),
                   [](const Job& a, const Job& b) { return pairs(a.shape) < pairs(b.shape); });
  return jobs;
}

// The table for the kernel that was taken: one shape's small and large problems may take different kernels.
AttentionTable& table_of(std::vector<AttentionTable>& tables, const AttentionTable& asked,
                         const std::string& variant, int tile_rows) {
  for (AttentionTable& table : tables)
    if (table.kind == asked.kind && table.head_size == asked.head_size && table.causal == asked.causal &&
        table.variant == variant)
      return table;
  AttentionTable& added = tables.emplace_back(asked);
  added.variant = variant;
  added.tile_rows = tile_rows;
  return added;
}

// Under load a GPU runs at its highest clock for some 50 ms; then its power limit takes it below the clock
// that it will keep, for up to a second, and attention takes up to 4 % longer meanwhile (H200,
// docs/05-cost-model.md). So calls are timed after a second of them, and short ones at once, at the highest
// clock.
Effort effort_for(double seconds) {
  if (seconds < 0.1e-3) return {0.005, 10, 100, 5};
  return {.sample_s = 0.1, .least = 2, .most = 200, .samples = 9, .settle_s = 1};
}

void measure_grid(const Options& options, const AttentionGrid& grid, Bench& bench, const DeviceMemory& arena,
                  Measurement& into) {
  const std::vector<kernels::CudaKernel> kernels = kernels::cuda_kernels();
  const double begun = now_s();
  std::uint64_t seed = options.seed;
  std::vector<AttentionTable> tables;
  for (const Job& job : attention_jobs(grid, options.asked, tables)) {
    if (now_s() - begun > options.most_s) {
      into.left_out.push_back(text_of(job) + ": the time for attention was spent");
      continue;
    }
    Load load(arena, options.l2_bytes, job.shape, job.backward);
    load.prepare(++seed, bench.stream());
    const auto queue = [&](std::int64_t i, CudaStream stream) { load.queue(i, stream); };
    bench.warm_up(queue, 1);
    const double first = bench.sample(1, queue);
    const std::string variant = load.variant();
    AttentionTable& table =
        table_of(into.attention, tables[job.table], variant, tile_rows_of(kernels, variant));
    const Effort effort = effort_for(first);
    const double seconds = bench.typical(queue, effort);
    table.points.push_back(
        {job.shape.batch, job.shape.sequence, job.shape.heads, seconds, effort.settle_s > 0});
  }
}

void measure_elementwise(const Options& options, Bench& bench, const DeviceMemory& arena, Measurement& into) {
  constexpr std::int64_t least = 64 << 10, most = 256 << 20;
  std::uint64_t seed = options.seed + 1000;
  for (const char* kind : {"row_dot", "merge", "copy", "cast", "add", "fill"}) {
    CurveTable table;
    table.kind = kind;
    const auto point = [&](std::int64_t bytes) {
      Load load(arena, options.l2_bytes, kind, bytes);
      load.prepare(++seed, bench.stream());
      table.variant = load.variant();
      table.operands = load.operands();
      const double seconds =
          bench.typical([&](std::int64_t i, CudaStream stream) { load.queue(i, stream); }, Effort{});
      return CurvePoint{load.bytes(), seconds};
    };
    for (std::int64_t bytes = least; bytes <= most; bytes *= 2) table.points.push_back(point(bytes));
    Bench::time_again(table.points, [&](std::size_t i) { return point(least << i).seconds; });
    into.curves.push_back(std::move(table));
  }
}

void measure_copy(const DeviceMemory& arena, Bench& bench, Measurement& into) {
  const std::int64_t half = arena.bytes() / 2 / 256 * 256;
  const auto queue = [&](std::int64_t, CudaStream stream) {
    require_cuda(cudaMemcpyAsync(arena.data() + half, arena.data(), static_cast<std::size_t>(half),
                                 cudaMemcpyDeviceToDevice, stream),
                 "cudaMemcpyAsync");
  };
  arena.fill_random(17, arena.bytes(), bench.stream());
  into.copy_bytes_s = 2 * static_cast<double>(half) / bench.typical(queue, {0.02, 10, 50, 7});
}

}  // namespace

void measure_copies(const Options& options, Measurement& into) {
  Team team(1);
  team.run([&](int rank) {
    kernels::load_cuda_kernels();
    Bench bench(team, rank);
    const DeviceMemory arena(Load::arena_bytes());
    measure_copy(arena, bench, into);
    measure_elementwise(options, bench, arena, into);
  });
}

void measure_attention(const Options& options, const AttentionGrid& grid, Measurement& into) {
  Team team(1);
  team.run([&](int rank) {
    kernels::load_cuda_kernels();
    Bench bench(team, rank);
    const DeviceMemory arena(Load::arena_bytes());
    measure_grid(options, grid, bench, arena, into);
  });
}

}  // namespace cplab::measure
