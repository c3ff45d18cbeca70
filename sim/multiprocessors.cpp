// Sharing of one GPU's multiprocessors; see the header for the rules.
#include "sim/multiprocessors.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

namespace cplab {

Slowdowns::Slowdowns(const Hardware& hardware) {
  for (const InterferenceRow& row : hardware.interference)
    table[static_cast<std::size_t>(row.kind)][static_cast<std::size_t>(row.beside)] = {row.slowdown,
                                                                                       row.provenance.origin};
}

Slowdowns::Entry Contentions::factor(OpKind communication, Transport transport, OpKind kernel,
                                     double bytes) const {
  const BesideTable* found = nullptr;
  for (const BesideTable& table : *tables_) {
    if (table.transport != transport || table.beside != kernel || table.points.empty()) continue;
    if (table.kind == communication || (table.kind == OpKind::exchange && found == nullptr)) found = &table;
    if (table.kind == communication) break;
  }
  if (found == nullptr) return {};
  const std::vector<BesidePoint>& points = found->points;
  const auto ratio = [](const BesidePoint& point) { return std::max(1.0, point.beside_s / point.alone_s); };
  const auto above = std::find_if(points.begin(), points.end(),
                                  [&](const BesidePoint& point) { return point.bytes >= bytes; });
  double factor = 1;
  if (above == points.begin() || above == points.end()) {
    factor = ratio(above == points.end() ? points.back() : *above);
  } else {
    const BesidePoint& below = *std::prev(above);
    const double share = std::log(bytes / below.bytes) / std::log(above->bytes / below.bytes);
    factor = ratio(below) + share * (ratio(*above) - ratio(below));
  }
  return {factor, found->provenance.origin};
}

Multiprocessors::Multiprocessors(int sms, int reserved, const Slowdowns& slowdowns, int cluster)
    : sms_(sms), reserved_(reserved), cluster_(cluster), slowdowns_(&slowdowns) {}

int Multiprocessors::demand(const Kernel& kernel) const {
  return kernel.cost.waves > 1 ? sms_ : std::min(kernel.cost.tail_sms, sms_);
}

int Multiprocessors::held(const Kernel& kernel) const {
  return in_tail(kernel) ? std::min(kernel.share, kernel.cost.tail_sms) : kernel.share;
}

int Multiprocessors::held_by_compute() const {
  int sum = 0;
  for (const Kernel& kernel : running_) sum += held(kernel);
  return sum;
}

int Multiprocessors::held_alone() const {
  int sum = 0;
  for (const Kernel& kernel : running_)
    if (!kernel.cost.shares) sum += held(kernel);
  return sum;
}

Multiprocessors::Contention Multiprocessors::contention(const Contentions& contentions,
                                                        const Carried& message, double now_us) const {
  Contention most;
  for (const Kernel& kernel : running_) {
    if (kernel.share <= 0) continue;
    if (kernel.cost.shares && kernel.share <= sms_ - (message.sms + 1) / 2) continue;
    const Slowdowns::Entry entry =
        contentions.factor(message.kind, message.transport, kernel.kind, message.bytes);
    const double longer_us =
        std::min((entry.factor - 1) * message.alone_us, std::max(0.0, kernel.finish_us - now_us));
    if (longer_us > most.longer_us) most = {longer_us, entry.origin};
  }
  return most;
}

int Multiprocessors::compute_limit() const {
  return sms_ - std::max(reserved_, communication_sms_ + awaited_sms_);
}

// In waves. With a clock at minutes or millions of waves, rounding exceeds any fixed share of a wave: we
// would wake again and again for a boundary that lies less than an ulp of the clock ahead.
double Multiprocessors::slack(const Kernel& kernel) const {
  constexpr double roundings = 16 * std::numeric_limits<double>::epsilon();
  return std::max(tolerance, roundings * (updated_us_ + kernel.left_us) / wave_us(kernel));
}

bool Multiprocessors::at_boundary(const Kernel& kernel) const {
  const double waves_left = kernel.left_us / wave_us(kernel);
  return std::abs(waves_left - std::round(waves_left)) <= slack(kernel);
}

void Multiprocessors::advance(double now_us) {
  for (Kernel& kernel : running_) {
    kernel.left_us -= (now_us - updated_us_) * kernel.rate;
    kernel.lost_us += (now_us - updated_us_) * (1 - 1 / kernel.slowdown);
  }
  updated_us_ = now_us;
}

void Multiprocessors::submit_kernel(double now_us, std::uint32_t operation, OpKind kind,
                                    const KernelCost& cost, std::vector<Event>& events) {
  advance(now_us);
  Kernel kernel;
  kernel.operation = operation;
  kernel.kind = kind;
  kernel.cost = cost;
  kernel.left_us = cost.seconds * 1e6;
  waiting_.push_back(kernel);
  assign(now_us, no_operation, events);
}

void Multiprocessors::place(const Communication& next, std::uint32_t cause, std::vector<Event>& events) {
  Residents& residents = residents_[static_cast<std::size_t>(next.transport)];
  ++residents.count;
  residents.pressure += next.pressure;
  communication_sms_ += next.sms;
  events.push_back({EventKind::communication_placed, next.operation, cause});
}

void Multiprocessors::submit_communication(double now_us, std::uint32_t operation, int sms,
                                           Transport transport, double pressure, std::vector<Event>& events) {
  advance(now_us);
  const Communication next{operation, sms, transport, pressure};
  if (sms > 0) {
    waiting_communication_.push_back(next);
    awaited_sms_ += sms;
  } else {
    place(next, no_operation, events);
  }
  assign(now_us, no_operation, events);
}

void Multiprocessors::release_communication(double now_us, std::uint32_t operation, int sms,
                                            Transport transport, double pressure,
                                            std::vector<Event>& events) {
  advance(now_us);
  Residents& residents = residents_[static_cast<std::size_t>(transport)];
  --residents.count;
  residents.pressure = residents.count == 0 ? 0 : residents.pressure - pressure;
  communication_sms_ -= sms;
  together_ = sms;
  assign(now_us, operation, events);
}

void Multiprocessors::wake(double now_us, std::vector<Event>& events) {
  advance(now_us);
  std::uint32_t cause = running_.empty() ? no_operation : running_.front().operation;
  std::size_t kept = 0;
  for (Kernel& kernel : running_) {
    if (kernel.finish_us > now_us) {
      running_[kept++] = kernel;
      continue;
    }
    cause = kernel.operation;
    events.push_back({EventKind::kernel_finished, kernel.operation, no_operation, kernel.cost.origin,
                      kernel.lost_us, kernel.lost_origin});
  }
  running_.resize(kept);
  assign(now_us, cause, events);
}

// Whether thread blocks that come in clusters find room: a cluster lies within one GPC, and thread blocks of
// a kernel are spread evenly over the GPCs. GPCs have pairs of multiprocessors, 9 at most, some fewer (132:
// two of 18 and six of 16).
bool Multiprocessors::clusters_fit(int blocks, int free) const {
  if (cluster_ <= 1 || blocks % cluster_ != 0 || blocks <= together_) return true;
  constexpr int most_pairs = 9;
  const int pairs = sms_ / 2, gpcs = std::max(1, (pairs + most_pairs - 1) / most_pairs);
  std::vector<int> left(static_cast<std::size_t>(gpcs));
  for (int gpc = 0; gpc < gpcs; ++gpc)
    left[static_cast<std::size_t>(gpc)] = 2 * (pairs / gpcs + (gpc < pairs % gpcs ? 1 : 0));
  for (int busy = sms_ - free; busy > 0;)
    for (int& of_gpc : left)
      if (busy > 0 && of_gpc > 0) --of_gpc, --busy;
  int fit = 0;
  for (const int of_gpc : left) fit += of_gpc / cluster_ * cluster_;
  return fit >= blocks;
}

void Multiprocessors::assign(double now_us, std::uint32_t cause, std::vector<Event>& events) {
  // Make room: the kernel submitted last gives up its multiprocessors first.
  for (auto kernel = running_.rbegin(); kernel != running_.rend(); ++kernel) {
    const int excess = held_alone() - compute_limit();
    if (excess > 0 && !kernel->cost.persistent && !kernel->cost.shares && at_boundary(*kernel))
      kernel->share = std::max(0, held(*kernel) - excess);
  }
  int free = sms_ - communication_sms_ - held_alone();
  while (!waiting_communication_.empty() && waiting_communication_.front().sms <= free &&
         clusters_fit(waiting_communication_.front().sms, free)) {
    const Communication next = waiting_communication_.front();
    waiting_communication_.erase(waiting_communication_.begin());
    awaited_sms_ -= next.sms;
    free -= next.sms;
    place(next, cause, events);
  }
  // What a kernel may take more: all that compute leaves, and unless it shares them, only what is not kept
  // for communication.
  const auto room_for = [&](const Kernel& kernel) {
    const int left = sms_ - held_by_compute();
    return kernel.cost.shares ? left : std::min(left, std::min(free, compute_limit() - held_alone()));
  };
  for (Kernel& kernel : running_) {
    if (in_tail(kernel) && kernel.cost.waves > 1) continue;
    const int more = std::min(room_for(kernel), demand(kernel) - kernel.share);
    if (more <= 0) continue;
    kernel.share += more;
    if (!kernel.cost.shares) free -= more;
    together_ = 0;
  }
  while (!waiting_.empty() && room_for(waiting_.front()) > 0) {
    Kernel kernel = waiting_.front();
    waiting_.erase(waiting_.begin());
    kernel.share = std::min(room_for(kernel), demand(kernel));
    if (!kernel.cost.shares) free -= kernel.share;
    running_.push_back(kernel);
    together_ = 0;
    events.push_back({EventKind::kernel_started, kernel.operation, cause});
  }
  update_rates(now_us);
  schedule(now_us);
  if (samples_) keep_sample(now_us);
}

void Multiprocessors::keep_sample(double now_us) {
  const MultiprocessorSample now{now_us * 1e-6, static_cast<std::uint16_t>(held_by_compute()),
                                 static_cast<std::uint16_t>(communication_sms_)};
  if (!samples_->empty() && samples_->back().time_s == now.time_s) samples_->pop_back();
  const bool same = !samples_->empty() && samples_->back().compute == now.compute &&
                    samples_->back().communication == now.communication;
  if (!same) samples_->push_back(now);
}

void Multiprocessors::update_rates(double now_us) {
  for (Kernel& kernel : running_) {
    double slowdown = 1;
    for (std::size_t transport = 0; transport < residents_.size(); ++transport) {
      if (residents_[transport].count == 0) continue;
      const double pressure = std::min(1.0, residents_[transport].pressure);
      const Slowdowns::Entry& entry = slowdowns_->table[static_cast<std::size_t>(kernel.kind)][transport];
      slowdown = std::max(slowdown, 1 + (entry.factor - 1) * pressure);
      if (entry.factor > 1) kernel.lost_origin = worst(kernel.lost_origin, entry.origin);
    }
    kernel.slowdown = slowdown;
    const int useful = kernel.cost.useful_sms;
    const double rate =
        static_cast<double>(std::min(kernel.share, useful)) / (std::min(demand(kernel), useful) * slowdown);
    if (rate == kernel.rate) continue;  // finish_us still holds
    kernel.rate = rate;
    kernel.finish_us =
        rate > 0 ? now_us + std::max(0.0, kernel.left_us) / rate : std::numeric_limits<double>::infinity();
  }
}

void Multiprocessors::schedule(double now_us) {
  next_us_ = std::numeric_limits<double>::infinity();
  const bool make_room = !waiting_communication_.empty() || held_alone() > compute_limit();
  for (const Kernel& kernel : running_) {
    next_us_ = std::min(next_us_, kernel.finish_us);
    if (in_tail(kernel) || kernel.rate <= 0 || (!make_room && waiting_.empty())) continue;
    // Only the tail frees multiprocessors for other compute; every wave's end does for communication.
    const double wave = wave_us(kernel);
    const double boundary = make_room && !kernel.cost.persistent
                                ? (std::ceil(kernel.left_us / wave - slack(kernel)) - 1) * wave
                                : wave;
    next_us_ = std::min(next_us_, now_us + (kernel.left_us - boundary) / kernel.rate);
  }
}

}  // namespace cplab
