// A machine as the simulator sees it: nodes, network, GPU, host, and tables of measured times. Mirrors the
// hardware file (scenarios/hardware/*.toml, read by cli/files/hardware_file); docs/05-cost-model.md says what
// the numbers mean. Seconds and bytes; bandwidth is wire bytes sent per rank per second.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/choice/kernel_choice.hpp"
#include "kernels/choice/measured_choices.hpp"
#include "kernels/families/rates.hpp"
#include "plan/plan.hpp"
#include "report/origin_seconds.hpp"
#include "report/timeline.hpp"
#include "sim/accuracy.hpp"
#include "sim/class_efficiency.hpp"
#include "sim/disturbance.hpp"
#include "sim/finer_tables.hpp"

namespace cplab {

// The hardware file cannot serve the plan: `table` ("kernel", "message", "network", ...), `key` says which
// entry ("class=attend_backward dtype=fp16"), what() what is wrong with it. Exit code 2.
struct HardwareError : std::runtime_error {
  HardwareError(std::string table_, std::string key_, const std::string& message);
  std::string table, key;
  int entry = -1;  // in the file's list of such tables ([[kernel]], [[message]], [[interference]]); -1: none
};

Origin worst(Origin a, Origin b);

// A duration and where it comes from.
struct Estimate {
  double seconds = 0;
  Origin origin = Origin::assumed;
};

// Times over bytes, piecewise linear in bytes between points (ascending, seconds not descending). At a point:
// the table's own origin; between: interpolated; below the first point its time, above the last its
// bandwidth: extrapolated.
struct CurvePoint {
  double bytes = 0;
  double seconds = 0;
};
Estimate lookup(const std::vector<CurvePoint>& points, double bytes, Origin table_origin);

// Ranks fill nodes in order: rank r is GPU r mod gpus of node r / gpus.
struct NodeSpec {
  int gpus = 0;
  double link_bytes_s = 0;  // of each GPU into the node's crossbar, and the same out of it
  Provenance provenance;
};

// A switch of this level joins `nodes` nodes (all their NICs, or with rails one of each); up_bytes_s is all
// its uplinks together, one direction (traffic is spread over them evenly). The switches above the last level
// do not block.
struct SwitchLevel {
  int nodes = 0;
  double up_bytes_s = 0;
};

struct NetworkSpec {
  std::string fabric;  // a name of sim/fabrics.hpp; empty: "none", one node
  // Per node. As many as GPUs, or fewer: GPU g uses NIC g * nics / gpus, which its flows share with those of
  // the other GPUs there; or a multiple: each GPU spreads every flow over nics / gpus of its own.
  int nics = 0;
  double nic_bytes_s = 0;  // each direction
  int max_nodes = 0;       // 0: as many as asked for
  std::vector<SwitchLevel> levels;
  Provenance provenance;
};

struct GpuSpec {
  std::string name;
  int sms = 0;
  std::int64_t capacity_bytes = 0;
  double copy_bytes_s = 0;  // bytes read plus bytes written
  // Major compute capability (9: Hopper): which kernels of linear attention it runs. 0: the file does not
  // say; then those that every GPU has.
  int sm_major = 0, sm_minor = 0;
  // By dtype name; all that are known, those of dtypes that no plan has too. Bounds kernels of linear
  // attention that no table has.
  std::vector<std::pair<std::string, double>> peak_flops;
  double peak(std::string_view dtype) const;  // 0: the file does not say
  // What any kernel takes, however little it does. Files may leave it out: then usual_least_kernel_s, which
  // is assumed.
  double least_kernel_s = 0;
  Origin least_kernel_origin = Origin::assumed;
  Provenance provenance;
};
// An empty kernel between two others on an H100 or H200, and the least that any of their tables has.
constexpr double usual_least_kernel_s = 2e-6;

// Kernels of linear attention that no table has (linear_cost.hpp). The file may leave it out: these are then
// times of a loop of a few dependent loads, tensor-core products and barriers, and of an empty kernel.
struct LinearSpec {
  double step_s = 2e-6;   // in which a thread block takes 64 tokens, the next after the last
  double floor_s = 2e-6;  // of any kernel
  Provenance provenance{Origin::assumed, "", "", "", "usual figures"};
};

// Kernels that go over their operands once and that no table has: merge, copy, cast, add, maximum, fill,
// row_dot. Those of frameworks move a part of what one large copy does.
bool is_elementwise(OpKind);
struct ElementwiseSpec {
  // Of copy_bytes_s, by class; a class that is not here has all of it.
  std::vector<std::pair<OpKind, double>> efficiency;
  // Attention kernels of the file neither add to what is there nor merge with it: they store their results,
  // and an element-wise kernel behind each reads them and what is there and writes the sum, 3 times the
  // bytes.
  bool apart = false;
  // Before each attention kernel its operands are gathered (read, written), and its results are scattered
  // into zeros behind it (written, read, written): programs that take any lengths do so even where none
  // differs. At the rate of class copy.
  bool gathers = false;
  Provenance provenance;

  double of(OpKind) const;  // 1 where the file does not say
  bool says(OpKind) const;
};

// A GPU that was idle runs at its highest clock at first. After so long under load its power limit, which is
// a mean over time, bounds the clock; attention at its highest clock is `speed` times as fast as attention
// alone after that. Where attention takes at most `share` of the time, the clock does not fall (clocks.hpp).
struct BurstSpec {
  double seconds = 0;  // 0: the file does not say
  double speed = 1;
  double small_heads_speed = 1;  // of head sizes up to 64, whose kernels draw less power
  double share = 0;              // 0: the file does not say, and the clock is that of attention alone
  Provenance provenance;
};

struct HostSpec {
  double kernel_launch_s = 0;         // host time to issue a kernel,
  double communication_launch_s = 0;  // an NCCL group or collective,
  double copy_launch_s = 0;           // an exchange or collective by copy engines
  double launch_latency_s = 0;        // from the end of the issue to the earliest start on the device
  double dependency_s = 0;            // from the end of an operation to the start of one on another lane
  double sync_s = 0;                  // for the host to notice that a lane has come to a host_sync
  double graph_launch_s = 0;          // one launch of a whole CUDA graph
  double graph_node_s = 0;            // replaces dependency_s inside a graph
  std::int64_t run_ahead = 1024;      // operations issued and not complete, at most
  Provenance provenance;

  // All of them but run_ahead, by the name of their key.
  std::array<std::pair<const char*, double>, 8> times() const;
};

// One kernel class; several tables of one class, dtype, sizes and mask are one larger table. attend,
// attend_backward: points over (batch, sequence, heads) of square attention with as many key/value heads.
// local, local_backward, state, scan, inter: points over (tokens, heads), batch 1 and `sequence` the tokens
// of all sequences. All others: curve over bytes read plus written (optional; else gpu.copy_bytes_s).
bool has_square_points(OpKind);  // attend, attend_backward
bool has_chunk_points(OpKind);   // local, local_backward, state, scan, inter
struct KernelPoint {
  std::int64_t batch = 0, sequence = 0, heads = 0;
  double seconds = 0;
};
struct KernelTable {
  OpKind kind = OpKind::attend;
  std::string variant;
  DType dtype = DType::bf16;
  std::int64_t head_size = 0, value_size = 0;
  bool causal = false;
  int tile_rows = 128;  // rows of one thread block: query rows forward, key rows backward
  // What rows cost beside the FLOPs lies on both sides (a backward that is parallel over keys and writes the
  // gradients of queries besides): its rate is looked up by the harmonic mean of keys per query and queries
  // per key, since the time of a FLOP is linear in 1 / rows. Else by keys per query alone.
  bool both_sides = false;
  int sms = 0;            // multiprocessors of the GPU it was measured on; 0: as gpu.sms
  bool sustained = true;  // at the clock of a GPU under load; else at its highest (BurstSpec)
  bool cold_l2 = false;
  // Of classes with chunk points: how the work was cut; tokens of a chunk (0: a sequence is one chunk); how
  // many sequences share the tokens; the operands that are states, and of inter the results (none: out, or
  // with states of queries all three gradients; linear_work.hpp, linear_point).
  ChunkWork cut = ChunkWork::blocked;
  std::int64_t chunk = 0, sequences = 1;
  std::vector<Operand> states, results;
  std::vector<KernelPoint> points;
  std::vector<CurvePoint> curve;
  Provenance provenance;
};

// intra: all members in one node. inter: over the network.
enum class Path : std::uint8_t { intra, inter };
std::string_view name(Path);

// Measured with all ranks busy unless `alone`. Bytes: wire bytes sent per rank (a barrier sends none: its
// first time counts). Collectives: of a group of exactly `group` ranks, all parts equal. exchange: a shift by
// one neighbour.
struct MessageTable {
  OpKind kind = OpKind::exchange;
  Transport transport = Transport::nccl;
  Path path = Path::intra;
  int group = 0;
  int channels = 0;  // multiprocessors that the communication kernel occupies; 0 for copy engines
  bool alone = false;
  bool cuda_graph = false;  // measured inside a CUDA graph; used in that mode only
  // Of all_gather and all_to_all: of a library's whole call, in which what a rank gives itself moves beside
  // the rest and a part is one piece. Else messages carry them, piece by piece, behind the copy of the own
  // part.
  bool whole = false;
  // The link that it was measured over: of an exchange what one flow could have of it, of a collective a
  // rank's share; and the NICs of a GPU, of path inter. 0: as the machine's.
  double link_bytes_s = 0;
  int nics_per_gpu = 0;
  std::vector<CurvePoint> points;
  Provenance provenance;
};

// A kernel of this class takes `slowdown` times as long while communication of that transport is resident.
struct InterferenceRow {
  OpKind kind = OpKind::attend;
  Transport beside = Transport::nccl;
  double slowdown = 1;
  Provenance provenance;
};

// How `run` would choose among kernels of attention (--choose). No hardware file says this.
struct VariantChoice {
  kernels::ChoiceWay way = kernels::ChoiceWay::table;
  std::shared_ptr<const kernels::cuda::MeasuredChoices> measured = {};  // of autotune and hybrid
  // The kernels of the build that would `run`: kernels::cuda::KernelBuild.
  bool hopper = true, full = false;
};

class KnownVariants;  // attention_variant.hpp

struct Hardware {
  std::string name;
  NodeSpec node;
  NetworkSpec network;
  GpuSpec gpu;
  HostSpec host;
  LinearSpec linear;
  ElementwiseSpec elementwise;
  BurstSpec burst;
  std::vector<KernelTable> kernels;
  std::vector<MessageTable> messages;
  std::vector<InterferenceRow> interference;
  FinerTables finer;
  // The file is one of a data sheet: it has [efficiency], and what it leaves out is as measured on another
  // machine (data_sheet.hpp). Planners ask efficiency_of(), which answers for every machine.
  bool data_sheet = false;
  ClassEfficiency efficiency;
  std::vector<KindAccuracy> accuracy;  // of held-out runs on this machine
  // The file was calibrated with other kernels than those of this build, which widens its bands.
  bool other_kernels = false;
  std::int64_t fixed_bytes = 0;  // per GPU, outside the plan: context, NCCL buffers
  Provenance fixed;
  std::vector<std::pair<std::string, std::string>> environment;  // driver, CUDA, NCCL, NCCL_* as measured
  // A what-if: every attention kernel takes its time over this. No file says it.
  double attention_speed = 1;
  VariantChoice choice;
  kernels::cuda::Rates rates = kernels::cuda::shipped_rates(9, 0);  // of our kernels on this GPU
  // GPUs that are slower than the rest, by number, the first node's first. A planner takes them from here
  // (decide/); simulate() takes them as options, by rank.
  std::vector<SlowRank> slow;
  std::string kernels_of;          // the library whose attention kernels the tables time; empty: our own
  std::vector<std::string> notes;  // to be said with every answer
  std::string sha256;              // of its file and, behind it, of those that it includes

  // The memory and the peaks that the kernel tables were measured with, where `gpu` was changed since; 0 and
  // empty: the same. Tables are a start-up and a share of what the GPU has: another memory or peak moves the
  // rest of their time in proportion.
  double curve_copy_bytes_s = 0;
  std::vector<std::pair<std::string, double>> curve_peak_flops;
  // Major compute capability of the GPU that the kernel tables were measured on, where `gpu` says another.
  int curve_sm_major = 0;

  // `gpu` with the memory, peaks and compute capability that the kernel tables were measured with.
  GpuSpec measured_gpu() const;
  // How many times as long as there what memory bounds takes on `gpu`, and what the peak of a dtype bounds.
  double copy_scale() const;
  double peak_scale(DType) const;
  // Which kernels take calls of attention, as far as it was found: whoever asks about the same plan several
  // times makes it (make_known_variants()). It is left alone where what a choice depends on was changed
  // since.
  std::shared_ptr<KnownVariants> known_variants = {};

  int node_of(int rank) const { return rank / node.gpus; }
  // NICs of a GPU: at least 1, which several GPUs may share.
  int nics_per_gpu() const;
  // What one rank can send on that path when no other rank of its node sends, and when all do at once.
  double link_bytes_s(Path) const;
  double share_bytes_s(Path) const;
  // The first (exchanges, which say what one flow moves) or the second (collectives) for the link that the
  // curve was measured over: start-ups are found with these.
  double curve_bytes_s(const MessageTable&) const;
};

// Throws HardwareError for a machine that cannot be: sizes that are not positive, numbers beyond what any
// machine has (times above 1e6 s, 1e18 bytes, 1e18 bytes/s), tables out of order, a message curve faster than
// the links that carry it, ...
void validate(const Hardware&);
// All that validate would throw, first things first; of each entry of a list the first.
std::vector<HardwareError> faults_of(const Hardware&);

// Parallel::islands of `world` ranks: those of a node share one where the file says how fast copy engines
// move a message within it; else each has its own.
std::vector<int> islands_of(const Hardware&, int world);

// Throws HardwareError if `world` ranks do not fit.
void require_ranks(const Hardware&, std::int64_t world);

// The start-up that a message curve contains: the largest one for which the rest of every time is carried at
// no more than the link's bandwidth, min over points of seconds - bytes / link_bytes_s. Not positive where
// switches reduce or copy, and a collective is faster than its wire bytes could be.
double startup_s(const MessageTable&, double link_bytes_s);

// How many times as long the machine's link takes for the same bytes as the link that the curve was measured
// over; above 1: it is slower. Of a GPU with more NICs than the table was measured with, one of their parts.
double link_scale(const Hardware&, const MessageTable&);

// A curve is a start-up and an efficiency: over another link than its own the start-up stays, and what is
// left of its time is as many times longer. So a link of twice the speed moves a message in less time, and
// one of half in more, by as much of the time as the bytes take. Over its own link the time of the table, to
// the bit; over another it is no better known than that link, and extrapolated at best. `slower`: how many
// times as slow as the machine's the link is besides.
Estimate message_time(const Hardware&, const MessageTable&, double bytes, double slower = 1);

// How flows of `bytes` in all move by a table: they start after startup_s and then go at bytes_s together,
// which sharing of links may lower; alone they take message_time. Of a GPU with more NICs than the table was
// measured with, each takes its part of the bytes as the table's did.
struct FlowRate {
  double startup_s = 0, bytes_s = 0;
  Origin origin = Origin::measured;
};
FlowRate flow_rate(const Hardware&, const MessageTable&, double bytes);

// What a table is looked up for. bytes: wire bytes that a rank sends.
struct MessageUse {
  OpKind kind = OpKind::exchange;
  Transport transport = Transport::nccl;
  Path path = Path::intra;
  int group = 2;
  double bytes = 0;
  bool cuda_graph = false;
};

// Several tables of the same conditions are one larger table: the one whose points enclose the bytes counts,
// or come nearest to them, a measured one before an assumed one. In CUDA-graph mode one measured in a graph
// if there is one. `origin_floor` is extrapolated where group, mode or `alone` differ from the use.
struct MessageChoice {
  const MessageTable* table = nullptr;
  Origin origin_floor = Origin::measured;
};
// The table that says how fast flows of that kind start and move: of the kind itself, of the group size
// nearest by ratio; without one, the exchange's. Throws HardwareError if there is none of either.
MessageChoice find_flow(const Hardware&, const MessageUse&);
// The kind's own table for exactly this group size; table is null if there is none.
MessageChoice find_collective(const Hardware&, const MessageUse&);

}  // namespace cplab
