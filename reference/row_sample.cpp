// See row_sample.hpp.
#include "reference/row_sample.hpp"

#include <algorithm>

namespace cplab::reference {

std::vector<RowRun> blocks_of(std::int64_t S, std::int64_t block) {
  std::vector<RowRun> blocks;
  for (std::int64_t row = 0; row < S; row += block) blocks.push_back({row, std::min(block, S - row)});
  return blocks;
}

std::vector<RowRun> wanted_runs(const RowSample* sample, std::int64_t S, std::int64_t block) {
  if (sample == nullptr) return blocks_of(S, block);
  std::vector<RowRun> runs;
  for (const std::int64_t row : sample->rows) {
    if (!runs.empty() && runs.back().first + runs.back().count == row && runs.back().count < block)
      ++runs.back().count;
    else
      runs.push_back({row, 1});
  }
  return runs;
}

std::vector<RowRun> wanted_key_runs(const RowSample* sample, std::int64_t N, std::int64_t block) {
  if (!sample || sample->keys.empty()) return wanted_runs(sample, N, block);
  const RowSample of_keys{sample->keys, {}, false};
  return wanted_runs(&of_keys, N, block);
}

}  // namespace cplab::reference
