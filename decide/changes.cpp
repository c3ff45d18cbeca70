// Steps with one thing otherwise; see changes.hpp.
#include "decide/changes.hpp"

#include <algorithm>
#include <cmath>

#include "sim/simulate.hpp"

namespace cplab {

namespace {

constexpr double faster_kernels = 1.1, slow_link = 0.1;

// Estimates again; what cannot be estimated is said in the note.
class Again {
 public:
  Again(const Model& model, const Training& training, const ModelLayout& layout, const StepEstimate& now)
      : model_(model), training_(training), layout_(layout), now_(now) {}

  void with(const std::string& what, const Hardware& hardware) { with(what, hardware, training_, layout_); }
  void with(const std::string& what, const Hardware& hardware, const Training& training,
            const ModelLayout& layout) {
    Change change{what, 0, 0, true, {}};
    try {
      StepModel model(model_, training, hardware);
      const StepEstimate step = model.estimate(layout);
      change.time_s = step.time_s;
      change.delta_s = step.time_s - now_.time_s;
      change.fits = step.fits_everywhere();
      if (!change.fits) change.note = "does not fit";
    } catch (const std::runtime_error& error) {
      change.fits = false;
      change.note = error.what();
    }
    found.push_back(std::move(change));
  }
  std::vector<Change> found;

 private:
  const Model& model_;
  const Training& training_;
  const ModelLayout& layout_;
  const StepEstimate& now_;
};

bool spans_nodes(std::int64_t ranks, const Hardware& hardware) {
  return ranks > hardware.node.gpus;
}

// Message curves stay those of the links that they were measured over.
void pin_curves(Hardware& hardware) {
  for (MessageTable& table : hardware.messages) {
    if (table.path == Path::inter && table.nics_per_gpu == 0) table.nics_per_gpu = hardware.nics_per_gpu();
    table.link_bytes_s = hardware.curve_bytes_s(table);
  }
}

}  // namespace

Hardware with_link_speed(Hardware hardware, double factor) {
  pin_curves(hardware);
  hardware.node.link_bytes_s *= factor;
  return hardware;
}

Hardware with_nic_speed(Hardware hardware, double factor) {
  pin_curves(hardware);
  hardware.network.nic_bytes_s *= factor;
  return hardware;
}

Hardware with_attention_speed(Hardware hardware, double factor) {
  hardware.attention_speed *= factor;
  return hardware;
}

Hardware with_memory_speed(Hardware hardware, double factor) {
  if (hardware.curve_copy_bytes_s == 0) hardware.curve_copy_bytes_s = hardware.gpu.copy_bytes_s;
  hardware.gpu.copy_bytes_s *= factor;
  return hardware;
}

Hardware with_product_speed(Hardware hardware, double factor) {
  const std::size_t gemm = static_cast<std::size_t>(KernelClass::gemm);
  if (hardware.efficiency.says(KernelClass::gemm) || hardware.finer.gemms.empty())
    hardware.efficiency.share[gemm] = efficiency_of(hardware, KernelClass::gemm).share * factor;
  for (GemmTable& table : hardware.finer.gemms)
    for (GemmPoint& point : table.points) point.seconds /= factor;
  return hardware;
}

std::vector<Change> changes_of(const Model& model, const Training& training, const Hardware& hardware,
                               const ModelLayout& layout, const StepEstimate& now,
                               const std::vector<std::pair<std::string, Hardware>>& others) {
  Again again(model, training, layout, now);
  if (spans_nodes(layout.gpus(), hardware) && hardware.network.nic_bytes_s > 0) {
    again.with("NICs twice as fast", with_nic_speed(hardware, 2));
    again.with("NICs half as fast", with_nic_speed(hardware, 0.5));
  }
  if (layout.tp * layout.cp > 1)
    again.with("links inside a node twice as fast", with_link_speed(hardware, 2));
  if (layout.cp > 1) {
    const bool by_nic = spans_nodes(layout.tp * layout.cp, hardware);
    // Of the first node the last, whose messages to the next rank leave the node.
    const std::int64_t last =
        std::min<std::int64_t>(layout.cp, std::max<std::int64_t>(1, hardware.node.gpus / layout.tp)) - 1;
    SlowRank slow{.rank = static_cast<int>(layout.tp * last)};
    (by_nic ? slow.nic : slow.link) = slow_link;
    Hardware machine = hardware;
    machine.slow.push_back(slow);
    again.with(by_nic ? "the NIC of one rank at a tenth" : "the link of one rank at a tenth", machine);
  }
  again.with("attention kernels 10 % faster", with_attention_speed(hardware, faster_kernels));
  again.with("matrix products 10 % faster", with_product_speed(hardware, faster_kernels));
  again.with("memory of the GPUs 10 % faster", with_memory_speed(hardware, faster_kernels));
  for (const auto& [what, machine] : others) again.with(what, machine);
  if (!training.lengths.empty() && layout.dp > 1) {
    Training even = training;
    even.balanced = true;
    again.with("rows balanced over replicas", hardware, even, layout);
  }
  if (layout.recompute != Recompute::none) {
    ModelLayout kept = layout;
    kept.recompute = Recompute::none;
    again.with("nothing recomputed", hardware, training, kept);
  }
  return std::move(again.found);
}

}  // namespace cplab
