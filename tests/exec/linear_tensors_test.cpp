// The tensors that linear attention has beside q, k and v: factors, strengths and their files.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>

#include "cli/files/toml_table.hpp"
#include "cli/verify/npy.hpp"
#include "cli/verify/tensors.hpp"
#include "tests/empty_folder.hpp"

namespace cplab {
namespace {

Problem linear_problem(Transition transition) {
  Problem p;
  p.attention = Attention::linear;
  p.transition = transition;
  p.packed = true;
  p.lengths = {40, 3};
  p.padded_lengths = {40, 5};
  p.heads = p.kv_heads = 2;
  p.head_size = 8;
  p.value_size = 4;
  p.causal = true;
  return p;
}

TEST_CASE("random inputs of linear attention: factors and strengths, and rows of k that delta rules need") {
  const Inputs decay = random_inputs(linear_problem(Transition::decay), 3);
  const Inputs column = random_inputs(linear_problem(Transition::column), 3);
  const Inputs matrix = random_inputs(linear_problem(Transition::matrix), 3);
  const auto same = [](const Tensor& a, const Tensor& b) {
    return std::ranges::equal(a.values, b.values,
                              [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); });
  };
  for (const char* name : {"q", "v", "dout"}) CHECK(same(decay[name], matrix[name]));
  CHECK(same(decay["k"], column["k"]));
  CHECK(same(column["log_decay"], matrix["log_decay"]));
  CHECK(decay.find("log_decay") == nullptr);
  const auto& g = column["log_decay"].values;  // 43 tokens of 16 numbers, 2 of padding
  const auto& beta = matrix["beta"].values;
  REQUIRE(g.size() == 45 * 16);
  REQUIRE(beta.size() == 45 * 2);
  double least = 0, most = -1, small = 1, large = 0;
  for (std::size_t i = 0; i < 43 * 16; ++i) least = std::min(least, g[i]), most = std::max(most, g[i]);
  for (std::size_t i = 0; i < 43 * 2; ++i) small = std::min(small, beta[i]), large = std::max(large, beta[i]);
  CHECK((least >= -0.2f && least < -0.19 && most > -0.01 && most <= 0));
  CHECK((small > 0 && small < 0.1 && large > 0.9 && large < 1));
  CHECK(std::isnan(g[43 * 16]));
  CHECK(g[0] == static_cast<float>(g[0]));  // wide, not the problem's bf16
  CHECK(g[0] != rounded(g[0], DType::bf16));
  const auto& k = matrix["k"].values;
  for (std::size_t row = 0; row < 43 * 2; ++row) {
    double length2 = 0;
    for (std::size_t d = 0; d < 8; ++d) length2 += k[row * 8 + d] * k[row * 8 + d];
    CHECK(std::sqrt(length2) == doctest::Approx(1).epsilon(0x1p-8));  // rounded to bf16
  }
}

TEST_CASE("a log_decay that would make states grow is refused, in padding it may be anything") {
  const Problem p = linear_problem(Transition::matrix);
  const Inputs inputs = random_inputs(p, 9);
  const testing::EmptyFolder folder;
  const auto write = [&](const char* name, const std::vector<double>& values) {
    std::ofstream(folder.path / (std::string(name) + ".npy"), std::ios::binary)
        << format_npy(inputs[name].shape, values, true);
  };
  for (const char* name : {"q", "k", "v", "dout", "log_decay", "beta"}) write(name, inputs[name].values);
  const auto read_error = [&]() -> std::string {
    try {
      (void)read_inputs(p, folder.path.string());
      return "";
    } catch (const InputError& error) {
      return error.what();
    }
  };
  CHECK(read_error().empty());  // padding rows are NaN
  std::vector<double> g = inputs["log_decay"].values;
  g[44 * 16] = 3;  // padding
  g[5] = 0;
  write("log_decay", g);
  CHECK(read_error().empty());
  g[17 + 8] = 1e-9;
  write("log_decay", g);
  CHECK(read_error().find("log_decay.npy: element [1, 1, 1] is 1e-09; ") != std::string::npos);
  CHECK(read_error().find("legal are numbers up to 0") != std::string::npos);
  g[17 + 8] = -std::numeric_limits<double>::infinity();
  write("log_decay", g);
  CHECK(read_error().find("must hold finite numbers") != std::string::npos);
  g[17 + 8] = 0;
  write("log_decay", g);
  std::vector<double> beta = inputs["beta"].values;
  beta[3] = 1.75;  // strengths are what they are
  write("beta", beta);
  CHECK(read_error().empty());
  beta[3] = std::nan("");
  write("beta", beta);
  CHECK(read_error().find("beta.npy: element [1, 1] is nan") != std::string::npos);
}

}  // namespace
}  // namespace cplab
