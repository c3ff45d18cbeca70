// How a model is spread over GPUs and what a step of it does: degrees of parallelism, the CP algorithm of
// each kind of attention layer, and what is kept, recomputed or moved to the host.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plan/problem.hpp"

namespace cplab {

enum class Mode : std::uint8_t { training, prefill, decode };
std::string_view name(Mode);

// none: everything that the backward needs is kept. selective: the feed-forward's and norms' results are
// computed again, attention's are kept. full: of a layer its input alone is kept.
enum class Recompute : std::uint8_t { none, selective, full };
std::string_view name(Recompute);

// [training]: what is asked for. 0 of a degree: to be searched (advise), 1 elsewhere.
struct Training {
  Mode mode = Mode::training;
  std::int64_t gpus = 0;
  std::int64_t sequence = 0;
  // (length, share of tokens) instead of `sequence`; the shares sum to 1.
  std::vector<std::pair<std::int64_t, double>> lengths;
  // Rows of different documents are dealt so that replicas take equally long; else the longest is waited for.
  bool balanced = false;
  std::int64_t tokens_per_step = 0;  // of all GPUs; 0: about four million (rows_of_step)
  std::int64_t micro_batch = 1;      // sequences that a replica takes at once; 0: all that it has
  std::int64_t tp = 0, cp = 0, pp = 0, dp = 0, ep = 0, etp = 0;
  std::int64_t pipeline_chunks = 1;  // of layers that each stage holds (interleaved schedule); 1: 1F1B
  int zero = -1;                     // 0 to 3, as DeepSpeed counts; FSDP is 3. -1: to be searched
  bool recompute_given = false;
  Recompute recompute = Recompute::none;
  std::string dtype = "bf16";                                     // of the products: bf16, fp16, fp8, fp4
  int parameter_bytes = 2, gradient_bytes = 4, master_bytes = 4;  // master_bytes 0: none
  int optimizer_bytes = 8;                                        // of both moments, per parameter
  std::int64_t lora_rank = 0;                                     // 0: all weights are trained
  std::int64_t loss_chunks = 1;      // in which logits are computed, one at a time
  bool offload_checkpoints = false;  // the kept inputs of layers go to the host
  bool offload_optimizer = false;    // master weights and moments are on the host, which updates them
  bool offload_parameters = false;   // weights are on the host too, and each layer's come when it is computed
  std::int64_t host_bytes = 0;       // of a node; 0: not known, and host memory is not bounded
  // Exchanges of tensor parallelism run beside the products that they belong to, in tp parts.
  bool overlap_tensor = true;
  // Norms, activations and the loss are one kernel each; else as a framework computes them operation by
  // operation: norms and logits keep copies in fp32.
  bool fused_kernels = true;
  // Rows go through the feed-forward part in so many pieces, whose results are not kept ("tiled MLP").
  std::int64_t feed_forward_chunks = 1;
};

// The algorithm that one kind of attention layer runs over the CP ranks.
struct AttentionChoice {
  std::string algorithm;  // empty: cp = 1, each rank has the whole sequence
  std::string placement;
  Schedule schedule;  // what differs from the algorithm's defaults
};

struct ModelLayout {
  std::int64_t tp = 1, cp = 1, pp = 1, dp = 1, ep = 1, etp = 1;
  std::int64_t pipeline_chunks = 1;
  std::int64_t micro_batch = 1, micro_batches = 1;  // sequences at once, and how many times in a step
  int zero = 1;
  Recompute recompute = Recompute::none;
  std::int64_t loss_chunks = 1;
  bool offload_checkpoints = false, offload_optimizer = false;
  std::vector<AttentionChoice> attention;  // by kind, as Model::attention

  // tp x cp x pp x dp. Experts are spread over the same GPUs: ep x etp divides tp x cp x dp (MoE folding).
  std::int64_t gpus() const { return tp * cp * pp * dp; }
};

// The same degrees, whatever is recomputed and whichever algorithm attends.
bool same_degrees(const ModelLayout&, const ModelLayout&);

// "tp2 cp4 pp1 dp1 zero3 full loss/16": beyond the degrees what differs from 1, zero 1 and nothing
// recomputed.
std::string describe(const ModelLayout&);

}  // namespace cplab
