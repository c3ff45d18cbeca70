// Part after part; see calibration.hpp.
#include "calibrate/calibration.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "calibrate/fill.hpp"
#include "exec/repeated.hpp"

namespace cplab::measure {
namespace {

std::string seconds_text(double seconds) {
  return std::to_string(std::lround(seconds)) + " s";
}

std::string percent_text(double ratio) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", 100 * ratio);
  return text;
}

int channels_of(const Hardware& hardware) {
  for (const cplab::MessageTable& table : hardware.messages)
    if (table.kind == OpKind::exchange && table.transport == Transport::nccl &&
        table.group == hardware.node.gpus && table.provenance.origin == Origin::measured)
      return table.channels;
  return 0;
}

std::string left_out_text(const Part& part, const Machine& machine) {
  std::string text = std::string(part.name) + ": " + std::string(part.what);
  if (part.least_gpus > machine.gpus)
    return text + ", which need " + std::to_string(part.least_gpus) + " GPUs";
  if (part.least_nodes > machine.nodes)
    return text + ", which need " + std::to_string(part.least_nodes) + " nodes";
  return text;
}

class Calibrator {
 public:
  Calibrator(State& state, Measurer& measurer, double budget_s, const Talk& talk)
      : state_(state),
        measurer_(measurer),
        budget_s_(budget_s),
        talk_(talk),
        before_s_(state.record.seconds) {
    // Of an earlier call: points that its parts left out.
    for (const std::string& left : state.record.left_out)
      if (std::none_of(all_parts().begin(), all_parts().end(),
                       [&](const Part& part) { return left == left_out_text(part, measurer.machine()); }))
        points_left_out_.push_back(left);
  }

  void begin() {
    Record& record = state_.record;
    for (const std::string& other : measurer_.others()) warn("another process on the GPUs: " + other);
    if (record.clocks_before.empty()) record.clocks_before = measurer_.clocks();
    if (const std::string wrong = measurer_.wrong_results(); !wrong.empty()) warn("a wrong result: " + wrong);
    reference_s_ = measurer_.reference_s();
    write();
  }

  void measure_parts() {
    std::vector<std::string> settled = state_.record.done;  // or tried
    while (true) {
      const auto parts = parts_within(for_parts_s(), measurer_.machine(), settled);
      if (parts.empty()) return;
      measure(*parts.front(), parts);
      settled.emplace_back(parts.front()->name);
    }
  }

  void run(const Trials& trials) {
    const double most_s = std::min(held_out_s(budget_s_), budget_s_ - spent_s());
    if (!trials || most_s <= 0) return;
    talk_.say("held-out runs, at most " + seconds_text(most_s));
    const std::vector<Trial> found = trials(state_, most_s);
    if (!found.empty()) state_.record.accuracy = accuracy_of(found);
    write();
  }

  void end() {
    const double again_s = measurer_.reference_s();
    constexpr double steady = 0.03;
    if (std::abs(again_s / reference_s_ - 1) > steady)
      warn("unstable clocks: an attention took " + percent_text(std::abs(again_s / reference_s_ - 1)) +
           (again_s > reference_s_ ? " longer" : " less") + " at the end than at the beginning");
    state_.record.clocks_after = measurer_.clocks();
    write();
  }

 private:
  double for_parts_s() const { return budget_s_ - held_out_s(budget_s_) - spent_s(); }
  double spent_s() const { return measurer_.now_s() - begun_s_; }

  void measure(const Part& part, const std::vector<const Part*>& planned) {
    double left_s = 0;
    for (const Part* each : planned) left_s += each->estimate_s;
    talk_.say(std::string(part.name) + ": after " + seconds_text(spent_s()) + ", about " +
              seconds_text(left_s + held_out_s(budget_s_)) + " left");
    const double most_s = std::max(part.estimate_s, for_parts_s());
    try {
      const Measurement found =
          measurer_.measure(part.name, std::min(most_s, 2 * part.estimate_s), channels_of(state_.hardware));
      for (const std::string& said : take(found, measurer_.machine(), state_.hardware))
        warn(std::string(part.name) + ": " + said);
      for (const std::string& left : found.left_out) points_left_out_.push_back(left);
      state_.record.done.emplace_back(part.name);
    } catch (const Error& error) {
      warn(std::string(part.name) + ": " + error.what());
    }
    write();
  }

  void warn(const std::string& text) {
    std::vector<std::string>& warnings = state_.record.warnings;
    if (std::find(warnings.begin(), warnings.end(), text) != warnings.end()) return;
    warnings.push_back(text);
    talk_.say("warning: " + text);
  }

  void write() {
    Record& record = state_.record;
    record.seconds = before_s_ + std::round(10 * spent_s()) / 10;
    list_left_out(record, measurer_.machine(), points_left_out_);
    talk_.write(state_);
  }

  State& state_;
  Measurer& measurer_;
  double budget_s_;
  const Talk& talk_;
  double before_s_, begun_s_ = measurer_.now_s(), reference_s_ = 0;
  std::vector<std::string> points_left_out_;
};

}  // namespace

std::vector<KindAccuracy> accuracy_of(const std::vector<Trial>& trials) {
  std::vector<KindAccuracy> all;
  std::vector<std::vector<double>> sizes;  // |e| of each kind
  for (const Trial& trial : trials) {
    auto kind =
        std::find_if(all.begin(), all.end(), [&](const KindAccuracy& k) { return k.kind == trial.kind; });
    if (kind == all.end()) {
      kind = all.insert(all.end(), {.kind = trial.kind});
      sizes.emplace_back();
    }
    const double error = trial.predicted_s / trial.measured_s - 1;
    ++kind->points;
    kind->signed_mean += error;
    sizes[static_cast<std::size_t>(kind - all.begin())].push_back(std::abs(error));
  }
  const auto rounded = [](double value) { return std::round(1e4 * value) / 1e4; };
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::vector<double>& errors = sizes[i];
    std::sort(errors.begin(), errors.end());
    const std::size_t n = errors.size(), nine_tenths = (9 * n + 9) / 10;  // that many lie within
    all[i].signed_mean = rounded(all[i].signed_mean / static_cast<double>(n));
    all[i].median = rounded(cplab::median(errors));
    all[i].half_width = rounded(errors[nine_tenths - 1]);
  }
  return all;
}

void list_left_out(Record& record, const Machine& machine, const std::vector<std::string>& points) {
  record.left_out.clear();
  for (const Part& part : all_parts())
    if (std::find(record.done.begin(), record.done.end(), part.name) == record.done.end())
      record.left_out.push_back(left_out_text(part, machine));
  record.left_out.insert(record.left_out.end(), points.begin(), points.end());
}

void calibrate(State& state, Measurer& measurer, double budget_s, const Talk& talk, const Trials& trials) {
  Calibrator calibrator(state, measurer, budget_s, talk);
  calibrator.begin();
  calibrator.measure_parts();
  calibrator.run(trials);
  calibrator.end();
}

}  // namespace cplab::measure
