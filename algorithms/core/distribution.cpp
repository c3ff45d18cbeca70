// Distributions made from one another.
#include "algorithms/core/distribution.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "algorithms/core/tile.hpp"

namespace cplab {
namespace {

bool before(const TokenRun& a, const TokenRun& b) {
  return a.sequence != b.sequence ? a.sequence < b.sequence : a.position < b.position;
}

// Runs of one sequence and one stride that together are consecutive tokens: as many as the stride, at
// consecutive positions, the earlier ones of the same number of rows or one more.
bool interleave(const std::vector<TokenRun>& runs, std::size_t begin, std::size_t end) {
  const TokenRun& first = runs[begin];
  if (first.stride == 1 || static_cast<std::int64_t>(end - begin) != first.stride) return false;
  for (std::size_t i = begin; i < end; ++i) {
    const auto place = static_cast<std::int64_t>(i - begin);
    if (runs[i].stride != first.stride || runs[i].position != first.position + place ||
        runs[i].rows != first.rows)
      return false;
  }
  return true;
}

// Appends a run, to the last one where it continues it.
void append(std::vector<TokenRun>& runs, const TokenRun& next) {
  if (!runs.empty()) {
    TokenRun& last = runs.back();
    const bool continues = last.sequence == next.sequence && last.stride == next.stride &&
                           last.row_step == 1 && next.row_step == 1 && last.row + last.rows == next.row &&
                           last.position + last.rows * last.stride == next.position;
    if (continues && (last.valid == last.rows || next.valid == 0)) {
      last.rows += next.rows;
      last.valid += next.valid;
      return;
    }
  }
  runs.push_back(next);
}

std::vector<TokenRun> laid_in_order(std::vector<TokenRun> runs, bool interleaved) {
  std::stable_sort(runs.begin(), runs.end(), before);
  std::vector<TokenRun> result;
  std::int64_t row = 0;
  for (std::size_t begin = 0, end = 0; begin < runs.size(); begin = end) {
    while (end < runs.size() && runs[end].sequence == runs[begin].sequence) ++end;
    if (interleaved && interleave(runs, begin, end)) {
      TokenRun all = runs[begin];
      all.row = row;
      all.stride = all.row_step = 1;
      all.rows = all.valid = 0;
      for (std::size_t i = begin; i < end; ++i) {
        all.rows += runs[i].rows;
        all.valid += runs[i].valid;
      }
      append(result, all);
      row += all.rows;
      continue;
    }
    for (std::size_t i = begin; i < end; ++i) {
      runs[i].row = row;
      runs[i].row_step = 1;
      append(result, runs[i]);
      row += runs[i].rows;
    }
  }
  return result;
}

bool same_tokens(const Holding& a, const Holding& b) {
  if (a.runs.is(b.runs)) return true;
  return std::ranges::equal(a.runs, b.runs, [](const TokenRun& x, const TokenRun& y) {
    return x.sequence == y.sequence && x.row == y.row && x.position == y.position && x.rows == y.rows &&
           x.stride == y.stride && x.row_step == y.row_step;
  });
}

Distribution in_order(const Distribution& from, bool interleaved) {
  Distribution result = from;
  for (std::size_t i = 0; i < result.members.size(); ++i) {
    const bool same = i > 0 && same_tokens(from.members[i - 1], from.members[i]);  // laid out once
    if (same)
      result.members[i].runs = result.members[i - 1].runs;
    else
      result.members[i].runs = laid_in_order(result.members[i].runs, interleaved);
  }
  return result;
}

}  // namespace

HeadRange HeadRange::common(HeadRange other) const {
  const HeadRange both{std::max(begin, other.begin), std::min(end, other.end)};
  return both.begin < both.end ? both : HeadRange{};
}

std::int64_t Holding::rows() const {
  std::int64_t end = 0;
  for (const TokenRun& run : runs)
    if (run.rows > 0) end = std::max(end, run.row + (run.rows - 1) * run.row_step + 1);
  return end;
}

Distribution placed(const Problem& p, const Placement& placement, std::int64_t ranks) {
  Distribution tokens;
  for (int position = 0; position < static_cast<int>(ranks); ++position) {
    const auto runs = placement.runs(position);
    tokens.members.push_back({std::vector<TokenRun>(runs.begin(), runs.end()), {0, p.heads}});
  }
  return tokens;
}

Distribution placed(const Scenario& s, int replica) {
  return placed(s.problem, Placement(s.problem, s.parallel, s.placement, replica), s.parallel.ranks);
}

Distribution placed_keys(const Scenario& s, int replica) {
  const Placement placement(s.problem, s.parallel, s.placement, replica, Side::keys);
  Distribution keys = placed(s.problem, placement, s.parallel.ranks);
  if (s.parallel.keys_everywhere)
    for (Holding& member : keys.members) member.runs = keys.members.front().runs;
  keys.everywhere = s.parallel.keys_everywhere;
  keys.replicated = keys.everywhere && keys.size() > 1;
  return keys;
}

Distribution gathered(const Distribution& from) {
  const HeadRange heads = from.members.front().heads;
  std::vector<TokenRun> all;
  std::int64_t row = 0;
  for (const Holding& member : from.members) {
    if (member.heads != heads) throw std::logic_error("gathered: members hold different heads");
    for (const TokenRun& run : shifted(member.runs, row)) all.push_back(run);
    row += member.rows();
  }
  return {std::vector<Holding>(from.members.size(), {std::move(all), heads}), from.members.size() > 1};
}

Distribution in_sequence_order(const Distribution& from) {
  return in_order(from, true);
}

Distribution split_heads(const Distribution& tokens) {
  Distribution split = in_sequence_order(tokens.everywhere ? tokens : gathered(tokens));
  const HeadRange all = tokens.members.front().heads;
  const auto members = static_cast<std::int64_t>(split.members.size());
  if (all.count() % members != 0)
    throw std::logic_error(std::to_string(members) + " members do not divide " + std::to_string(all.count()) +
                           " heads");
  const std::int64_t share = all.count() / members;
  for (std::int64_t i = 0; i < members; ++i)
    split.members[static_cast<std::size_t>(i)].heads = {all.begin + i * share, all.begin + (i + 1) * share};
  split.replicated = split.everywhere = false;
  return split;
}

std::vector<HeadRange> equal_parts(HeadRange all, std::int64_t width) {
  std::vector<HeadRange> parts;
  for (std::int64_t head = all.begin; head < all.end; head += width)
    parts.push_back({head, std::min(head + width, all.end)});
  return parts;
}

HeadRange key_heads(const Problem& p, HeadRange query_heads) {
  const std::int64_t ratio = p.heads / p.kv_heads;
  return {query_heads.begin / ratio, (query_heads.end + ratio - 1) / ratio};
}

Distribution key_heads(const Problem& p, const Distribution& of_queries) {
  Distribution keys = of_queries;
  for (std::size_t i = 0; i < keys.members.size(); ++i) {
    keys.members[i].heads = key_heads(p, of_queries.members[i].heads);
    keys.replicated |= i > 0 && same_tokens(keys.members[i - 1], keys.members[i]) &&
                       keys.members[i - 1].heads.end > keys.members[i].heads.begin;
  }
  return keys;
}

Distribution with_heads(Distribution of, HeadRange heads) {
  for (Holding& member : of.members) member.heads = heads;
  return of;
}

Distribution all_tokens(const Distribution& from) {
  return in_order(from.everywhere ? from : gathered(from), false);
}

Distribution seen(const Distribution& queries, const Distribution& keys, const Visible& visible) {
  Distribution result = keys;
  result.replicated = true;
  const Distribution all = gathered(keys);
  for (std::size_t i = 0; i < keys.members.size(); ++i) {
    result.members[i].runs = seen_runs(queries.members[i].runs, all.members[i].runs, visible);
  }
  return in_order(result, false);
}

}  // namespace cplab
