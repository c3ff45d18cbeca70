// Max-min fair flows; see native_flows.hpp.
//
// Rates are max-min fair exactly when no link carries more than it can and every flow has a bottleneck: a
// link that is full and on which no flow is faster. So a flow's rate can stay as long as its bottleneck is
// one; the region that is rated anew begins with what started and what has lost its bottleneck, is filled
// with everything outside fixed, and grows by the flows whose bottleneck that spoils, until there are none.
#include "sim/native_flows.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

namespace cplab {
namespace {

// Rates and loads that differ by less than this share are equal but for rounding.
constexpr double rounding = 1e-12;
// Rounds in which a region grows by what is at odds with it; then it takes in all that shares links with it.
constexpr int patient_rounds = 6;

}  // namespace

NativeFlows::NativeFlows(const Fabric& fabric, Handler on_timer, Handler on_flow_end)
    : on_timer_(std::move(on_timer)),
      on_flow_end_(std::move(on_flow_end)),
      timers_(fabric.ranks),
      ranks_(fabric.ranks),
      ports_(fabric.ports),
      hops_(static_cast<Index>(3 + 2 * fabric.switches.size())) {
  const auto caps = static_cast<std::size_t>(ranks_) * static_cast<std::size_t>(ports_);
  node_cap_ = 0;
  net_cap_ = static_cast<Index>(caps);
  links_.resize(2 * caps);
  for (std::size_t i = 0; i < caps; ++i) {
    links_[i].bytes_us = fabric.link_bytes_us;
    links_[caps + i].bytes_us = fabric.nic_bytes_us;
  }
  // The ranks that `number_of` gives one number share a link.
  const auto add_level = [&](const auto& bytes_us_of, const auto& number_of) {
    std::vector<Index> up, down, first;
    for (int rank = 0; rank < ranks_; ++rank) {
      const auto number = static_cast<std::size_t>(number_of(rank));
      if (first.size() <= number) first.resize(number + 1, none);
      if (first[number] == none) {
        const double bytes_us = bytes_us_of(static_cast<int>(number));
        first[number] = add_link(bytes_us);
        add_link(bytes_us);
      }
      up.push_back(first[number]);
      down.push_back(first[number] + 1);
    }
    up_.push_back(std::move(up));
    down_.push_back(std::move(down));
  };
  const int per_node = fabric.ranks_per_node, per_nic = fabric.ranks_per_nic;
  const int nics = (per_node + per_nic - 1) / per_nic;
  add_level([&](int rank) { return fabric.link_bytes_us_of(rank); }, [](int rank) { return rank; });
  add_level([&](int nic) { return fabric.nic_bytes_us_of(nic); },
            [&](int rank) { return rank / per_node * nics + rank % per_node / per_nic; });
  for (const Fabric::Switches& level : fabric.switches)
    add_level([&](int) { return level.up_bytes_us; }, level.switch_of);
}

NativeFlows::Index NativeFlows::add_link(double bytes_us) {
  Link link;
  link.bytes_us = bytes_us;
  links_.push_back(link);
  return static_cast<Index>(links_.size() - 1);
}

NativeFlows::Index NativeFlows::cap_of(int rank, int port, int level) const {
  return (level > 0 ? net_cap_ : node_cap_) + static_cast<Index>(rank * ports_ + port);
}

void NativeFlows::set_cap(int rank, int port, int level, double bytes_us) {
  links_[cap_of(rank, port, level)].bytes_us = bytes_us;
}

// ---- flows -------------------------------------------------------------------------------------------

void NativeFlows::flow(int from, int port, int to, int level, std::uint64_t bytes, Token token) {
  Index slot = static_cast<Index>(flows_.size());
  if (free_slots_.empty()) {
    flows_.emplace_back();
    places_.resize(places_.size() + hops_);
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
    flows_[slot] = {};
  }
  Flow& flow = flows_[slot];
  flow.token = token;
  flow.number = next_number_++;
  flow.left_bytes = static_cast<double>(bytes);
  flow.since_us = now_us_;
  add_place(slot, cap_of(from, port, level));
  const std::size_t first = level > 0 ? 1 : 0, end = level > 0 ? static_cast<std::size_t>(level) + 1 : 1;
  for (std::size_t v = first; v < end; ++v) {
    add_place(slot, up_[v][static_cast<std::size_t>(from)]);
    add_place(slot, down_[v][static_cast<std::size_t>(to)]);
  }
  started_.push_back(slot);
}

void NativeFlows::add_place(Index slot, Index link) {
  const Index at = slot * hops_ + flows_[slot].hops++;
  Link& of = links_[link];
  places_[at] = {link, none, of.last};
  (of.last == none ? of.first : places_[of.last].next) = at;
  of.last = at;
  ++of.flows;
}

void NativeFlows::remove(Index slot) {
  for (Index at = slot * hops_, hop = 0; hop < flows_[slot].hops; ++hop, ++at) {
    const Place& place = places_[at];
    Link& link = links_[place.link];
    (place.previous == none ? link.first : places_[place.previous].next) = place.next;
    (place.next == none ? link.last : places_[place.next].previous) = place.previous;
    --link.flows;
    if (!std::exchange(link.freed, true)) freed_links_.push_back(place.link);
  }
  free_slots_.push_back(slot);
}

void NativeFlows::run() {
  for (;;) {
    rate_anew();
    const double flow_us = heap_.empty() ? std::numeric_limits<double>::infinity() : flows_[heap_[0]].end_us;
    const double next_us = std::min(flow_us, timers_.next_us());
    if (next_us == std::numeric_limits<double>::infinity()) return;
    now_us_ = std::max(now_us_, next_us);
    while (!heap_.empty() && flows_[heap_[0]].end_us - now_us_ < instant_us) {
      const Index slot = heap_[0];
      ended_.push_back(flows_[slot].token);
      drop_from_heap(slot);
      remove(slot);
    }
    while (timers_.next_us() <= now_us_) on_timer_(timers_.take());
    for (const Token token : ended_) on_flow_end_(token);
    ended_.clear();
  }
}

// ---- rates -------------------------------------------------------------------------------------------

void NativeFlows::rate_anew() {
  for (const Index link : freed_links_) {
    links_[link].freed = false;
    for (Index at = links_[link].first; at != none; at = places_[at].next)
      if (flows_[at / hops_].bottleneck == link) take_in(at / hops_);
  }
  freed_links_.clear();
  for (const Index slot : started_)
    if (!rate_alone(slot)) take_in(slot);
  started_.clear();
  if (region_.empty()) return;
  int round = 0;
  do {
    if (round++ == patient_rounds) take_in_neighbours();
    collect_links();
    fill();
  } while (grow());
  apply();
}

// A flow without company on any link takes the narrowest.
bool NativeFlows::rate_alone(Index slot) {
  Index narrowest = none;
  for (Index at = slot * hops_, hop = 0; hop < flows_[slot].hops; ++hop, ++at) {
    const Index link = places_[at].link;
    if (links_[link].flows > 1) return false;
    if (narrowest == none || links_[link].bytes_us < links_[narrowest].bytes_us) narrowest = link;
  }
  flows_[slot].bottleneck = narrowest;
  set_rate(slot, links_[narrowest].bytes_us);
  return true;
}

void NativeFlows::take_in(Index slot) {
  if (!std::exchange(flows_[slot].in_region, true)) region_.push_back(slot);
}

// All that shares links with a flow of the region, and with those, and so on.
void NativeFlows::take_in_neighbours() {
  for (std::size_t i = 0; i < region_.size(); ++i) {
    const Index first = region_[i] * hops_;
    for (Index place = first; place < first + flows_[region_[i]].hops; ++place)
      for (Index at = links_[places_[place].link].first; at != none; at = places_[at].next)
        take_in(at / hops_);
  }
}

void NativeFlows::collect_links() {
  for (const Share& share : region_links_) links_[share.link].at = none;
  region_links_.clear();
  for (const Index slot : region_) {
    for (Index place = slot * hops_, hop = 0; hop < flows_[slot].hops; ++hop, ++place) {
      Link& link = links_[places_[place].link];
      if (link.at != none) continue;
      link.at = static_cast<Index>(region_links_.size());
      Share share;
      share.link = places_[place].link;
      double outside = 0;
      for (Index at = link.first; at != none; at = places_[at].next) {
        const Flow& flow = flows_[at / hops_];
        if (flow.in_region)
          ++share.open;
        else
          outside += flow.rate;
      }
      share.left = std::max(0.0, link.bytes_us - outside);
      region_links_.push_back(share);
    }
  }
}

// Progressive filling: the link with the least share is full first, and its flows have their rates.
void NativeFlows::fill() {
  for (const Index slot : region_) flows_[slot].next_rate = -1;
  by_share_.clear();
  for (Index i = 0; i < region_links_.size(); ++i) by_share_.emplace_back(region_links_[i].share(), i);
  std::make_heap(by_share_.begin(), by_share_.end(), std::greater<>());
  std::size_t unrated = region_.size();
  while (unrated > 0) {
    std::pop_heap(by_share_.begin(), by_share_.end(), std::greater<>());
    const auto [known, i] = by_share_.back();
    by_share_.pop_back();
    Share& share = region_links_[i];
    if (share.open == 0) continue;
    const double rate = std::max(0.0, share.share());
    if (rate > known) {  // shares only grow: what is known of others bounds them
      by_share_.emplace_back(rate, i);
      std::push_heap(by_share_.begin(), by_share_.end(), std::greater<>());
      continue;
    }
    share.full = true;
    for (Index at = links_[share.link].first; at != none; at = places_[at].next) {
      Flow& flow = flows_[at / hops_];
      if (!flow.in_region || flow.next_rate >= 0) continue;
      flow.next_rate = rate;
      flow.next_bottleneck = share.link;
      --unrated;
      for (Index place = at / hops_ * hops_, hop = 0; hop < flow.hops; ++hop, ++place) {
        Share& of = region_links_[links_[places_[place].link].at];
        of.left -= rate;
        --of.open;
      }
    }
  }
}

// Takes in the flows outside whose bottleneck is none with the rates of the region, or that are faster where
// the region has its bottleneck. False: there are none.
bool NativeFlows::grow() {
  const std::size_t before = region_.size();
  for (const Share& share : region_links_) {
    const Link& link = links_[share.link];
    double fastest = 0;
    Index inside = 0;
    for (Index at = link.first; at != none; at = places_[at].next) {
      const Flow& flow = flows_[at / hops_];
      if (!flow.in_region || flow.next_rate < 0) continue;
      fastest = std::max(fastest, flow.next_rate);
      ++inside;
    }
    if (inside == link.flows) continue;
    for (Index at = link.first; at != none; at = places_[at].next) {
      const Index slot = at / hops_;
      if (!flows_[slot].in_region && is_at_odds(flows_[slot], share, fastest)) take_in(slot);
    }
  }
  // Those that were taken in just now have no rate yet and are no flows of the region above.
  return region_.size() > before;
}

bool NativeFlows::is_at_odds(const Flow& outside, const Share& share, double fastest) const {
  if (share.full && outside.rate > fastest * (1 + rounding)) return true;
  if (outside.bottleneck != share.link) return false;
  const bool has_room = share.left > links_[share.link].bytes_us * rounding;
  return has_room || outside.rate < fastest * (1 - rounding);
}

void NativeFlows::apply() {
  for (const Index slot : region_) {
    Flow& flow = flows_[slot];
    flow.in_region = false;
    flow.bottleneck = flow.next_bottleneck;
    if (flow.next_rate != flow.rate) set_rate(slot, flow.next_rate);
    flow.next_rate = -1;
  }
  region_.clear();
}

void NativeFlows::set_rate(Index slot, double rate) {
  Flow& flow = flows_[slot];
  flow.left_bytes = std::max(0.0, flow.left_bytes - flow.rate * (now_us_ - flow.since_us));
  flow.since_us = now_us_;
  flow.rate = rate;
  flow.end_us = rate > 0 ? now_us_ + flow.left_bytes / rate : std::numeric_limits<double>::infinity();
  if (flow.in_heap == none) {
    heap_.push_back(slot);
    flow.in_heap = static_cast<Index>(heap_.size() - 1);
  }
  sift(flow.in_heap);
}

// ---- ends --------------------------------------------------------------------------------------------

bool NativeFlows::is_before(Index a, Index b) const {
  const Flow &x = flows_[a], &y = flows_[b];
  return x.end_us != y.end_us ? x.end_us < y.end_us : x.number < y.number;
}

void NativeFlows::place_in_heap(Index at, Index slot) {
  heap_[at] = slot;
  flows_[slot].in_heap = at;
}

// Moves what is there up or down to where it belongs.
void NativeFlows::sift(Index at) {
  const Index slot = heap_[at];
  while (at > 0 && is_before(slot, heap_[(at - 1) / 2])) {
    place_in_heap(at, heap_[(at - 1) / 2]);
    at = (at - 1) / 2;
  }
  for (const auto size = static_cast<Index>(heap_.size());;) {
    Index child = 2 * at + 1;
    if (child >= size) break;
    if (child + 1 < size && is_before(heap_[child + 1], heap_[child])) ++child;
    if (!is_before(heap_[child], slot)) break;
    place_in_heap(at, heap_[child]);
    at = child;
  }
  place_in_heap(at, slot);
}

void NativeFlows::drop_from_heap(Index slot) {
  const Index at = flows_[slot].in_heap, last = heap_.back();
  heap_.pop_back();
  flows_[slot].in_heap = none;
  if (last == slot) return;
  place_in_heap(at, last);
  sift(at);
}

}  // namespace cplab
