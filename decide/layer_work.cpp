// Products, moves and exchanges of a layer beside its attention; see layer_work.hpp.
#include "decide/layer_work.hpp"

#include <algorithm>
#include <cmath>

namespace cplab {

namespace {

constexpr double activation_bytes = 2, wide_bytes = 4;

// Adds what a part of the layer does to a LayerWork.
class Work {
 public:
  Work(LayerWork& work, const Training& training, const ModelLayout& layout, const MachineRates& rates)
      : work_(work), training_(training), layout_(layout), rates_(rates) {}

  // y = x W with x [rows, in] and W [in, out]; the backward has a product for x's gradient and, where W is
  // trained, one for W's. `groups` of them at once, `rows` each. Low-rank adapters add two thin products each
  // way.
  void product(double rows, double in, double out, bool again, double groups = 1) {
    const bool trains_whole = training_.lora_rank == 0;
    const KernelTime forward = rates_.product(training_.dtype, rows, out, in, groups);
    add_product(work_.forward, forward);
    quantize(rows * groups, in, out, again);
    add_product(work_.backward, rates_.product(training_.dtype, rows, in, out, groups));
    if (trains_whole) add_product(work_.backward, rates_.product(training_.dtype, in, out, rows, groups));
    if (again) add_product(work_.again, forward);
    const double flops = 2 * rows * in * out * groups;
    if (!trains_whole) low_rank(rows, in, out, groups);
    work_.model_flops += flops * (trains_whole ? 3 : 2);
    work_.peak_s += flops * (trains_whole ? 3 : 2) / rates_.peak_flops(training_.dtype);
  }
  // Bytes read and written; the backward reads results' gradients and inputs and writes the inputs'
  // gradients.
  void move(double forward_bytes, double backward_bytes, bool again) {
    add_move(work_.forward, rates_.move(forward_bytes));
    add_move(work_.backward, rates_.move(backward_bytes));
    if (again) add_move(work_.again, rates_.move(forward_bytes));
    work_.peak_s += (forward_bytes + backward_bytes) / rates_.hardware().gpu.copy_bytes_s;
  }
  // Bytes of an element that is kept as a product's operand alone: as narrow as the product takes it.
  double kept_operand_bytes() const {
    return is_narrow(training_.dtype) ? operand_bytes(training_.dtype) : activation_bytes;
  }
  // A norm of so many elements: read and written once, twice as much backward. Operation by operation it is
  // widened, squared, scaled, narrowed and weighted by a kernel each, 28 bytes instead of 4 an element, and
  // keeps a copy in fp32; its backward holds three more.
  void norm(double elements, std::int64_t& held_bytes) {
    const double times = training_.fused_kernels ? 1 : 7;
    move(2 * times * elements * activation_bytes, 4 * times * elements * activation_bytes, true);
    if (training_.fused_kernels) return;
    work_.saved_none_bytes += static_cast<std::int64_t>(elements * wide_bytes);
    held_bytes = static_cast<std::int64_t>(3 * elements * wide_bytes);
  }
  // Gathers the rows of a projection's input over the tp ranks, and scatters the sums of the one behind it.
  void tensor_exchange(double rows, double width, bool gathers_again) {
    if (layout_.tp == 1) return;
    const WireTime one = rates_.gather({layout_.tp, 1}, rows * width * activation_bytes);
    const int backward = gathers_again ? 3 : 2;
    for (int i = 0; i < 2; ++i) add_wire(work_.forward.tensor_exchange, work_.forward.tensor_path, one);
    for (int i = 0; i < backward; ++i)
      add_wire(work_.backward.tensor_exchange, work_.backward.tensor_path, one);
    for (int i = 0; i < 2; ++i) add_wire(work_.again.tensor_exchange, work_.again.tensor_path, one);
  }
  void expert_exchange(double rows, double width) {
    if (layout_.ep == 1) return;
    const WireTime one = rates_.all_to_all({layout_.ep, layout_.etp}, rows * width * activation_bytes);
    for (int i = 0; i < 2; ++i) add_wire(work_.forward.expert_exchange, work_.forward.path, one);
    for (int i = 0; i < 2; ++i) add_wire(work_.backward.expert_exchange, work_.backward.path, one);
    for (int i = 0; i < 2; ++i) add_wire(work_.again.expert_exchange, work_.again.path, one);
  }

 private:
  static void add(OriginSeconds& sum, const Estimate& estimate) {
    sum.add(estimate.origin, estimate.seconds);
  }
  static void add_product(WorkSeconds& sum, const KernelTime& time) {
    add(sum.products, time);
    sum.path.add(time.bound, time.seconds);
  }
  static void add_wire(OriginSeconds& exchange, ResourceSeconds& path, const WireTime& time) {
    add(exchange, time);
    time.add_to(path);
  }
  static void add_move(WorkSeconds& sum, const KernelTime& time) {
    add(sum.moves, time);
    sum.path.add(time.bound, time.seconds);
  }

  // Narrow products take operands that a kernel has made narrow, along rows and along columns: x forward, the
  // result's gradient backward. Weights are made narrow once a step.
  void quantize(double rows, double in, double out, bool again) {
    if (!is_narrow(training_.dtype)) return;
    const double each = activation_bytes + 2 * operand_bytes(training_.dtype);
    const KernelTime forward = rates_.move(rows * in * each);
    add_move(work_.forward, forward);
    if (again) add_move(work_.again, forward);
    add_move(work_.backward, rates_.move(rows * out * each));
  }

  void low_rank(double rows, double in, double out, double groups) {
    const auto rank = static_cast<double>(training_.lora_rank);
    for (const double width : {in, out}) {
      add_product(work_.forward, rates_.product(training_.dtype, rows, rank, width, groups));
      add_product(work_.backward, rates_.product(training_.dtype, rows, width, rank, groups));
      add_product(work_.backward, rates_.product(training_.dtype, width, rank, rows, groups));
      work_.model_flops += 6 * rows * rank * width * groups;
    }
  }

  LayerWork& work_;
  const Training& training_;
  const ModelLayout& layout_;
  const MachineRates& rates_;
};

// Columns of what is projected from the layer's input, and of what is projected back, for one tp rank.
struct Projections {
  double in = 0, out = 0;
  double latent_in = 0, latent_rows = 0;  // MLA: the products through the latents, as in x out of them
};

double per_rank(std::int64_t heads, std::int64_t tp) {
  return static_cast<double>(std::max<std::int64_t>(1, heads / tp));
}

void latent_projections(Work& work, const AttentionKind& kind, double rows, double h, std::int64_t tp) {
  const double heads = per_rank(kind.heads, tp);
  const auto D = static_cast<double>(kind.head_size), E = static_cast<double>(kind.value_size);
  const auto rope = static_cast<double>(kind.rope_size), latent = static_cast<double>(kind.kv_latent);
  if (kind.query_latent > 0) {
    work.product(rows, h, static_cast<double>(kind.query_latent), false);
    work.product(rows, static_cast<double>(kind.query_latent), heads * D, false);
  } else {
    work.product(rows, h, heads * D, false);
  }
  work.product(rows, h, latent + rope, false);
  work.product(rows, latent, heads * (D - rope + E), false);
  work.product(rows, heads * E, h, false);
}

void attention_part(Work& work, LayerWork& sums, const Model& model, const AttentionKind& kind,
                    const ModelLayout& layout, double rows) {
  const auto h = static_cast<double>(model.hidden), tp = static_cast<double>(layout.tp);
  const double norm = rows * h * activation_bytes / tp;
  work.norm(rows * h / tp, sums.norm_bytes);
  work.tensor_exchange(rows, h, true);
  const auto D = static_cast<double>(kind.head_size), E = static_cast<double>(kind.value_size);
  const double q = per_rank(kind.heads, layout.tp) * (kind.mixer == Mixer::gated_delta ? E : D);
  const double gate = kind.output_gate ? per_rank(kind.heads, layout.tp) * E : 0;
  double kv = 0;
  if (kind.mixer == Mixer::latent) {
    latent_projections(work, kind, rows, h, layout.tp);
  } else if (kind.mixer == Mixer::softmax) {
    kv = kind.shares_keys ? 0 : per_rank(kind.kv_heads, layout.tp) * (D + E);
    work.product(rows, h, q + kv + gate, false);
    work.product(rows, per_rank(kind.heads, layout.tp) * E, h, false);
  } else {
    // Keys and queries by key head, values by value head.
    kv = 2 * per_rank(kind.kv_heads, layout.tp) * D;
    work.product(rows, h, q + kv + gate, false);
    work.product(rows, per_rank(kind.heads, layout.tp) * E, h, false);
  }
  const double turned = rows * (q + kv) * activation_bytes;
  work.move(2 * turned, 2 * turned, false);
  if (kind.head_norms) work.norm(rows * (q + kv / 2), sums.head_norm_bytes);
  if (gate > 0) work.move(3 * rows * gate * activation_bytes, 5 * rows * gate * activation_bytes, true);
  work.move(3 * norm, 2 * norm, false);  // the sum with the layer's input
  // The layer's input and the normalized one; what is gated beside what the plan keeps.
  sums.saved_full_bytes += static_cast<std::int64_t>(norm);
  sums.saved_selective_bytes += static_cast<std::int64_t>(norm + rows * gate * activation_bytes);
  sums.saved_none_bytes += static_cast<std::int64_t>(norm + rows * h / tp * work.kept_operand_bytes() +
                                                     2 * rows * gate * activation_bytes);
  sums.working_bytes =
      std::max(sums.working_bytes, static_cast<std::int64_t>(rows * (h + q + kv + gate) * activation_bytes));
}

// A feed-forward part of that width over `rows` rows in `groups` groups of weights; its bytes when all is
// kept.
void feed_forward_products(Work& work, LayerWork& sums, const Training& training, double rows, double h,
                           double width, bool gated, double groups) {
  const double first = gated ? 2 * width : width;
  const WorkSeconds before = sums.forward;
  work.product(rows / groups, h, first, true, groups);
  work.product(rows / groups, width, h, false, groups);
  const double act = rows * activation_bytes;
  work.move(act * (first + width), act * (2 * first + 2 * width), true);
  // What the activation of the gate gives is a result of its own where it is a kernel of its own.
  const double kept = (first + (gated && !training.fused_kernels ? width : 0)) * activation_bytes +
                      width * work.kept_operand_bytes();
  const auto chunks = static_cast<double>(training.feed_forward_chunks);
  sums.saved_none_bytes += static_cast<std::int64_t>(rows * kept / chunks);
  sums.working_bytes =
      std::max(sums.working_bytes, static_cast<std::int64_t>(act * (h + (2 * first + width) / chunks)));
  if (training.feed_forward_chunks == 1) return;
  // A piece is computed again before its backward.
  sums.backward.add(sums.forward);
  sums.backward.add(before, -1);
}

void feed_forward_part(Work& work, LayerWork& sums, const Model& model, const FeedForwardKind& kind,
                       const Training& training, const ModelLayout& layout, double rows) {
  const auto h = static_cast<double>(model.hidden), tp = static_cast<double>(layout.tp);
  const double norm = rows * h * activation_bytes / tp;
  work.norm(rows * h / tp, sums.norm_bytes);
  sums.saved_selective_bytes += static_cast<std::int64_t>(norm);
  sums.saved_none_bytes += static_cast<std::int64_t>(norm + rows * h / tp * work.kept_operand_bytes());
  if (kind.experts == 0) {
    work.tensor_exchange(rows, h, true);
    feed_forward_products(work, sums, training, rows, h, static_cast<double>(kind.width) / tp, kind.gated, 1);
  } else {
    // Rows of the tp ranks are apart (sequence parallelism); each goes to its experts, of which a GPU holds
    // experts / ep, cut over etp ranks.
    const double own = rows / tp, chosen = static_cast<double>(kind.chosen);
    const double local = std::max(1.0, static_cast<double>(kind.experts) / static_cast<double>(layout.ep));
    const double routed = own * chosen * static_cast<double>(layout.etp);
    work.product(own, h, static_cast<double>(kind.experts), false);
    work.move(2 * own * chosen * h * activation_bytes, 2 * own * chosen * h * activation_bytes, true);
    work.expert_exchange(own * chosen, h);
    feed_forward_products(work, sums, training, routed, h,
                          static_cast<double>(kind.width) / static_cast<double>(layout.etp), kind.gated,
                          local);
    work.move(2 * own * chosen * h * activation_bytes, 2 * own * chosen * h * activation_bytes, false);
    sums.saved_none_bytes += static_cast<std::int64_t>(routed * h * work.kept_operand_bytes());
    if (kind.shared_width > 0) {
      work.tensor_exchange(rows, h, true);
      feed_forward_products(work, sums, training, rows, h, static_cast<double>(kind.shared_width) / tp,
                            kind.gated, 1);
    }
  }
  work.move(3 * norm, 2 * norm, false);
}

// What is left of an exchange that is cut into tp parts, each beside the product of the part before: the
// first part, or what the products are too short for.
void hide_exchange(WorkSeconds& work, const OriginSeconds& products, std::int64_t tp) {
  OriginSeconds& exchange = work.tensor_exchange;
  const double all_s = exchange.total(), parts = static_cast<double>(tp);
  if (tp == 1 || all_s <= 0) return;
  const double left_s = std::max(all_s / parts, all_s - products.total() * (parts - 1) / parts);
  for (double& seconds : exchange.seconds) seconds *= left_s / all_s;
  for (double& seconds : work.tensor_path.seconds) seconds *= left_s / all_s;
}

}  // namespace

void WorkSeconds::add(const WorkSeconds& other, double times) {
  path.add(other.path, times);
  tensor_path.add(other.tensor_path, times);
  for (std::size_t i = 0; i < 4; ++i) {
    products.seconds[i] += times * other.products.seconds[i];
    moves.seconds[i] += times * other.moves.seconds[i];
    tensor_exchange.seconds[i] += times * other.tensor_exchange.seconds[i];
    expert_exchange.seconds[i] += times * other.expert_exchange.seconds[i];
  }
}

LayerWork layer_work(const Model& model, const AttentionKind& attention, const FeedForwardKind& feed_forward,
                     const Training& training, const ModelLayout& layout, const MachineRates& rates,
                     double tokens) {
  LayerWork sums;
  if (model.hidden == 0) return sums;  // one attention layer, with nothing around it
  Work work(sums, training, layout, rates);
  attention_part(work, sums, model, attention, layout, tokens);
  const std::int64_t before_bytes = sums.saved_none_bytes;
  feed_forward_part(work, sums, model, feed_forward, training, layout, tokens);
  sums.feed_forward_bytes = sums.saved_none_bytes - before_bytes;
  if (training.overlap_tensor) {
    hide_exchange(sums.forward, sums.forward.products, layout.tp);
    hide_exchange(sums.backward, sums.backward.products, layout.tp);
    hide_exchange(sums.again, sums.forward.products, layout.tp);
  }
  return sums;
}

HeadWork head_work(const Model& model, const Training& training, const ModelLayout& layout,
                   const MachineRates& rates, double tokens) {
  LayerWork sums;
  Training wide = training;
  if (is_narrow(wide.dtype)) wide.dtype = "bf16";  // recipes keep the last product wide
  Work work(sums, wide, layout, rates);
  const auto h = static_cast<double>(model.hidden), tp = static_cast<double>(layout.tp);
  const double columns = static_cast<double>(model.vocabulary) / tp;
  work.move(2 * tokens * h * activation_bytes / tp, 4 * tokens * h * activation_bytes / tp, false);
  work.tensor_exchange(tokens, h, false);
  work.product(tokens, h, columns, false);
  // Logits are widened, reduced (twice read), and their gradient is written.
  work.move(tokens * columns * (activation_bytes + 3 * wide_bytes),
            tokens * columns * (wide_bytes + activation_bytes), false);
  const double chunks = static_cast<double>(std::max<std::int64_t>(1, layout.loss_chunks));
  // Operation by operation: wide logits, their logarithms' softmax and its gradient, each in fp32.
  const double alive = training.fused_kernels ? wide_bytes + activation_bytes : 3 * wide_bytes;
  HeadWork head{sums.forward, sums.backward, sums.peak_s, sums.model_flops, 0};
  head.logits_bytes = static_cast<std::int64_t>(tokens * columns / chunks * alive);
  return head;
}

}  // namespace cplab
