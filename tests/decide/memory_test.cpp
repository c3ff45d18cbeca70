// Memory by kind against numbers derived by hand.
#include "decide/memory.hpp"

#include <doctest/doctest.h>

#include "decide/layer_work.hpp"
#include "tests/decide/models_by_hand.hpp"

using namespace cplab;

namespace {

// A layer of 70B: q, k, v 8192 x (8192 + 2 x 1024), out 8192 x 8192, gate, up, down 3 x 8192 x 28672.
constexpr double layer_parameters = 8192.0 * (8192 + 2 * 1024) + 8192.0 * 8192 + 3 * 8192.0 * 28672;
constexpr double table_parameters = 8192.0 * 128256;

ModelLayout tp2_cp4() {
  ModelLayout layout;
  layout.tp = 2;
  layout.cp = 4;
  layout.micro_batches = 4;
  return layout;
}

}  // namespace

TEST_CASE("a GPU holds its part of every matrix, and both tables where there is no pipeline") {
  const Model model = by_hand::twelve_layers();
  const LocalParameters local = local_parameters(model, by_hand::rows_of(32768, 8), tp2_cp4());
  CHECK(local.experts == 0);
  CHECK(local.dense == doctest::Approx((12 * layer_parameters + 2 * table_parameters) / 2).epsilon(1e-6));
}

TEST_CASE("weights, gradients and optimizer: 2, 4 and 12 bytes, the last over dp x cp") {
  const Model model = by_hand::twelve_layers();
  const Training training = by_hand::rows_of(32768, 8);
  const MemoryNeed need = memory_need(model, training, tp2_cp4(), {}, 12, 0, 0, 0, 8);
  const double local = (12 * layer_parameters + 2 * table_parameters) / 2;
  CHECK(static_cast<double>(need.of(MemoryKind::weights)) == doctest::Approx(2 * local).epsilon(1e-6));
  CHECK(static_cast<double>(need.of(MemoryKind::gradients)) == doctest::Approx(4 * local).epsilon(1e-6));
  CHECK(static_cast<double>(need.of(MemoryKind::optimizer)) == doctest::Approx(12 * local / 4).epsilon(1e-6));
  ModelLayout sharded = tp2_cp4();
  sharded.zero = 3;
  const MemoryNeed spread = memory_need(model, training, sharded, {}, 12, 0, 0, 0, 8);
  CHECK(static_cast<double>(spread.of(MemoryKind::weights)) == doctest::Approx(2 * local / 4).epsilon(1e-6));
  CHECK(static_cast<double>(spread.of(MemoryKind::gradients)) ==
        doctest::Approx(4 * local / 4).epsilon(1e-6));
  // Two of twelve layers are gathered at a time, and the gradients of one layer and of the head are made in
  // bf16.
  const double fresh = 2 * (layer_parameters + table_parameters) / 2;
  CHECK(static_cast<double>(spread.of(MemoryKind::working)) ==
        doctest::Approx(2 * 2 * local / 12 + fresh).epsilon(1e-6));
  CHECK(static_cast<double>(need.of(MemoryKind::working)) == doctest::Approx(fresh).epsilon(1e-6));
}

TEST_CASE("a pipeline keeps as many micro-batches as it has stages, at most those of a step") {
  const Model model = by_hand::twelve_layers();
  const Training training = by_hand::rows_of(32768, 8);
  LayerMemory layer;
  layer.saved_bytes = 1e6;
  ModelLayout layout;
  layout.pp = 4;
  layout.micro_batches = 8;
  CHECK(memory_need(model, training, layout, layer, 3, 0, 0, 0, 8).of(MemoryKind::activations) == 12'000'000);
  layout.micro_batches = 2;
  CHECK(memory_need(model, training, layout, layer, 3, 0, 0, 0, 8).of(MemoryKind::activations) == 6'000'000);
}

TEST_CASE(
    "logits of 11.6K tokens and 248320 words take 10.8 GiB in fp32, and their gradient half as much again") {
  Model model = by_hand::twelve_layers();
  model.vocabulary = 248320;
  Training training = by_hand::rows_of(11600, 1);
  ModelLayout layout;
  Hardware machine;
  machine.gpu.sms = 132;
  machine.gpu.copy_bytes_s = 3e12;
  machine.gpu.peak_flops = {{"bf16", 989e12}};
  const MachineRates rates(machine);
  const double fp32 = 11600.0 * 248320 * 4;
  CHECK(fp32 / (1 << 30) == doctest::Approx(10.73).epsilon(0.001));
  CHECK(static_cast<double>(head_work(model, training, layout, rates, 11600).logits_bytes) ==
        doctest::Approx(1.5 * fp32));
  layout.loss_chunks = 16;
  CHECK(static_cast<double>(head_work(model, training, layout, rates, 11600).logits_bytes) ==
        doctest::Approx(1.5 * fp32 / 16));
}

TEST_CASE("experts are spread over ep x etp, and ZeRO over what is left of the ranks") {
  Model model = by_hand::twelve_layers();
  FeedForwardKind experts;
  experts.width = 1024, experts.experts = 64, experts.chosen = 4;
  model.feed_forward = {experts};
  ModelLayout layout;
  layout.tp = 2, layout.cp = 2, layout.dp = 4, layout.ep = 8;
  const LocalParameters local = local_parameters(model, by_hand::rows_of(32768, 16), layout);
  // 12 layers of 64 experts of 3 x 8192 x 1024, an eighth each.
  CHECK(local.experts == doctest::Approx(12 * 64 * 3 * 8192.0 * 1024 / 8).epsilon(1e-3));
  CHECK(expert_shards(layout) == 2);
  CHECK(dense_shards(layout) == 8);
}

TEST_CASE("the host takes optimizer, spread gradients and weights, 18 bytes a parameter") {
  const Model model = by_hand::twelve_layers();
  Training training = by_hand::rows_of(32768, 8);
  ModelLayout layout;
  layout.cp = 8;
  layout.zero = 3;
  layout.offload_optimizer = true;
  const double all = 12 * layer_parameters + 2 * table_parameters;
  const MemoryNeed beside = memory_need(model, training, layout, {}, 12, 0, 0, 0, 8);
  CHECK(beside.of(MemoryKind::gradients) == 0);
  CHECK(beside.of(MemoryKind::optimizer) == 0);
  CHECK(static_cast<double>(beside.of(MemoryKind::weights)) == doctest::Approx(2 * all / 8).epsilon(1e-6));
  CHECK(static_cast<double>(beside.host_bytes) == doctest::Approx(16 * all).epsilon(1e-6));
  training.offload_parameters = true;
  const MemoryNeed none = memory_need(model, training, layout, {}, 12, 0, 0, 0, 8);
  CHECK(none.of(MemoryKind::weights) == 0);
  CHECK(static_cast<double>(none.host_bytes) == doctest::Approx(18 * all).epsilon(1e-6));
  // Megatron's optimizer on the host (zero 1) leaves the buffer of gradients on the GPU.
  layout.zero = 1;
  training.offload_parameters = false;
  CHECK(static_cast<double>(
            memory_need(model, training, layout, {}, 12, 0, 0, 0, 8).of(MemoryKind::gradients)) ==
        doctest::Approx(4 * all).epsilon(1e-6));
}

TEST_CASE("a layer's backward lets its feed-forward part go before its attention is computed") {
  const Model model = by_hand::twelve_layers();
  Training training = by_hand::rows_of(32768, 8);
  training.parameter_bytes = 0;  // no weights: what is left is activations
  ModelLayout layout;
  LayerMemory layer;
  layer.again_bytes = 100e6;
  layer.again_feed_forward_bytes = 60e6;
  layer.norm_bytes = 10'000'000;
  layer.attention_bytes = 30'000'000;
  // 100 + 10 while the feed-forward part is there; then 40 + 30.
  const MemoryNeed first = memory_need(model, training, layout, layer, 12, 0, 0, 0, 8);
  CHECK(first.of(MemoryKind::working) == 110'000'000);
  CHECK(first.of(MemoryKind::attention) == 0);
  layer.attention_bytes = 90'000'000;  // 40 + 90 is more
  const MemoryNeed second = memory_need(model, training, layout, layer, 12, 0, 0, 0, 8);
  CHECK(second.of(MemoryKind::working) == 40'000'000);
  CHECK(second.of(MemoryKind::attention) == 90'000'000);
}
