// The executor's order; see ready_pool.hpp. A uniform draw among all ready items keeps the ranks and lanes
// nearly in step, and a race that needs one lane to lag by many operations would hardly ever show. So the
// draw is a tournament: some candidates are drawn uniformly and the one whose lane has the highest priority
// wins; the priorities are random and are drawn anew from time to time (after the idea of Burckhardt et al.
// 2010, "A randomized scheduler with probabilistic guarantees of finding bugs").
#include "exec/cpu/ready_pool.hpp"

#include <charconv>
#include <tuple>

namespace cplab {

namespace {

// splitmix64, Steele, Lea, Flood 2014.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

constexpr std::uint64_t candidates = 4;
constexpr std::uint64_t takes_per_deal = 64;

}  // namespace

std::optional<ExecutionOrder> parse_order(std::string_view text) {
  constexpr std::string_view prefix = "random:";
  if (text == "program") return ExecutionOrder{};
  if (text.substr(0, prefix.size()) != prefix) return std::nullopt;
  const std::string_view digits = text.substr(prefix.size());
  ExecutionOrder order{true, 0};
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), order.seed);
  if (error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  return order;
}

ReadyPool::ReadyPool(ExecutionOrder order) : order_(order), state_(mix(order.seed)) {}

bool ReadyPool::Later::operator()(const ReadyItem& a, const ReadyItem& b) const {
  const auto key = [](const ReadyItem& item) {
    const bool is_operation = item.kind == ReadyItem::Kind::operation;
    return std::make_tuple(is_operation, item.op.operation, item.op.rank, item.index);
  };
  return key(a) > key(b);
}

void ReadyPool::push(const ReadyItem& item) {
  if (order_.random) {
    pool_.push_back(item);
  } else {
    first_.push(item);
  }
}

std::uint64_t ReadyPool::priority(const ReadyItem& item) const {
  // Transfers have a priority of their own, by the receiver's rank and lane: data may arrive early or late
  // while the operations of that lane do not.
  const bool is_operation = item.kind == ReadyItem::Kind::operation;
  const std::uint64_t lane = (static_cast<std::uint64_t>(item.lane.kind) << 8) | item.lane.index;
  const std::uint64_t who = (std::uint64_t{item.op.rank} << 17) | (lane << 1) | (is_operation ? 0u : 1u);
  return mix(mix(order_.seed + 0x51ED27u + taken_ / takes_per_deal) ^ who);
}

std::size_t ReadyPool::choose() {
  const auto draw = [&] {
    state_ += 1;
    return static_cast<std::size_t>(mix(state_) % pool_.size());
  };
  std::size_t best = draw();
  // Every fourth draw is uniform, so that no lane starves while others have work.
  if (mix(state_ ^ 0xABCDu) % 4 == 0) return best;
  for (std::uint64_t i = 1; i < candidates; ++i) {
    const std::size_t other = draw();
    if (priority(pool_[other]) > priority(pool_[best])) best = other;
  }
  return best;
}

ReadyItem ReadyPool::take() {
  ++taken_;
  if (!order_.random) {
    const ReadyItem item = first_.top();
    first_.pop();
    return item;
  }
  const std::size_t at = choose();
  const ReadyItem item = pool_[at];
  pool_[at] = pool_.back();
  pool_.pop_back();
  return item;
}

}  // namespace cplab
