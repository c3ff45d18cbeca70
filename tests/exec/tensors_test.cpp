// Tensors in global order: placement of tokens, the way to the ranks and back, files, random data.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>

#include "algorithms/core/build.hpp"
#include "algorithms/core/homes.hpp"
#include "algorithms/core/placement.hpp"
#include "cli/files/toml_table.hpp"
#include "cli/verify/npy.hpp"
#include "cli/verify/tensors.hpp"
#include "tests/empty_folder.hpp"
#include "tests/exec/scenarios.hpp"

namespace cplab {
namespace {

std::vector<ScenarioSpec> shapes() {
  std::vector<ScenarioSpec> specs;
  for (const char* placement : {"zigzag", "contiguous", "striped"}) {
    for (const std::int64_t ranks : {1, 2, 3, 4}) {
      ScenarioSpec spec;
      spec.ranks = ranks;
      spec.placement = placement;
      spec.batch = 3;
      spec.sequence = 13;
      specs.push_back(spec);
      spec.replicas = 2;
      specs.push_back(spec);
      spec.lengths = {0, 1, 2 * ranks - 1, 2 * ranks, 2 * ranks + 1, 7, 0};
      spec.padded_lengths = {0, 4, 2 * ranks, 2 * ranks, 2 * ranks + 5, 7, 3};
      specs.push_back(spec);
    }
  }
  return specs;
}

TEST_CASE("the table of tensors: which a problem has, their shapes and columns") {
  const auto names = [](const Problem& p, Category category) {
    std::string text;
    for (const ProblemTensor& tensor : tensors_of(p, category)) text += std::string(tensor.name) + " ";
    return text;
  };
  Problem p;
  p.batch = 2;
  p.sequence = 6;
  p.lengths = p.padded_lengths = {6, 6};
  p.heads = 8;
  p.kv_heads = 4;
  p.head_size = 16;
  p.value_size = 24;
  CHECK(names(p, Category::input) == "q k v dout ");
  CHECK(names(p, Category::output) == "out lse dq dk dv ");
  p.attention = Attention::linear;  // has no softmax, and so no lse
  CHECK(names(p, Category::output) == "out dq dk dv ");
  p.transition = Transition::column;
  CHECK(names(p, Category::input) == "q k v dout log_decay ");
  CHECK(names(p, Category::output) == "out dq dk dv dg ");
  p.transition = Transition::head;
  CHECK(names(p, Category::input) == "q k v dout log_decay ");
  CHECK(names(p, Category::output) == "out dq dk dv dg ");
  p.transition = Transition::matrix;
  CHECK(names(p, Category::input) == "q k v dout log_decay beta ");
  CHECK(names(p, Category::output) == "out dq dk dv dg dbeta ");
  p.direction = Direction::forward;
  CHECK(names(p, Category::input) == "q k v log_decay beta ");
  CHECK(names(p, Category::output) == "out ");
  p.transition = Transition::decay;
  p.attention = Attention::softmax;
  p.direction = Direction::forward;
  CHECK(names(p, Category::input) == "q k v ");
  CHECK(names(p, Category::output) == "out lse ");
  p.max_logit = true;
  CHECK(names(p, Category::output) == "out lse max_logit ");
  CHECK(tensor_names(Category::input) ==
        "q, k, v, dout, log_decay, beta, bias, sink, bias_table, latent, "
        "rope_key, key_weights, value_weights, conv_q, conv_k, conv_v");

  p.direction = Direction::forward_backward;
  using Numbers = std::vector<std::int64_t>;
  const std::vector<std::pair<Numbers, Numbers>> by_hand{
      // shape; heads, width, width of the buffer, first column
      {{2, 6, 8, 16}, {8, 16, 16, 0}},   // q
      {{2, 6, 4, 16}, {4, 16, 40, 0}},   // k
      {{2, 6, 4, 24}, {4, 24, 40, 16}},  // v
      {{2, 6, 8, 24}, {8, 24, 24, 0}},   // dout
      {{2, 6, 8, 24}, {8, 24, 24, 0}},   // out
      {{2, 8, 6}, {8, 1, 1, 0}},         // lse
      {{2, 6, 8, 16}, {8, 16, 16, 0}},   // dq
      {{2, 6, 4, 16}, {4, 16, 40, 0}},   // dk
      {{2, 6, 4, 24}, {4, 24, 40, 16}},  // dv
      {{8}, {8, 1, 1, 0}},               // max_logit
      {{2, 6, 8, 16}, {8, 16, 16, 0}},   // log_decay, of columns
      {{2, 6, 8}, {8, 1, 1, 0}},         // log_decay, of heads
      {{2, 6, 8}, {8, 1, 1, 0}},         // beta
      {{2, 6, 8, 16}, {8, 16, 16, 0}},   // dg, of columns
      {{2, 6, 8}, {8, 1, 1, 0}},         // dg, of heads
      {{2, 6, 8}, {8, 1, 1, 0}},         // dbeta
      // Of pairs: a row of 6 keys for each of 8 heads. Of keys: behind the 40 columns of k and v, or dk and
      // dv.
      {{2, 6, 8, 6}, {8, 6, 6, 0}},  // bias
      {{2, 6, 8, 6}, {8, 6, 6, 0}},  // keep
      {{2, 6, 4}, {4, 1, 42, 40}},   // bias
      {{2, 6, 4}, {4, 1, 42, 41}},   // keep
      {{2, 6, 8, 6}, {8, 6, 6, 0}},  // dbias
      {{2, 6, 4}, {4, 1, 41, 40}},   // dbias
      {{8}, {8, 1, 1, 0}},           // sink
      {{8, 32}, {8, 32, 32, 0}},     // bias_table
      {{8}, {8, 1, 1, 0}},           // dsink
      {{8, 32}, {8, 32, 32, 0}},     // dbias_table
      // Latents of 10 and rope keys of 4 lie side by side; weights make 12 and 24 columns of the 10.
      {{2, 6, 1, 10}, {1, 10, 14, 0}},  // latent
      {{2, 6, 1, 4}, {1, 4, 14, 10}},   // rope_key
      {{8, 10, 12}, {8, 120, 120, 0}},  // key_weights
      {{8, 10, 24}, {8, 240, 240, 0}},  // value_weights
      {{2, 6, 1, 10}, {1, 10, 14, 0}},  // dlatent
      {{2, 6, 1, 4}, {1, 4, 14, 10}},   // drope_key
      {{8, 10, 12}, {8, 120, 120, 0}},  // dkey_weights
      {{8, 10, 24}, {8, 240, 240, 0}},  // dvalue_weights
      // Of convolutions over 3 tokens.
      {{8, 16, 3}, {8, 48, 48, 0}},  // conv_q
      {{4, 16, 3}, {4, 48, 48, 0}},  // conv_k
      {{4, 24, 3}, {4, 72, 72, 0}},  // conv_v
      {{8, 16, 3}, {8, 48, 48, 0}},  // dconv_q
      {{4, 16, 3}, {4, 48, 48, 0}},  // dconv_k
      {{4, 24, 3}, {4, 72, 72, 0}},  // dconv_v
  };
  p.transition = Transition::matrix;
  REQUIRE(tensor_table().size() == by_hand.size());
  for (std::size_t i = 0; i < by_hand.size(); ++i) {
    const ProblemTensor& tensor = tensor_table()[i];
    CAPTURE(tensor.name);
    p.attention = tensor.attention.front();
    const bool stored = tensor.name == "bias" || tensor.name == "keep" || tensor.name == "dbias";
    const bool table = tensor.axes.ends_with('N');
    if (stored) p.attention = Attention::dynamic_mask;
    p.bias = table                        ? BiasForm::buckets
             : !stored                    ? BiasForm::none
             : tensor.axes.ends_with('K') ? BiasForm::full
                                          : BiasForm::keys;
    p.keep = stored ? Keep::top_k : Keep::none;
    p.sink = tensor.name.ends_with("sink");
    p.gate = tensor.axes == "BSH" ? Gate::head : Gate::column;
    p.buckets = table ? 32 : 0;
    const bool latent = tensor.axes.find_first_of("CRX") != std::string_view::npos;
    p.kv_latent = latent ? 10 : 0, p.rope_size = latent ? 4 : 0;
    p.convolution = tensor.axes.ends_with('W') ? 3 : 0;
    const TokenRow row = token_row(p, tensor);
    CHECK(shape_of(p, tensor) == by_hand[i].first);
    CHECK(Numbers{row.heads, row.width, row.buffer_width, row.first_column} == by_hand[i].second);
    if (tensor.category == Category::input && tensor.per_token())
      CHECK((tensor.axes.starts_with("BS") || tensor.axes.starts_with("BL")));
  }
  p.kv_latent = p.rope_size = p.convolution = 0;
  p.packed = true;
  p.batch = p.sequence = 0;
  p.lengths = {3, 4};
  p.padded_lengths = {5, 4};
  CHECK(shape_of(p, tensor_table()[1]) == Numbers{9, 4, 16});
  CHECK(shape_of(p, tensor_table()[5]) == Numbers{8, 9});
  CHECK(axes_of(p, tensor_table()[5]) == "HT");
  CHECK(shape_of(p, tensor_table()[9]) == Numbers{8});
}

// Every buffer that the table names is one of a plan with gradients, of its category, role and width.
TEST_CASE("the table of tensors names the buffers of plans") {
  ScenarioSpec spec;
  spec.max_logit = true;
  const Plan plan = build_plan(scenario(spec));
  const Problem& p = plan.scenario.problem;
  for (const ProblemTensor& tensor : tensor_table()) {
    if (std::ranges::count(tensor.attention, p.attention) == 0) continue;
    if (tensor.asked != nullptr && !tensor.asked(p)) continue;
    CAPTURE(tensor.name);
    const auto& buffers = plan.ranks[0].buffers;
    const auto found =
        std::ranges::find_if(buffers, [&](const Buffer& b) { return b.name == tensor.buffer; });
    REQUIRE(found != buffers.end());
    CHECK(found->category == tensor.category);
    CHECK(found->role == tensor.role);
    CHECK(found->heads == token_row(p, tensor).heads);
    CHECK(found->width == token_row(p, tensor).buffer_width);
  }
}

TEST_CASE("distances of the axes of a tensor") {
  const TokenStrides dense = token_strides("BSHD", std::vector<std::int64_t>{2, 6, 8, 16});
  CHECK(dense.sequence == 6 * 8 * 16);
  CHECK(dense.position == 8 * 16);
  CHECK(dense.token == 0);
  CHECK(dense.head == 16);
  CHECK(dense.column == 1);
  const TokenStrides lse = token_strides("HT", std::vector<std::int64_t>{8, 9});
  CHECK(lse.sequence == 0);
  CHECK(lse.position == 0);
  CHECK(lse.token == 1);
  CHECK(lse.head == 9);
  CHECK(lse.column == 0);
}

TEST_CASE("every token has one local row, and the placement of the algorithms agrees") {
  std::vector<Scenario> scenarios;
  for (const ScenarioSpec& spec : shapes()) {
    scenarios.push_back(scenario(spec));
    scenarios.push_back(scenarios.back());
    scenarios.back().placement = "stream";
    scenarios.push_back(scenarios.back());
    scenarios.back().placement = "hybrid";
    resolve_homes(scenarios.back());
  }
  for (const Scenario& s : scenarios) {
    CAPTURE(s.placement);
    std::set<std::int64_t> tokens;
    std::int64_t valid = 0;
    for (int replica = 0; replica < s.parallel.replicas; ++replica) {
      const Placement placement(s.problem, s.parallel, s.placement, replica);
      for (int position = 0; position < s.parallel.ranks; ++position) {
        const std::vector<LocalRow> rows = local_rows(s, replica, position);
        REQUIRE(static_cast<std::int64_t>(rows.size()) == placement.rows());
        for (const LocalRow& row : rows) {
          CHECK(row.sequence % s.parallel.replicas == replica);
          if (row.token >= 0) CHECK(tokens.insert(row.token).second);
          if (row.valid) CHECK(row.token >= 0);
          valid += row.valid ? 1 : 0;
        }
        for (const TokenRun& run : placement.runs(position)) {
          for (std::int64_t i = 0; i < run.rows; ++i) {
            const LocalRow& row = rows[static_cast<std::size_t>(run.row + i)];
            CHECK(row.sequence == run.sequence);
            CHECK(row.valid == (i < run.valid));
            if (row.valid) CHECK(row.position == run.position + i * run.stride);
          }
        }
      }
    }
    std::int64_t all = 0, all_valid = 0;
    for (const std::int64_t length : s.problem.padded_lengths) all += length;
    for (const std::int64_t length : s.problem.lengths) all_valid += length;
    CHECK(static_cast<std::int64_t>(tokens.size()) == all);
    CHECK(valid == all_valid);
  }
}

// A plan that copies its inputs to its outputs: what is gathered must be what was scattered.
TEST_CASE("scatter and gather are inverse, padding is NaN inside and zero outside") {
  for (ScenarioSpec spec : shapes()) {
    spec.kv_heads = 2;
    spec.head_size = 4;
    spec.value_size = 4;
    Plan plan = build_plan(scenario(spec));
    const Problem& p = plan.scenario.problem;
    const Inputs inputs = random_inputs(p, 7);
    CpuExecutor executor(plan, {});
    scatter(plan, inputs, executor);
    for (const RankPlan& rank : plan.ranks) {
      const auto rows = local_rows(plan.scenario, rank.replica, rank.position);
      const std::vector<double> q = executor.read(rank.rank, "q"), kv = executor.read(rank.rank, "kv");
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const auto width = static_cast<std::size_t>(p.heads * p.head_size);
        for (std::size_t x = 0; x < width; ++x) CHECK(std::isnan(q[i * width + x]) == !rows[i].valid);
      }
      executor.write(rank.rank, "dq", q);
      executor.write(rank.rank, "dkv", kv);
      executor.write(rank.rank, "out", executor.read(rank.rank, "dout"));
      std::vector<double> lse;
      for (const LocalRow& row : rows) {
        for (std::int64_t h = 0; h < p.heads; ++h) {
          lse.push_back(static_cast<double>(1000 * row.sequence + 10 * row.position + h));
        }
      }
      executor.write(rank.rank, "lse", lse);
    }
    const Outputs outputs = gather(plan, executor);
    const auto same = [&](const Tensor& given, const Tensor& taken) {
      REQUIRE(given.shape == taken.shape);
      for (std::size_t i = 0; i < given.values.size(); ++i) {
        const double expected = std::isnan(given.values[i]) ? 0 : given.values[i];  // random padding is NaN
        REQUIRE(taken.values[i] == expected);
      }
    };
    same(inputs["q"], outputs["dq"]);
    same(inputs["k"], outputs["dk"]);
    same(inputs["v"], outputs["dv"]);
    same(inputs["dout"], outputs["out"]);
    std::int64_t token = 0, total = 0;
    for (const std::int64_t length : p.padded_lengths) total += length;
    for (std::size_t b = 0; b < p.lengths.size(); ++b) {
      for (std::int64_t i = 0; i < p.padded_lengths[b]; ++i, ++token) {
        for (std::int64_t h = 0; h < p.heads; ++h) {
          const std::int64_t at =
              p.packed ? h * total + token : (static_cast<std::int64_t>(b) * p.heads + h) * p.sequence + i;
          const double expected = i < p.lengths[b]
                                      ? static_cast<double>(1000 * static_cast<std::int64_t>(b) + 10 * i + h)
                                      : -std::numeric_limits<double>::infinity();
          CHECK(outputs["lse"].values[static_cast<std::size_t>(at)] == expected);
        }
      }
    }
  }
}

TEST_CASE("random inputs are normal, rounded, and the same for every number of ranks") {
  ScenarioSpec spec;
  spec.sequence = 2000;
  spec.dtype = DType::bf16;
  const Inputs inputs = random_inputs(scenario(spec).problem, 5);
  spec.ranks = 7;
  CHECK(random_inputs(scenario(spec).problem, 5)["k"].values == inputs["k"].values);
  CHECK(random_inputs(scenario(spec).problem, 6)["k"].values != inputs["k"].values);
  CHECK(std::equal(inputs["k"].values.begin(), inputs["k"].values.begin() + 100,
                   inputs["q"].values.begin()) == false);
  const auto& x = inputs["q"].values;  // n = 64000
  const auto n = static_cast<double>(x.size());
  double mean = 0, square = 0, fourth = 0;
  for (const double v : x) {
    CHECK(v == rounded(v, DType::bf16));
    mean += v / n;
    square += v * v / n;
    fourth += v * v * v * v / n;
  }
  // Five standard errors of the mean of x (1), x^2 (sqrt 2) and x^4 (sqrt 96) of a normal distribution.
  CHECK(std::abs(mean) < 5 / std::sqrt(n));
  CHECK(std::abs(square - 1) < 5 * std::sqrt(2 / n));
  CHECK(std::abs(fourth - 3) < 5 * std::sqrt(96 / n));
}

TEST_CASE("values are rounded to nearest even") {
  CHECK(rounded(1 + 0x1p-8, DType::bf16) == 1);
  CHECK(rounded(1 + 0x1p-8 + 0x1p-30, DType::bf16) ==
        1 + 0x1p-7);  // rounded once: by way of fp32 the tie would go down
  CHECK(rounded(1 + 0x1p-8 + 0x1p-40, DType::bf16) == 1 + 0x1p-7);
  CHECK(rounded(1 + 3 * 0x1p-11, DType::fp16) == 1 + 0x1p-9);
  CHECK(rounded(0x1p-25, DType::fp16) == 0);
  CHECK(rounded(1 + 0x1p-24, DType::fp32) == 1);
  CHECK(rounded(1 + 0x1p-52, DType::fp64) == 1 + 0x1p-52);
}

TEST_CASE("inputs are read from files, rounded, and refused if they do not fit") {
  ScenarioSpec spec;
  spec.dtype = DType::fp16;
  const Problem p = scenario(spec).problem;
  const Inputs inputs = random_inputs(p, 9);
  const testing::EmptyFolder folder;
  const std::string directory = folder.path.string();
  CHECK_THROWS_AS(read_inputs(p, (folder.path / "missing").string()), InputError);
  const auto write = [&](const char* name, std::vector<std::int64_t> shape,
                         const std::vector<double>& values) {
    std::ofstream(folder.path / name, std::ios::binary) << format_npy(shape, values, true);
  };
  std::vector<double> q = inputs["q"].values;
  for (double& v : q) v *= 1 + 0x1p-20;  // well below half a unit of fp16: rounds back
  write("q.npy", inputs["q"].shape, q);
  write("k.npy", inputs["k"].shape, inputs["k"].values);
  write("v.npy", inputs["v"].shape, inputs["v"].values);
  try {
    read_inputs(p, directory);
    FAIL("dout.npy is missing");
  } catch (const InputError& error) {
    CHECK(std::string(error.what()).find("dout.npy: no such file") != std::string::npos);
  }
  Problem forward = p;
  forward.direction = Direction::forward;
  CHECK(read_inputs(forward, directory).find("dout") == nullptr);
  write("dout.npy", inputs["dout"].shape, inputs["dout"].values);
  const Inputs read = read_inputs(p, directory);
  CHECK(read["q"].values == inputs["q"].values);
  CHECK(read["dout"].values == inputs["dout"].values);
  CHECK(read["v"].shape == std::vector<std::int64_t>{1, 32, 2, 4});

  write("v.npy", {1, 32, 4, 2}, inputs["v"].values);
  try {
    read_inputs(p, directory);
    FAIL("v.npy has the wrong shape");
  } catch (const InputError& error) {
    CHECK(std::string(error.what()).find("[1, 32, 4, 2]") != std::string::npos);
    CHECK(std::string(error.what()).find("[1, 32, 2, 4]") != std::string::npos);
  }
}

TEST_CASE("outputs are saved as the contract says") {
  for (const DType dtype : {DType::bf16, DType::fp64}) {
    ScenarioSpec spec;
    spec.dtype = dtype;
    spec.lengths = {5, 2};
    spec.padded_lengths = {6, 2};
    const Plan plan = build_plan(scenario(spec));
    CpuExecutor executor(plan, {});
    scatter(plan, random_inputs(plan.scenario.problem, 1), executor);
    executor.run();
    const Outputs outputs = gather(plan, executor);
    const testing::EmptyFolder folder;
    const std::filesystem::path saved = folder.path / "new" / "too";
    save_tensors(plan.scenario.problem, {{saved.string(), Category::output, outputs}});
    const auto load = [&](const char* name) { return read_npy((saved / name).string()); };
    CHECK(load("out.npy").shape == std::vector<std::int64_t>{8, 4, 4});
    CHECK(load("lse.npy").shape == std::vector<std::int64_t>{4, 8});
    CHECK(load("dq.npy").shape == std::vector<std::int64_t>{8, 4, 8});
    CHECK(load("dk.npy").shape == std::vector<std::int64_t>{8, 2, 8});
    CHECK(load("dv.npy").shape == std::vector<std::int64_t>{8, 2, 4});
    CHECK(load("lse.npy").fp64 == (dtype == DType::fp64));
    CHECK(load("out.npy").values == outputs["out"].values);
    CHECK(std::isinf(load("lse.npy").values[5]));
    for (std::size_t i = 5 * 16; i < 6 * 16; ++i) CHECK(load("out.npy").values[i] == 0);
  }
}

}  // namespace
}  // namespace cplab
