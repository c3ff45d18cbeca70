// Host time to issue one call of each kind; all ranks at once. See gpu_parts.hpp.
#include <memory>

#include "calibrate/gpu_parts.hpp"
#include "calibrate/links.hpp"
#include "calibrate/loads.hpp"

namespace cplab::measure {
namespace {

constexpr std::int64_t bytes = 4 << 10;  // of messages, to each rank

class Launches {
 public:
  Launches(Bench& bench, std::int64_t l2_bytes) : bench_(bench), l2_bytes_(l2_bytes), arena_(256 << 20) {}

  void kernels() {
    const FormShape small{false, 1, 256, 256, 4, 4, 128};
    FormShape backward = small;
    backward.backward = true;
    time(OpKind::attend, Load(arena_, l2_bytes_, small));
    time(OpKind::attend_backward, Load(arena_, l2_bytes_, backward));
    for (const OpKind kind :
         {OpKind::row_dot, OpKind::merge, OpKind::copy, OpKind::cast, OpKind::add, OpKind::fill})
      time(kind, Load(arena_, l2_bytes_, std::string(name(kind)), 64 << 10));
  }

  void messages(Team& team, int rank, CopyRing& copies) {
    const DeviceMemory send(bytes * team.size()), receive(bytes * team.size());
    const NcclRank nccl(team, rank);
    copies.prepare(rank, receive.data());
    char* const to = receive.data();
    const auto by_nccl = [&](OpKind kind, const std::function<void(CudaStream)>& issue) {
      bench_.warm_up([&](std::int64_t, CudaStream stream) { issue(stream); }, 5);
      costs.push_back({kind, Transport::nccl, bench_.issue_s(20, issue), {}});
    };
    by_nccl(OpKind::exchange, [&](CudaStream s) { nccl.shift(send.data(), to, bytes, s); });
    by_nccl(OpKind::all_gather, [&](CudaStream s) { nccl.all_gather(send.data(), to, bytes, s); });
    by_nccl(OpKind::reduce_scatter, [&](CudaStream s) { nccl.reduce_scatter(send.data(), to, bytes, s); });
    by_nccl(OpKind::all_to_all, [&](CudaStream s) { nccl.all_to_all(send.data(), to, bytes, s); });
    by_nccl(OpKind::all_reduce, [&](CudaStream s) { nccl.all_reduce(send.data(), to, bytes, s); });
    if (copies.possible()) {
      bench_.warm_up([&](std::int64_t, CudaStream s) { copies.shift(rank, send.data(), bytes, s); }, 5);
      const double seconds =
          bench_.issue_s(30, [&](CudaStream s) { copies.shift_unpaired(rank, send.data(), bytes, s); });
      costs.push_back({OpKind::exchange, Transport::copy, seconds, {}});
    }
    team.meet();
  }

  std::vector<LaunchCost> costs;

 private:
  void time(OpKind kind, Load&& load) {
    load.prepare(1, bench_.stream());
    std::int64_t index = 0;
    costs.push_back(
        {kind, Transport::nccl, bench_.issue_s(100, [&](CudaStream s) { load.queue(index++, s); }), {}});
  }

  Bench& bench_;
  std::int64_t l2_bytes_;
  DeviceMemory arena_;
};

}  // namespace

void measure_launches(const Options& options, Measurement& into) {
  Team team(options.gpus);
  CopyRing copies(team);
  team.run([&](int rank) {
    kernels::load_cuda_kernels();
    Bench bench(team, rank);
    Launches launches(bench, options.l2_bytes);
    launches.kernels();
    if (team.size() > 1) launches.messages(team, rank, copies);
    if (rank == 0) into.finer.launches = launches.costs;
  });
}

}  // namespace cplab::measure
