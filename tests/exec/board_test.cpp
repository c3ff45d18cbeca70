// Counters of threads and of processes; nothing stays in /dev/shm.
#include "exec/processes/board.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "exec/processes/rendezvous.hpp"
#include "tests/exec/processes.hpp"

namespace cplab {
namespace {

std::string in_dev_shm(const std::string& name) {
  return "/dev/shm" + name;
}

bool exists(const std::string& name) {
  return ::access(in_dev_shm(name).c_str(), F_OK) == 0;
}

TEST_CASE("a board of threads") {
  Board first = Board::in_process(5);
  Board board = std::move(first);
  REQUIRE(board.size() == 5);
  CHECK(first.size() == 0);
  CHECK_THROWS_AS(board.cell(5), std::out_of_range);
  CHECK_THROWS_AS(first.cell(0), std::out_of_range);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (std::size_t k = 0; k < 5000; ++k) board.cell(k % 5).fetch_add(1);
    });
  for (std::thread& thread : threads) thread.join();
  for (std::size_t k = 0; k < 5; ++k) CHECK(board.cell(k) == 4000);
  board = Board::in_process(1);
  CHECK(board.cell(0) == 0);
}

// Processes take turns by the counters alone, after the name was unlinked.
TEST_CASE("a board of processes") {
  constexpr int world = 3;
  constexpr std::uint32_t turns = 300;
  const int port = processes::free_port();
  const auto outcomes = processes::run(world, [&](int rank, processes::Outcome& own) {
    const auto meeting = Rendezvous::join(processes::launch_of(rank, world, port), 10);
    const std::string mine = rank == 0 ? Board::shared_name(port) : "";
    Board board = rank == 0 ? Board::create_shared(mine, 2) : Board::in_process(0);
    const auto names = meeting->all_gather(std::as_bytes(std::span(mine.data(), mine.size())), 10);
    const std::string name(reinterpret_cast<const char*>(names[0].data()), names[0].size());
    if (rank != 0) board = Board::open_shared(name, 2);
    meeting->barrier(10);
    own.values[0] = exists(name);
    meeting->barrier(10);
    board.unlink();
    meeting->barrier(10);
    own.values[1] = exists(name);
    for (std::uint32_t turn = rank; turn < turns; turn += world) {
      while (board.cell(0).load(std::memory_order_acquire) != turn) std::this_thread::yield();
      // Only the one whose turn it is touches cell 1.
      board.cell(1).store(board.cell(1).load(std::memory_order_relaxed) + 2, std::memory_order_relaxed);
      board.cell(0).store(turn + 1, std::memory_order_release);
    }
    meeting->barrier(10);
    own.values[2] = board.cell(1);
  });
  for (const auto& outcome : outcomes) {
    CAPTURE(outcome.text);
    CHECK(processes::thrown(outcome) == "");
    CHECK(outcome.values[0] == 1);
    CHECK(outcome.values[1] == 0);
    CHECK(outcome.values[2] == 2 * turns);
  }
}

TEST_CASE("boards that do not fit are refused, leftovers are replaced") {
  const std::string name = Board::shared_name(1);
  {
    Board board = Board::create_shared(name, 3);
    board.cell(2) = 7;
    Board again = Board::open_shared(name, 3);
    CHECK(again.cell(2) == 7);
    CHECK_THROWS_AS(Board::open_shared(name, 4), BoardError);
    // What a killed process of the same name left behind neither stays nor is read.
    Board later = Board::create_shared(name, 3);
    CHECK(later.cell(2) == 0);
    CHECK(again.cell(2) == 7);
  }
  CHECK_FALSE(exists(name));
  CHECK_THROWS_AS(Board::open_shared(name, 3), BoardError);
  CHECK_THROWS_AS(Board::create_shared("/no/such/name", 3), BoardError);
  CHECK_THROWS_AS(Board::in_process(static_cast<std::size_t>(-1)), BoardError);
}

}  // namespace
}  // namespace cplab
