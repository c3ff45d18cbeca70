// What is measured of a machine, as data. Medians after warm-up, on random data; launch cost is hidden by
// queueing all launches of a sample behind a kernel that waits for the host. Seconds and bytes.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "kernels/linear.hpp"
#include "sim/finer_tables.hpp"

namespace cplab::measure {

// A CUDA or NCCL call failed, or the machine lacks what is to be measured. Exit code 3.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::string today();  // "2026-11-29", UTC

// Square attention of `batch` sequences as one call, as many key heads as heads.
struct AttentionShape {
  std::int64_t batch = 0, sequence = 0, heads = 0, head_size = 0;
  bool causal = false;
  bool operator==(const AttentionShape&) const = default;
};

// How one part of a measurement is made (parts.hpp).
struct Options {
  int gpus = 0;               // of the machine: 0 to gpus - 1 take part
  int sms = 0, channels = 0;  // of a GPU; those that the largest exchange over NCCL holds, 0: unknown
  std::int64_t l2_bytes = 0;
  double most_s = 120;  // points that would begin later are left out, and named
  std::uint64_t seed = 1;
  std::vector<AttentionShape> asked = {};  // points beside those of the grid
};

// The machine itself, and what a context with the kernels of this build takes on a GPU.
struct Machine {
  std::string gpu, driver, date;
  int gpus = 0, sms = 0, sm_major = 0, sm_minor = 0;
  int nodes = 1;  // like this one, between which messages are measured
  std::int64_t capacity_bytes = 0, l2_bytes = 0, context_bytes = 0;
  std::string context_source;  // how context_bytes was found
  std::vector<std::pair<std::string, std::string>> environment;
  std::string name() const { return std::to_string(gpus) + " x " + gpu; }
};

// Square attention of `batch` sequences as one call, bf16, as many key/value heads as heads; the operands
// rotate among sets that do not fit into L2 together.
struct AttentionPoint {
  std::int64_t batch = 0, sequence = 0, heads = 0;
  double seconds = 0;
  bool settled = false;  // at the clock that the GPU keeps under load; else at its highest
};
struct AttentionTable {
  std::string kind, variant;  // "attend"; "attend mma bf16 128"
  std::int64_t head_size = 0;
  bool causal = false;
  int tile_rows = 0;  // 0: the kernel does not say
  std::vector<AttentionPoint> points;
};

// A class of linear attention, bf16, one sequence in chunks of `chunk` tokens (0: it is one chunk).
struct ChunkPoint {
  std::int64_t tokens = 0, heads = 0;
  double seconds = 0;
};
struct ChunkTable {
  std::string kind, variant;  // "local"
  kernels::ChunkWork cut = kernels::ChunkWork::blocked;
  std::vector<std::string> states, results;  // results: of inter
  std::int64_t key_size = 0, value_size = 0, chunk = 0;
  std::vector<ChunkPoint> points;
};

// Bytes as in Operation::bytes: read plus written; what is added to or merged into counts twice.
struct CurvePoint {
  double bytes = 0, seconds = 0;
};
struct CurveTable {
  std::string kind, variant;  // "merge"
  std::string operands;       // dtypes: "bf16 into fp32"
  std::vector<CurvePoint> points;
};

// Bytes are wire bytes sent per rank.
struct MessageTable {
  std::string kind, transport;  // "exchange", "nccl"
  int group = 0;
  int channels = 0;  // multiprocessors that the kernel of the largest message holds; 0 for copy engines
  std::vector<CurvePoint> points;
  std::vector<std::pair<double, int>> channels_by_bytes;  // as probed
  std::string tool;                                       // of another program; empty: ours
  bool inter = false;                                     // between nodes, one rank on each
};

struct Host {
  double kernel_launch_s = 0;         // one prepared kernel call
  double tiny_kernel_launch_s = 0;    // an empty kernel without arguments, for comparison
  double communication_launch_s = 0;  // grouped ncclSend and ncclRecv; 0: not measured
  double copy_launch_s = 0;           // two waits, a peer copy, two records; 0: not measured
  double launch_latency_s = 0;        // from the return of a launch to the first store of the kernel, as seen
                                      // by the host
  double sync_s = 0;          // cudaStreamSynchronize beyond the host's seeing the kernel's last store
  double back_to_back_s = 0;  // one empty kernel behind another on one stream
  double dependency_s = 0;    // what an event between two streams adds to that
  double graph_launch_s = 0;  // intercept over nodes of graph launch to synchronized, less sync_s
  double graph_call_s = 0;    // host time of cudaGraphLaunch alone (100 nodes)
  double graph_step_s = 0;    // slope: one empty kernel behind another inside a graph
  double graph_node_s = 0;    // max(0, graph_step_s - back_to_back_s)
};

// Measured by turns: alone, beside, alone, beside; medians of the time of one call, the slowest rank's.
struct Interference {
  std::string kind, beside;
  double alone_s[2] = {}, beside_s[2] = {};
  double slowdown = 0;  // mean of beside over mean of alone; multiprocessors taken by NCCL included
  int channels = 0;     // so many
};

// What one part found; the other members are empty.
struct Measurement {
  double copy_bytes_s = 0;              // 0: not measured
  std::int64_t communicator_bytes = 0;  // of NCCL on each GPU; 0: not measured
  double link_bytes_s = 0;              // between two GPUs of a node, one direction; 0: not measured
  std::string link_tool;                // that measured it
  std::vector<AttentionTable> attention;
  std::vector<ChunkTable> chunks;
  std::vector<CurveTable> curves;
  std::vector<MessageTable> messages;
  std::vector<Host> host;  // one or none
  std::vector<Interference> interference;
  FinerTables finer;                  // without where they come from
  std::vector<std::string> left_out;  // and why
};

}  // namespace cplab::measure
