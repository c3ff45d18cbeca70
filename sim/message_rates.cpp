// What message curves say over links of any speed: start-up and efficiency.
#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/hardware.hpp"

namespace cplab {
namespace {

// Of how many parts, each over what the table was measured over, a flow is made.
double parts_of(const Hardware& hardware, const MessageTable& table) {
  if (table.path != Path::inter || table.nics_per_gpu <= 0) return 1;
  return std::max(1.0, static_cast<double>(hardware.nics_per_gpu()) / table.nics_per_gpu);
}

const Provenance& links_of(const Hardware& hardware, const MessageTable& table) {
  return table.path == Path::intra ? hardware.node.provenance : hardware.network.provenance;
}

}  // namespace

double startup_s(const MessageTable& table, double link_bytes_s) {
  double result = std::numeric_limits<double>::infinity();
  for (const CurvePoint& point : table.points)
    result = std::min(result, point.seconds - point.bytes / link_bytes_s);
  return result;
}

double link_scale(const Hardware& hardware, const MessageTable& table) {
  const bool flow = table.kind == OpKind::exchange;
  const double link = flow ? hardware.link_bytes_s(table.path) / parts_of(hardware, table)
                           : hardware.share_bytes_s(table.path);
  const double scale = hardware.curve_bytes_s(table) / link;
  constexpr double rounding = 1e-12;
  return std::abs(scale - 1) < rounding ? 1 : scale;
}

Estimate message_time(const Hardware& hardware, const MessageTable& table, double bytes, double slower) {
  Estimate estimate = lookup(table.points, bytes, table.provenance.origin);
  const double scale = link_scale(hardware, table) * slower;
  if (scale == 1) return estimate;
  const double startup = std::max(0.0, startup_s(table, hardware.curve_bytes_s(table)));
  estimate.seconds = startup + (estimate.seconds - startup) * scale;
  estimate.origin = worst(estimate.origin, worst(links_of(hardware, table).origin, Origin::extrapolated));
  return estimate;
}

FlowRate flow_rate(const Hardware& hardware, const MessageTable& table, double bytes) {
  const double curve = hardware.curve_bytes_s(table), parts = parts_of(hardware, table);
  const Provenance& links = links_of(hardware, table);
  FlowRate rate;
  rate.startup_s = std::max(0.0, startup_s(table, curve));
  const Estimate estimate = message_time(hardware, table, bytes / parts);
  rate.bytes_s = bytes / (estimate.seconds - rate.startup_s);
  rate.origin = estimate.origin;
  // A link that ranks share.
  if (hardware.share_bytes_s(table.path) < curve) rate.origin = worst(rate.origin, links.origin);
  if (parts > 1) rate.origin = worst(rate.origin, worst(links.origin, Origin::extrapolated));
  return rate;
}

}  // namespace cplab
