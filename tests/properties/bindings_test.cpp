// The resource that binds a step predicts what a faster one brings: on drawn machines, models and layouts its
// share of the critical path, and the step estimated again with that resource a tenth faster.
#include <doctest/doctest.h>

#include <cstdlib>
#include <map>
#include <random>

#include "cli/advise/question.hpp"
#include "cli/files/hardware_file.hpp"
#include "cli/files/model_file.hpp"
#include "decide/changes.hpp"
#include "decide/search.hpp"

using namespace cplab;

namespace {

constexpr double faster = 1.1;

std::string scenarios(const std::string& name) {
  return std::string(CPLAB_TEST_SCENARIOS) + "/" + name;
}

// One layer of attention alone: nothing else takes time.
Model attention_layer(std::int64_t kv_heads, std::int64_t window) {
  Model model;
  model.name = "attention";
  AttentionKind kind;
  kind.name = "attention";
  kind.heads = 32, kind.kv_heads = kv_heads, kind.head_size = 128, kind.value_size = 128;
  kind.window = window;
  model.attention = {kind};
  model.feed_forward = {FeedForwardKind{}};
  model.layers = {{0, 0, 1}};
  return model;
}

Hardware with_faster(const Hardware& machine, Resource resource) {
  switch (resource) {
    case Resource::attention: return with_attention_speed(machine, faster);
    case Resource::products: return with_product_speed(machine, faster);
    case Resource::memory: return with_memory_speed(machine, faster);
    case Resource::links: return with_link_speed(machine, faster);
    case Resource::nics: return with_nic_speed(machine, faster);
    case Resource::launches:
    case Resource::host: break;
  }
  FAIL("nothing makes that faster");
  return machine;
}

Resource resource_named(const std::string& text) {
  for (std::size_t i = 0; i < resource_count; ++i)
    if (name(static_cast<Resource>(i)) == text) return static_cast<Resource>(i);
  FAIL("no such resource: " << text);
  return Resource::attention;
}

class Drawn {
 public:
  Drawn() {
    for (const char* each : {"h100x64", "h200x64", "h100x8", "b200x8", "a100x8", "mi300x8"})
      machines_.push_back(read_hardware(scenarios("hardware/" + std::string(each) + ".toml")));
    for (const char* each : {"llama3-8b", "llama3-70b", "qwen3-30b-a3b", "gpt-oss-20b", "qwen3-next-80b-a3b",
                             "deepseek-v2-lite"})
      models_.push_back(read_model_file(scenarios("models/" + std::string(each) + ".json")));
  }

  std::size_t below(std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random_); }
  std::int64_t power(int low, int high) {
    return std::int64_t{1} << (low + static_cast<int>(below(static_cast<std::size_t>(high - low + 1))));
  }

  // One step with a layout of any kind.
  void draw(bool alone) {
    hardware = machines_[below(machines_.size())];
    model = alone ? attention_layer(power(2, 5), below(3) == 0 ? 4096 : -1) : models_[below(models_.size())];
    training = Training{};
    training.mode =
        std::array{Mode::training, Mode::training, Mode::prefill, Mode::decode}[below(alone ? 3 : 4)];
    training.gpus = power(2, 5);
    training.sequence = power(13, 18);
    if (alone) training.tp = training.pp = 1;
    give_network(hardware, training.gpus);
    std::vector<Refusal> refused;
    const auto layouts = legal_layouts(model, training, hardware, {}, refused);
    layout = layouts[below(layouts.size())];
    StepModel steps(model, training, hardware);
    for (std::size_t kind = 0; kind < model.attention.size(); ++kind) {
      const auto choices = choices_of(model, steps.case_of(kind, layout, training.sequence),
                                      every_nth_gpu(hardware, layout.tp));
      layout.attention.push_back(choices[below(choices.size())]);
    }
  }

  Hardware hardware;
  Model model;
  Training training;
  ModelLayout layout;

 private:
  std::mt19937 random_{7};
  std::vector<Hardware> machines_;
  std::vector<Model> models_;
};

}  // namespace

TEST_CASE("what binds a step predicts what a tenth more of it brings") {
  setenv("CPLAB_SCENARIOS", CPLAB_TEST_SCENARIOS, 0);
  Drawn drawn;
  std::map<std::string, int> seen;
  int legal = 0, off = 0;
  for (int i = 0; legal < 100 && i < 400; ++i) {
    drawn.draw(i % 3 == 0);
    StepEstimate now, then;
    Binding binding;
    try {
      now = StepModel(drawn.model, drawn.training, drawn.hardware).estimate(drawn.layout);
      binding = bindings_of(now).front();
      // The least time of kernels and messages: no machine has another.
      if (binding.resource == name(Resource::launches)) continue;
      then = StepModel(drawn.model, drawn.training,
                       with_faster(drawn.hardware, resource_named(binding.resource)))
                 .estimate(drawn.layout);
    } catch (const ScenarioError&) {
      continue;  // that algorithm does not take it
    }
    ++legal;
    ++seen[binding.resource];
    CAPTURE(drawn.model.name);
    CAPTURE(drawn.hardware.name);
    CAPTURE(describe(drawn.layout));
    CAPTURE(drawn.layout.attention.front().algorithm);
    CAPTURE(drawn.training.sequence);
    CAPTURE(static_cast<int>(drawn.training.mode));
    CAPTURE(binding.resource);
    CAPTURE(binding.share);
    CHECK(now.critical.total() == doctest::Approx(now.time_s).epsilon(1e-6));
    const double predicted_s = binding.seconds * (1 - 1 / faster), gained_s = now.time_s - then.time_s;
    CAPTURE(predicted_s / now.time_s);
    CAPTURE(gained_s / now.time_s);
    const bool near = std::abs(gained_s - predicted_s) <= 0.2 * predicted_s;
    CHECK(near);
    off += near ? 0 : 1;
  }
  CHECK(legal == 100);
  CHECK(off == 0);
  for (const auto& [resource, count] : seen) MESSAGE(resource << ": " << count);
  // Every one of them binds somewhere.
  CHECK(seen.size() >= 5);
}
