// Measured tables into a machine; see fill.hpp.
#include "calibrate/fill.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <stdexcept>
#include <tuple>

#include "sim/plausible.hpp"

namespace cplab::measure {
namespace {

constexpr const char* kernel_tool =
    "cplab calibrate: events around calls queued behind a waiting kernel, median; operands rotate beyond L2";
constexpr const char* message_tool =
    "cplab calibrate: back-to-back calls on all ranks, a thread each, launches hidden";

// Six digits: more say nothing, and a file of them is hard to read.
double rounded(double value) {
  return std::strtod(six_digits(value).c_str(), nullptr);
}

void round(FormTable& table) {
  for (FormPoint& point : table.points) point.seconds = rounded(point.seconds);
}
void round(PiecesTable& table) {
  for (PiecesPoint& point : table.points) point.seconds = rounded(point.seconds);
}
void round(BesideTable& table) {
  for (BesidePoint& point : table.points) {
    point.alone_s = rounded(point.alone_s);
    point.beside_s = rounded(point.beside_s);
  }
}
void round(LaunchCost& cost) {
  cost.seconds = rounded(cost.seconds);
}
void round(GemmTable& table) {
  for (GemmPoint& point : table.points) point.seconds = rounded(point.seconds);
}

OpKind kind_named(const std::string& word) {
  for (int i = 0; i <= static_cast<int>(OpKind::host_sync); ++i)
    if (name(static_cast<OpKind>(i)) == word) return static_cast<OpKind>(i);
  throw std::invalid_argument("no kind of operation: " + word);
}

std::vector<Operand> operands_named(const std::vector<std::string>& words) {
  std::vector<Operand> operands;
  for (const std::string& word : words)
    for (int i = 0; i <= static_cast<int>(Operand::final_state); ++i)
      if (name(static_cast<Operand>(i)) == word) operands.push_back(static_cast<Operand>(i));
  if (operands.size() != words.size()) throw std::invalid_argument("no operand among them: " + words.front());
  std::sort(operands.begin(), operands.end());
  return operands;
}

Transport transport_named(const std::string& word) {
  return word == "nccl" ? Transport::nccl : Transport::copy;
}

// What a kernel table is of, whatever its points, its dtype aside.
auto subject_of(const KernelTable& table) {
  return std::tie(table.kind, table.head_size, table.value_size, table.causal, table.cut, table.states,
                  table.results, table.sequences);
}
bool same_subject(const KernelTable& a, const KernelTable& b) {
  return subject_of(a) == subject_of(b) && (!has_square_points(a.kind) || a.variant == b.variant);
}

class Taker {
 public:
  Taker(const Machine& machine, Hardware& into) : machine_(machine), into_(into) {}

  void gpu(double copy_bytes_s) {
    if (copy_bytes_s <= 0) return;
    const std::string before = into_.gpu.provenance.source;
    into_.gpu.copy_bytes_s = rounded(copy_bytes_s);
    into_.gpu.provenance =
        measured("cplab calibrate: cudaMemcpyAsync inside one GPU, read plus write", "peak_flops: " + before);
  }

  void fixed(std::int64_t communicator_bytes) {
    if (machine_.context_bytes <= 0) return;
    if (communicator_bytes <= 0 && machine_.gpus > 1) return;
    into_.fixed_bytes = machine_.context_bytes + communicator_bytes;
    into_.fixed = measured("cplab calibrate: context: " + machine_.context_source + "; NCCL: cudaMemGetInfo");
  }

  void host(const Host& found) {
    HostSpec& host = into_.host;
    std::string missing;
    const auto take_one = [&](const char* key, double seconds, bool may_be_zero, double& to) {
      if (seconds > 0 || may_be_zero)
        to = rounded(seconds);
      else
        missing += (missing.empty() ? "" : ", ") + std::string(key);
    };
    take_one("kernel_launch_s", found.kernel_launch_s, false, host.kernel_launch_s);
    take_one("communication_launch_s", found.communication_launch_s, false, host.communication_launch_s);
    take_one("copy_launch_s", found.copy_launch_s, false, host.copy_launch_s);
    take_one("launch_latency_s", found.launch_latency_s, true, host.launch_latency_s);
    take_one("dependency_s", found.dependency_s, true, host.dependency_s);
    take_one("sync_s", found.sync_s, true, host.sync_s);
    take_one("graph_launch_s", found.graph_launch_s, true, host.graph_launch_s);
    take_one("graph_node_s", found.graph_node_s, true, host.graph_node_s);
    const std::string tool = "cplab calibrate: host clock around launches, one thread per GPU, all at once";
    if (missing.empty()) {
      host.provenance = measured(tool);
    } else {
      const std::string before = host.provenance.source;
      host.provenance = {};
      host.provenance.source = missing + " " + before + "; the others measured, " + tool;
    }
  }

  void attention(const AttentionTable& found) {
    for (const bool sustained : {true, false}) {
      KernelTable table;
      table.kind = kind_named(found.kind);
      table.variant = found.variant;
      table.head_size = table.value_size = found.head_size;
      table.causal = found.causal;
      if (found.tile_rows > 0) table.tile_rows = found.tile_rows;
      table.sms = machine_.sms;
      table.sustained = sustained;
      for (const AttentionPoint& point : found.points)
        if ((point.settled || into_.burst.seconds <= 0) == sustained)
          table.points.push_back({point.batch, point.sequence, point.heads, rounded(point.seconds)});
      if (!table.points.empty()) kernel(std::move(table), kernel_tool);
    }
  }

  void chunks(const ChunkTable& found) {
    KernelTable table;
    table.kind = kind_named(found.kind);
    table.variant = found.variant;
    table.head_size = found.key_size;
    table.value_size = found.value_size;
    table.cut = found.cut == kernels::ChunkWork::blocked  ? cplab::ChunkWork::blocked
                : found.cut == kernels::ChunkWork::serial ? cplab::ChunkWork::serial
                                                          : cplab::ChunkWork::sliced;
    table.chunk = found.chunk;
    table.states = operands_named(found.states);
    table.results = operands_named(found.results);
    for (const ChunkPoint& point : found.points)
      table.points.push_back({1, point.tokens, point.heads, rounded(point.seconds)});
    kernel(std::move(table), kernel_tool);
  }

  void curve(const CurveTable& found) {
    KernelTable table;
    table.kind = kind_named(found.kind);
    table.variant = found.variant;
    table.curve = rising(found.points, found.kind);
    kernel(std::move(table), std::string(kernel_tool) + "; " + found.operands);
  }

  void message(const MessageTable& found) {
    cplab::MessageTable table;
    table.kind = kind_named(found.kind);
    table.transport = transport_named(found.transport);
    table.group = found.group;
    table.path = found.inter ? Path::inter : Path::intra;
    if (table.transport == Transport::nccl)
      table.channels = found.channels > 0 ? found.channels : channels_before(table.kind);
    table.points = rising(found.points, found.kind + " over " + found.transport);
    table.provenance = measured(
        found.tool.empty() ? std::string(message_tool) + "; NCCL " + environment("nccl") : found.tool);
    if (table.path == Path::inter) require_network(table);
    if (table.kind == OpKind::exchange && table.path == Path::intra) raise_link(table);
    // Of the same kind over the same link a table of another group size says how messages move elsewhere.
    std::erase_if(into_.messages, [&](const cplab::MessageTable& old) {
      return old.kind == table.kind && old.transport == table.transport && old.path == table.path &&
             !old.cuda_graph && (old.provenance.origin == Origin::assumed || old.group == table.group);
    });
    into_.messages.push_back(std::move(table));
  }

  // Curves keep the link that they were measured over: start-ups are found with it.
  void link(double bytes_s, const std::string& tool) {
    for (cplab::MessageTable& table : into_.messages)
      if (table.link_bytes_s <= 0 && table.path == Path::intra) table.link_bytes_s = into_.node.link_bytes_s;
    into_.node.link_bytes_s = rounded(bytes_s);
    into_.node.provenance = measured(tool);
  }

  void interference(const Interference& found) {
    InterferenceRow row;
    row.kind = kind_named(found.kind);
    row.beside = transport_named(found.beside);
    double slowdown = found.slowdown;
    std::string note;
    if (row.beside == Transport::nccl && has_square_points(row.kind)) {
      slowdown *= static_cast<double>(machine_.sms - found.channels) / machine_.sms;
      note = found.channels > 0 ? "without what " + std::to_string(found.channels) + " of " +
                                      std::to_string(machine_.sms) + " multiprocessors explain"
                                : "multiprocessors of NCCL included: they were not measured";
    }
    row.slowdown = std::max(1.0, rounded(slowdown));
    row.provenance = measured("cplab calibrate: alone, beside, alone, beside a ring shift of all GPUs", note);
    std::erase_if(into_.interference, [&](const InterferenceRow& old) {
      return old.kind == row.kind && old.beside == row.beside;
    });
    into_.interference.push_back(std::move(row));
  }

  void finer(const FinerTables& found) {
    const auto all = [&](const auto& from, auto& to, const char* tool, auto alike) {
      for (auto table : from) {
        table.provenance = measured(tool);
        round(table);
        std::erase_if(to, [&](const auto& old) { return alike(old, table); });
        to.push_back(std::move(table));
      }
    };
    FinerTables& to = into_.finer;
    const auto form_key = [](const FormTable& t) {
      return std::tuple(t.kind, t.variant, t.dtype, t.head_size, t.causal, t.window, t.write, t.delta_inside,
                        t.rounded, t.row_runs, t.points.front().heads / t.points.front().kv_heads,
                        t.points.front().queries * 100 / t.points.front().keys);
    };
    all(found.forms, to.forms, kernel_tool,
        [&](const FormTable& a, const FormTable& b) { return form_key(a) == form_key(b); });
    all(found.pieces, to.pieces, "cplab calibrate: events around calls in a row, launches hidden, median",
        [](const PiecesTable& a, const PiecesTable& b) {
          return a.kind == b.kind && (a.kind == OpKind::copy || a.transport == b.transport);
        });
    all(found.beside, to.beside,
        "cplab calibrate: shifts of all GPUs alone, then with attention that begins 10 us later and lasts "
        "longer",
        [](const BesideTable& a, const BesideTable& b) {
          return a.kind == b.kind && a.transport == b.transport && a.beside == b.beside;
        });
    all(found.launches, to.launches,
        "cplab calibrate: host clock around launches on an idle GPU, all GPUs at once",
        [](const LaunchCost& a, const LaunchCost& b) {
          return a.kind == b.kind && a.transport == b.transport;
        });
    all(found.gemms, to.gemms, "cplab calibrate: events around calls in a row, launches hidden, median",
        [](const GemmTable& a, const GemmTable& b) { return a.dtype == b.dtype; });
    if (found.cards.attend_s.empty()) return;
    to.cards = found.cards;
    for (double& seconds : to.cards.attend_s) seconds = rounded(seconds);
    to.cards.provenance = measured(
        "cplab calibrate: attend of 1 x 8192 tokens, 16 heads of 128, one GPU after the other, under load");
  }

  // Kernels of bf16 that were measured have their fp16 from them.
  void mirror_fp16() {
    std::vector<KernelTable> mirrored;
    for (const KernelTable& table : into_.kernels) {
      if (table.dtype != cplab::DType::bf16 || table.provenance.origin != Origin::measured) continue;
      KernelTable copy = table;
      copy.dtype = cplab::DType::fp16;
      copy.variant = of_fp16(table.variant);
      copy.provenance = {};
      copy.provenance.source = "as bf16: the same tensor-core rate, the same bytes";
      mirrored.push_back(std::move(copy));
    }
    for (const KernelTable& table : mirrored)
      std::erase_if(into_.kernels, [&](const KernelTable& old) {
        return old.dtype == cplab::DType::fp16 && old.provenance.origin == Origin::assumed &&
               same_subject(old, table);
      });
    std::move(mirrored.begin(), mirrored.end(), std::back_inserter(into_.kernels));
  }

  // Tables that no machine can have.
  void drop_impossible() {
    for (int most = 1000; most > 0; --most) {
      std::vector<HardwareError> faults = faults_of(into_);
      if (faults.empty()) faults = implausible_rows(into_, {});
      const auto of_entry = std::find_if(faults.begin(), faults.end(),
                                         [](const HardwareError& error) { return error.entry >= 0; });
      if (of_entry == faults.end()) return;
      said.push_back("left out, because no machine can have it: " + of_entry->table + " " + of_entry->key +
                     ": " + of_entry->what());
      drop(*of_entry);
    }
  }

  std::vector<std::string> said;

 private:
  Provenance measured(const std::string& tool, const std::string& source = "") const {
    return {Origin::measured, tool, machine_.name(), machine_.date, source};
  }

  std::string environment(const std::string& key) const {
    for (const auto& [name, value] : machine_.environment)
      if (name == key) return value;
    return "?";
  }

  static std::string of_fp16(std::string variant) {
    if (const std::size_t at = variant.find("bf16"); at != std::string::npos) variant.replace(at, 4, "fp16");
    return variant;
  }

  std::vector<cplab::CurvePoint> rising(std::vector<CurvePoint> points, const std::string& what) {
    std::sort(points.begin(), points.end(),
              [](const CurvePoint& a, const CurvePoint& b) { return a.bytes < b.bytes; });
    std::vector<cplab::CurvePoint> result;
    for (const CurvePoint& point : points) result.push_back({point.bytes, rounded(point.seconds)});
    double most_lowered = 0;
    for (std::size_t i = result.size(); i-- > 1;) {
      if (result[i - 1].seconds <= result[i].seconds) continue;
      most_lowered = std::max(most_lowered, result[i - 1].seconds / result[i].seconds - 1);
      result[i - 1].seconds = result[i].seconds;
    }
    constexpr double much = 0.2;  // less is noise of short messages
    if (most_lowered > much)
      said.push_back(what + ": a smaller size took longer than a larger one, by up to " +
                     std::to_string(std::lround(100 * most_lowered)) + " %, and was lowered to that");
    return result;
  }

  void kernel(KernelTable table, const std::string& tool) {
    table.cold_l2 = true;
    table.provenance = measured(tool);
    std::erase_if(into_.kernels, [&](const KernelTable& old) {
      return old.provenance.origin == Origin::assumed && old.dtype == table.dtype && same_subject(old, table);
    });
    for (KernelTable& old : into_.kernels) {
      if (old.provenance.origin != Origin::measured || old.dtype != table.dtype ||
          !same_subject(old, table) || old.sustained != table.sustained || old.chunk != table.chunk ||
          old.tile_rows != table.tile_rows)
        continue;
      add_points(std::move(table), old);
      return;
    }
    into_.kernels.push_back(std::move(table));
  }

  // What is measured again counts anew.
  static void add_points(KernelTable from, KernelTable& to) {
    if (!from.curve.empty()) to.curve = std::move(from.curve);
    for (const KernelPoint& point : from.points) {
      std::erase_if(to.points, [&](const KernelPoint& old) {
        return old.batch == point.batch && old.sequence == point.sequence && old.heads == point.heads;
      });
      to.points.push_back(point);
    }
    std::sort(to.points.begin(), to.points.end(), [](const KernelPoint& a, const KernelPoint& b) {
      return std::tie(a.batch, a.sequence, a.heads) < std::tie(b.batch, b.sequence, b.heads);
    });
  }

  // Of a measurement that does not say: those of the kind's table, else of the exchange's, else as many as
  // NCCL takes on 4 x H200.
  int channels_before(OpKind kind) const {
    for (const OpKind of : {kind, OpKind::exchange})
      for (const cplab::MessageTable& table : into_.messages)
        if (table.kind == of && table.transport == Transport::nccl) return table.channels;
    return 16;
  }

  static constexpr double margin = 1.02;  // a start-up must be left

  static double fastest_of(const cplab::MessageTable& table) {
    double fastest = 0;
    for (const cplab::CurvePoint& point : table.points)
      fastest = std::max(fastest, point.bytes / point.seconds);
    return fastest;
  }

  // That carries the table: a NIC for each GPU, as fast as that takes.
  void require_network(const cplab::MessageTable& table) {
    NetworkSpec& network = into_.network;
    if (network.fabric.empty() || network.fabric == "none") {
      network.fabric = "non_blocking";
      network.nics = into_.node.gpus;
    }
    if (table.kind != OpKind::exchange && network.nic_bytes_s > 0) return;
    const double nics_per_gpu = std::max(1.0, static_cast<double>(network.nics) / into_.node.gpus);
    const double least = rounded(margin * fastest_of(table) / nics_per_gpu);
    if (least < network.nic_bytes_s) return;
    network.nic_bytes_s = least;
    network.provenance = {};
    network.provenance.source = "2 % above the fastest message between nodes";
  }

  void raise_link(const cplab::MessageTable& table) {
    const double fastest = fastest_of(table);
    if (fastest * margin < into_.node.link_bytes_s) return;
    into_.node.link_bytes_s = rounded(margin * fastest);
    into_.node.provenance = {};
    into_.node.provenance.source =
        "2 % above the fastest exchange, which is faster than the link of the base";
    said.push_back("node.link_bytes_s: raised to " + six_digits(into_.node.link_bytes_s) + ": " +
                   into_.node.provenance.source);
  }

  void drop(const HardwareError& error) {
    const auto erase = [&](auto& entries) { entries.erase(entries.begin() + error.entry); };
    if (error.table == "kernel") erase(into_.kernels);
    if (error.table == "message") erase(into_.messages);
    if (error.table == "interference") erase(into_.interference);
  }

  const Machine& machine_;
  Hardware& into_;
};

}  // namespace

std::vector<std::string> take(const Measurement& found, const Machine& machine, Hardware& into) {
  Taker taker(machine, into);
  taker.gpu(found.copy_bytes_s);
  if (found.communicator_bytes > 0 || machine.gpus == 1) taker.fixed(found.communicator_bytes);
  if (found.link_bytes_s > 0) taker.link(found.link_bytes_s, found.link_tool);
  for (const Host& host : found.host) taker.host(host);
  for (const AttentionTable& table : found.attention) taker.attention(table);
  for (const ChunkTable& table : found.chunks) taker.chunks(table);
  for (const CurveTable& table : found.curves) taker.curve(table);
  for (const MessageTable& table : found.messages) taker.message(table);
  for (const Interference& row : found.interference) taker.interference(row);
  taker.finer(found.finer);
  taker.mirror_fp16();
  taker.drop_impossible();
  return taker.said;
}

}  // namespace cplab::measure
