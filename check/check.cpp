// The checker's entry: runs the parts in order and keeps the findings worth printing.
#include "check/check.hpp"

#include <algorithm>
#include <array>
#include <tuple>

#include "check/contents.hpp"
#include "check/model.hpp"

namespace cplab {

namespace checking {
namespace {
constexpr std::size_t kind_count = 9;
}

void Findings::add(FindingKind kind, const RankPlan* rank, std::uint32_t operation, std::uint32_t buffer,
                   std::string message, const std::string& missing) {
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
  if (rank && operation != none) item.finding.operation = id_of(*rank, rank->operations[operation]);
  item.finding.buffer = rank && buffer != none ? rank->buffers[buffer].name : missing;
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
  // The limit is shared out fairly: one finding of every kind, then a second of every kind, and so on.
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

std::int64_t Model::bytes(const RankModel& rank, const Box& box) const {
  const Role role = rank.plan->buffers[box.buffer].role;
  const DType dtype = plan->scenario.problem.dtype;
  std::int64_t size = dtype == DType::bf16 || dtype == DType::fp16 ? 2 : dtype == DType::fp32 ? 4 : 8;
  if (role == Role::integer || (role == Role::wide && dtype != DType::fp64)) size = 4;
  return box.rows * box.slots() * box.heads() * box.width() * size;
}

namespace {

// The first sequence that has none; else their number.
std::size_t senseless_length(const std::vector<std::int64_t>& lengths,
                             const std::vector<std::int64_t>& padded) {
  std::int64_t tokens = 0;
  for (std::size_t b = 0; b < lengths.size(); ++b)
    if (b >= padded.size() || lengths[b] < 0 || padded[b] < lengths[b] || padded[b] > most_tokens ||
        (tokens += padded[b]) > most_tokens)
      return b;
  return lengths.size();
}

// Together they are rows 0, 1, ... of every sequence, as many as its padded length at least.
bool whole_pieces(const Scenario& scenario) {
  const Problem& p = scenario.problem;
  if (p.is_cross()) return false;
  std::vector<std::vector<std::pair<std::int64_t, std::int64_t>>> of(p.lengths.size());
  for (const Parallel::Piece& piece : scenario.parallel.pieces) {
    if (piece.position < 0 || piece.position >= scenario.parallel.ranks || piece.sequence < 0 ||
        piece.sequence >= std::ssize(p.lengths) || piece.begin < 0 || piece.begin > most_tokens ||
        piece.count < 1 || piece.count > most_tokens)
      return false;
    of[static_cast<std::size_t>(piece.sequence)].emplace_back(piece.begin, piece.count);
  }
  for (std::size_t b = 0; b < of.size(); ++b) {
    std::ranges::sort(of[b]);
    std::int64_t end = 0;
    for (const auto& [begin, count] : of[b]) {
      if (begin != end) return false;
      end += count;
    }
    if (end < p.padded_lengths[b] || end > most_tokens) return false;
  }
  return true;
}

}  // namespace

bool sane_scenario(const Plan& plan, Findings& findings) {
  const Problem& p = plan.scenario.problem;
  const Parallel& parallel = plan.scenario.parallel;
  const auto wrong = [&](std::string message) {
    findings.add(FindingKind::coverage, nullptr, none, none, std::move(message));
    return false;
  };
  const auto positive = [](std::int64_t n) { return n >= 1 && n <= (1 << 28); };
  if (!positive(p.heads) || !positive(p.kv_heads) || p.heads % p.kv_heads != 0 || !positive(p.head_size) ||
      !positive(p.value_size))
    return wrong("the problem's head counts and sizes make no sense");
  if (p.lengths.size() != p.padded_lengths.size())
    return wrong("there are not as many padded lengths as lengths");
  if (const std::size_t b = senseless_length(p.lengths, p.padded_lengths); b < p.lengths.size())
    return wrong("sequence " + std::to_string(b) + " has no sensible length");
  if (p.is_cross() && p.kv_lengths.size() != p.lengths.size())
    return wrong("there are not as many sequences of keys as of queries");
  if (senseless_length(p.kv_lengths, p.kv_padded_lengths) < p.kv_lengths.size())
    return wrong("the keys have no sensible lengths");
  if (parallel.keys_everywhere && !p.is_cross())
    return wrong("every rank holds all keys, which are of tokens that it does not hold");
  if (!positive(parallel.ranks) || !positive(parallel.replicas) ||
      parallel.ranks * parallel.replicas > (1 << 24))
    return wrong("the rank counts make no sense");
  const std::string& placement = plan.scenario.placement;
  const bool in_pieces = placement == "balanced" || placement == "dynamic";
  if (placement != "contiguous" && placement != "zigzag" && placement != "striped" && placement != "stream" &&
      placement != "hybrid" && !in_pieces)
    return wrong("placement " + placement + " is unknown");
  if (in_pieces ? !whole_pieces(plan.scenario) : !parallel.pieces.empty())
    return wrong("the pieces are not each row of each sequence once");
  if (placement == "hybrid") {
    if (parallel.homes.size() != p.lengths.size()) return wrong("there is not one home for every sequence");
    for (const int home : parallel.homes)
      if (home < -1 || home >= parallel.ranks)
        return wrong("a sequence has its home on no rank of its group");
  }
  if (const char* what = wrong_linear_problem(plan.scenario)) return wrong(what);
  const auto world = static_cast<std::size_t>(parallel.world());
  if (plan.ranks.size() != world) return wrong("the plan does not have one part for every rank");
  if (parallel.groups.size() != static_cast<std::size_t>(parallel.replicas))
    return wrong("there is not one group for every replica");
  std::vector<char> seen(world, 0);
  for (std::size_t replica = 0; replica < parallel.groups.size(); ++replica) {
    const std::vector<int>& ranks = parallel.groups[replica];
    if (ranks.size() != static_cast<std::size_t>(parallel.ranks))
      return wrong("a group does not have `ranks` members");
    for (std::size_t position = 0; position < ranks.size(); ++position) {
      if (ranks[position] < 0 || static_cast<std::size_t>(ranks[position]) >= world ||
          seen[static_cast<std::size_t>(ranks[position])]++)
        return wrong("the groups are no partition of the ranks");
      const RankPlan& rank = plan.ranks[static_cast<std::size_t>(ranks[position])];
      if (rank.rank != ranks[position] || rank.replica != static_cast<int>(replica) ||
          rank.position != static_cast<int>(position))
        return wrong("rank " + std::to_string(ranks[position]) + " does not say its own place in its group");
      if (rank.between_layers != between_layers(plan.scenario.schedule))
        return wrong("rank " + std::to_string(ranks[position]) +
                     " is for other things between forward and backward than the scenario says");
    }
  }
  if (plan.groups.size() < parallel.groups.size()) return wrong("the plan lacks groups of the scenario");
  for (std::size_t replica = 0; replica < parallel.groups.size(); ++replica)
    if (plan.groups[replica].ranks != parallel.groups[replica])
      return wrong("group " + plan.groups[replica].name +
                   " does not have the members that the scenario says");
  if (std::string text = wrong_groups(plan); !text.empty()) return wrong(std::move(text));
  return true;
}

std::string describe_box(const RankModel& rank, const Box& box) {
  const Buffer& b = rank.plan->buffers[box.buffer];
  std::string text = b.name;
  const auto range = [](std::int64_t begin, std::int64_t end) {
    return end - begin == 1 ? std::to_string(begin) : std::to_string(begin) + ".." + std::to_string(end - 1);
  };
  if (b.slots > 1) text += " slot " + range(box.slot_begin, box.slot_end);
  text += " rows " + range(box.low, box.high);
  if (box.heads() < b.heads) text += " heads " + range(box.head_begin, box.head_end);
  return text;
}

std::string id_of(const RankPlan& rank, const Operation& op) {
  const std::string label = operation_label(rank, op);
  return label.substr(label.find(' ') + 1);
}

std::string describe_operation(const RankModel& rank, std::uint32_t operation) {
  return operation_label(*rank.plan, rank.op(operation));
}

}  // namespace checking

CheckResult check(const Plan& plan, std::size_t max_findings) {
  using namespace checking;
  CheckResult result;
  result.flops.assign(plan.ranks.size(), 0);
  result.sent_bytes.assign(plan.ranks.size(), 0);
  max_findings = std::max<std::size_t>(max_findings, 1);  // with none kept, a wrong plan would pass
  Findings findings(max_findings);
  Model model;
  if (sane_scenario(plan, findings)) {
    resolve(plan, model, findings);
    for (RankModel& rank : model.ranks) check_order(rank, findings);
    Findings of_contents(max_findings);
    Contents contents(model, of_contents, result);
    const bool completed = check_matching(model, findings, contents, result);
    // If the plan hangs or a message has no partner, wrong contents are only a consequence: not reported.
    if (completed) {
      contents.finish();
      findings.append(std::move(of_contents));
      // A value becomes unknown only after a finding. Without one, the checker itself failed to follow the
      // plan and has proved nothing.
      if (contents.lost_track() && findings.empty())
        findings.add(FindingKind::coverage, nullptr, none, none,
                     "the checker lost track of what a buffer holds, and does not know why");
    }
  }
  result.findings = findings.take();
  return result;
}

}  // namespace cplab
