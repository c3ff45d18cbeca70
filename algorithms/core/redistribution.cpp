// Common tokens of runs, and which of several holders gives what.
#include "algorithms/core/redistribution.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <utility>

namespace cplab {
namespace {

// Places i, i + i_step, ... of one run and j, j + j_step, ... of another that hold the same tokens.
struct Common {
  std::int64_t i = 0, i_step = 1, j = 0, j_step = 1, count = 0;
};

// What two runs of one sequence have in common. Padding has positions like tokens, and moves as they do.
std::optional<Common> common_tokens(const TokenRun& a, const TokenRun& b) {
  const std::int64_t divisor = std::gcd(a.stride, b.stride), ahead = b.position - a.position;
  if (ahead % divisor != 0) return {};
  Common c;
  c.i_step = b.stride / divisor;
  c.j_step = a.stride / divisor;
  if (ahead > 0) c.i = (ahead + a.stride - 1) / a.stride;
  while ((c.i * a.stride - ahead) % b.stride != 0) ++c.i;
  c.j = (c.i * a.stride - ahead) / b.stride;
  if (c.i >= a.rows || c.j >= b.rows) return {};
  c.count = std::min((a.rows - 1 - c.i) / c.i_step, (b.rows - 1 - c.j) / c.j_step) + 1;
  return c;
}

void append(std::vector<RowRange>& rows, const TokenRun& run, std::int64_t i, std::int64_t step,
            std::int64_t count) {
  const std::int64_t row_step = count == 1 ? 1 : step * run.row_step, begin = run.row + i * run.row_step;
  if (!rows.empty() && row_step == 1 && rows.back().step == 1 &&
      rows.back().begin + rows.back().count == begin) {
    rows.back().count += count;
  } else {
    rows.push_back({begin, count, row_step});
  }
}

// Runs by sequence, so that those of one sequence are found without looking at all.
std::vector<const TokenRun*> by_sequence(const std::vector<TokenRun>& runs) {
  std::vector<const TokenRun*> sorted;
  for (const TokenRun& run : runs) sorted.push_back(&run);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const TokenRun* a, const TokenRun* b) { return a->sequence < b->sequence; });
  return sorted;
}

// Calls visit(run of a, run of b, their common tokens) in the order of b's runs.
template <class Visit>
void for_each_common(const std::vector<TokenRun>& a, const std::vector<TokenRun>& b, Visit visit) {
  const std::vector<const TokenRun*> sorted = by_sequence(a);
  for (const TokenRun& run : b) {
    const auto first = std::ranges::lower_bound(sorted, run.sequence, {}, &TokenRun::sequence);
    for (auto at = first; at != sorted.end() && (*at)->sequence == run.sequence; ++at)
      if (const auto c = common_tokens(**at, run)) visit(**at, run, *c);
  }
}

std::int64_t elements(const std::vector<Moved>& shares) {
  std::int64_t n = 0;
  for (const Moved& share : shares) n += row_count(share.from_rows) * share.heads.count();
  return n;
}

// A share whose rows are being listed.
struct Listed {
  std::vector<RowRange> from_rows, into_rows;
  HeadRange heads;
};

std::int64_t elements(const Holding& holding) {
  std::int64_t n = 0;
  for (const TokenRun& run : holding.runs) n += run.rows;
  return n * holding.heads.count();
}

// Takes away from `share` what `given` has, which is of the same runs: rows are compared at the receiver.
std::vector<Moved> minus(const Moved& share, const std::vector<Moved>& given) {
  std::vector<std::pair<std::int64_t, std::int64_t>> pairs;  // rows of both ends
  std::vector<std::int64_t> into;
  for (const RowRange& range : share.into_rows)
    for (std::int64_t i = 0; i < range.count; ++i) into.push_back(range.begin + i * range.step);
  std::size_t at = 0;
  for (const RowRange& range : share.from_rows)
    for (std::int64_t i = 0; i < range.count; ++i)
      pairs.emplace_back(range.begin + i * range.step, into[at++]);
  std::vector<Listed> left;
  for (std::int64_t head = share.heads.begin; head < share.heads.end; ++head) {
    std::vector<std::int64_t> gone;
    for (const Moved& other : given) {
      if (head < other.heads.begin || head >= other.heads.end) continue;
      for (const RowRange& range : other.into_rows)
        for (std::int64_t i = 0; i < range.count; ++i) gone.push_back(range.begin + i * range.step);
    }
    std::ranges::sort(gone);
    Listed rest{{}, {}, {head, head + 1}};
    for (const auto& [from_row, into_row] : pairs) {
      if (std::ranges::binary_search(gone, into_row)) continue;
      const TokenRun from{.row = from_row, .rows = 1}, to{.row = into_row, .rows = 1};
      append(rest.from_rows, from, 0, 1, 1);
      append(rest.into_rows, to, 0, 1, 1);
    }
    if (rest.from_rows.empty()) continue;
    if (!left.empty() && left.back().heads.end == head && left.back().from_rows == rest.from_rows &&
        left.back().into_rows == rest.into_rows) {
      left.back().heads.end = head + 1;
    } else {
      left.push_back(std::move(rest));
    }
  }
  std::vector<Moved> moved;
  for (Listed& each : left)
    moved.push_back({std::move(each.from_rows), std::move(each.into_rows), each.heads});
  return moved;
}

}  // namespace

// Where all members have the same rows afterwards, what each gives is the same whoever receives it.
struct Redistribution::Known {
  bool one_list = true;
  std::vector<std::optional<CommonRows>> by_giver;
  struct OfMember {
    int place = -1;
    std::vector<Share> shares;
  };
  OfMember given, received;  // of the member that was asked about last
};

Redistribution::Redistribution(Distribution from, Distribution to)
    : from_(std::move(from)), to_(std::move(to)), known_(std::make_shared<Known>()), kind_(OpKind::exchange) {
  if (from_.size() != to_.size()) throw std::logic_error("a redistribution is over the members of one team");
  known_->by_giver.resize(from_.members.size());
  for (const Holding& member : to_.members)
    known_->one_list = known_->one_list && member.runs.is(to_[0].runs);
  kind_ = find_kind();
}

Redistribution Redistribution::of_heads(HeadRange heads) const {
  Redistribution some = *this;  // and its kind, which would take a look at every pair of members
  some.from_ = with_heads(std::move(some.from_), heads);
  some.to_ = with_heads(std::move(some.to_), heads);
  return some;
}

Redistribution::CommonRows Redistribution::find_common_rows(int giver, int receiver) const {
  std::vector<RowRange> from_rows, into_rows;
  for_each_common(from_[giver].runs, to_[receiver].runs,
                  [&](const TokenRun& from, const TokenRun& to, const Common& c) {
                    append(from_rows, from, c.i, c.i_step, c.count);
                    append(into_rows, to, c.j, c.j_step, c.count);
                  });
  return {std::move(from_rows), std::move(into_rows)};
}

const Redistribution::CommonRows& Redistribution::common_rows(int giver, int receiver,
                                                              CommonRows& own) const {
  if (!known_->one_list) return own = find_common_rows(giver, receiver);
  std::optional<CommonRows>& known = known_->by_giver[static_cast<std::size_t>(giver)];
  if (!known) known = find_common_rows(giver, receiver);
  return *known;
}

// What both of them have, whether or not it is this giver that gives it.
void Redistribution::append_overlap(int giver, int receiver, std::vector<Moved>& list) const {
  const HeadRange heads = from_[giver].heads.common(to_[receiver].heads);
  if (heads.count() == 0) return;
  CommonRows own;
  const CommonRows& rows = common_rows(giver, receiver, own);
  if (rows.from.size() > 0) list.push_back({rows.from, rows.into, heads});
}

const std::vector<Redistribution::Share>& Redistribution::shares_of(int place, bool gives) const {
  Known::OfMember& known = gives ? known_->given : known_->received;
  if (known.place == place) return known.shares;
  known.place = place;
  known.shares.clear();
  CommonRows own;
  for (int peer = 0; peer < from_.size(); ++peer) {
    const CommonRows& rows = gives ? common_rows(place, peer, own) : common_rows(peer, place, own);
    if (rows.from.size() > 0) known.shares.push_back({peer, gives ? rows.from : rows.into});
  }
  return known.shares;
}

std::vector<Moved> Redistribution::moved(int giver, int receiver) const {
  std::vector<Moved> own, given;
  append_overlap(giver, receiver, own);
  if (!from_.replicated || giver == receiver || own.empty()) return own;
  append_overlap(receiver, receiver, given);
  for (int earlier = 0; earlier < giver; ++earlier) append_overlap(earlier, receiver, given);
  return given.empty() ? own : minus(own.front(), given);
}

bool Redistribution::parts_heads() const {
  for (int place = 0; place < from_.size(); ++place)
    if (from_[place].heads != to_[place].heads) return true;
  return false;
}

// Asked once for a team: Shared keeps redistributions. Receivers that hold the same list of tokens are looked
// at once.
OpKind Redistribution::find_kind() const {
  bool gather = true;
  CommonRows own;
  const std::int64_t size = elements(from_[0]);
  for (int giver = 0; giver < from_.size(); ++giver) {
    gather = gather && elements(from_[giver]) == size;
    std::int64_t rows = 0;
    for (int receiver = 0; receiver < to_.size(); ++receiver) {
      std::int64_t n = 0;
      if (from_.replicated) {
        n = elements(moved(giver, receiver));
      } else {  // one gives all that is common
        if (receiver == 0 || !to_[receiver].runs.is(to_[receiver - 1].runs))
          rows = row_count(common_rows(giver, receiver, own).from);
        n = rows * from_[giver].heads.common(to_[receiver].heads).count();
      }
      if (n == 0) return OpKind::exchange;
      gather = gather && n == size;
    }
  }
  return gather ? OpKind::all_gather : OpKind::all_to_all;
}

}  // namespace cplab
