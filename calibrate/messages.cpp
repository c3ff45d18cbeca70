// Times of messages between the GPUs of one machine, and what NCCL's kernels occupy; see machine.hpp.
#include <chrono>
#include <thread>

#include "calibrate/links.hpp"
#include "calibrate/parts.hpp"
#include "calibrate/probe.hpp"

namespace cplab::measure {
namespace {

constexpr std::int64_t least_bytes = 4 << 10, most_bytes = 256 << 20;
constexpr Effort effort{0.005, 10, 50, 5};  // few enough that NCCL's own queue does not fill behind the gate

// What one group size gives. Filled by rank 0.
struct Tables {
  MessageTable exchange, copies, all_gather;
  std::int64_t communicator_bytes = 0;
};

std::int64_t free_bytes(int device) {
  return device_facts(device).free_bytes;
}

// Counts the multiprocessors that an NCCL kernel holds while it waits for its peers. GPU 0 issues its part of
// the operation, the other ranks not yet; then thread blocks that need a whole multiprocessor each are
// launched, and those that start are counted.
class ChannelProbe {
 public:
  ChannelProbe(Bench& bench, int sms) : bench_(bench), sms_(sms), begun_(sms), opened_(1) {
    prepare_residents();
    if (bench_.rank() == 0) free_ = started([] {});
    finish(stream_.get());
  }

  // On all ranks; the result is rank 0's.
  int channels(const std::function<void(CudaStream)>& call) {
    int held = 0;
    bench_.team().meet();
    if (bench_.rank() == 0) {
      held = free_ - started([&] { call(bench_.stream()); });
      bench_.team().meet();
    } else {
      bench_.team().meet();
      call(bench_.stream());
    }
    finish(bench_.stream());
    finish(stream_.get());  // the blocks that had to wait
    bench_.team().meet();
    return held;
  }

 private:
  // Thread blocks that begin within 20 ms beside what `first` queues.
  int started(const std::function<void()>& first) {
    const auto pause = [] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); };
    first();
    pause();
    launch_residents(sms_, begun_.address(0), opened_.address(0), ++ticket_, stream_.get());
    pause();
    int count = 0;
    for (int block = 0; block < sms_; ++block) count += begun_.load(block) == ticket_ ? 1 : 0;
    opened_.store(0, ticket_);
    // The blocks that have not started wait for `first` to end: synchronizing here would deadlock.
    return count;
  }

  static void finish(CudaStream stream) {
    Event done(false);
    done.record(stream);
    done.synchronize();
  }

  Bench& bench_;
  int sms_, ticket_ = 0;
  int free_ = 0;  // blocks that start on an otherwise idle GPU
  HostFlags begun_, opened_;
  Stream stream_;
};

class Links {
 public:
  Links(Team& team, int rank, CopyRing& copies, const Options& options)
      : bench_(team, rank),
        send_(most_bytes),
        receive_(most_bytes * team.size()),
        rank_(rank),
        free_before_(free_bytes(rank)),
        nccl_(team, rank),
        copies_(copies) {
    send_.fill_random(options.seed + static_cast<std::uint64_t>(rank), send_.bytes(), bench_.stream());
    // NCCL connects at the first use of an algorithm: all of them before its memory is read and times are
    // taken.
    for (std::int64_t bytes = least_bytes; bytes <= most_bytes; bytes *= 4) {
      bench_.warm_up(shift(bytes), 2);
      bench_.warm_up(all_gather(bytes), 2);
    }
    communicator_bytes_ =
        static_cast<std::int64_t>(team.largest(rank, static_cast<double>(free_before_ - free_bytes(rank))));
    copies_.prepare(rank, receive_.data());
    bench_.warm_up(copy_shift(most_bytes), 3);
  }

  void measure(int sms, Tables& tables) {
    ChannelProbe probe(bench_, sms);
    const auto keep = [&](MessageTable& table, double wire_bytes, double seconds) {
      if (rank_ == 0) table.points.push_back({wire_bytes, seconds});
    };
    const auto keep_channels = [&](MessageTable& table, double wire_bytes, const Bench::Queue& call) {
      const int channels = probe.channels([&](CudaStream stream) { call(0, stream); });
      if (rank_ != 0) return;
      table.channels_by_bytes.emplace_back(wire_bytes, channels);
      table.channels = channels;
    };
    const int others = bench_.team().size() - 1;
    if (rank_ == 0) tables.communicator_bytes = communicator_bytes_;
    int step = 0;
    for (std::int64_t bytes = least_bytes; bytes <= most_bytes; bytes *= 2, ++step) {
      const auto wire = static_cast<double>(bytes);
      keep(tables.exchange, wire, bench_.typical(shift(bytes), effort));
      keep(tables.copies, wire, bench_.typical(copy_shift(bytes), effort));
      keep(tables.all_gather, wire * others, bench_.typical(all_gather(bytes), effort));
      if (step % 4 != 0) continue;
      keep_channels(tables.exchange, wire, shift(bytes));
      keep_channels(tables.all_gather, wire * others, all_gather(bytes));
    }
  }

 private:
  Bench::Queue shift(std::int64_t bytes) {
    return
        [this, bytes](std::int64_t, CudaStream s) { nccl_.shift(send_.data(), receive_.data(), bytes, s); };
  }
  Bench::Queue copy_shift(std::int64_t bytes) {
    return [this, bytes](std::int64_t, CudaStream s) { copies_.shift(rank_, send_.data(), bytes, s); };
  }
  Bench::Queue all_gather(std::int64_t bytes) {
    return [this, bytes](std::int64_t, CudaStream s) {
      nccl_.all_gather(send_.data(), receive_.data(), bytes, s);
    };
  }

  Bench bench_;
  DeviceMemory send_, receive_;
  int rank_;
  std::int64_t free_before_, communicator_bytes_ = 0;
  NcclRank nccl_;
  CopyRing& copies_;
};

void measure_group(int ranks, const Options& options, Measurement& into) {
  Tables tables;
  Team team(ranks);
  CopyRing copies(team);
  team.run([&](int rank) {
    Links links(team, rank, copies, options);
    links.measure(into.sms, tables);
    team.meet();  // no rank frees memory that another still writes into
  });
  const auto finish = [&](MessageTable& table, const char* kind, const char* transport) {
    table.kind = kind;
    table.transport = transport;
    table.group = ranks;
    into.messages.push_back(std::move(table));
  };
  finish(tables.exchange, "exchange", "nccl");
  finish(tables.copies, "exchange", "copy");
  finish(tables.all_gather, "all_gather", "nccl");
  if (ranks == into.gpus) into.communicator_bytes = tables.communicator_bytes;
}

}  // namespace

void measure_messages(const Options& options, const Progress& progress, Measurement& into) {
  if (into.gpus < 2) {
    into.left_out.push_back("messages: one GPU has nobody to send to");
    return;
  }
  measure_group(into.gpus, options, into);
  if (into.gpus > 2) measure_group(2, options, into);
  progress("messages");
}

}  // namespace cplab::measure
