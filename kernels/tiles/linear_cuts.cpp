// Parts, shared memory and chunk tables of the general kernels; see linear_cuts.hpp.
#include "kernels/tiles/linear_cuts.hpp"

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <map>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "kernels/call_checks.hpp"
#include "kernels/linear_checks.hpp"
#include "kernels/tiles/work_list.hpp"

namespace cplab::kernels::cuda {
namespace {

// The cut of lasp_naive and of lasp_fuse.
constexpr std::int32_t serial_columns = 32, slice_columns = 64;

std::int32_t pieces(std::int64_t width, std::int64_t columns) {
  return static_cast<std::int32_t>((width + columns - 1) / columns);
}

View first_of(std::initializer_list<const std::optional<View>*> views) {
  for (const std::optional<View>* view : views)
    if (*view) return **view;
  return {};
}

std::int64_t walk_bytes(bool fp64, std::int32_t columns, std::int64_t state_rows) {
  require(state_rows < 1 << 20, "a head size is too large for the GPU kernels of linear attention");
  return walk_elements(fp64, columns, static_cast<std::int32_t>(state_rows)).total() * (fp64 ? 8 : 4);
}

// The most columns, of 64, 32 and 16, which `width` needs and with which a state of so many rows fits.
std::int32_t columns_that_fit(bool fp64, std::int32_t most, std::int64_t width, std::int64_t state_rows) {
  for (std::int32_t columns = most; columns >= 16; columns /= 2)
    if (walk_bytes(fp64, columns, state_rows) <= linear_shared_limit &&
        (columns == 16 || width > columns / 2))
      return columns;
  throw std::invalid_argument("a head size is too large for the GPU kernels of linear attention (" +
                              std::to_string(state_rows) + "; at most 960, with fp64 336)");
}

// A call of the kernels that walk over chunks. D and E are the widths of q and of v.
struct WalkShape {
  ChunkWork work;
  std::int64_t chunks, heads, D, E;
  std::int32_t of_values, of_keys;  // results of the width of v, of q
  bool walks = true;                // false: states stay where they are

  bool sliced() const { return work == ChunkWork::sliced && walks; }
  std::int32_t most_columns() const { return work == ChunkWork::serial ? serial_columns : slice_columns; }
  // Of the widest result.
  std::int64_t width() const { return std::max(of_values > 0 ? E : 0, of_keys > 0 ? D : 0); }
  // A result is computed from states with as many rows as the other width has.
  std::int64_t state_rows() const {
    if (!walks) return 0;
    const std::int64_t rows = std::max(of_values > 0 ? D : 0, of_keys > 0 ? E : 0);
    return sliced() ? std::min<std::int64_t>(rows, slice_columns) : rows;
  }
};

void require_launchable_cut(const LinearCut& cut) {
  require(cut.thread_blocks < std::int64_t{1} << 31, "a call of linear attention has too many thread blocks");
}

LinearCut cut_in_parts(const WalkShape& shape, std::int32_t columns, std::int64_t shared_bytes) {
  LinearCut cut{
      .work = shape.work, .columns = columns, .threads = linear_threads, .shared_bytes = shared_bytes};
  cut.depth = static_cast<std::int32_t>(shape.state_rows());
  cut.results = shape.of_values + shape.of_keys;
  if (shape.sliced()) {
    cut.key_parts = pieces(shape.D, slice_columns);
    cut.value_parts = pieces(shape.E, slice_columns);
    cut.key_columns = cut.value_columns = slice_columns;
    cut.parts = cut.key_parts * cut.value_parts;
    cut.counters = cut.results * cut.parts * shape.chunks * shape.heads;
  } else if (shape.work == ChunkWork::blocked) {
    cut.parts = shape.of_values * pieces(shape.E, columns) + shape.of_keys * pieces(shape.D, columns);
  } else {
    cut.parts = std::max(pieces(shape.E, shape.most_columns()), 1);
    cut.value_columns = shape.most_columns();
    cut.key_columns = pieces(pieces(shape.D, cut.parts), columns) * columns;
  }
  cut.thread_blocks = shape.chunks * shape.heads * cut.parts;
  require_launchable_cut(cut);
  require(cut.counters < std::int64_t{1} << 28,
          "a call of linear attention in slices is too large for a GPU");
  return cut;
}

LinearCut general_cut(const WalkShape& shape, bool fp64) {
  const std::int32_t columns =
      columns_that_fit(fp64, shape.most_columns(), shape.width(), shape.state_rows());
  return cut_in_parts(shape, columns, walk_bytes(fp64, columns, shape.state_rows()));
}

LinearCut mma_cut(const WalkShape& shape) {
  const std::int32_t columns = shape.width() <= 32 ? 32 : shape.most_columns();
  return cut_in_parts(shape, columns, mma_walk_bytes(shape.state_rows() <= 64 ? 64 : 128, columns));
}

// Rows that views have of each of `states` states.
std::int64_t rows_of_a_state(std::int64_t rows, std::int64_t states) {
  return states == 0 ? 0 : rows / states;
}

DeviceChunk whole(const Chunk& chunk) {
  require(chunk.row + chunk.count < unbounded, "a chunk is too long for a GPU kernel");
  return {.row = static_cast<std::int32_t>(chunk.row),
          .count = static_cast<std::int32_t>(chunk.count),
          .before = 0,
          .after = 0,
          .state = chunk.state,
          .left = chunk.left,
          .right = chunk.right,
          .flags = chunk.resets ? DeviceChunk::resets : 0,
          .left_exponent = chunk.left_exponent,
          .right_exponent = chunk.right_exponent};
}

std::int64_t chunk_count(const Chunks& chunks) {
  return static_cast<std::int64_t>(chunks.list.size());
}

template <class Call>
WalkShape shape_of(const Call& call) {
  constexpr bool forward = std::is_same_v<Call, LinearLocal>;
  return {.work = call.chunks.work,
          .chunks = chunk_count(call.chunks),
          .heads = call.q.heads,
          .D = call.q.width,
          .E = call.v.width,
          .of_values = 1,
          .of_keys = forward ? 0 : 2};
}

}  // namespace

LinearCut cut_of(const LinearLocal& call) {
  return general_cut(shape_of(call), any_fp64({&call.q, &call.k, &call.v}));
}

LinearCut cut_of(const LinearLocalBackward& call) {
  return general_cut(shape_of(call), any_fp64({&call.q, &call.k, &call.v, &call.dout}));
}

LinearCut mma_cut_of(const LinearLocal& call) {
  return mma_cut(shape_of(call));
}

LinearCut mma_cut_of(const LinearLocalBackward& call) {
  return mma_cut(shape_of(call));
}

// Sums over all rows of a state, and never over tokens of one chunk: slices have nothing to sum here.
LinearCut cut_of(const LinearInter& call, std::int64_t chunks) {
  const View keys = first_of({&call.q, &call.k, &call.dq, &call.dk});
  const View values = first_of({&call.v, &call.dout, &call.dv, &call.out});
  return general_cut({.work = call.chunks.work,
                      .chunks = chunks,
                      .heads = std::max(keys.heads, values.heads),
                      .D = keys.width,
                      .E = values.width,
                      .of_values = (call.out ? 1 : 0) + (call.dv ? 1 : 0),
                      .of_keys = (call.dq ? 1 : 0) + (call.dk ? 1 : 0),
                      .walks = false},
                     any_fp64({&keys, &values}));
}

LinearCut cut_of(const LinearState& call) {
  LinearCut cut{.work = call.chunks.work, .threads = linear_threads};
  if (cut.work == ChunkWork::serial) {  // a part has all rows of a state
    cut.columns = cut.value_columns = serial_columns;
    cut.key_columns = static_cast<std::int32_t>(call.rows.width);
    cut.value_parts = pieces(call.columns.width, serial_columns);
  } else {
    cut.columns = cut.key_columns = cut.value_columns = slice_columns;
    cut.key_parts = pieces(call.rows.width, slice_columns);
    cut.value_parts = pieces(call.columns.width, slice_columns);
  }
  cut.parts = cut.key_parts * cut.value_parts;
  cut.thread_blocks = chunk_count(call.chunks) * call.rows.heads * cut.parts;
  require_launchable_cut(cut);
  return cut;
}

LinearCut cut_of(const LinearScan& call, std::int64_t groups) {
  LinearCut cut{.work = call.chunks.work, .threads = linear_threads};
  const std::int64_t elements =
      rows_of_a_state(call.state.rows, state_count(call)) * pieces(call.state.width, 4);
  cut.parts = pieces(elements, linear_threads);
  cut.thread_blocks = groups * call.state.heads * cut.parts;
  require_launchable_cut(cut);
  return cut;
}

// A thread has four columns of one row of one head.
LinearCut cut_of(const LinearCombine& call) {
  LinearCut cut{.work = call.chunks.work, .threads = linear_threads};
  const std::int64_t elements =
      rows_of_a_state(call.into.rows, state_count(call)) * pieces(call.into.width, 4);
  cut.parts = pieces(elements, linear_threads);
  cut.thread_blocks = chunk_count(call.chunks) * call.into.heads * cut.parts;
  require_launchable_cut(cut);
  return cut;
}

LinearCut hopper_cut(std::int64_t chunks, std::int64_t heads, int multiprocessors) {
  LinearCut cut;
  cut.thread_blocks = chunks * heads;
  cut.multiprocessors = multiprocessors;
  require_launchable_cut(cut);
  return cut;
}

std::vector<DeviceChunk> device_chunks(std::span<const Chunk> chunks) {
  std::vector<DeviceChunk> all;
  all.reserve(chunks.size());
  for (const Chunk& chunk : chunks) all.push_back(whole(chunk));
  return all;
}

std::vector<DeviceChunk> short_chunks(std::span<const Chunk> chunks, std::int64_t tokens) {
  std::vector<DeviceChunk> all;
  for (const Chunk& chunk : chunks)
    for (std::int64_t first = 0; first < chunk.count; first += tokens) {
      DeviceChunk part = whole(chunk);
      part.row += static_cast<std::int32_t>(first);
      part.count = static_cast<std::int32_t>(std::min(chunk.count - first, tokens));
      part.before = static_cast<std::int32_t>(first);
      part.after = static_cast<std::int32_t>(chunk.count - first) - part.count;
      all.push_back(part);
    }
  return all;
}

ScanChunks scan_chunks(std::span<const Chunk> chunks, bool has_final_state, bool reverse) {
  const auto total_of = [&](const Chunk& chunk) {
    return !has_final_state ? -1 : reverse ? chunk.left : chunk.right;
  };
  // Runs, and which of them name one state of final_state: these form a group, named by its first run.
  std::vector<std::size_t> run_begins, group_of;
  std::map<std::int32_t, std::size_t> run_that_names;
  const auto first_of = [&](std::size_t run) {
    while (group_of[run] != run) run = group_of[run];
    return run;
  };
  for (std::size_t n = 0; n < chunks.size(); ++n) {
    if (n == 0 || chunks[n].resets) {
      group_of.push_back(run_begins.size());
      run_begins.push_back(n);
    }
    if (total_of(chunks[n]) < 0) continue;
    const std::size_t run = run_begins.size() - 1;
    const auto [named, is_new] = run_that_names.emplace(total_of(chunks[n]), run);
    if (is_new) continue;
    const std::size_t a = first_of(named->second), b = first_of(run);
    group_of[std::max(a, b)] = std::min(a, b);
  }
  run_begins.push_back(chunks.size());
  std::vector<std::size_t> order(group_of.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (const std::size_t run : order) group_of[run] = first_of(run);  // first_of() of earlier runs stays true
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return group_of[a] < group_of[b]; });

  ScanChunks scan;
  std::map<std::int32_t, bool> begun;
  for (std::size_t n = 0; n < order.size(); ++n) {
    const std::size_t begin = run_begins[order[n]], end = run_begins[order[n] + 1];
    if (n == 0 || group_of[order[n]] != group_of[order[n - 1]])
      scan.groups.push_back(static_cast<std::int32_t>(scan.chunks.size()));
    for (std::size_t i = begin; i < end; ++i) {
      DeviceChunk chunk = whole(chunks[reverse ? end - 1 - (i - begin) : i]);
      chunk.flags = i == begin ? DeviceChunk::resets : 0;
      scan.chunks.push_back(chunk);
    }
  }
  for (std::size_t g = 0; g < scan.groups.size(); ++g) {
    const auto begin = static_cast<std::size_t>(scan.groups[g]);
    const std::size_t end =
        g + 1 < scan.groups.size() ? static_cast<std::size_t>(scan.groups[g + 1]) : scan.chunks.size();
    for (std::size_t i = begin; i < end; ++i) {
      const auto total = [&](std::size_t at) {
        return !has_final_state ? -1 : reverse ? scan.chunks[at].left : scan.chunks[at].right;
      };
      if (total(i) < 0) continue;
      if (i == begin || total(i - 1) != total(i)) scan.chunks[i].flags |= DeviceChunk::sum_begins;
      if (i + 1 < end && total(i + 1) == total(i)) continue;
      scan.chunks[i].flags |= DeviceChunk::sum_ends | (begun[total(i)] ? DeviceChunk::sum_adds : 0);
      begun[total(i)] = true;
    }
  }
  scan.groups.push_back(static_cast<std::int32_t>(scan.chunks.size()));
  return scan;
}

std::vector<RowRun> rows_in_no_chunk(std::span<const Chunk> chunks, std::int64_t rows) {
  std::vector<RowRun> taken;
  for (const Chunk& chunk : chunks)
    if (chunk.count > 0) taken.push_back({chunk.row, chunk.count, 1});
  std::sort(taken.begin(), taken.end(), [](const RowRun& a, const RowRun& b) { return a.begin < b.begin; });
  std::vector<RowRun> free;
  std::int64_t next = 0;
  for (const RowRun& run : taken) {
    require(run.begin >= next, "two chunks of linear attention share rows");
    if (run.begin > next) free.push_back({next, run.begin - next, 1});
    next = run.begin + run.count;
  }
  if (next < rows) free.push_back({next, rows - next, 1});
  return free;
}

}  // namespace cplab::kernels::cuda
