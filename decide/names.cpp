// Names and counts that the emitters need of models and layouts.
#include "decide/layout.hpp"
#include "decide/model.hpp"

namespace cplab {

std::string_view name(Mode mode) {
  return mode == Mode::training ? "training" : mode == Mode::prefill ? "prefill" : "decode";
}
std::string_view name(Recompute recompute) {
  return recompute == Recompute::none ? "none" : recompute == Recompute::selective ? "selective" : "full";
}
std::int64_t Model::layer_count() const {
  std::int64_t count = 0;
  for (const LayerRun& run : layers) count += run.count;
  return count;
}

}  // namespace cplab
