// See variants.hpp.
#include "report/variants.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "report/json_writer.hpp"
#include "report/table.hpp"

namespace cplab {
namespace {

struct Sums {
  std::int64_t operations = 0;
  double seconds = 0, flops = 0;
  void add(double s, double f) {
    ++operations;
    seconds += s;
    flops += f;
  }
};

// Calls use(operation, time, variant, reason) for everything that computes.
template <class Use>
void each_kernel(const Plan& plan, const Timeline& timeline, Use use) {
  for (std::size_t r = 0; r < plan.ranks.size(); ++r) {
    const std::vector<Operation>& operations = plan.ranks[r].operations;
    const bool named = r < timeline.variants.size() && timeline.variants[r].size() == operations.size();
    const bool fell = r < timeline.fall_backs.size() && timeline.fall_backs[r].size() == operations.size();
    for (std::size_t i = 0; i < operations.size(); ++i) {
      if (is_communication(operations[i].kind) || operations[i].kind == OpKind::host_sync) continue;
      use(operations[i], timeline.ranks[r][i], named ? timeline.variants[r][i] : std::string_view(),
          fell ? timeline.fall_backs[r][i] : std::string_view());
    }
  }
}

double share(double part, double all) {
  return all > 0 ? part / all : 0;
}

}  // namespace

std::vector<VariantFigures> variant_figures(const Plan& plan, const Timeline& timeline) {
  std::map<std::pair<OpKind, std::string_view>, Sums> by_variant;
  Sums all;
  each_kernel(
      plan, timeline,
      [&](const Operation& op, const OperationTime& time, std::string_view variant, std::string_view) {
        const double seconds = time.end_s - time.start_s;
        all.add(seconds, op.flops);
        if (!variant.empty()) by_variant[{op.kind, variant}].add(seconds, op.flops);
      });
  std::vector<VariantFigures> figures;
  for (const auto& [key, sums] : by_variant)
    figures.push_back({key.second, key.first, sums.operations, share(sums.seconds, all.seconds),
                       share(sums.flops, all.flops)});
  std::stable_sort(figures.begin(), figures.end(), [](const VariantFigures& a, const VariantFigures& b) {
    return a.time_share > b.time_share;
  });
  return figures;
}

std::vector<std::string> fall_back_notes(const Plan& plan, const Timeline& timeline) {
  struct Fallen {
    Sums all;
    std::map<std::string_view, double> reasons;  // FLOPs
  };
  std::map<OpKind, Sums> kinds;
  std::map<std::pair<OpKind, std::string_view>, Fallen> fallen;
  each_kernel(
      plan, timeline,
      [&](const Operation& op, const OperationTime&, std::string_view variant, std::string_view reason) {
        kinds[op.kind].add(0, op.flops);
        if (reason.empty()) return;
        Fallen& of = fallen[{op.kind, variant}];
        of.all.add(0, op.flops);
        of.reasons[reason] += op.flops;
      });
  std::vector<std::string> notes;
  for (const auto& [key, of] : fallen) {
    const Sums& kind = kinds[key.first];
    const auto most = std::max_element(of.reasons.begin(), of.reasons.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    const std::size_t others = of.reasons.size() - 1;
    notes.push_back(fmt::format("slower kernels: {} of {} {} ({} % of their FLOPs) take {}, {}{}",
                                of.all.operations, kind.operations, name(key.first),
                                format_percent(share(of.all.flops, kind.flops)), key.second, most->first,
                                others > 0 ? fmt::format(" (and {} more)", others) : ""));
  }
  return notes;
}

void write_variants(JsonWriter& json, const std::vector<VariantFigures>& figures) {
  json.objects("variants", figures, [&](const VariantFigures& of) {
    json.field("variant", of.variant);
    json.field("kind", name(of.kind));
    json.field("operations", of.operations);
    json.field("time_share", of.time_share);
    json.field("flops_share", of.flops_share);
  });
}

}  // namespace cplab
