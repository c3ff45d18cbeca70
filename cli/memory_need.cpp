// Counts, and the factors between counts and bytes; see memory_need.hpp.
#include "cli/memory_need.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "algorithms/core/build.hpp"
#include "cli/console.hpp"
#include "cli/result_text.hpp"
#include "cli/session.hpp"
#include "cli/verify/states.hpp"
#include "cli/verify/tensors.hpp"
#include "exec/host_memory.hpp"
#include "reference/workers.hpp"

namespace cplab {

namespace {

template <class T>
double bytes_of(const std::vector<T>& pool) {
  return static_cast<double>(pool.size() * sizeof(T));
}

PlanSize size_of(const RankPlan& rank) {
  const double lists = bytes_of(rank.row_ranges) + bytes_of(rank.segments) + bytes_of(rank.chunks);
  return {lists + bytes_of(rank.buffers) + bytes_of(rank.operations) + bytes_of(rank.views) +
              bytes_of(rank.accesses) + bytes_of(rank.parts) + bytes_of(rank.edges),
          lists};
}

// Peak resident bytes of a command, measured on rings of 2 to 512 ranks and 2 to 16384 sequences (GCC 12,
// glibc 2.36) and rounded up. Pools grow by doubling and are looked up by hash while they grow; the simulator
// adds little. The checker keeps contents and coverage row range by row range, of every rank about every
// other.
double peak_bytes(const Scenario& scenario, const PlanSize& size, PlanUse use) {
  constexpr double per_pool_byte = 3, checked_per_list_byte = 20, checked_per_pair = 110;
  // While a rank is built it knows the tokens of all: two runs of 56 bytes a sequence, as queries and as
  // keys, and tiles of them.
  constexpr double tokens_per_rank_and_sequence = 2 * 2 * 64;
  const auto P = static_cast<double>(scenario.parallel.ranks);
  const auto all = static_cast<double>(scenario.problem.lengths.size());
  // Of one that lies whole on a rank no other knows anything.
  const auto whole =
      static_cast<double>(std::ranges::count_if(scenario.parallel.homes, [](int home) { return home >= 0; }));
  // While a call of attention is costed, its tiles and their segments are known.
  constexpr double costed_per_sequence = 640;
  if (use != PlanUse::check)
    return per_pool_byte * size.pools + tokens_per_rank_and_sequence * (P * (all - whole) + whole) +
           costed_per_sequence * all;
  const double pairs = P * P * (all - whole) + whole;
  return per_pool_byte * size.pools + checked_per_list_byte * size.lists + checked_per_pair * pairs;
}

double peak_bytes(const Scenario& scenario, PlanUse use) {
  return peak_bytes(scenario, estimated_size(scenario), use);
}

// In larger groups one rank takes seconds to build; its size grows at least in proportion to their number.
constexpr std::int64_t most_ranks_built = 2048;

// The sequences of the largest replica.
struct Sequences {
  std::vector<std::size_t> cut, whole;  // whole: on one rank
};

Sequences of_largest_replica(const Scenario& scenario) {
  Sequences all;
  const std::vector<int>& homes = scenario.parallel.homes;
  for (std::size_t b = 0; b < scenario.problem.lengths.size();
       b += static_cast<std::size_t>(scenario.parallel.replicas))
    (homes.empty() || homes[b] < 0 ? all.cut : all.whole).push_back(b);
  return all;
}

// One group of the scenario's ranks (of so many at most) with `count` of the sequences that are cut in its
// largest replica, evenly chosen, and as large a share of those that are whole, which make few pools.
Scenario sample_of(const Scenario& scenario, std::int64_t count) {
  Scenario sample = scenario;
  Problem& p = sample.problem;
  const Sequences all = of_largest_replica(scenario);
  p.lengths.clear();
  p.padded_lengths.clear();
  p.kv_lengths.clear();
  p.kv_padded_lengths.clear();
  sample.parallel.homes.clear();
  sample.parallel.pieces.clear();  // like pieces of every sequence do
  sample.parallel.ranks = std::min(scenario.parallel.ranks, most_ranks_built);
  std::vector<std::size_t> chosen;
  const auto choose = [&](const std::vector<std::size_t>& from, std::int64_t some) {
    for (std::int64_t i = 0; i < some; ++i)
      chosen.push_back(from[static_cast<std::size_t>(i * std::ssize(from) / some)]);
  };
  choose(all.cut, count);
  choose(all.whole, count == 0 ? std::ssize(all.whole) : std::ssize(all.whole) * count / std::ssize(all.cut));
  std::ranges::sort(chosen);
  for (const std::size_t b : chosen) {
    p.lengths.push_back(scenario.problem.lengths[b]);
    p.padded_lengths.push_back(scenario.problem.padded_lengths[b]);
    if (scenario.problem.is_cross()) {
      p.kv_lengths.push_back(scenario.problem.kv_lengths[b]);
      p.kv_padded_lengths.push_back(scenario.problem.kv_padded_lengths[b]);
    }
    if (!scenario.parallel.homes.empty())
      sample.parallel.homes.push_back(scenario.parallel.homes[b] % static_cast<int>(sample.parallel.ranks));
  }
  if (!p.packed) p.batch = std::ssize(chosen);
  sample.parallel.replicas = 1;
  sample.parallel.groups.assign(1, std::vector<int>(static_cast<std::size_t>(sample.parallel.ranks)));
  std::iota(sample.parallel.groups[0].begin(), sample.parallel.groups[0].end(), 0);
  return sample;
}

// The mean size of a rank, from a few of them: with a causal mask the last has more work than the first.
PlanSize mean_size(const Scenario& sample) {
  constexpr std::int64_t most_built = 4;
  const std::int64_t P = sample.parallel.ranks, built = std::min(P, most_built);
  PlanSize mean;
  for (std::int64_t i = 0; i < built; ++i) {
    const std::int64_t rank = built == 1 ? 0 : i * (P - 1) / (built - 1);
    const PlanSize size = size_of(build_rank(sample, static_cast<int>(rank)));
    mean.pools += size.pools / static_cast<double>(built);
    mean.lists += size.lists / static_cast<double>(built);
  }
  return mean;
}

// The largest of scenario/2, /4, ... of a count for which the plan would fit; 0 if none.
template <class Shrink>
std::int64_t count_that_fits(Scenario scenario, std::int64_t count, PlanUse use, double there,
                             Shrink shrink) {
  while (count > 1) {
    count /= 2;
    shrink(scenario, count);
    if (peak_bytes(scenario, use) <= there) return count;
  }
  return 0;
}

void take_ranks(Scenario& scenario, std::int64_t ranks) {
  Parallel& parallel = scenario.parallel;
  parallel.ranks = ranks;
  // Only their number is looked at.
  for (auto& group : parallel.groups) group.resize(static_cast<std::size_t>(ranks));
}

void take_sequences(Scenario& scenario, std::int64_t count) {
  Problem& p = scenario.problem;
  p.lengths.resize(static_cast<std::size_t>(count));
  p.padded_lengths.resize(static_cast<std::size_t>(count));
  if (p.is_cross()) {
    p.kv_lengths.resize(static_cast<std::size_t>(count));
    p.kv_padded_lengths.resize(static_cast<std::size_t>(count));
  }
  if (!scenario.parallel.homes.empty()) scenario.parallel.homes.resize(static_cast<std::size_t>(count));
  if (!p.packed) p.batch = count;
}

// "12.3 GiB (plan 1.2 GiB, ...)".
std::string parts_text(const MemoryParts& parts) {
  std::string text;
  double total = 0;
  for (const auto& [what, bytes] : parts) {
    total += bytes;
    if (bytes >= 1) text += (text.empty() ? "" : ", ") + what + " " + bytes_text(bytes);
  }
  return bytes_text(total) + (parts.size() > 1 ? " (" + text + ")" : "");
}

double total_of(const MemoryParts& parts) {
  double total = 0;
  for (const auto& [what, bytes] : parts) total += bytes;
  return total;
}

// "; 3.1 GiB can still be had (the cgroup limit; CPLAB_MEMORY=SIZE says otherwise)".
std::string there_text() {
  const HostMemory memory = host_memory_left();
  return fmt::format("; {} can still be had ({}{})", bytes_text(static_cast<double>(memory.bytes)),
                     memory.source,
                     memory.source == "CPLAB_MEMORY" ? "" : "; CPLAB_MEMORY=SIZE overrides it");
}

void require_file_memory(double need, const char* what, const std::string& file_name) {
  constexpr double never_asked = 1 << 24;  // smaller needs are not tested
  if (need <= never_asked || need <= memory_left()) return;
  throw EnvironmentError(
      fmt::format("{}: {} needs about {} of memory{}", file_name, what, bytes_text(need), there_text()));
}

}  // namespace

double memory_left() {
  try {
    return static_cast<double>(host_memory_left().bytes);
  } catch (const std::runtime_error& error) {
    throw InputError(error.what());
  }
}

PlanSize size_of(const Plan& plan) {
  PlanSize sum;
  for (const RankPlan& rank : plan.ranks) {
    const PlanSize size = size_of(rank);
    sum.pools += size.pools;
    sum.lists += size.lists;
  }
  return sum;
}

PlanSize estimated_size(const Scenario& scenario) {
  const Parallel& parallel = scenario.parallel;
  const std::int64_t all = std::ssize(of_largest_replica(scenario).cut);
  // So many sequences that ranks times sequences stays at a few thousand.
  constexpr std::int64_t most_runs = 4096, most_sequences = 64;
  const std::int64_t few =
      std::min(all, std::clamp<std::int64_t>(most_runs / parallel.ranks, 1, most_sequences));
  PlanSize size = mean_size(sample_of(scenario, few));
  if (all > few) {
    const std::int64_t more = std::min(all, 2 * few);
    const PlanSize larger = mean_size(sample_of(scenario, more));
    const double times = static_cast<double>(all - few) / static_cast<double>(more - few);
    size.pools += std::max(0.0, larger.pools - size.pools) * times;
    size.lists += std::max(0.0, larger.lists - size.lists) * times;
  }
  const double world = static_cast<double>(parallel.world()) *
                       std::max(1.0, static_cast<double>(parallel.ranks) / most_ranks_built);
  return {size.pools * world, size.lists * world};
}

void require_plan_memory(const ScenarioFile& file, PlanUse use) {
  const Scenario& scenario = file.scenario;
  const double there = memory_left();
  const double need = peak_bytes(scenario, use);
  if (need <= there) return;
  const std::int64_t ranks = scenario.parallel.ranks, sequences = std::ssize(scenario.problem.lengths);
  std::string enough;
  const auto suggest = [&](const std::string& what, std::int64_t count) {
    if (count > 0)
      enough += (enough.empty() ? " Enough for " : " or for ") + what + " = " + std::to_string(count);
  };
  suggest("parallel.ranks", count_that_fits(scenario, ranks, use, there, take_ranks));
  if (sequences > 1) {
    const char* what = scenario.problem.packed ? "the first sequences of problem.lengths" : "problem.batch";
    suggest(what, count_that_fits(scenario, sequences, use, there, take_sequences));
  }
  fail_environment(
      file,
      sequences > ranks ? (scenario.problem.packed ? "problem.lengths" : "problem.batch") : "parallel.ranks",
      fmt::format("the plan of {} ranks and {} sequences needs about {} of memory{}.{}",
                  scenario.parallel.world(), sequences, bytes_text(need), there_text(), enough));
}

MemoryParts execution_parts(const Plan& plan, bool gpu, bool compared) {
  const Problem& p = plan.scenario.problem;
  constexpr double number = sizeof(double);
  double tokens = 0, longest = 0, arenas = 0, local = 0;
  for (const std::int64_t length : p.padded_lengths) tokens += static_cast<double>(length);
  for (const std::int64_t length : p.padded_lengths_of(Side::keys))
    longest = std::max(longest, static_cast<double>(length));
  const double keys_per_query = tokens > 0 ? static_cast<double>(total_tokens(p, Side::keys)) / tokens : 1;
  for (const RankPlan& rank : plan.ranks) {
    arenas += static_cast<double>(rank.arena_bytes);
    double bytes = 0;  // of numbers in double, with where their rows lie
    for (const Buffer& buffer : rank.buffers)
      if (buffer.category == Category::input)
        bytes += static_cast<double>(buffer.slots * buffer.rows) *
                 (static_cast<double>(buffer.heads * buffer.width) * number + 2 * sizeof(LocalRow));
    local = std::max(local, bytes);
  }
  const auto numbers_per_token = [&](Category category) {
    double sum = 0;
    for (const ProblemTensor& tensor : tensors_of(p, category)) {
      if (!tensor.per_token()) continue;  // next to nothing
      const TokenRow row = token_row(p, tensor);
      sum += static_cast<double>(row.heads * row.width) * (tensor.side() == Side::keys ? keys_per_query : 1);
    }
    return sum;
  };
  const double inputs = numbers_per_token(Category::input), outputs = numbers_per_token(Category::output);
  MemoryParts parts{{"arenas of the ranks", gpu ? 0 : arenas},
                    {"inputs", tokens * inputs * number},
                    {"outputs", tokens * outputs * number},
                    {"a rank's tensors", local}};  // of one rank at a time
  if (!compared) return parts;
  const auto D = static_cast<double>(p.head_size), E = static_cast<double>(p.value_size);
  if (p.attention == Attention::linear) {
    double states = 0;  // at the edges of ranks
    for (const RankPlan& rank : plan.ranks)
      for (const StateBuffer& buffer : state_buffers(plan, rank))
        states += static_cast<double>(std::ssize(buffer.states));
    states *= static_cast<double>(p.heads) * D * E;
    parts.emplace_back("the recurrence", (tokens * outputs + states) * number);
    parts.emplace_back("its error model", 2 * (tokens * outputs + states) * number);
    // Of one sequence: with variances, and squares of what they are made of.
    if (p.convolves())
      parts.emplace_back("its convolved rows",
                         6 * longest * static_cast<double>(p.heads) * (2 * D + E) * number);
    // Of one head: its rows, and states kept on the way, with four numbers for each element.
    const double kept = p.transition == Transition::decay ? 4 : 3 * std::sqrt(longest);
    parts.emplace_back("its states", (longest * (3 * D + 2 * E + 1) + 4 * kept * D * E) * number);
    return parts;
  }
  parts.emplace_back("the dense reference", tokens * outputs * number);
  parts.emplace_back("its error model", tokens * 2 * outputs * number);
  // Of one sequence: on every core 64 rows of scores and of their gradients; where keys are selected, also
  // 128 rows of 7 weights each; and what is known of every row and head.
  constexpr double block_rows = 64, model_rows = 128, weights = 7, of_row = 16;
  const double cores = reference::worker_count(std::numeric_limits<int>::max());
  const double selected = p.keep == Keep::none ? 0 : model_rows * weights * sizeof(float);
  parts.emplace_back("scores", longest * cores * (2 * block_rows * number + selected));
  parts.emplace_back("its rows", longest * static_cast<double>(p.heads) * of_row * number);
  return parts;
}

void require_execution_memory(const ScenarioFile& file, const Plan& plan, bool gpu, bool compared) {
  const MemoryParts parts = execution_parts(plan, gpu, compared);
  if (total_of(parts) <= memory_left()) return;
  const Problem& p = plan.scenario.problem;
  std::int64_t tokens = 0;
  for (const std::int64_t length : p.padded_lengths) tokens += length;
  fail_environment(file, p.packed ? "problem.lengths" : "problem.sequence",
                   fmt::format("{} tokens: executing this {}needs about {} of memory{}", tokens,
                               gpu ? "" : "on the CPU ", parts_text(parts), there_text()));
}

void require_json_memory(const std::string& text, const std::string& file_name) {
  // A value takes 16 bytes and a list or object its vector beside it, doubled while it grows; a key 48 bytes
  // and, while its object is open, a place in a set. The plan made of it is smaller.
  double values = 1, containers = 0, keys = 0;
  for (const char c : text) {
    values += c == ',';
    containers += c == '[' || c == '{';
    keys += c == ':';
  }
  const double need =
      3 * 16 * (values + containers) + 56 * containers + 200 * keys + static_cast<double>(text.size());
  require_file_memory(need, "reading this file", file_name);
}

void require_check_memory(const Plan& plan, const std::string& file_name) {
  require_file_memory(peak_bytes(plan.scenario, size_of(plan), PlanUse::check), "checking this plan",
                      file_name);
}

void require_text_memory(std::uintmax_t bytes, const std::string& file_name) {
  require_file_memory(static_cast<double>(bytes), "the text of this file", file_name);
}

void require_toml_memory(std::size_t bytes, const std::string& file_name) {
  // toml++ 3.3: about 90 bytes for "1," and 200 for "a=1".
  constexpr double tree_bytes_per_byte = 50;
  require_file_memory(tree_bytes_per_byte * static_cast<double>(bytes), "reading this file", file_name);
}

}  // namespace cplab
