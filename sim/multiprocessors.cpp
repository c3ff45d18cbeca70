// Sharing of one GPU's multiprocessors; see the header for the rules.
#include "sim/multiprocessors.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace cplab {

Slowdowns::Slowdowns(const Hardware& hardware) {
  for (const InterferenceRow& row : hardware.interference)
    table[static_cast<std::size_t>(row.kind)][static_cast<std::size_t>(row.beside)] = {row.slowdown,
                                                                                       row.provenance.origin};
}

Multiprocessors::Multiprocessors(int sms, int reserved, const Slowdowns& slowdowns)
    : sms_(sms), reserved_(reserved), slowdowns_(&slowdowns) {}

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

void Multiprocessors::submit_communication(double now_us, std::uint32_t operation, int sms,
                                           Transport transport, std::vector<Event>& events) {
  advance(now_us);
  if (sms > 0) {
    waiting_communication_.push_back({operation, sms, transport});
    awaited_sms_ += sms;
  } else {
    ++residents_[static_cast<std::size_t>(transport)];
    events.push_back({EventKind::communication_placed, operation, no_operation});
  }
  assign(now_us, no_operation, events);
}

void Multiprocessors::release_communication(double now_us, std::uint32_t operation, int sms,
                                            Transport transport, std::vector<Event>& events) {
  advance(now_us);
  --residents_[static_cast<std::size_t>(transport)];
  communication_sms_ -= sms;
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

void Multiprocessors::assign(double now_us, std::uint32_t cause, std::vector<Event>& events) {
  // Make room: the kernel submitted last gives up its multiprocessors first.
  for (auto kernel = running_.rbegin(); kernel != running_.rend(); ++kernel) {
    const int excess = held_by_compute() - compute_limit();
    if (excess > 0 && at_boundary(*kernel)) kernel->share = std::max(0, held(*kernel) - excess);
  }
  int free = sms_ - communication_sms_ - held_by_compute();
  while (!waiting_communication_.empty() && waiting_communication_.front().sms <= free) {
    const Communication next = waiting_communication_.front();
    waiting_communication_.erase(waiting_communication_.begin());
    ++residents_[static_cast<std::size_t>(next.transport)];
    awaited_sms_ -= next.sms;
    communication_sms_ += next.sms;
    free -= next.sms;
    events.push_back({EventKind::communication_placed, next.operation, cause});
  }
  int room = std::min(free, compute_limit() - held_by_compute());
  for (Kernel& kernel : running_) {
    if (room <= 0) break;
    if (in_tail(kernel) && kernel.cost.waves > 1) continue;
    const int more = std::min(room, demand(kernel) - kernel.share);
    kernel.share += more;
    room -= more;
  }
  while (room > 0 && !waiting_.empty()) {
    Kernel kernel = waiting_.front();
    waiting_.erase(waiting_.begin());
    kernel.share = std::min(room, demand(kernel));
    room -= kernel.share;
    running_.push_back(kernel);
    events.push_back({EventKind::kernel_started, kernel.operation, cause});
  }
  update_rates(now_us);
  schedule(now_us);
}

void Multiprocessors::update_rates(double now_us) {
  for (Kernel& kernel : running_) {
    double slowdown = 1;
    for (std::size_t transport = 0; transport < residents_.size(); ++transport) {
      if (residents_[transport] == 0) continue;
      const Slowdowns::Entry& entry = slowdowns_->table[static_cast<std::size_t>(kernel.kind)][transport];
      slowdown = std::max(slowdown, entry.factor);
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
  const bool make_room = !waiting_communication_.empty() || held_by_compute() > compute_limit();
  for (const Kernel& kernel : running_) {
    next_us_ = std::min(next_us_, kernel.finish_us);
    if (in_tail(kernel) || kernel.rate <= 0 || (!make_room && waiting_.empty())) continue;
    // Only the tail frees multiprocessors for other compute; every wave's end does for communication.
    const double wave = wave_us(kernel);
    const double boundary = make_room ? (std::ceil(kernel.left_us / wave - slack(kernel)) - 1) * wave : wave;
    next_us_ = std::min(next_us_, now_us + (kernel.left_us - boundary) / kernel.rate);
  }
}

}  // namespace cplab
