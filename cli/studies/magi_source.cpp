// See magi_source.hpp.
#include "cli/studies/magi_source.hpp"

#include "plan/live_pairs.hpp"

namespace cplab {
namespace {

MagiMethod read_method(const Table& entry) {
  MagiMethod method;
  for (const std::string& key : entry.keys()) {
    if (key == "name") {
      method.name = entry.text(key);
    } else if (key == "ms") {
      method.published_ms = entry.numbers(key);
    } else if (key == "algorithm") {
      method.sets.push_back("parallel.algorithm=" + entry.text(key));
    } else {
      const bool word = entry.kind(key) == Table::Kind::text;
      method.sets.push_back("schedule." + key + "=" +
                            (word ? entry.text(key) : std::to_string(entry.integer(key))));
    }
  }
  if (method.published_ms.size() != magi_charts.size()) entry.fail("ms", "must hold four numbers");
  entry.finish();
  return method;
}

}  // namespace

MagiSource read_magi_source(const Table& root) {
  MagiSource source;
  const Table published = root.table("published"), kernel = published.table("kernel");
  source.sequence = kernel.integers("sequence");
  for (std::size_t c = 0; c < magi_charts.size(); ++c) {
    source.tflops[c] = kernel.numbers(magi_charts[c].key);
    if (source.tflops[c].size() != source.sequence.size())
      kernel.fail(magi_charts[c].key, "must hold one number for each of published.kernel.sequence");
  }
  kernel.finish();
  for (const Table& entry : published.tables("method")) source.methods.push_back(read_method(entry));
  published.finish();
  return source;
}

double magi_flops(const Problem& problem, const MagiChart& chart, std::int64_t sequence) {
  const auto s = static_cast<double>(sequence);
  const double area = chart.causal ? s * (s + 1) / 2 : s * s;
  return area * static_cast<double>(problem.heads) *
         flops_per_pair(chart.kind(), problem.head_size, problem.value_size);
}

KernelTable magi_kernel(const MagiSource& source, const Problem& problem, std::size_t chart) {
  const MagiChart& of = magi_charts[chart];
  KernelTable table;
  table.kind = of.kind();
  table.variant = "FlashAttention 3";
  table.dtype = problem.dtype;
  table.head_size = problem.head_size;
  table.value_size = problem.value_size;
  table.causal = of.causal;
  table.provenance = {Origin::measured, "FlashAttention 3, read off charts", "H100 (MagiAttention)",
                      "2026-02", ""};
  for (std::size_t i = 0; i < source.sequence.size(); ++i)
    table.points.push_back({1, source.sequence[i], problem.heads,
                            magi_flops(problem, of, source.sequence[i]) / (source.tflops[chart][i] * 1e12)});
  return table;
}

}  // namespace cplab
