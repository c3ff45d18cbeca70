// Head-strided all-gather attention: which of its collectives are exposed and how smaller first and last
// strides shorten them, simulated; and the buffers of its backward beside those of the source
// (ring-flash-attention of aqlaboratory), counted in h x: h key heads of a stride times x, the K (or V) of
// one key head and all ranks.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "algorithms/core/build.hpp"
#include "cli/files/hardware_file.hpp"
#include "cli/prediction.hpp"
#include "cli/session.hpp"
#include "cli/studies/reproduce.hpp"
#include "cli/subject.hpp"
#include "report/moments.hpp"
#include "report/table.hpp"

namespace cplab {

namespace {

using Strides = std::vector<std::int64_t>;

struct LlamaSource {
  std::vector<std::int64_t> ranks;
  std::vector<Strides> forward, backward, memory;
};

LlamaSource read_llama_source(const Table& root) {
  const Table table = root.table("published");
  LlamaSource source;
  source.ranks = table.integers("ranks");
  const auto lists = [&](const char* key, std::size_t size) {
    std::vector<Strides> all = table.integer_lists(key);
    for (const Strides& each : all)
      if (each.size() != size) table.fail(key, fmt::format("must hold lists of {} numbers", size));
    return all;
  };
  source.forward = lists("forward", 2);
  source.backward = lists("backward", 3);
  source.memory = lists("memory", 4);
  table.finish();
  return source;
}

std::string set(const char* key, std::int64_t value) {
  return fmt::format("{}={}", key, value);
}

// "h=4 f=2", "h=4 f'=2 l=1", as in the source's formulas.
std::string label_of(std::int64_t h, std::int64_t f, std::int64_t first, std::int64_t last) {
  std::string text = fmt::format("h={}", h);
  if (f > 0) text += fmt::format(" f={}", f);
  if (first > 0) text += fmt::format(" f'={}", first);
  if (last > 0) text += fmt::format(" l={}", last);
  return text;
}

// ---- what is exposed ---------------------------------------------------------------------------------

enum Collective : std::uint8_t { first_gather, other_gather, other_scatter, last_scatter, collectives };
constexpr const char* collective_names[] = {"first gather", "other gathers", "other reduce-scatters",
                                            "last reduce-scatter"};

// By operation of one phase. The first gather fills the slot that the first attention reads; gradients come
// back into buffers of theirs (dkv, dkv_received).
std::map<std::uint32_t, Collective> collectives_of(const RankPlan& rank, Phase phase) {
  std::map<std::uint32_t, Collective> result;
  const View* first = nullptr;
  std::uint32_t first_attend = 0, last = 0;
  for (std::uint32_t i = 0; i < rank.operations.size(); ++i) {
    const Operation& op = rank.operations[i];
    if (op.phase != phase) continue;
    if (!first && (op.kind == OpKind::attend || op.kind == OpKind::attend_backward)) {
      first = &rank.view_of(op, Operand::k);
      first_attend = i;
    }
    if (!is_communication(op.kind)) continue;
    for (const Part& part : rank.parts_of(op)) {
      if (part.send) continue;
      const bool gradients = rank.buffers[rank.views[part.view].buffer].name.starts_with("dkv");
      result[i] = gradients ? other_scatter : other_gather;
      if (gradients) last = i;
      break;
    }
  }
  for (auto& [i, collective] : result) {
    if (collective == other_scatter && i == last) collective = last_scatter;
    if (collective != other_gather || !first || i > first_attend) continue;
    for (const Part& part : rank.parts_of(rank.operations[i])) {
      const View& into = rank.views[part.view];
      if (!part.send && into.buffer == first->buffer && into.slot_begin == first->slot_begin)
        collective = first_gather;
    }
  }
  return result;
}

// Of the rank that computes longest, which no balance can shorten: seconds of `phase`.
struct Exposed {
  double time_s = 0;
  double by[collectives] = {};
  double sum() const { return by[0] + by[1] + by[2] + by[3]; }
  double ends() const { return by[first_gather] + by[last_scatter]; }
};

Exposed simulated(const ScenarioFile& original, const std::vector<std::string>& sets, Phase phase) {
  const ScenarioFile scenario = reread(original, sets);
  const Plan plan = build_plan(scenario.scenario);
  const Prediction prediction = predict(scenario, plan);
  Exposed exposed;
  double begin_s = 0, end_s = 0;
  for (const PhaseTime& each : prediction.figures.phases) {
    begin_s = end_s;
    end_s += each.time_s;
    if (each.phase == phase) break;
  }
  exposed.time_s = end_s - begin_s;
  const auto& figures = prediction.figures.ranks;
  const auto r = static_cast<std::size_t>(
      std::max_element(figures.begin(), figures.end(),
                       [](const auto& a, const auto& b) { return a.compute_s < b.compute_s; }) -
      figures.begin());
  const std::map<std::uint32_t, Collective> named = collectives_of(plan.ranks[r], phase);
  for (const Moment& moment : moments(plan.ranks[r], prediction.timeline.ranks[r], begin_s, end_s))
    if (const auto at = named.find(moment.operation); at != named.end())
      exposed.by[at->second] += moment.end_s - moment.begin_s;
  return exposed;
}

void add_exposed(ReproduceReport& report, const std::string& label, const Exposed& e, Phase phase) {
  constexpr double ms = 1e3;
  report.rows.push_back(reproduced(label, std::nullopt, e.time_s * ms, true, "ms"));
  report.rows.push_back(reproduced(label + "/exposed", std::nullopt, e.sum() * ms, true, "ms"));
  for (std::size_t c = 0; c < (phase == Phase::forward ? 2u : std::size_t{collectives}); ++c)
    report.rows.push_back(
        reproduced(label + "/exposed/" + collective_names[c], std::nullopt, e.by[c] * ms, true, "ms"));
}

// How much of what is exposed lies at the ends of the pass, and how little is left.
std::string verdict(const char* what, std::int64_t ranks,
                    const std::vector<std::pair<std::string, Exposed>>& rows) {
  double least = 1, most = 0;
  std::string least_label;
  const auto* best = &rows.front();
  for (const auto& row : rows) {
    const double share = row.second.sum() > 0 ? row.second.ends() / row.second.sum() : 1;
    if (share < least) least_label = row.first;
    least = std::min(least, share);
    most = std::max(most, share);
    if (row.second.sum() < best->second.sum()) best = &row;
  }
  return fmt::format(
      "{} on {} ranks: of the exposed communication {} to {} %{} is at the ends of the pass. {} exposes "
      "{:.2f} ms of {:.2f}; {}, the least, {:.2f} of {:.2f}.",
      what, ranks, format_percent(least), format_percent(most),
      least_label.empty() ? "" : " (the least with " + least_label + ")", rows.front().first,
      rows.front().second.sum() * 1e3, rows.front().second.time_s * 1e3, best->first,
      best->second.sum() * 1e3, best->second.time_s * 1e3);
}

// ---- memory ------------------------------------------------------------------------------------------

// Bytes of the buffers of the backward, by what they hold (messages: packed, or received beside the others);
// buffers of one slab count once, as the largest.
struct Held {
  double kv = 0, dkv = 0, staging = 0, messages = 0, peak = 0;
  double sum() const { return kv + dkv + staging; }
};

Held held_by(const ScenarioFile& file) {
  const RankPlan rank = build_rank(file.scenario, 0);
  std::map<std::string, std::pair<double*, double>> slabs;
  Held held;
  std::set<std::uint32_t> used, sent;  // by the backward; by its messages
  for (const Operation& op : rank.operations) {
    if (op.phase != Phase::backward) continue;
    for (const auto& accesses : {rank.reads(op), rank.writes(op)})
      for (const Access& access : accesses) used.insert(rank.views[access.view].buffer);
    for (const Part& part : rank.parts_of(op)) sent.insert(rank.views[part.view].buffer);
  }
  used.insert(sent.begin(), sent.end());
  for (const std::uint32_t index : used) {
    const Buffer& buffer = rank.buffers[index];
    if (buffer.category != Category::working) continue;
    const bool of_strides = buffer.name.find("_backward_") != std::string::npos;
    if (!of_strides && !sent.contains(index)) continue;
    double& into = !of_strides                          ? held.messages
                   : buffer.name.starts_with("dkv")     ? held.dkv
                   : buffer.name.starts_with("staging") ? held.staging
                                                        : held.kv;
    const auto bytes = static_cast<double>(buffer.bytes);
    if (buffer.slab.empty()) {
      into += bytes;
    } else {
      auto& largest = slabs.try_emplace(buffer.slab, &into, 0).first->second.second;
      largest = std::max(largest, bytes);
    }
  }
  for (const auto& [slab, bytes] : slabs) *bytes.first += bytes.second;
  held.peak = static_cast<double>(plan_memory(rank).live_peak_bytes);
  return held;
}

// The source's buffers in units of x: a pair for K and V of whole strides, a pair of buffers of their own for
// every stride that is cut, gradients for every width, and two wide staging slots for every width.
struct Formula {
  double kv = 0, dkv = 0, staging = 0, largest = 0;
  double sum() const { return kv + dkv + staging; }
};

Formula formula(const Strides& strides, double wide) {
  const std::int64_t G = strides[0], h = strides[1];
  std::set<std::int64_t> widths;
  std::int64_t whole = G / h;
  Formula f;
  for (const std::int64_t part : {strides[2], strides[3]}) {
    if (part == 0) continue;
    widths.insert({part, h - part});
    f.kv += 2 * static_cast<double>(h);
    --whole;
  }
  if (whole > 0) {
    widths.insert(h);
    f.kv += 4 * static_cast<double>(h);
  }
  double sum = 0;
  for (const std::int64_t width : widths) sum += static_cast<double>(width);
  f.dkv = 2 * sum;
  f.staging = 4 * wide * sum;  // `wide`: how many nominal elements one of the wire takes
  f.largest = static_cast<double>(*widths.rbegin());
  return f;
}

struct Variant {
  const char* buffers;
  const char* staging;
};
constexpr Variant variants[] = {{"per_width", "stage_first"},
                                {"per_width", "drain_first"},
                                {"slab", "stage_first"},
                                {"slab", "drain_first"}};

// Of one pattern of strides: the four variants, and the bytes of one h x.
struct Memory {
  std::string label;
  std::vector<Held> held;  // by variant
  double formula = 0, unit = 1;
};

Memory add_memory(ReproduceReport& report, const std::string& file, const std::vector<std::string>& sets,
                  const Strides& strides) {
  Memory memory;
  memory.label = fmt::format("G={} {}", strides[0], label_of(strides[1], 0, strides[2], strides[3]));
  const auto h = static_cast<double>(strides[1]);
  for (const Variant& v : variants) {
    std::vector<std::string> with = sets;
    for (const auto& each :
         {set("problem.heads", strides[0]), set("problem.kv_heads", strides[0]),
          set("schedule.head_stride", strides[1]), set("schedule.backward_first_stride", strides[2]),
          set("schedule.backward_last_stride", strides[3]), std::string("schedule.buffers=") + v.buffers,
          std::string("schedule.staging=") + v.staging})
      with.push_back(each);
    const ScenarioFile scenario = read_scenario(file, with);
    const Problem& p = scenario.scenario.problem;
    const auto nominal = static_cast<double>(element_bytes(p.dtype));
    const double wide = static_cast<double>(element_bytes(Role::wide, p.dtype)) / nominal;
    double tokens = 0;
    for (const std::int64_t length : p.padded_lengths) tokens += static_cast<double>(length);
    memory.unit = h * tokens * static_cast<double>(p.head_size + p.value_size) / 2 * nominal;
    const Held held = held_by(scenario);
    const Formula source = formula(strides, wide);
    const auto row = [&](const std::string& what, std::optional<double> published, double bytes) {
      if (published) *published /= h;
      report.rows.push_back(reproduced(fmt::format("{}/{} {}{}", memory.label, v.buffers, v.staging, what),
                                       published, bytes / memory.unit, true, "h x"));
    };
    const bool slab = std::string_view(v.buffers) == "slab",
               one = std::string_view(v.staging) == "drain_first";
    row("", slab ? std::nullopt : std::optional(source.sum()), held.sum());
    if (!slab && !one) {
      row("/K and V", source.kv, held.kv);
      row("/dK and dV", source.dkv, held.dkv);
      row("/staging", source.staging, held.staging);
    }
    // One slab of the largest width, staged in one slot: the source's own proposal.
    if (slab && one) row("/gradients and staging", source.largest * (2 + 2 * wide), held.dkv + held.staging);
    memory.held.push_back(held);
    memory.formula = source.sum() / h;
  }
  return memory;
}

void add_memory_notes(ReproduceReport& report, const std::vector<Memory>& all) {
  const auto range = [&](const auto& of) {
    double least = of(all.front()), most = least;
    for (const Memory& each : all) {
      least = std::min(least, of(each));
      most = std::max(most, of(each));
    }
    return fmt::format("{:.2f} to {:.2f} h x", least, most);
  };
  report.notes.push_back(fmt::format(
      "Staging drain_first needs one slot where the source keeps two, and saves {} with a buffer for every "
      "width, {} in slabs. Beside the rows, messages of a backward are packed and received in {}.",
      range([](const Memory& m) { return (m.held[0].staging - m.held[1].staging) / m.unit; }),
      range([](const Memory& m) { return (m.held[2].staging - m.held[3].staging) / m.unit; }),
      range([](const Memory& m) { return m.held[1].messages / m.unit; })));
  constexpr double mib = 1024.0 * 1024.0;
  const auto costliest = std::max_element(
      all.begin(), all.end(), [](const Memory& a, const Memory& b) { return a.formula < b.formula; });
  for (const Memory* m : {&all.front(), &*costliest}) {
    std::string peaks;
    for (std::size_t v = 0; v < m->held.size(); ++v)
      peaks += fmt::format("{}{:.0f} {} {}", v == 0 ? "" : ", ", m->held[v].peak / mib, variants[v].buffers,
                           variants[v].staging);
    report.notes.push_back(
        fmt::format("{}: h x is {:.0f} MiB. Peak of a rank, where a buffer is freed after its last use and a "
                    "slab after the "
                    "last of all, MiB: {}.",
                    m->label, m->unit / mib, peaks));
  }
}

}  // namespace

ReproduceReport reproduce_llama_strides(const std::string& file, const std::vector<std::string>& sets,
                                        Progress& progress) {
  for (const std::string& each : sets) {
    const bool heads = each.starts_with("problem.heads=") || each.starts_with("problem.kv_heads=");
    const bool may = each.starts_with("hardware.") || each.starts_with("simulate.") ||
                     (each.starts_with("problem.") && !heads && !each.starts_with("problem.direction="));
    if (!may)
      throw InputError("--set " + each +
                       ": heads, ranks and strides are those of the rows; what may be set: hardware.*, "
                       "simulate.*, the rest of problem.*");
  }
  const ScenarioFile original = read_scenario(file, sets);
  require_machine(original);
  const LlamaSource source = read_llama_source(original.table);
  ReproduceReport report;
  report.name = "llama-strides";
  const Hardware& machine = machine_of(original);
  report.header = header_of(original);
  for (std::string& note : machine_notes(original.scenario.problem, machine))
    report.header.notes.push_back(std::move(note));
  report.ranks = source.ranks;
  report.about = describe(original.scenario, source.ranks) + ", on " + original.hardware_given;
  report.notes = {
      "h is head_stride, f forward_first_stride, f' backward_first_stride, l backward_last_stride. Exposed: "
      "nothing is computed while it is under way, on the rank that computes longest. Times were not "
      "published.",
      "h x: h key heads times x, K (or V) of one key head and all ranks. Published: the source's buffers of "
      "the backward, 4 h x for K and V of whole strides, 2 h x for each stride that is cut, 10 W x (bf16) "
      "for gradients and two fp32 staging slots of every width, W the sum of the widths; of a slab, one slot "
      "of the largest width. The source drains before it stages and still has two slots.",
      "The source also copies K and V of every stride where the batch is larger than one. Our kernels read "
      "the gathered rows where they lie: no such buffer is in our plans."};
  for (const std::int64_t ranks : source.ranks) {
    const std::string prefix = fmt::format("P={} ", ranks);
    std::vector<std::pair<std::string, Exposed>> rows;
    const auto simulate_one = [&](const Strides& s, Phase phase, std::vector<std::string> with) {
      const bool forward = phase == Phase::forward;
      const std::string label = forward ? label_of(s[0], s[1], 0, 0) : label_of(s[0], 0, s[1], s[2]);
      progress.stage(fmt::format("{} ranks, {} {}", ranks, label, name(phase)));
      with.insert(with.end(), sets.begin(), sets.end());
      with.push_back(set("parallel.ranks", ranks));
      with.push_back(set("schedule.head_stride", s[0]));
      if (forward) with.push_back(set("schedule.forward_first_stride", s[1]));
      if (!forward) with.push_back(set("schedule.backward_first_stride", s[1]));
      if (!forward) with.push_back(set("schedule.backward_last_stride", s[2]));
      return std::pair(label, simulated(original, with, phase));
    };
    for (const Strides& s : source.forward) {
      rows.push_back(simulate_one(s, Phase::forward, {"problem.direction=forward"}));
      add_exposed(report, prefix + rows.back().first + " forward", rows.back().second, Phase::forward);
    }
    report.notes.push_back(verdict("Forward", ranks, rows));
    rows.clear();
    for (const Strides& s : source.backward) {
      rows.push_back(simulate_one(s, Phase::backward, {}));
      const std::string label = prefix + rows.back().first + " backward";
      add_exposed(report, label, rows.back().second, Phase::backward);
      const Exposed staged = simulate_one(s, Phase::backward, {"schedule.staging=stage_first"}).second;
      report.rows.push_back(
          reproduced(label + "/with stage_first", std::nullopt, staged.time_s * 1e3, true, "ms"));
    }
    report.notes.push_back(verdict("Backward", ranks, rows));
  }
  progress.stage("buffers");
  std::vector<Memory> memory;
  for (const Strides& s : source.memory) memory.push_back(add_memory(report, file, sets, s));
  if (!memory.empty()) add_memory_notes(report, memory);
  return report;
}

}  // namespace cplab
