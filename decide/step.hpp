// A step of a model under a layout: its time by terms, each with where it is from, and its memory. Attention
// is simulated (layer_attention.hpp); everything else follows stated formulas (docs/17-whole-models.md).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "decide/layer_attention.hpp"
#include "decide/layout.hpp"
#include "decide/machine_rates.hpp"
#include "decide/memory.hpp"
#include "decide/model.hpp"

namespace cplab {

// Steps of one recipe differ by so much between releases and machines (the published rows do): a smaller gain
// is none.
inline constexpr double release_noise = 0.03;

// What a second of a step is spent on. Of transfers and waiting only what is exposed counts.
enum class TermKind : std::uint8_t { compute, transfer, wait };

struct StepTerm {
  std::string_view name;  // "attention", "products", "pipeline bubble"
  TermKind kind = TermKind::compute;
  OriginSeconds origins;
  double half_s = 0;  // how far the term may be off
  double seconds() const { return origins.total(); }
};

struct StepEstimate {
  double time_s = 0, low_s = 0, high_s = 0;
  double compared_s = 0;  // by which layouts are compared: in training a token, else until all is done
  double tokens = 0;      // of the step, all GPUs
  double tokens_s_gpu = 0;
  double model_flops =
      0;  // of the step, all GPUs: products and attention, each once; causal pairs that are seen
  double share_of_peak = 0;     // model_flops over time_s, gpus and peak_flops of training.dtype
  double limit_s = 0;           // all FLOPs at peak, all moves at full bandwidth, nothing exposed, no bubble
  std::vector<StepTerm> terms;  // sum to time_s, none of 0
  ResourceSeconds critical;     // sums to time_s: the path that ends last, by what it uses
  MemoryNeed memory;
  std::int64_t capacity_bytes = 0;
  bool fits = false, host_fits = true;
  std::vector<AttentionCost> attention;  // by kind: of the rows of `lengths`, by their weights
  std::vector<std::string> formulas;     // forms of attention that were priced by a formula
  bool fits_everywhere() const { return fits && host_fits; }  // on the GPUs, and on the host
  double seconds_of(TermKind) const;
  double exposed_transfer_s() const { return seconds_of(TermKind::transfer); }
  double exposed_wait_s() const { return seconds_of(TermKind::wait); }
  std::int64_t headroom_bytes() const { return capacity_bytes - memory.total_bytes; }
};

// Rows of the micro-batches: (tokens of a document, share of tokens). One row holds documents of one length.
std::vector<std::pair<std::int64_t, double>> documents_of(const Training&);
// Tokens of a row: training.sequence, else the longest length.
std::int64_t row_tokens(const Training&);
// Tokens of a micro-batch that one CP rank computes with: of decode one of each row, the same on all ranks.
double tokens_of_rank(const Training&, const ModelLayout&);

// How attention is taken. bound: as short as on one GPU, shared evenly, and no more memory than that.
// planned: the same time, with the memory of its plan. simulated: its plan under a clock.
enum class Detail : std::uint8_t { bound, planned, simulated };

class StepModel {
 public:
  StepModel(const Model&, const Training&, const Hardware&);

  // Throws ScenarioError (the attention cannot be planned so), HardwareError, StalledError.
  StepEstimate estimate(const ModelLayout&);
  // The same with attention as short as on one GPU, shared evenly, and no exchange in it: no algorithm is
  // faster.
  StepEstimate bound(const ModelLayout&);
  // With the memory of the attention's plans (LayerAttention::memory) and the time of bound().
  StepEstimate planned(const ModelLayout&);

  AttentionCase case_of(std::size_t kind, const ModelLayout&, std::int64_t document) const;
  LayerAttention& attention() { return attention_; }
  const Model& model() const { return model_; }
  const Training& training() const { return training_; }
  const Hardware& hardware() const { return rates_.hardware(); }

 private:
  struct Stage;  // one micro-batch through the slowest pipeline stage
  AttentionCost mixed_cost(std::size_t kind, const ModelLayout&, Detail, double& spread_s);
  AttentionCost cost_of(const AttentionCase&, const ModelLayout&, Detail);
  Stage stage_of(const ModelLayout&, Detail);
  static void add_gaps(Stage&, Recompute, bool trains);
  StepEstimate estimate(const ModelLayout&, Detail);
  void add_exchanges(const ModelLayout&, const Stage&, StepEstimate&) const;
  void add_pipeline(const ModelLayout&, const Stage&, StepEstimate&) const;
  void add_optimizer(const ModelLayout&, const Stage&, StepEstimate&) const;
  void add_layers(const ModelLayout&, const Stage&, StepEstimate&) const;
  void add_figures(const ModelLayout&, const Stage&, StepEstimate&) const;
  void add_memory(const ModelLayout&, const Stage&, StepEstimate&) const;

  const Model& model_;
  const Training& training_;
  MachineRates rates_;
  LayerAttention attention_;
};

}  // namespace cplab
