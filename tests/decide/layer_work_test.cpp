// Products, exchanges and kept activations of a layer against numbers derived by hand.
#include "decide/layer_work.hpp"

#include <doctest/doctest.h>

#include "decide/fitted.hpp"
#include "tests/decide/models_by_hand.hpp"

using namespace cplab;

namespace {

// A B200 whose products hold 0.49 of 2250 TFLOP/s, eight of them on 900 GB/s; `share` of another.
Hardware machine(double share = 0.49, double bf16 = 2250e12, double fp8 = 4500e12) {
  Hardware made;
  made.name = "by hand";
  made.node.gpus = 8;
  made.node.link_bytes_s = 900e9;
  made.gpu.sms = 148;
  made.gpu.copy_bytes_s = 6.8e12;
  made.gpu.peak_flops = {{"bf16", bf16}, {"fp8", fp8}, {"fp4", 15e15}};
  made.efficiency.share[static_cast<std::size_t>(KernelClass::gemm)] = share;
  MessageTable table;
  table.kind = OpKind::all_gather;
  table.path = Path::intra;
  table.group = 4;
  table.points = {{1e3, 1e-6}, {1e9, 1e-6 + 1e9 / 600e9}};
  made.messages.push_back(table);
  return made;
}

// 148 x 8 tiles of 128 x 256: eight full waves.
constexpr double m = 148 * 128, n = 8 * 256, k = 16384;

double flops_s(const MachineRates& rates, const char* dtype) {
  return 2 * m * n * k / rates.product(dtype, m, n, k).seconds;
}

}  // namespace

TEST_CASE("narrow products are bounded by power where bf16 is, else by their own peak") {
  const Hardware b200 = machine();
  const MachineRates rates(b200);
  CHECK(flops_s(rates, "bf16") == doctest::Approx(0.49 * 2250e12));
  CHECK(flops_s(rates, "fp8") == doctest::Approx(fitted.fp8_of_bf16 * 0.49 * 2250e12));
  CHECK(flops_s(rates, "fp4") == doctest::Approx(fitted.fp4_of_bf16 * 0.49 * 2250e12));
  // What steps hold of it.
  Hardware hot = machine();
  hot.efficiency.held = 0.5;
  CHECK(flops_s(MachineRates(hot), "bf16") == doctest::Approx(0.5 * 0.49 * 2250e12));
  // 0.68 of 989 in bf16, and so much more of it, is above 0.68 of 1979.
  const Hardware h100 = machine(0.68, 989e12, 1979e12);
  CHECK(flops_s(MachineRates(h100), "fp8") == doctest::Approx(0.68 * 1979e12));
}

TEST_CASE("an exchange of tensor parallelism leaves its first part beside the products") {
  const Hardware b200 = machine();
  const MachineRates rates(b200);
  const Model model = by_hand::twelve_layers();
  Training training = by_hand::rows_of(8192, 4);
  ModelLayout layout;
  layout.tp = 4;
  const auto work = [&](bool overlap) {
    training.overlap_tensor = overlap;
    return layer_work(model, model.attention[0], model.feed_forward[0], training, layout, rates, 8192);
  };
  const double all_s = work(false).forward.tensor_exchange.total();
  // Four exchanges of 8192 x 8192 x 2 bytes, 3/4 of them over the wire.
  CHECK(all_s == doctest::Approx(4 * (1e-6 + 0.75 * 8192.0 * 8192 * 2 / 600e9)).epsilon(0.02));
  CHECK(work(false).forward.products.total() > all_s);
  CHECK(work(true).forward.tensor_exchange.total() == doctest::Approx(all_s / 4));
  CHECK(work(true).forward.products.total() == doctest::Approx(work(false).forward.products.total()));
}

TEST_CASE("operation by operation, norms keep fp32, the activation its result, the loss three times fp32") {
  const Hardware b200 = machine();
  const MachineRates rates(b200);
  const Model model = by_hand::twelve_layers();
  Training training = by_hand::rows_of(4096, 1);
  const ModelLayout layout;
  constexpr double rows = 4096, h = 8192, width = 28672;
  const auto work = [&] {
    return layer_work(model, model.attention[0], model.feed_forward[0], training, layout, rates, rows);
  };
  const LayerWork fused = work();
  training.fused_kernels = false;
  const LayerWork apart = work();
  CHECK(static_cast<double>(apart.saved_none_bytes - fused.saved_none_bytes) ==
        doctest::Approx(2 * rows * h * 4 + rows * width * 2));
  CHECK(static_cast<double>(apart.norm_bytes) == doctest::Approx(3 * rows * h * 4));
  CHECK(fused.norm_bytes == 0);
  CHECK(static_cast<double>(head_work(model, training, layout, rates, rows).logits_bytes) ==
        doctest::Approx(12 * rows * 128256));
}

TEST_CASE("a feed-forward part in pieces keeps one of them, and computes it once more") {
  const Hardware b200 = machine();
  const MachineRates rates(b200);
  const Model model = by_hand::twelve_layers();
  Training training = by_hand::rows_of(4096, 1);
  const ModelLayout layout;
  constexpr double rows = 4096, width = 28672;
  const auto work = [&] {
    return layer_work(model, model.attention[0], model.feed_forward[0], training, layout, rates, rows);
  };
  const LayerWork whole = work();
  training.feed_forward_chunks = 4;
  const LayerWork pieces = work();
  // gate, up and what goes into down: 3 x 28672 in bf16.
  CHECK(static_cast<double>(whole.saved_none_bytes - pieces.saved_none_bytes) ==
        doctest::Approx(0.75 * rows * 3 * width * 2));
  CHECK(static_cast<double>(whole.feed_forward_bytes - pieces.feed_forward_bytes) ==
        doctest::Approx(0.75 * rows * 3 * width * 2));
  const double forward_s =
      rates.product("bf16", rows, 2 * width, 8192).seconds + rates.product("bf16", rows, 8192, width).seconds;
  CHECK(pieces.backward.products.total() - whole.backward.products.total() == doctest::Approx(forward_s));
}

TEST_CASE("products of few rows a group begin and end their tiles anew") {
  const Hardware b200 = machine();
  const MachineRates rates(b200);
  // 148 groups of 256 rows are whole waves of tiles, as one product of 148 x 256 rows is.
  const double one_s = rates.product("bf16", 148 * 256, 2048, 4096).seconds;
  CHECK(rates.product("bf16", 256, 2048, 4096, 148).seconds ==
        doctest::Approx(one_s * (1 + 128.0 / 256) * (1 + 384.0 / 4096)));
}

TEST_CASE("what an FP8 product alone takes is kept in FP8") {
  const Hardware b200 = machine();
  const MachineRates rates(b200);
  const Model model = by_hand::twelve_layers();
  Training training = by_hand::rows_of(4096, 1);
  constexpr double rows = 4096, h = 8192, width = 28672;
  const auto kept = [&] {
    return static_cast<double>(
        layer_work(model, model.attention[0], model.feed_forward[0], training, {}, rates, rows)
            .saved_none_bytes);
  };
  const double wide = kept();
  // Layer inputs, normalized inputs, gate and up, and what goes into down.
  CHECK(wide == doctest::Approx(rows * 2 * (2 * h + 2 * h + 3 * width)));
  training.dtype = "fp8";
  CHECK(wide - kept() == doctest::Approx(rows * (2 * h + width)));
}
