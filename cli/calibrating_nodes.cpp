// The processes of a calibration; see calibrating_nodes.hpp.
#include "cli/calibrating_nodes.hpp"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <thread>

#include "calibrate/between_nodes.hpp"
#include "calibrate/machine.hpp"
#include "cli/console.hpp"

namespace cplab {
namespace {

// Ends the process when another one has failed: NCCL would wait for it without end.
class Watch {
 public:
  explicit Watch(const Rendezvous& processes) : thread_([this, &processes] { watch(processes); }) {}
  ~Watch() {
    done_ = true;
    thread_.join();
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  void watch(const Rendezvous& processes) const {
    while (!done_.load()) {
      if (const auto failure = processes.poll_failure()) {
        std::fprintf(stderr, "cplab: %s\n", failure->c_str());
        std::_Exit(exit_environment);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  }

  std::atomic<bool> done_{false};
  std::thread thread_;
};

std::string first_of(const std::vector<std::vector<std::byte>>& gathered) {
  return {reinterpret_cast<const char*>(gathered.front().data()), gathered.front().size()};
}

}  // namespace

CalibratingNodes::CalibratingNodes(double patience_s)
    : patience_s_(patience_s), with_(participate(patience_s)) {
  if (!with_.rendezvous) return;
  const std::vector<int> local = with_.rendezvous->all_gather_value(with_.local_rank, patience_s);
  nodes_ = 0;
  for (int rank = 0; rank < with_.rendezvous->world(); ++rank) {
    if (local[static_cast<std::size_t>(rank)] != 0) continue;
    if (rank <= with_.rendezvous->rank()) node_ = nodes_;
    ++nodes_;
  }
}

void CalibratingNodes::call_others(const std::string& id) const {
  (void)with_.rendezvous->all_gather(std::as_bytes(std::span(id)), patience_s_);
}

void CalibratingNodes::release_others() const {
  if (with_.rendezvous) (void)with_.rendezvous->all_gather({}, patience_s_);
}

void CalibratingNodes::follow(std::uint64_t seed) const {
  while (true) {
    const std::string id = first_of(with_.rendezvous->all_gather({}, patience_s_));
    if (id.empty()) return;
    if (with_.local_rank != 0) continue;
    const Watch watch(*with_.rendezvous);
    measure::Measurement ignored;  // the first has the same
    try {
      measure::measure_between_nodes(id, node_, nodes_, seed, ignored);
    } catch (const measure::Error& error) {
      with_.rendezvous->announce_failure(error.what());
      throw EnvironmentError(error.what());
    }
  }
}

}  // namespace cplab
