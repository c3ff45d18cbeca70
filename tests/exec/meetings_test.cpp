// Collectives as gathers and sums: which call carries them, and that gathers and sums done by hand, as the
// GPU does them, give bit for bit what the executor gives.
#include "exec/meetings.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "exec/bind.hpp"
#include "exec/buffer_image.hpp"
#include "exec/cpu/executor.hpp"
#include "tests/hand_plans/collective_plans.hpp"
#include "tests/hand_plans/communication_plans.hpp"
#include "tests/hand_plans/hand_plans.hpp"

namespace cplab {
namespace {

using hand::gather;
using hand::reduce;
using hand::scatter;
using hand::Shape;

std::deque<Meeting> meetings_of(const Plan& plan) {
  require_executable(plan);
  const auto messages = plan_messages(plan);
  return plan_meetings(plan, messages, posted_parts(plan, messages));
}

TEST_CASE("an all_gather is one ncclAllGather for each plane where members lie one behind the other") {
  const auto meetings = meetings_of(gather({}));
  REQUIRE(meetings.size() == 1);
  const Meeting& meeting = meetings.front();
  CHECK(nccl_call(OpKind::all_gather, &meeting) == "ncclAllGather");
  REQUIRE(meeting.gathers.size() == 2);
  // 6 rows x 2 heads x 3 columns x 2 bytes; V of the gathered buffer lies behind 24 rows of K.
  CHECK(meeting.gathers[0].bytes == 72);
  CHECK(meeting.gathers[1].bytes == 48);
  for (std::size_t m = 0; m < 4; ++m) {
    CHECK(meeting.gathers[0].from[m] == Place{1, 0});
    CHECK(meeting.gathers[0].into[m] == Place{0, 0});
    CHECK(meeting.gathers[1].from[m] == Place{1, 72});
    CHECK(meeting.gathers[1].into[m] == Place{0, 4 * 72});
  }
  CHECK(meetings_of(gather({.planes = 0})).front().gathers.size() == 1);
  // Zigzag: the second halves lie in descending order, and no call of NCCL's puts them there.
  const auto zigzag = meetings_of(gather({.zigzag = true}));
  CHECK(nccl_call(OpKind::all_gather, &zigzag.front()) == "ncclSend/ncclRecv");
  CHECK(nccl_call(OpKind::all_to_all, nullptr) == "ncclSend/ncclRecv");
  // Each rank's own part where it belongs already.
  const Plan plan = hand::in_place(4, 6, DType::bf16);
  std::size_t gathers = 0;
  for (const Meeting& each : meetings_of(plan)) {
    if (each.kind != OpKind::all_gather) continue;
    ++gathers;
    CHECK(nccl_call(each.kind, &each) == "ncclAllGather");
    for (const Gather& g : each.gathers)
      for (std::size_t m = 0; m < 4; ++m)
        CHECK(g.from[m] == Place{g.into[m].buffer, g.into[m].byte + static_cast<std::int64_t>(m) * g.bytes});
  }
  CHECK(gathers == 1);
}

TEST_CASE("an all_gather that is not everybody's same part goes as messages") {
  Plan plan = gather({.planes = 0});
  // Rank 1 takes what rank 0 and rank 2 send each where the other should be.
  hand::Rank rank(plan, 1);
  const Span parts = plan.ranks[1].operations[0].parts;
  std::swap(plan.ranks[1].parts[parts.first + 1].view, plan.ranks[1].parts[parts.first + 5].view);
  CHECK(meetings_of(plan).front().gathers.empty());
}

TEST_CASE("a reduce_scatter is one ncclReduceScatter for each plane, else a sum for each root") {
  for (const bool in_place : {false, true}) {
    const auto meetings = meetings_of(scatter({.in_place = in_place}));
    REQUIRE(meetings.size() == 1);
    const Meeting& meeting = meetings.front();
    CHECK(nccl_call(OpKind::reduce_scatter, &meeting) == "ncclReduceScatter");
    REQUIRE(meeting.sums.size() == 2 * 4);
    CHECK(meeting.sums[0].root == 0);
    CHECK(meeting.sums[3].root == 3);
    CHECK(meeting.sums[3].from[1] == Place{1, 3 * 72});
    CHECK(meeting.sums[3].into[0] == (in_place ? Place{1, 3 * 72} : Place{2, 0}));
    CHECK(meeting.sums[4].from[1] == Place{1, 4 * 72});  // V
  }
  const auto zigzag = meetings_of(scatter({.zigzag = true}));
  CHECK(nccl_call(OpKind::reduce_scatter, &zigzag.front()) == "ncclReduce");
  // 4 roots, 2 planes, 2 ranges; but the two ranges of root 3 touch in each plane, and of root 0 the last
  // rows of K touch the first of V: 16 - 2 - 1.
  CHECK(zigzag.front().sums.size() == 13);
}

TEST_CASE("an all_reduce is one call for each run, and heads outermost are one run") {
  CHECK(meetings_of(reduce({}, Reduction::max, Layout::heads_first, 4)).front().sums.size() == 1);
  CHECK(meetings_of(reduce({}, Reduction::max, Layout::heads_first, 2)).front().sums.size() == 1);
  CHECK(meetings_of(reduce({}, Reduction::sum, Layout::rows_first, 2)).front().sums.size() == 6);
  CHECK(nccl_call(OpKind::all_reduce, nullptr) == "ncclAllReduce");
  CHECK(nccl_call(OpKind::barrier, nullptr) == "ncclAllReduce");
}

TEST_CASE("shares of an all_reduce cover its bytes once, in multiples of 16") {
  for (const std::int64_t bytes : {0, 2, 16, 48, 100, 4096, 4098}) {
    for (const std::size_t members : {1u, 3u, 8u}) {
      std::int64_t at = 0;
      for (std::size_t m = 0; m < members; ++m) {
        const Share share = share_of(bytes, members, m);
        CHECK(share.begin == at);
        CHECK((share.end % 16 == 0 || share.end == bytes));
        at = share.end;
      }
      CHECK(at == bytes);
    }
  }
}

TEST_CASE("a collective that not all members have is none, and members that differ are refused") {
  Plan short_one = gather({});
  short_one.ranks[3].operations.clear();
  CHECK(meetings_of(short_one).empty());
  Plan other = reduce({.P = 2}, Reduction::sum, Layout::rows_first, 4);
  other.ranks[1].operations.back().reduction = Reduction::max;
  CHECK_THROWS_WITH_AS(meetings_of(other), "1/forward/1 meets a different collective of its group", BadPlan);
}

// What exec/gpu does with the sums of the link copy: the sums of a root by that root, an all_reduce by
// shares, each element read from all members in group order before it is written.
class PeerMemory {
 public:
  explicit PeerMemory(const Plan& plan) : plan_(plan) {
    for (const RankPlan& rank : plan.ranks) memory_.emplace_back(static_cast<std::size_t>(rank.arena_bytes));
  }
  void write(int rank, const char* name, const std::vector<double>& values) {
    const Buffer& buffer = *find_buffer(plan_, rank, name);
    store_buffer(buffer, DType::bf16, values, at(static_cast<std::uint32_t>(rank), buffer.offset));
  }
  std::vector<double> read(int rank, const char* name) {
    const Buffer& buffer = *find_buffer(plan_, rank, name);
    return load_buffer(buffer, DType::bf16, at(static_cast<std::uint32_t>(rank), buffer.offset));
  }
  void perform(const Meeting& meeting) {
    const std::size_t members = meeting.members.size();
    for (std::size_t own = 0; own < members; ++own) {
      for (const Sum& sum : meeting.sums) {
        if (sum.root >= 0 && static_cast<std::size_t>(sum.root) != own) continue;
        const Share share = sum.root >= 0 ? Share{0, sum.bytes} : share_of(sum.bytes, members, own);
        const auto size = static_cast<std::int64_t>(kernels::bytes_of(sum.dtype));
        for (std::int64_t byte = share.begin; byte < share.end; byte += size) {
          double total = load(meeting, 0, sum.from[0], byte, sum.dtype);
          for (std::size_t m = 1; m < members; ++m) {
            const double x = load(meeting, m, sum.from[m], byte, sum.dtype);
            if (meeting.reduction == Reduction::max)
              total = x > total || std::isnan(x) ? x : total;
            else
              total = rounded(total, x, sum.dtype);
          }
          for (std::size_t m = 0; m < sum.into.size(); ++m) {
            const std::size_t member = sum.root >= 0 ? own : m;
            kernels::store_element(place(meeting, member, sum.into[m], byte), sum.dtype, 0, total);
          }
        }
      }
    }
    for (const Gather& gather : meeting.gathers) {
      for (std::size_t s = 0; s < members; ++s)
        for (std::size_t r = 0; r < members; ++r)
          std::memmove(place(meeting, r, gather.into[r], static_cast<std::int64_t>(s) * gather.bytes),
                       place(meeting, s, gather.from[s], 0), static_cast<std::size_t>(gather.bytes));
    }
  }

 private:
  std::byte* at(std::uint32_t rank, std::int64_t byte) { return memory_[rank].data() + byte; }
  std::byte* place(const Meeting& meeting, std::size_t member, const Place& place, std::int64_t byte) {
    const std::uint32_t rank = meeting.members[member].rank;
    return at(rank, plan_.ranks[rank].buffers[place.buffer].offset + place.byte + byte);
  }
  double load(const Meeting& meeting, std::size_t member, const Place& from, std::int64_t byte,
              kernels::DType dtype) {
    return kernels::load_element(place(meeting, member, from, byte), dtype, 0);
  }
  // Summed in fp32, rounded to the dtype.
  static double rounded(double a, double b, kernels::DType dtype) {
    double out = 0;
    kernels::store_element(&out, dtype, 0, static_cast<float>(a) + static_cast<float>(b));
    return kernels::load_element(&out, dtype, 0);
  }

  const Plan& plan_;
  std::vector<std::vector<std::byte>> memory_;
};

// Runs the plan on the CPU, and its one collective by hand on the same numbers; `before` is what the
// collective's source is called, `after` its result.
void check_by_hand(const Plan& plan, const char* input, const char* before, const char* after) {
  CpuExecutor executor(plan, {});
  PeerMemory memory(plan);
  for (const RankPlan& rank : plan.ranks) {
    const Buffer& buffer = *find_buffer(plan, rank.rank, input);
    std::vector<double> values(static_cast<std::size_t>(buffer.rows * buffer.heads * buffer.width));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] =
          std::sin(static_cast<double>(i) + 10.0 * rank.rank) * std::pow(8.0, static_cast<double>(i % 5));
    if (rank.rank == 1) values[7] = std::numeric_limits<double>::quiet_NaN();
    executor.write(rank.rank, input, values);
    memory.write(rank.rank, before, values);
  }
  executor.run();
  const auto meetings = meetings_of(plan);
  REQUIRE(meetings.size() == 1);
  memory.perform(meetings.front());
  for (const RankPlan& rank : plan.ranks) {
    const auto expected = executor.read(rank.rank, after), found = memory.read(rank.rank, after);
    REQUIRE(expected.size() == found.size());
    for (std::size_t i = 0; i < expected.size(); ++i)
      CHECK((expected[i] == found[i] || (std::isnan(expected[i]) && std::isnan(found[i]))));
  }
}

TEST_CASE("gathers and sums done by hand are bit for bit what the executor computes") {
  check_by_hand(gather({}), "own", "own", "all");
  for (const bool zigzag : {false, true})
    for (const Role role : {Role::nominal, Role::wide})
      check_by_hand(scatter({.zigzag = zigzag, .role = role}), "given", "all", "own");
  for (const Layout layout : {Layout::rows_first, Layout::heads_first}) {
    for (const std::int32_t heads : {2, 4}) {
      for (const Reduction reduction : {Reduction::sum, Reduction::max})
        check_by_hand(reduce({}, reduction, layout, heads), "given", "all", "all");
    }
  }
}

TEST_CASE("sums in place are the same numbers") {
  Plan apart = scatter({}), in_place = scatter({.in_place = true});
  check_by_hand(apart, "given", "all", "own");
  CpuExecutor a(apart, {}), b(in_place, {});
  for (int r = 0; r < 4; ++r) {
    std::vector<double> values(4 * 6 * 2 * 5);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = std::cos(static_cast<double>(i * (static_cast<std::size_t>(r) + 2)));
    a.write(r, "given", values);
    b.write(r, "given", values);
  }
  a.run();
  b.run();
  for (int r = 0; r < 4; ++r) CHECK(a.read(r, "own") == b.read(r, "own"));
}

}  // namespace
}  // namespace cplab
