// The queues of posted parts against one double-ended queue for each channel and direction.
#include "derive/channel_queues.hpp"

#include <doctest/doctest.h>

#include <deque>
#include <map>
#include <random>
#include <utility>

namespace cplab {

TEST_CASE("parts of a channel pair up in their order, whichever side came first") {
  ChannelQueues queues;
  ChannelQueues::Waiting partner;
  CHECK_FALSE(queues.match(7, true, {0, 1, 2}, partner));
  CHECK_FALSE(queues.match(7, true, {0, 1, 3}, partner));
  CHECK_FALSE(queues.match(8, false, {5, 5, 5}, partner));  // another channel
  REQUIRE(queues.match(7, false, {9, 0, 0}, partner));
  CHECK(partner.part == 2);
  REQUIRE(queues.match(7, false, {9, 0, 1}, partner));
  CHECK(partner.part == 3);
  // Nothing is left: now the other side waits.
  CHECK_FALSE(queues.match(7, false, {9, 0, 2}, partner));
  REQUIRE(queues.match(7, true, {0, 1, 4}, partner));
  CHECK(partner.rank == 9);
  CHECK(partner.part == 2);
}

TEST_CASE("drawn posts over many channels match as with one queue each") {
  std::mt19937_64 random(3);
  ChannelQueues queues;
  std::map<std::pair<std::uint64_t, bool>, std::deque<std::uint32_t>> plain;
  for (std::uint32_t part = 0; part < 50'000; ++part) {
    // Numbers of two ranks side by side, as the keys of a plan are.
    const std::uint64_t channel = random() % 60 << 24 | random() % 60;
    const bool sends = random() % 2 == 0;
    std::deque<std::uint32_t>& others = plain[{channel, !sends}];
    ChannelQueues::Waiting partner;
    const bool matched = queues.match(channel, sends, {1, 2, part}, partner);
    REQUIRE(matched == !others.empty());
    if (matched) {
      REQUIRE(partner.part == others.front());
      others.pop_front();
    } else {
      plain[{channel, sends}].push_back(part);
    }
  }
}

}  // namespace cplab
