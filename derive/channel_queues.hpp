// Parts of messages that wait for their partners, first in, first out, for very many pairs of ranks: at any
// time only one side of a pair waits, mostly with one part.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cplab {

class ChannelQueues {
 public:
  struct Waiting {
    std::uint32_t rank = 0, operation = 0;
    std::uint32_t part = 0;
  };

  // The part of the other direction that waits longest in that channel comes out as `partner`; if none does,
  // `own` waits (false).
  bool match(std::uint64_t channel, bool sends, const Waiting& own, Waiting& partner) {
    Channel& at = find(channel);
    if (at.first == none || at.sends == sends) {
      add(at, own);
      at.sends = sends;
      return false;
    }
    const std::uint32_t taken = at.first;
    partner = nodes_[taken].waiting;
    at.first = nodes_[taken].next;
    nodes_[taken].next = free_;
    free_ = taken;
    return true;
  }

 private:
  static constexpr std::uint32_t none = 0xffffffff;
  static constexpr std::uint64_t no_channel = ~std::uint64_t{0};
  struct Node {
    Waiting waiting;
    std::uint32_t next = none;
  };
  struct Channel {
    std::uint64_t key = no_channel;
    std::uint32_t first = none, last = none;  // nodes; `last` counts where there is a first
    bool sends = false;                       // what waits
  };

  // Keys are numbers of ranks side by side: the upper bits of a product spread them. Open addressing, at most
  // half full.
  std::size_t slot_of(std::uint64_t key) const {
    std::size_t slot = static_cast<std::size_t>((key * 0x9E3779B97F4A7C15u) >> shift_);
    while (table_[slot].key != no_channel && table_[slot].key != key) slot = (slot + 1) & (table_.size() - 1);
    return slot;
  }
  Channel& find(std::uint64_t key) {
    Channel& at = table_[slot_of(key)];
    if (at.key == key) return at;
    if (2 * ++channels_ > table_.size()) {
      std::vector<Channel> old(2 * table_.size());
      old.swap(table_);
      --shift_;
      for (const Channel& each : old)
        if (each.key != no_channel) table_[slot_of(each.key)] = each;
    }
    Channel& added = table_[slot_of(key)];
    added.key = key;
    return added;
  }
  void add(Channel& at, const Waiting& own) {
    std::uint32_t node = free_;
    if (node == none) {
      node = static_cast<std::uint32_t>(nodes_.size());
      nodes_.emplace_back();
    } else {
      free_ = nodes_[node].next;
    }
    nodes_[node] = {own, none};
    (at.first == none ? at.first : nodes_[at.last].next) = node;
    at.last = node;
  }

  std::vector<Channel> table_{std::vector<Channel>(std::size_t{1} << 8)};
  int shift_ = 64 - 8;
  std::size_t channels_ = 0;
  std::vector<Node> nodes_;
  std::uint32_t free_ = none;
};

}  // namespace cplab
