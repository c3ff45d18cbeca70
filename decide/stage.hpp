// What a step is put together from (step.cpp): the mean layer of a model, one micro-batch through the slowest
// pipeline stage (stage.cpp), and the terms, to which exchanges.cpp adds.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "decide/layer_work.hpp"
#include "decide/step.hpp"

namespace cplab {

inline double as_double(std::int64_t n) {
  return static_cast<double>(n);
}

void add(OriginSeconds& sum, const OriginSeconds& more, double times = 1);
OriginSeconds scaled(const OriginSeconds& of, double times);

// Mean of the layers of a model: work and what is kept.
struct MeanLayer {
  LayerWork work;
  OriginSeconds attention_forward, attention_backward, attention_exposed_transfer, attention_exposed_wait;
  double forward_exposed_s = 0;  // of what is exposed, transfers and waiting, the part before the backward
  ResourceSeconds forward_path, backward_path;  // of the attention
  double attention_half_s = 0;
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
  double gaps_s = 0;                            // of both, what no kernel takes (Fitted)
  ResourceSeconds forward_path, backward_path;  // the same
  ResourceSeconds attention_path;               // of its attention, both
  double spread_s = 0;  // standard deviation of a micro-batch's time over rows of different documents
  std::vector<AttentionCost> attention;
  LayerMemory memory;
};

class Terms {
 public:
  explicit Terms(StepEstimate& step) : step_(step) {}
  void add(std::string_view name, TermKind kind, const OriginSeconds& origins, double times = 1);
  void add(std::string_view name, TermKind kind, double seconds, Origin origin);
  void put(std::string_view name, TermKind kind, const OriginSeconds& origins, double half_s);

 private:
  StepEstimate& step_;
};

}  // namespace cplab
