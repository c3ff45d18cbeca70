// See chain_sum.hpp.
#include "report/chain_sum.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "report/critical_path.hpp"

namespace cplab {

void ChainSum::put(ChainResource resource, OpKind kind, std::int32_t rank, std::int32_t peer,
                   double seconds) {
  if (seconds > 0) sums_[{resource, kind, rank, peer}] += seconds;
}

void ChainSum::add_host(std::int32_t rank, double seconds) {
  put(ChainResource::host, OpKind::host_sync, rank, -1, seconds);
}

void ChainSum::add(std::int32_t rank, OpKind kind, const Cause& cause, double seconds, bool moving) {
  if (kind == OpKind::host_sync) return add_host(rank, seconds);
  if (!is_communication(kind)) return put(processor_, kind, rank, -1, seconds);
  const bool to_itself = cause.far_rank == rank;
  if (to_itself) return put(processor_, kind, rank, -1, seconds);
  const std::int32_t from = cause.far_rank >= 0 && !cause.sends ? cause.far_rank : rank;
  const std::int32_t to = cause.far_rank < 0 ? -1 : cause.sends ? cause.far_rank : rank;
  double startup_s = moving ? std::min(seconds, static_cast<double>(cause.startup_us) * 1e-6) : seconds;
  if (cause.carrier == ChainResource::message) startup_s = 0;  // not told apart
  put(ChainResource::startup, kind, from, to, startup_s);
  put(cause.carrier, kind, from, to, seconds - startup_s);
}

ChainParts ChainSum::parts() const {
  std::vector<ChainPart> all;
  for (const auto& [key, seconds] : sums_)
    all.push_back({std::get<0>(key), std::get<1>(key), std::get<2>(key), std::get<3>(key), seconds});
  std::stable_sort(all.begin(), all.end(),
                   [](const ChainPart& a, const ChainPart& b) { return a.seconds > b.seconds; });
  ChainParts parts;
  parts.count = static_cast<std::uint32_t>(std::min(all.size(), parts.largest.size()));
  std::copy_n(all.begin(), parts.count, parts.largest.begin());
  return parts;
}

}  // namespace cplab
