// Times of messages between the GPUs of one machine, and what NCCL's kernels occupy; see gpu_parts.hpp.
#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include "calibrate/gpu_parts.hpp"
#include "calibrate/links.hpp"
#include "calibrate/probe.hpp"

namespace cplab::measure {
namespace {

constexpr std::int64_t least_bytes = 4 << 10, most_bytes = 256 << 20;
constexpr Effort effort{0.005, 10, 50, 5};  // few enough that NCCL's own queue does not fill behind the gate

// What one group size gives. Filled by rank 0.
struct Tables {
  std::vector<MessageTable> messages;
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

// One kind over one transport, as plans count its bytes. `call` queues it with `bytes`, what a rank gives to
// each other one, or the operand of an all_reduce; wire: bytes on the wire for each of those.
struct LinkCall {
  const char* kind;
  bool by_nccl;  // or by copy engines
  double wire;
  std::function<void(std::int64_t bytes, CudaStream)> call;
};

class Links {
 public:
  Links(Team& team, int rank, CopyRing& copies, MessageKinds kinds, std::uint64_t seed)
      : bench_(team, rank),
        send_(most_bytes * team.size()),
        receive_(most_bytes * team.size()),
        rank_(rank),
        free_before_(free_bytes(rank)),
        nccl_(team, rank),
        copies_(copies),
        kinds_(kinds) {
    send_.fill_random(seed + static_cast<std::uint64_t>(rank), send_.bytes(), bench_.stream());
    list_subjects(team.size());
    // NCCL connects at the first use of an algorithm: all of them before times are taken, and those that
    // every plan may use before its memory is read.
    for (const bool first : {true, false}) {
      for (const LinkCall& subject : subjects_) {
        const std::string kind = subject.kind;
        if (!subject.by_nccl || (kind == "exchange" || kind == "all_gather") != first) continue;
        if (!first && !wanted(subject)) continue;
        for (std::int64_t bytes = least_bytes; bytes <= most_bytes; bytes *= 4)
          bench_.warm_up(with(subject, bytes), 2);
      }
      if (first)
        communicator_bytes_ = static_cast<std::int64_t>(
            team.largest(rank, static_cast<double>(free_before_ - free_bytes(rank))));
    }
    copies_.prepare(rank, receive_.data());
    copies_.reach_all(rank);
    for (const LinkCall& subject : subjects_)
      if (!subject.by_nccl && wanted(subject)) bench_.warm_up(with(subject, most_bytes), 3);
  }

  void measure(int sms, Tables& tables) {
    ChannelProbe probe(bench_, sms);
    if (rank_ == 0) tables.communicator_bytes = communicator_bytes_;
    for (const LinkCall& subject : subjects_) {
      if (!wanted(subject)) continue;
      MessageTable table;
      table.kind = subject.kind;
      table.transport = subject.by_nccl ? "nccl" : "copy";
      table.group = bench_.team().size();
      // A barrier has one size, a byte.
      const bool sized = subject.wire > 0;
      int step = 0;
      for (std::int64_t bytes = sized ? least_bytes : most_bytes; bytes <= most_bytes; bytes *= 2, ++step) {
        const double wire = sized ? subject.wire * static_cast<double>(bytes) : 1;
        table.points.push_back({wire, bench_.typical(with(subject, bytes), effort)});
        if (!subject.by_nccl || step % 4 != 0) continue;
        table.channels = probe.channels([&](CudaStream stream) { subject.call(bytes, stream); });
        table.channels_by_bytes.emplace_back(wire, table.channels);
      }
      Bench::time_again(table.points, [&](std::size_t i) {
        return bench_.typical(with(subject, least_bytes << i), effort);
      });
      if (rank_ == 0) tables.messages.push_back(std::move(table));
    }
  }

 private:
  bool wanted(const LinkCall& subject) const {
    if (!subject.by_nccl && !copies_.possible()) return false;
    const bool exchange = std::string_view(subject.kind) == "exchange";
    return kinds_ == MessageKinds::all || exchange == (kinds_ == MessageKinds::exchanges);
  }

  static Bench::Queue with(const LinkCall& subject, std::int64_t bytes) {
    return [&subject, bytes](std::int64_t, CudaStream stream) { subject.call(bytes, stream); };
  }

  // What the link `copy` sums it does with kernels: its reduce_scatter and all_reduce have no table.
  void list_subjects(int ranks) {
    constexpr bool nccl = true, copy = false;
    const auto add = [&](const char* kind, bool by_nccl, double wire, auto call) {
      subjects_.push_back({kind, by_nccl, wire, std::move(call)});
    };
    const double others = ranks - 1;
    add("exchange", nccl, 1, [this](auto n, auto s) { nccl_.shift(send_.data(), receive_.data(), n, s); });
    add("exchange", copy, 1, [this](auto n, auto s) { copies_.shift(rank_, send_.data(), n, s); });
    add("all_gather", nccl, others,
        [this](auto n, auto s) { nccl_.all_gather(send_.data(), receive_.data(), n, s); });
    add("all_gather", copy, others, [this](auto n, auto s) { copies_.trade(rank_, send_.data(), 0, n, s); });
    add("reduce_scatter", nccl, others,
        [this](auto n, auto s) { nccl_.reduce_scatter(send_.data(), receive_.data(), n, s); });
    add("all_to_all", nccl, others,
        [this](auto n, auto s) { nccl_.all_to_all(send_.data(), receive_.data(), n, s); });
    add("all_to_all", copy, others, [this](auto n, auto s) { copies_.trade(rank_, send_.data(), n, n, s); });
    add("all_reduce", nccl, 2 * others / ranks,
        [this](auto n, auto s) { nccl_.all_reduce(send_.data(), receive_.data(), n, s); });
    // As the link does it: a maximum over a little memory.
    add("barrier", nccl, 0,
        [this](auto, auto s) { nccl_.all_reduce(send_.data(), receive_.data(), sizeof(float), s); });
  }

  Bench bench_;
  DeviceMemory send_, receive_;
  int rank_;
  std::int64_t free_before_, communicator_bytes_ = 0;
  NcclRank nccl_;
  CopyRing& copies_;
  MessageKinds kinds_;
  std::vector<LinkCall> subjects_;
};

}  // namespace

void measure_messages(const Options& options, int ranks, MessageKinds kinds, Measurement& into) {
  Tables tables;
  Team team(ranks);
  CopyRing copies(team);
  team.run([&](int rank) {
    Links links(team, rank, copies, kinds, options.seed);
    links.measure(options.sms, tables);
    team.meet();  // no rank frees memory that another still writes into
  });
  if (!copies.possible()) into.left_out.push_back(no_copies);
  for (MessageTable& table : tables.messages) into.messages.push_back(std::move(table));
  if (ranks == options.gpus) into.communicator_bytes = tables.communicator_bytes;
}

}  // namespace cplab::measure
