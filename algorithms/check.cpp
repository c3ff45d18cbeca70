// The checker's entry: runs the parts in order and keeps the findings worth printing.
#include "algorithms/check.hpp"

#include <algorithm>
#include <array>
#include <tuple>

#include "algorithms/check_contents.hpp"
#include "algorithms/check_model.hpp"

namespace cplab {

std::string_view name(FindingKind kind) {
  switch (kind) {
    case FindingKind::race: return "race";
    case FindingKind::deadlock: return "deadlock";
    case FindingKind::unmatched: return "unmatched";
    case FindingKind::order: return "order";
    case FindingKind::coverage: return "coverage";
    case FindingKind::uninitialised: return "uninitialised";
    case FindingKind::leak: return "leak";
    case FindingKind::lifetime: return "lifetime";
    case FindingKind::numerics: return "numerics";
  }
  return "unknown";
}

namespace checking {
namespace {
constexpr std::size_t kind_count = 9;
}

void Findings::add(FindingKind kind, const RankPlan* rank, std::uint32_t operation, std::uint32_t buffer,
                   std::string message) {
  const int number = rank ? rank->rank : -1;
  const std::uint64_t bucket =
      static_cast<std::uint64_t>(number + 1) * kind_count + static_cast<std::uint64_t>(kind);
  if (per_rank_[bucket] >= limit_) return;
  std::string key = std::to_string(bucket) + "/" + std::to_string(operation) + "/" + std::to_string(buffer);
  if (operation == none && buffer == none) key += message;
  if (!seen_.insert(std::move(key)).second) return;
  ++per_rank_[bucket];
  Item item{kind, number, operation, buffer, {}};
  item.finding.kind = kind;
  item.finding.rank = number;
  if (rank && operation != none) item.finding.operation = operation_id(*rank, rank->operations[operation]);
  if (rank && buffer != none) item.finding.buffer = rank->buffers[buffer].name;
  item.finding.message = std::move(message);
  items_.push_back(std::move(item));
}

void Findings::append(Findings&& other) {
  for (Item& item : other.items_) items_.push_back(std::move(item));
  other.items_.clear();
}

bool Findings::has(FindingKind kind) const {
  return std::any_of(items_.begin(), items_.end(), [&](const Item& item) { return item.kind == kind; });
}

std::vector<Finding> Findings::take() {
  // `none` is the largest index: findings about a whole rank come after those about its operations.
  std::stable_sort(items_.begin(), items_.end(), [](const Item& a, const Item& b) {
    return std::tie(a.kind, a.operation, a.rank, a.buffer) < std::tie(b.kind, b.operation, b.rank, b.buffer);
  });
  // Each kind gives its earliest in turn until the limit is reached.
  std::array<std::size_t, kind_count> counts{}, kept{};
  for (const Item& item : items_) ++counts[static_cast<std::size_t>(item.kind)];
  std::size_t room = limit_;
  for (bool more = true; more && room > 0;) {
    more = false;
    for (std::size_t k = 0; k < kind_count && room > 0; ++k) {
      if (kept[k] == counts[k]) continue;
      ++kept[k];
      --room;
      more = true;
    }
  }
  std::vector<Finding> findings;
  for (Item& item : items_) {
    std::size_t& left = kept[static_cast<std::size_t>(item.kind)];
    if (left == 0) continue;
    --left;
    findings.push_back(std::move(item.finding));
  }
  items_.clear();
  return findings;
}

}  // namespace checking

CheckResult check(const Plan& plan, std::size_t max_findings) {
  using namespace checking;
  CheckResult result;
  result.flops.assign(plan.ranks.size(), 0);
  result.sent_bytes.assign(plan.ranks.size(), 0);
  Findings findings(max_findings);
  Model model;
  if (resolve(plan, model, findings)) {
    for (RankModel& rank : model.ranks) check_order(rank, findings);
    Findings of_contents(max_findings);
    Contents contents(model, of_contents, result);
    const bool completed = check_matching(model, findings, contents, result);
    // What a plan that hangs, or whose messages go astray, computes says nothing new.
    if (completed) {
      contents.finish();
      findings.append(std::move(of_contents));
    }
  }
  result.findings = findings.take();
  return result;
}

}  // namespace cplab
