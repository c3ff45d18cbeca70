// One process decides which kernels are taken, the others hear of it.
#include "cli/choosing.hpp"

#include <doctest/doctest.h>

#include <stdexcept>

#include "tests/exec/processes.hpp"

namespace cplab {
namespace {

using kernels::cuda::MeasuredChoices;

constexpr int process_count = 3;

TEST_CASE("the process of rank 0 chooses kernels for all") {
  const int port = processes::free_port();
  const auto outcomes = processes::run(process_count, [&](int rank, processes::Outcome& own) {
    const auto meeting = processes::join(rank, process_count, port);
    int asked = 0;
    const MeasuredChoices choices = decided_by_rank_0(meeting.get(), processes::patience_s, [&] {
      ++asked;
      MeasuredChoices measured;
      measured.set("attend a", "kernel of rank " + std::to_string(rank));
      return measured;
    });
    own.values[0] = asked;
    const std::string* variant = choices.find("attend a");
    own.values[1] = variant != nullptr && *variant == "kernel of rank 0" ? 1 : 0;
  });
  processes::check_all_fine(outcomes);
  for (int rank = 0; rank < process_count; ++rank) {
    const auto& own = outcomes[static_cast<std::size_t>(rank)];
    CHECK(own.values[0] == (rank == 0 ? 1 : 0));
    CHECK(own.values[1] == 1);
  }
}

TEST_CASE("where rank 0 cannot decide the others stop, with its reason") {
  const int port = processes::free_port();
  const auto outcomes = processes::run(process_count, [&](int rank, processes::Outcome&) {
    const auto meeting = processes::join(rank, process_count, port);
    decided_by_rank_0(meeting.get(), processes::patience_s,
                      []() -> MeasuredChoices { throw std::runtime_error("no kernel is right"); });
  });
  for (const auto& outcome : outcomes) CHECK(processes::contains(outcome, "no kernel is right"));
}

TEST_CASE("a process that is alone decides for itself") {
  const MeasuredChoices choices = decided_by_rank_0(nullptr, 1, [] {
    MeasuredChoices measured;
    measured.set("attend a", "kernel");
    return measured;
  });
  CHECK(choices.find("attend a") != nullptr);
}

}  // namespace
}  // namespace cplab
