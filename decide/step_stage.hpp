// What the parts of a step's estimate share: the mean layer, the slowest stage, and terms as they are added.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "decide/layer_work.hpp"
#include "decide/step.hpp"
#include "sim/simulate.hpp"

namespace cplab {

namespace step_parts {

inline double as_double(std::int64_t n) {
  return static_cast<double>(n);
}

inline void add(OriginSeconds& sum, const OriginSeconds& more, double times = 1) {
  for (std::size_t i = 0; i < 4; ++i) sum.seconds[i] += times * more.seconds[i];
}

inline OriginSeconds scaled(const OriginSeconds& of, double times) {
  OriginSeconds result;
  add(result, of, times);
  return result;
}

// How far a sum may be off by the bands of its origins.
inline double half_of(const OriginSeconds& origins) {
  double half = 0;
  for (const Origin origin : {Origin::measured, Origin::interpolated, Origin::extrapolated, Origin::assumed})
    half += origins.of(origin) * (band(origin).high - 1);
  return half;
}

}  // namespace step_parts

// Mean of the layers of a model: work and what is kept.
struct MeanLayer {
  LayerWork work;
  OriginSeconds attention_forward, attention_backward, attention_exposed_transfer, attention_exposed_wait;
  double attention_half_s = 0, attention_flops = 0;
  double attention_saved_bytes = 0;
  std::int64_t attention_transient_bytes = 0;
};

// Times of one micro-batch, forward and backward, through the slowest stage.
struct StepModel::Stage {
  MeanLayer layer;
  HeadWork head;
  double layers = 0;
  bool has_head = true;
  double redistributions = 0;  // in the whole model, forward and backward together
  double forward_s = 0, backward_s = 0;
  double spread_s = 0;  // standard deviation of a micro-batch's time over rows of different documents
  std::vector<AttentionCost> attention;
  LayerMemory memory;
};

class Terms {
 public:
  explicit Terms(StepEstimate& step) : step_(step) {}
  void add(std::string_view name, TermKind kind, const OriginSeconds& origins, double times = 1) {
    put(name, kind, step_parts::scaled(origins, times), times * step_parts::half_of(origins));
  }
  void add(std::string_view name, TermKind kind, double seconds, Origin origin) {
    OriginSeconds origins;
    origins.add(origin, seconds);
    put(name, kind, origins, step_parts::half_of(origins));
  }
  void put(std::string_view name, TermKind kind, const OriginSeconds& origins, double half_s) {
    if (origins.total() > 0) step_.terms.push_back({name, kind, origins, half_s});
  }

 private:
  StepEstimate& step_;
};

}  // namespace cplab
