// Which rows of a sequence results are wanted of.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace cplab::reference {

struct RowSample {
  std::span<const std::int64_t> rows;  // of queries: ascending, none twice, of 0 .. S-1
  std::span<const std::int64_t> keys;  // of keys where they have tokens of their own; empty: the same
  bool max_logit = false;              // is wanted too, which is of all rows
};

struct RowRun {
  std::int64_t first = 0, count = 0;
};

// Rows 0 .. S-1 in blocks.
std::vector<RowRun> blocks_of(std::int64_t S, std::int64_t block);

// The rows that are wanted as runs of at most a block; `sample` null: all rows, in blocks.
std::vector<RowRun> wanted_runs(const RowSample* sample, std::int64_t S, std::int64_t block);
// The same of N keys, which in self-attention are the tokens of those rows.
std::vector<RowRun> wanted_key_runs(const RowSample* sample, std::int64_t N, std::int64_t block);

}  // namespace cplab::reference
