// Times of the kernels of linear attention on one GPU; see gpu_parts.hpp.
#include <algorithm>

#include "calibrate/gpu_parts.hpp"
#include "calibrate/loads.hpp"
#include "calibrate/team.hpp"

namespace cplab::measure {
namespace {

// Enough for the largest form at 131072 tokens, where the GPU has as much twice over.
constexpr std::int64_t most_arena_bytes = std::int64_t{5} << 30;

// A serial walk over 131072 tokens takes 50 ms: few of those.
Effort walk_effort(double seconds) {
  if (seconds > 0.005) return {0.02, 1, 4, 3};
  return {0.01, 4, 50, 3};
}

std::string text_of(const ChunkShape& shape) {
  return shape.kind + " of " + std::to_string(shape.tokens) + " tokens, value size " +
         std::to_string(shape.value_size);
}

class Linear {
 public:
  Linear(const Options& options, Bench& bench, const DeviceMemory& arena, Measurement& into)
      : options_(options), bench_(bench), arena_(arena), into_(into), seed_(options.seed + 2000) {}

  void measure(std::int64_t value_size) {
    for (const ChunkForm& form : chunk_forms()) {
      // Tables that differ in their chunks alone are one to the simulator, and states of 256 tokens are
      // further from their roofline than those of long chunks, of which more is made.
      if (form.kind == "state" && form.length == ChunkForm::Length::blocks) continue;
      for (const std::int64_t tokens : {4096, 32768, 131072}) add(form, form.shape(tokens, value_size));
    }
    for (const ChunkForm& form : scan_forms())
      for (const std::int64_t states : {8, 32, 128, 256}) add(form, form.shape(256 * states, value_size));
  }

  void measure_combine() {
    CurveTable table;
    table.kind = "combine";
    for (std::int64_t tokens = 256; tokens <= 65536; tokens *= 4) {
      const ChunkShape shape = ChunkForm{.kind = "combine", .states = {}, .results = {}}.shape(tokens, 128);
      if (!begins(shape)) continue;
      Load load(arena_, options_.l2_bytes, shape);
      const double seconds = time_of(load);
      table.variant = load.variant();
      table.operands = load.operands();
      table.points.push_back({load.bytes(), seconds});
    }
    if (!table.points.empty()) into_.curves.push_back(std::move(table));
  }

 private:
  bool begins(const ChunkShape& shape) {
    const char* why = now_s() - begun_ > options_.most_s      ? "the time for linear attention was spent"
                      : operand_bytes(shape) > arena_.bytes() ? "its operands do not fit"
                                                              : nullptr;
    if (why) into_.left_out.push_back(text_of(shape) + ": " + why);
    return !why;
  }

  double time_of(Load& load) {
    load.prepare(++seed_, bench_.stream());
    const auto queue = [&](std::int64_t i, CudaStream stream) { load.queue(i, stream); };
    bench_.warm_up(queue, 1);
    return bench_.typical(queue, walk_effort(bench_.sample(1, queue)));
  }

  void add(const ChunkForm& form, const ChunkShape& shape) {
    if (!begins(shape)) return;
    Load load(arena_, options_.l2_bytes, shape);
    const double seconds = time_of(load);
    table_of(form, shape, load.variant()).points.push_back({shape.tokens, shape.heads, seconds});
  }

  // One for every form and chunk; chunks that grow with the tokens have one for each length.
  ChunkTable& table_of(const ChunkForm& form, const ChunkShape& shape, const std::string& variant) {
    for (ChunkTable& table : into_.chunks)
      if (table.kind == shape.kind && table.variant == variant && table.cut == shape.cut &&
          table.states == form.states && table.results == form.results && table.chunk == shape.chunk &&
          table.value_size == shape.value_size)
        return table;
    return into_.chunks.emplace_back(ChunkTable{shape.kind,
                                                variant,
                                                shape.cut,
                                                form.states,
                                                form.results,
                                                shape.key_size,
                                                shape.value_size,
                                                shape.chunk,
                                                {}});
  }

  const Options& options_;
  Bench& bench_;
  const DeviceMemory& arena_;
  Measurement& into_;
  std::uint64_t seed_;
  double begun_ = now_s();
};

}  // namespace

void measure_linear(const Options& options, std::int64_t value_size, Measurement& into) {
  Team team(1);
  team.run([&](int rank) {
    kernels::load_cuda_kernels();
    Bench bench(team, rank);
    const DeviceMemory arena(std::min(most_arena_bytes, device_facts(0).free_bytes / 2 / 256 * 256));
    Linear linear(options, bench, arena, into);
    linear.measure(value_size);
    if (value_size == 128) linear.measure_combine();
  });
}

}  // namespace cplab::measure
