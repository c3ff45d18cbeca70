// More, fewer and as many NICs as GPUs, on two nodes of eight: what one flow, a flat ring and all ranks at
// once have of them. In microseconds; a NIC carries 10 GB/s, and so does one flow, 30 us after it is ready.
#include <doctest/doctest.h>

#include "cli/files/hardware_file.hpp"
#include "cli/files/text_file.hpp"
#include "sim/fabrics.hpp"
#include "tests/sim/hand_plan.hpp"

namespace cplab {
namespace {

using namespace sim_test;

constexpr int node_gpus = 8, ranks = 16;

// The curve is of a GPU with one NIC.
Hardware with_nics(int nics) {
  Hardware hardware = hand_machine(node_gpus);
  hardware.network.nics = nics;
  MessageTable& over_network = hardware.messages[2];
  for (CurvePoint& point : over_network.points) point.seconds = 30e-6 + point.bytes / 10e9;
  over_network.link_bytes_s = 10e9;
  over_network.nics_per_gpu = 1;
  validate(hardware);
  return hardware;
}

double time_us(const HandPlan& p, const Hardware& hardware) {
  return us(run(p, hardware).time_s);
}

HandPlan flat_ring(std::int64_t bytes) {
  HandPlan p(ranks);
  for (int r = 0; r < ranks; ++r)
    p.exchange(r,
               {HandPlan::send((r + 1) % ranks, bytes), HandPlan::receive((r + ranks - 1) % ranks, bytes)});
  return p;
}

HandPlan all_to_all(std::int64_t bytes) {
  HandPlan p(ranks);
  for (int r = 0; r < ranks; ++r) p.collective(r, OpKind::all_to_all, bytes);
  return p;
}

// Each pair sends its bytes at time 0.
struct Sender {
  int from, to;
  std::int64_t bytes;
};
HandPlan senders(const std::vector<Sender>& all) {
  HandPlan p(ranks);
  for (const Sender& each : all) {
    p.exchange(each.from, {HandPlan::send(each.to, each.bytes)});
    p.exchange(each.to, {HandPlan::receive(each.from, each.bytes)});
  }
  return p;
}

}  // namespace

TEST_CASE("one sender has a whole NIC, however many GPUs share it, or all NICs of its own") {
  // 8 MB at 10 GB/s; over two NICs 4 MB each.
  for (const auto& [nics, expected] :
       {std::pair{1, 830.0}, {2, 830}, {4, 830}, {8, 830}, {16, 430}, {24, 30 + 800 / 3.0}})
    CHECK(near(time_us(senders({{0, 8, 8 * mega}}), with_nics(nics)), expected));
}

TEST_CASE("a flat ring has one flow out of a node and one in: one NIC serves it as eight do") {
  for (const auto& [nics, expected] : {std::pair{1, 830.0}, {2, 830}, {4, 830}, {8, 830}, {16, 430}})
    CHECK(near(time_us(flat_ring(8 * mega), with_nics(nics)), expected));
}

TEST_CASE("all ranks to all ranks share the NICs of their node") {
  // 64 parts of 1 MB leave each node, over `nics` of 10 GB/s; before, each rank copies its own, 2 us.
  for (const auto& [nics, expected] : {std::pair{1, 6430.0}, {2, 3230}, {4, 1630}, {8, 830}, {16, 430}})
    CHECK(near(time_us(all_to_all(mega), with_nics(nics)), expected + 2));
}

TEST_CASE("flows share a NIC while they use it, and no longer") {
  // Two NICs: GPUs 0 to 3 and 4 to 7. GPUs 0 and 1 have 5 GB/s each until GPU 1 has sent its 4 MB, after 800;
  // then GPU 0 has 10 for its other 4 MB. GPU 4 has the other NIC alone.
  const Simulation s = run(senders({{0, 8, 8 * mega}, {1, 9, 4 * mega}, {4, 12, 8 * mega}}), with_nics(2));
  CHECK(near(us(s.timeline.ranks[0][0].end_s), 30 + 800 + 400));
  CHECK(near(us(s.timeline.ranks[1][0].end_s), 30 + 800));
  CHECK(near(us(s.timeline.ranks[4][0].end_s), 830));
  // Into one NIC from two nodes' worth of senders: as out of it.
  const Simulation into = run(senders({{0, 8, 8 * mega}, {4, 9, 8 * mega}}), with_nics(2));
  CHECK(near(us(into.timeline.ranks[8][0].end_s), 30 + 1600));
}

TEST_CASE("a shared NIC and a NIC that no curve was measured with are as sure as the network") {
  HandPlan p = senders({{0, 8, mega}});
  const auto origin = [&](int nics) {
    Hardware hardware = with_nics(nics);
    hardware.messages[2].group = 2 * node_gpus;
    hardware.network.provenance.origin = Origin::assumed;
    return run(p, hardware).timeline.ranks[0][0].origin;
  };
  CHECK(origin(8) == Origin::measured);
  CHECK(origin(1) == Origin::assumed);
  CHECK(origin(16) == Origin::assumed);
}

TEST_CASE("a curve of a GPU with the machine's NICs is as it was measured") {
  // 20 GB/s of two NICs, of which the curve has 10 from 30 us on: no other than without a word on NICs.
  Hardware hardware = with_nics(16);
  hardware.messages[2].nics_per_gpu = 0;
  hardware.messages[2].link_bytes_s = 0;
  CHECK(near(time_us(senders({{0, 8, 8 * mega}}), hardware), 830));
  hardware.messages[2].nics_per_gpu = 2;
  CHECK(near(time_us(senders({{0, 8, 8 * mega}}), hardware), 830));
  // One NIC of the two: half of what a curve of both has.
  hardware.messages[2].link_bytes_s = 20e9;
  for (CurvePoint& point : hardware.messages[2].points) point.seconds = 30e-6 + point.bytes / 20e9;
  CHECK(near(time_us(senders({{0, 8, 8 * mega}}), hardware), 430));
  hardware.network.nics = 8;
  CHECK(near(time_us(senders({{0, 8, 8 * mega}}), hardware), 830));
}

TEST_CASE("rails of a GPU with several NICs are one rail of their bandwidths' sum") {
  Hardware hardware = with_nics(16);
  hardware.network.fabric = "rails";
  hardware.network.levels = {{1, 15e9}};
  const Fabric fabric = make_fabric(hardware, ranks, 1);
  CHECK(fabric.ranks_per_nic == 1);
  CHECK(fabric.nic_bytes_us == 20e3);
  REQUIRE(fabric.switches.size() == 1);
  CHECK(fabric.switches[0].up_bytes_us == 30e3);
  for (int rank = 0; rank < ranks; ++rank) CHECK(fabric.switches[0].switch_of(rank) == rank);
}

TEST_CASE(
    "NICs that divide the GPUs of a node or are a multiple of them are legal with every shipped curve") {
  for (const char* name : {"h100x64.toml", "h200x64.toml"}) {
    CAPTURE(name);
    const std::string path = std::string(CPLAB_TEST_SCENARIOS "/hardware/") + name;
    const std::string text = read_text_file(path);
    const std::size_t at = text.find("nics = 8");
    REQUIRE(at != std::string::npos);
    for (const char* nics : {"1", "2", "4", "16", "24"}) {
      std::string other = text;
      other.replace(at, std::string("nics = 8").size(), std::string("nics = ") + nics);
      CHECK(parse_hardware(other, path).network.nics == std::atoi(nics));
    }
    for (const char* nics : {"3", "12"}) {
      std::string other = text;
      other.replace(at, std::string("nics = 8").size(), std::string("nics = ") + nics);
      std::string error;
      try {
        parse_hardware(other, path);
      } catch (const InputError& e) {
        error = e.what();
      }
      CHECK(error.find("network.nics: must divide the GPUs of a node or be a multiple of them, but is " +
                       std::string(nics) + "; legal for 8 GPUs: 1, 2, 4, 8, 16, 24, ...") !=
            std::string::npos);
    }
  }
}

TEST_CASE("--set network.nics keeps what the curves of the file were measured over") {
  // 45 of the NIC's 50 GB/s after 25 us: 16 MiB over two NICs are 8 MiB over each.
  const std::string path = CPLAB_TEST_SCENARIOS "/hardware/h100x64.toml";
  const auto rate = [&](const char* nics) {
    const Hardware hardware = read_hardware(path, {{"network.nics", nics}});
    const MessageChoice choice =
        find_flow(hardware, {OpKind::exchange, Transport::nccl, Path::inter, 16, 16777216.0, false});
    return flow_rate(hardware, *choice.table, 16777216).bytes_s;
  };
  CHECK(rate("1") == doctest::Approx(rate("8")).epsilon(1e-12));
  CHECK(rate("16") == doctest::Approx(90e9).epsilon(1e-3));
  CHECK(rate("8") == doctest::Approx(45e9).epsilon(1e-3));
}

}  // namespace cplab
