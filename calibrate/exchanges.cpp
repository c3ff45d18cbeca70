// Exchanges in pieces, and beside attention; see gpu_parts.hpp.
#include <algorithm>
#include <array>
#include <memory>

#include "calibrate/gpu_parts.hpp"
#include "calibrate/links.hpp"
#include "calibrate/loads.hpp"
#include "calibrate/probe.hpp"

namespace cplab::measure {
namespace {

constexpr std::int64_t most_bytes = 128 << 20;

// What all ranks have for exchanges over either link.
class Ends {
 public:
  Ends(Team& team, int rank, CopyRing& copies, Bench& bench, std::uint64_t seed)
      : rank_(rank), copies_(copies), send_(2 * most_bytes), receive_(2 * most_bytes), nccl_(team, rank) {
    send_.fill_random(seed + static_cast<std::uint64_t>(rank), send_.bytes(), bench.stream());
    copies_.prepare(rank, receive_.data());
    bench.warm_up([](std::int64_t, CudaStream) {}, 0);
  }

  Bench::Queue shift(Transport transport, std::int64_t bytes, std::int64_t pieces) {
    return [this, transport, bytes, pieces](std::int64_t, CudaStream stream) {
      if (transport == Transport::nccl)
        nccl_.shift_pieces(send_.data(), receive_.data(), bytes, pieces, stream);
      else
        copies_.shift(rank_, send_.data(), bytes, stream, pieces);
    };
  }

 private:
  int rank_;
  CopyRing& copies_;
  DeviceMemory send_, receive_;
  NcclRank nccl_;
};

// Few enough messages that NCCL's own queue does not fill behind the gate.
Effort effort_for(std::int64_t pieces) {
  const int most = static_cast<int>(std::max<std::int64_t>(3, 60 / pieces));
  return {.sample_s = 0.005, .least = 3, .most = most, .samples = 5};
}

// Exchanges as plans place them beside attention: each is issued first, attention begins a head start behind
// it and lasts longer, the next exchange waits for its end. One that came while persistent attention runs
// would wait for multiprocessors, which is no matter of speed.
class Overlap {
 public:
  Overlap(Bench& bench, const Load& attention) : bench_(bench), attention_(attention) {}

  // Seconds of one exchange, of the rank that comes to it last, beside so many calls of attention; `covered`:
  // none lasted longer than its attention.
  double sample(const Bench::Queue& exchange, int calls, bool& covered) {
    Team& team = bench_.team();
    team.meet();
    gate_.close(comm_.get());
    for (Turn& turn : turns_) {
      turn.begin.record(comm_.get());
      exchange(0, comm_.get());
      turn.end.record(comm_.get());
      turn.begin.queue_wait(compute_.get());
      if (calls > 0) launch_signal(head_start_ns, flags_.address(0), flags_.address(1), 1, compute_.get());
      for (int call = 0; call < calls; ++call) attention_.queue(index_++, compute_.get());
      turn.done.record(compute_.get());
      turn.done.queue_wait(comm_.get());
    }
    team.meet();
    gate_.open();
    comm_.synchronize();
    compute_.synchronize();
    gate_.check();
    std::vector<double> seconds;
    double late = 0;
    for (const Turn& turn : turns_) {
      // The rank that comes last waits for nobody: attention before this turn has ended at other times on
      // others.
      seconds.push_back(-team.largest(bench_.rank(), -elapsed_s(turn.begin, turn.end)));
      late = std::max(late, elapsed_s(turn.done, turn.end));
    }
    covered = team.largest(bench_.rank(), late) <= 0;
    return median(std::move(seconds));
  }

 private:
  struct Turn {
    Event begin{true}, end{true}, done{true};
  };
  static constexpr std::uint64_t head_start_ns = 10'000;

  Bench& bench_;
  const Load& attention_;
  Stream comm_{true}, compute_;
  Gate gate_;
  HostFlags flags_{2};
  std::array<Turn, 5> turns_;
  std::int64_t index_ = 0;
};

BesidePoint beside(Bench& bench, Ends& ends, Transport transport, std::int64_t bytes, const Load& attention) {
  constexpr int samples = 5, most_calls = 60;
  const Bench::Queue exchange = ends.shift(transport, bytes, 1);
  bench.warm_up(exchange, 2);
  bench.warm_up([&](std::int64_t i, CudaStream stream) { attention.queue(i, stream); }, 1);
  Overlap overlap(bench, attention);
  bool covered = false;
  std::vector<double> alone, together;
  for (int i = 0; i < samples; ++i) alone.push_back(overlap.sample(exchange, 0, covered));
  for (int calls = 1; static_cast<int>(together.size()) < samples && calls <= most_calls;) {
    const double seconds = overlap.sample(exchange, calls, covered);
    if (covered)
      together.push_back(seconds);
    else
      calls *= 2;
  }
  BesidePoint point{static_cast<double>(bytes), median(std::move(alone)), 0};
  if (!together.empty()) point.beside_s = median(std::move(together));
  return point;
}

}  // namespace

void measure_exchanges_in_pieces(const Options& options, Measurement& into) {
  Team team(options.gpus);
  CopyRing copies(team);
  team.run([&](int rank) {
    kernels::load_cuda_kernels();
    Bench bench(team, rank);
    Ends ends(team, rank, copies, bench, options.seed);
    for (const Transport transport : {Transport::nccl, Transport::copy}) {
      if (transport == Transport::copy && !copies.possible()) continue;
      PiecesTable table;
      table.kind = OpKind::exchange;
      table.transport = transport;
      for (const std::int64_t bytes : {1 << 20, 16 << 20, 128 << 20})
        for (const std::int64_t pieces : {1, 8, 64}) {
          const Bench::Queue queue = ends.shift(transport, bytes, pieces);
          table.points.push_back(
              {static_cast<double>(bytes), pieces, bench.typical(queue, effort_for(pieces))});
        }
      if (rank == 0) into.finer.pieces.push_back(std::move(table));
    }
    team.meet();  // no rank frees memory that another still writes into
  });
}

void measure_exchanges_beside(const Options& options, Measurement& into) {
  Team team(options.gpus);
  CopyRing copies(team);
  team.run([&](int rank) {
    kernels::load_cuda_kernels();
    Bench bench(team, rank);
    const DeviceMemory arena(std::int64_t{1} << 30);
    Ends ends(team, rank, copies, bench, options.seed);
    for (const Transport transport : {Transport::nccl, Transport::copy})
      for (const bool backward : {false, true}) {
        if (transport == Transport::copy && !copies.possible()) continue;
        // As plans leave multiprocessors to NCCL, so that an exchange begins while attention runs.
        const int reserved = transport == Transport::nccl ? options.channels : 0;
        Load attention(arena, options.l2_bytes, FormShape{backward, 1, 8192, 8192, 16, 16, 128}, reserved);
        attention.prepare(options.seed + 5000, bench.stream());
        BesideTable table;
        table.transport = transport;
        table.beside = backward ? OpKind::attend_backward : OpKind::attend;
        for (const std::int64_t bytes : {1 << 20, 16 << 20, 128 << 20}) {
          const BesidePoint point = beside(bench, ends, transport, bytes, attention);
          if (point.beside_s > 0) table.points.push_back(point);
        }
        if (rank == 0 && !table.points.empty()) into.finer.beside.push_back(std::move(table));
        team.meet();
      }
  });
}

}  // namespace cplab::measure
