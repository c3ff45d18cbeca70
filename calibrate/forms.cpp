// Attention in the forms that plans issue, copies in pieces, cards one by one; see gpu_parts.hpp.
#include <algorithm>

#include "calibrate/gpu_parts.hpp"
#include "calibrate/loads.hpp"
#include "calibrate/team.hpp"

namespace cplab::measure {
namespace {

// The card is under load when the first of them begins, and stays so. A call may be several launches, of
// which about a thousand can be queued behind the gate.
constexpr Effort settled{.sample_s = 0.04, .least = 2, .most = 100, .samples = 5, .settle_s = 0.2};

// What one table of forms is of, and its points.
std::vector<std::vector<FormShape>> forms_of(std::int64_t head_size) {
  const std::int64_t heads = head_size == 64 ? 32 : 16;
  std::vector<std::vector<FormShape>> all;
  for (const bool backward : {false, true}) {
    const FormShape square{backward, 1, 0, 0, heads, heads, head_size};
    const auto add = [&](auto change, std::initializer_list<std::int64_t> sizes) {
      std::vector<FormShape>& table = all.emplace_back();
      for (const std::int64_t rows : sizes) {
        FormShape shape = square;
        shape.queries = shape.keys = rows;
        change(shape);
        table.push_back(shape);
      }
    };
    for (const std::int64_t group : {8, 4})
      add([&](FormShape& s) { s.causal = true, s.kv_heads = heads / group; }, {2048, 8192});
    add([](FormShape& s) { s.causal = true, s.window = 1024; }, {4096, 16384});
    // Steps of a ring over zigzag halves: all rows see half of the keys, half of the rows all keys.
    add([](FormShape& s) { s.updates = true, s.keys /= 2; }, {2048, 8192});
    add([](FormShape& s) { s.updates = true, s.queries /= 2; }, {2048, 8192});
    add([](FormShape& s) { s.updates = true; }, {2048, 8192});
    add([](FormShape& s) { s.updates = true, s.queries /= 2, s.batch = s.row_runs = 4; }, {2048});
    if (!backward) continue;
    add([](FormShape& s) { s.causal = s.delta_inside = true; }, {2048, 8192});
    add([](FormShape& s) { s.causal = s.delta_inside = s.rounded = true; }, {2048, 8192});
  }
  return all;
}

FormTable table_for(const FormShape& shape, const std::string& variant) {
  FormTable table;
  table.kind = shape.backward ? OpKind::attend_backward : OpKind::attend;
  table.variant = variant;
  table.dtype = cplab::DType::bf16;
  table.head_size = shape.head_size;
  table.causal = shape.causal;
  table.window = shape.window;
  table.write = !shape.updates ? WriteMode::store : shape.backward ? WriteMode::add : WriteMode::merge;
  table.delta_inside = shape.delta_inside;
  table.rounded = shape.rounded;
  table.row_runs = shape.row_runs;
  return table;
}

double seconds_of(Bench& bench, Load& load, std::uint64_t seed, const Effort& effort) {
  load.prepare(seed, bench.stream());
  return bench.typical([&](std::int64_t i, CudaStream stream) { load.queue(i, stream); }, effort);
}

}  // namespace

void measure_forms(const Options& options, std::int64_t head_size, Measurement& into) {
  Team team(1);
  team.run([&](int rank) {
    kernels::load_cuda_kernels();
    Bench bench(team, rank);
    const DeviceMemory arena(Load::arena_bytes());
    const double begun = now_s();
    std::uint64_t seed = options.seed + 3000;
    for (const std::vector<FormShape>& shapes : forms_of(head_size)) {
      if (now_s() - begun > options.most_s) {
        into.left_out.push_back("forms of attention of head size " + std::to_string(head_size) +
                                ": the time for them was spent");
        return;
      }
      std::vector<FormTable> tables;  // a kernel's each
      for (const FormShape& shape : shapes) {
        Load load(arena, options.l2_bytes, shape);
        const double seconds = seconds_of(bench, load, ++seed, settled);
        const std::string variant = load.variant();
        auto of = std::find_if(tables.begin(), tables.end(),
                               [&](const FormTable& table) { return table.variant == variant; });
        if (of == tables.end()) of = tables.insert(of, table_for(shape, variant));
        of->points.push_back({shape.batch, shape.queries, shape.keys, shape.heads, shape.kv_heads, seconds});
      }
      std::move(tables.begin(), tables.end(), std::back_inserter(into.finer.forms));
    }
  });
}

void measure_copies_in_pieces(const Options& options, Measurement& into) {
  Team team(1);
  team.run([&](int rank) {
    kernels::load_cuda_kernels();
    Bench bench(team, rank);
    const DeviceMemory arena(Load::arena_bytes());
    PiecesTable table;
    table.kind = OpKind::copy;
    std::uint64_t seed = options.seed + 4000;
    for (const std::int64_t bytes : {4 << 20, 32 << 20, 256 << 20})
      for (const std::int64_t pieces : {1, 8, 64, 512}) {
        Load load(arena, options.l2_bytes, PiecesShape{bytes, pieces});
        const double seconds = seconds_of(bench, load, ++seed, Effort{});
        table.points.push_back({load.bytes(), pieces, seconds});
      }
    into.finer.pieces.push_back(std::move(table));
  });
}

void measure_cards(const Options& options, Measurement& into) {
  for (int gpu = 0; gpu < options.gpus; ++gpu) {
    Team team(1);
    team.run([&](int rank) {
      use_gpu(gpu);
      kernels::load_cuda_kernels();
      Bench bench(team, rank);
      const DeviceMemory arena(std::int64_t{1} << 29);
      Load load(arena, options.l2_bytes, AttentionShape{1, 8192, 16, 128, false}, false);
      into.finer.cards.attend_s.push_back(
          seconds_of(bench, load, options.seed,
                     {.sample_s = 0.1, .least = 2, .most = 200, .samples = 5, .settle_s = 1}));
    });
  }
}

}  // namespace cplab::measure
