// The chain of operations that determines a time, predicted or measured, by what its parts use: which rank,
// which link or NIC, which kind of operation.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "plan/plan.hpp"

namespace cplab {

class JsonWriter;

// Shares (0 to 1) of the chain of operations that ends last, both phases, by what its operations use. Waiting
// for a peer is what the peer did meanwhile. They sum to 1, or are all 0.
struct ChainShares {
  double attention = 0;      // attend, attend_backward
  double other_kernels = 0;  // merge, copy, cast, ...
  double communication = 0;  // transfers with their start-up
  double host = 0;           // launches and latencies
};

// Seconds by what an operation uses: attention kernels, the other kernels, links, or the host alone.
struct UseSeconds {
  double attention = 0, other_kernels = 0, communication = 0, host = 0;
  void add(OpKind kind, double s);
  double total() const { return attention + other_kernels + communication + host; }
  ChainShares shares() const;
};

// gpu, cpu: the kernels of a rank. link, nic: what moves from a rank to its peer inside a node, or over the
// network. startup: of a message, before it moves. message: all of one in a run, which tells these three not
// apart. host: launches and latencies; in a run whatever else passed while nothing ran that is waited for.
enum class ChainResource : std::uint8_t { gpu, link, nic, startup, host, cpu, message };
std::string_view name(ChainResource);

// A faster `resource` of that rank, and of its peer, makes at most `seconds` of the chain shorter.
struct ChainPart {
  ChainResource resource = ChainResource::gpu;
  OpKind kind = OpKind::attend;  // of host: host_sync, whatever waited for it
  std::int32_t rank = -1;        // of a message the sender
  std::int32_t peer = -1;        // the receiver; -1: a kernel, a launch, or a collective of all members
  double seconds = 0;
};

// A stretch of the chain in time: what one operation did from begin_s to end_s, or, of `host`, what passed
// before it could start. Stretches touch each other.
struct ChainStep {
  double begin_s = 0, end_s = 0;
  std::int32_t rank = -1;       // global
  std::uint32_t operation = 0;  // index into RankPlan::operations
  bool host = false;
};

// The largest parts, the first the largest; the chain has no others if there are fewer than fit.
struct ChainParts {
  std::array<ChainPart, 48> largest{};
  std::uint32_t count = 0;
  std::span<const ChainPart> all() const { return {largest.data(), count}; }
};

// "attend_backward on rank 3 61.0 %, exchange rank 3 -> 4 over NIC 22.1 %, ...": parts of one kind and
// resource together, of which the ranks are named if they are few; those of a percent of `time_s` and more.
std::string chain_text(const ChainParts&, double time_s);
// The member chain_parts[]: resource, kind ("launch" of host), rank, peer (-1: none), time_s, share.
void write_chain_parts(JsonWriter&, const ChainParts&, double time_s);

}  // namespace cplab
