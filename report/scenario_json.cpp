// Resolved scenarios to and from JSON.
#include "report/scenario_json.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string>

#include "report/scenario_keys.hpp"

namespace cplab {
namespace {

const char* mask_of(const Problem& problem) {
  return problem.only_rectangles ? "none" : problem.causal ? "causal" : "full";
}

// Only those that there are.
void write_rectangles(JsonWriter& json, const Problem& problem) {
  if (problem.chunk > 0) json.field("chunk", problem.chunk);
  if (problem.prefix > 0) json.field("prefix", problem.prefix);
  if (!problem.groups.empty()) {
    json.key("groups");
    json.begin_array(JsonWriter::Style::line);
    for (const auto& [begin, end] : problem.groups) {
      json.begin_array();
      json.value(begin);
      json.value(end);
      json.end_array();
    }
    json.end_array();
  }
  if (problem.rectangles.empty()) return;
  json.key("mask_rectangles");
  json.begin_array(JsonWriter::Style::line);
  for (const MaskRectangle& r : problem.rectangles) {
    json.begin_array();
    for (const std::int64_t edge : {r.q_begin, r.q_end, r.k_begin, r.k_end}) json.value(edge);
    json.value(name(r.form));
    json.end_array();
  }
  json.end_array();
}

void write_problem(JsonWriter& json, const Problem& problem) {
  json.begin_object();
  json.field("attention", name(problem.attention));
  if (problem.packed) {
    json.list("lengths", problem.lengths);
    json.list("padded_lengths", problem.padded_lengths);
    if (problem.is_cross()) {
      json.list("kv_lengths", problem.kv_lengths);
      json.list("kv_padded_lengths", problem.kv_padded_lengths);
    }
  } else {
    json.field("batch", problem.batch);
    json.field("sequence", problem.sequence);
    if (problem.is_cross()) json.field("kv_sequence", problem.kv_sequence);
  }
  if (problem.is_cross()) json.field("align", name(problem.align));
  json.field("heads", problem.heads);
  json.field("kv_heads", problem.kv_heads);
  json.field("head_size", problem.head_size);
  json.field("value_size", problem.value_size);
  if (problem.has_latent())
    json.field("kv_latent", problem.kv_latent), json.field("rope_size", problem.rope_size);
  json.field("dtype", name(problem.dtype));
  json.field("format", name(problem.format));
  json.field("mask", mask_of(problem));
  json.pair("window", problem.window.left, problem.window.right);
  write_rectangles(json, problem);
  if (problem.attention != Attention::linear) json.field("scale", problem.scale);
  if (problem.max_logit) json.field("max_logit", true);
  if (problem.attention == Attention::linear) {
    json.field("transition", name(problem.transition));
    if (problem.gate != Gate::column) json.field("gate", name(problem.gate));
    if (problem.convolves()) json.field("convolution", problem.convolution);
    json.list("slopes", problem.slopes);
  }
  const bool dynamic = problem.attention == Attention::dynamic_mask;
  if (dynamic || problem.bias != BiasForm::none) json.field("bias", name(problem.bias));
  if (problem.bias == BiasForm::alibi) json.list("slopes", problem.slopes);
  if (problem.bias == BiasForm::buckets) {
    json.field("buckets", problem.buckets);
    json.field("max_distance", problem.max_distance);
  }
  if (dynamic) {
    json.field("keep", name(problem.keep));
    json.field("top_k", problem.top_k);
    json.field("block", problem.block);
  }
  if (dynamic || problem.softcap != 0) json.field("softcap", problem.softcap);
  if (problem.sink) json.field("sink", "head");
  json.field("direction", name(problem.direction));
  json.end_object();
}

void write_parallel(JsonWriter& json, const Scenario& scenario) {
  json.begin_object();
  json.field("ranks", scenario.parallel.ranks);
  json.field("replicas", scenario.parallel.replicas);
  json.key("groups");
  json.begin_array(JsonWriter::Style::line);
  for (const std::vector<int>& group : scenario.parallel.groups) {
    json.begin_array();
    for (const int rank : group) json.value(rank);
    json.end_array();
  }
  json.end_array();
  json.field("algorithm", scenario.algorithm);
  json.field("placement", scenario.placement);
  if (scenario.problem.is_cross())
    json.field("kv_placement", scenario.parallel.keys_everywhere ? "replicated" : "same");
  if (scenario.parallel.tokens_per_rank > 0) json.field("tokens_per_rank", scenario.parallel.tokens_per_rank);
  if (!scenario.parallel.pieces.empty()) {
    json.key("pieces");
    json.begin_array(JsonWriter::Style::line);
    for (const Parallel::Piece& piece : scenario.parallel.pieces) {
      json.begin_array();
      for (const std::int64_t number :
           {std::int64_t{piece.position}, piece.sequence, piece.begin, piece.count})
        json.value(number);
      json.end_array();
    }
    json.end_array();
  }
  if (!scenario.parallel.homes.empty()) json.list("homes", scenario.parallel.homes);
  json.end_object();
}

template <class Enum>
Enum read_word(const JsonNode& node, std::initializer_list<Enum> values) {
  std::string legal;
  for (const Enum value : values) {
    if (name(value) == node.text()) return value;
    (legal += legal.empty() ? "" : ", ") += name(value);
  }
  node.fail("\"" + node.text() + "\" is unknown; legal: " + legal);
}

std::vector<std::int64_t> read_lengths(const JsonNode& node) {
  std::vector<std::int64_t> lengths;
  for (std::size_t i = 0; i < node.size(); ++i) lengths.push_back(node.at(i).integer(0, limits::tokens));
  return lengths;
}

void read_sizes(const JsonNode& node, Problem& problem) {
  problem.packed = node.has("lengths");
  if (problem.packed) {
    problem.lengths = read_lengths(node.at("lengths"));
    problem.padded_lengths = read_lengths(node.at("padded_lengths"));
    node.at("padded_lengths").expect_size(problem.lengths.size(), "one padded length for each length");
  } else {
    problem.batch = node.at("batch").integer(1, limits::sequences);
    problem.sequence = node.at("sequence").integer(1, limits::tokens);
    problem.lengths.assign(static_cast<std::size_t>(problem.batch), problem.sequence);
    problem.padded_lengths = problem.lengths;
  }
}

void read_rectangles(const JsonNode& node, Problem& problem) {
  const auto edge = [](const JsonNode& of) { return of.integer(0, limits::tokens); };
  using Form = MaskRectangle::Form;
  if (node.has("chunk")) problem.chunk = edge(node.at("chunk"));
  if (node.has("prefix")) problem.prefix = edge(node.at("prefix"));
  for (std::size_t i = 0; node.has("groups") && i < node.at("groups").size(); ++i) {
    const JsonNode group = node.at("groups").at(i);
    group.expect_size(2, "[first, end]");
    problem.groups.emplace_back(edge(group.at(std::size_t{0})), edge(group.at(std::size_t{1})));
  }
  for (std::size_t i = 0; node.has("mask_rectangles") && i < node.at("mask_rectangles").size(); ++i) {
    const JsonNode r = node.at("mask_rectangles").at(i);
    r.expect_size(5, "[q0, q1, k0, k1, form]");
    const auto at = [&](std::size_t n) { return edge(r.at(n)); };
    problem.rectangles.push_back(
        {at(0), at(1), at(2), at(3),
         read_word(r.at(std::size_t{4}), {Form::full, Form::causal, Form::inverse_causal})});
  }
}

void read_cross(const JsonNode& node, Problem& problem) {
  if (!node.has(problem.packed ? "kv_lengths" : "kv_sequence")) return;
  if (problem.packed) {
    problem.kv_lengths = read_lengths(node.at("kv_lengths"));
    problem.kv_padded_lengths = read_lengths(node.at("kv_padded_lengths"));
    node.at("kv_lengths").expect_size(problem.lengths.size(), "one length of keys for each length");
    node.at("kv_padded_lengths").expect_size(problem.lengths.size(), "one padded length for each length");
  } else {
    problem.kv_sequence = node.at("kv_sequence").integer(1, limits::tokens);
    problem.kv_lengths.assign(static_cast<std::size_t>(problem.batch), problem.kv_sequence);
    problem.kv_padded_lengths = problem.kv_lengths;
  }
  problem.align = read_word(node.at("align"), {Diagonal::top_left, Diagonal::bottom_right});
}

Problem read_problem(const JsonNode& node) {
  node.only(problem_keys());
  Problem problem;
  problem.attention =
      read_word(node.at("attention"), {Attention::softmax, Attention::linear, Attention::dynamic_mask});
  problem.format = read_word(node.at("format"), {Format::bshd, Format::sbhd, Format::thd});
  problem.dtype = read_word(node.at("dtype"), {DType::fp64, DType::fp32, DType::bf16, DType::fp16});
  problem.direction =
      read_word(node.at("direction"), {Direction::forward, Direction::forward_backward, Direction::backward});
  problem.heads = node.at("heads").integer(1, limits::heads);
  problem.kv_heads = node.at("kv_heads").integer(1, limits::heads);
  if (problem.heads % problem.kv_heads != 0)
    node.at("kv_heads").fail("legal: divisors of heads, which is " + std::to_string(problem.heads));
  problem.head_size = node.at("head_size").integer(1, limits::head_size);
  problem.value_size = node.at("value_size").integer(1, limits::head_size);
  read_sizes(node, problem);
  read_cross(node, problem);
  const JsonNode mask = node.at("mask");
  problem.causal = mask.text() == "causal";
  problem.only_rectangles = mask.text() == "none";
  if (!problem.causal && !problem.only_rectangles && mask.text() != "full")
    mask.fail("\"" + mask.text() + "\" is unknown; legal: full, causal, none");
  read_rectangles(node, problem);
  const JsonNode window = node.at("window");
  window.expect_size(2, "[left, right]");
  problem.window.left = window.at(std::size_t{0}).integer(-1, limits::tokens);
  problem.window.right = window.at(std::size_t{1}).integer(-1, limits::tokens);
  const bool has_scale = problem.attention != Attention::linear;
  problem.scale = has_scale ? node.at("scale").number() : 1;
  if (!has_scale && node.has("scale") && node.at("scale").number() != 1)
    node.at("scale").fail("linear attention has no scale; leave the key out");
  problem.max_logit = node.has("max_logit") && node.at("max_logit").boolean();
  if (node.has("transition"))
    problem.transition = read_word(
        node.at("transition"), {Transition::decay, Transition::head, Transition::column, Transition::matrix});
  if (node.has("gate")) problem.gate = read_word(node.at("gate"), {Gate::column, Gate::head});
  if (node.has("slopes"))
    for (std::size_t i = 0; i < node.at("slopes").size(); ++i)
      problem.slopes.push_back(node.at("slopes").at(i).number());
  if (node.has("bias"))
    problem.bias = read_word(node.at("bias"), {BiasForm::none, BiasForm::full, BiasForm::keys,
                                               BiasForm::alibi, BiasForm::buckets});
  if (node.has("keep")) problem.keep = read_word(node.at("keep"), {Keep::none, Keep::top_k, Keep::relu});
  if (node.has("top_k")) problem.top_k = node.at("top_k").integer(0, limits::tokens);
  if (node.has("block")) problem.block = node.at("block").integer(0, limits::tokens);
  if (node.has("softcap")) problem.softcap = node.at("softcap").number();
  if (node.has("buckets")) problem.buckets = node.at("buckets").integer(0, limits::buckets);
  if (node.has("max_distance")) problem.max_distance = node.at("max_distance").integer(0, limits::tokens);
  if (node.has("kv_latent")) problem.kv_latent = node.at("kv_latent").integer(0, limits::head_size);
  if (node.has("convolution")) problem.convolution = node.at("convolution").integer(0, limits::convolution);
  if (node.has("rope_size")) problem.rope_size = node.at("rope_size").integer(0, limits::head_size);
  if (node.has("sink")) {
    const JsonNode sink = node.at("sink");
    problem.sink = sink.text() == "head";
    if (!problem.sink && sink.text() != "none")
      sink.fail("\"" + sink.text() + "\" is unknown; legal: none, head");
  }
  return problem;
}

void read_groups(const JsonNode& node, Parallel& parallel) {
  node.expect_size(static_cast<std::size_t>(parallel.replicas), "one group for each replica");
  std::vector<bool> seen(static_cast<std::size_t>(parallel.world()));
  for (std::size_t g = 0; g < node.size(); ++g) {
    const JsonNode members = node.at(g);
    members.expect_size(static_cast<std::size_t>(parallel.ranks), "as many ranks as parallel.ranks says");
    std::vector<int>& group = parallel.groups.emplace_back();
    for (std::size_t i = 0; i < members.size(); ++i) {
      const auto rank = static_cast<int>(members.at(i).integer(0, parallel.world() - 1));
      if (seen[static_cast<std::size_t>(rank)]) members.at(i).fail("a rank is a member of one group only");
      seen[static_cast<std::size_t>(rank)] = true;
      group.push_back(rank);
    }
  }
}

void read_pieces(const JsonNode& node, Scenario& scenario) {
  for (std::size_t i = 0; i < node.size(); ++i) {
    const JsonNode piece = node.at(i);
    piece.expect_size(4, "[position, sequence, begin, count]");
    const auto at = [&](std::size_t n, std::int64_t low, std::int64_t high) {
      return piece.at(n).integer(low, high);
    };
    scenario.parallel.pieces.push_back({static_cast<int>(at(0, 0, scenario.parallel.ranks - 1)),
                                        at(1, 0, std::ssize(scenario.problem.lengths) - 1),
                                        at(2, 0, limits::tokens), at(3, 1, limits::tokens)});
  }
}

void read_homes(const JsonNode& node, Scenario& scenario) {
  node.expect_size(scenario.problem.lengths.size(), "one home for each sequence");
  for (std::size_t i = 0; i < node.size(); ++i)
    scenario.parallel.homes.push_back(static_cast<int>(node.at(i).integer(-1, scenario.parallel.ranks - 1)));
}

Schedule read_schedule(const JsonNode& node) {
  Schedule schedule;
  node.members([&](const std::string& key, const JsonNode& value) {
    if (value.is_text()) {
      schedule.set(key, value.text());
    } else if (value.is_boolean()) {
      schedule.set(key, value.boolean());
    } else {
      schedule.set(key, value.integer());
    }
  });
  return schedule;
}

template <class Value>
void write_setting(JsonWriter& json, const std::string& key, const Value& value) {
  json.field(key, value);
}
void write_setting(JsonWriter& json, const std::string& key, const SettingTables& tables) {
  json.objects(key, tables, [&](const auto& table) {
    for (const auto& [name, number] : table)
      std::visit([&json, &of = name](const auto& value) { json.field(of, value); }, number);
  });
}

SettingTables read_tables(const JsonNode& list) {
  SettingTables tables;
  for (std::size_t i = 0; i < list.size(); ++i) {
    auto& table = tables.emplace_back();
    list.at(i).members([&](const std::string& key, const JsonNode& value) {
      if (value.is_integer())
        table.emplace_back(key, value.integer());
      else
        table.emplace_back(key, value.number());
    });
  }
  return tables;
}

}  // namespace

const std::vector<std::string>& problem_keys() {
  static const std::vector<std::string> keys = names_of(problem_key_table());
  return keys;
}

const std::vector<std::string>& parallel_keys() {
  static const std::vector<std::string> keys = names_of(parallel_key_table());
  return keys;
}

void write_scenario(JsonWriter& json, const Scenario& scenario, std::span<const ScenarioSection> sections) {
  json.begin_object();
  json.key("problem");
  write_problem(json, scenario.problem);
  json.key("parallel");
  write_parallel(json, scenario);
  json.key("schedule");
  json.begin_object();
  for (const auto& [key, option] : scenario.schedule.options)
    std::visit([&json, &key = key](const auto& value) { json.field(key, value); }, option);
  json.end_object();
  for (const ScenarioSection& section : sections) {
    json.key(section.name);
    json.begin_object();
    for (const auto& [key, setting] : section.settings)
      std::visit([&json, &key = key](const auto& value) { write_setting(json, key, value); }, setting);
    json.end_object();
  }
  json.end_object();
}

Scenario read_scenario(const JsonNode& node) {
  Scenario scenario;
  scenario.problem = read_problem(node.at("problem"));
  const JsonNode parallel = node.at("parallel");
  parallel.only(parallel_keys());
  scenario.parallel.ranks = parallel.at("ranks").integer(1, limits::world);
  scenario.parallel.replicas = parallel.at("replicas").integer(1, limits::world / scenario.parallel.ranks);
  if (parallel.has("kv_placement")) {
    const JsonNode where = parallel.at("kv_placement");
    scenario.parallel.keys_everywhere = where.text() == "replicated";
    if (!scenario.parallel.keys_everywhere && where.text() != "same")
      where.fail("\"" + where.text() + "\" is unknown; legal: same, replicated");
  }
  try {
    require_sizes(scenario.problem, scenario.parallel);
  } catch (const ScenarioError& error) {
    node.fail(error.key + ": " + error.what());
  }
  read_groups(parallel.at("groups"), scenario.parallel);
  scenario.algorithm = parallel.at("algorithm").text();
  scenario.placement = parallel.at("placement").text();
  if (scenario.placement == "hybrid")
    read_homes(parallel.at("homes"), scenario);
  else if (parallel.has("homes"))
    parallel.at("homes").fail("only placement hybrid has them");
  if (parallel.has("tokens_per_rank"))
    scenario.parallel.tokens_per_rank = parallel.at("tokens_per_rank").integer(0, limits::tokens);
  if (scenario.placement == "balanced" || scenario.placement == "dynamic")
    read_pieces(parallel.at("pieces"), scenario);
  else if (parallel.has("pieces"))
    parallel.at("pieces").fail("only placements balanced and dynamic have them");
  scenario.schedule = read_schedule(node.at("schedule"));
  return scenario;
}

std::vector<ScenarioSection> read_sections(const JsonNode& node) {
  std::vector<ScenarioSection> sections;
  node.members([&](const std::string& name, const JsonNode& section) {
    if (name == "problem" || name == "parallel" || name == "schedule") return;
    sections.push_back({name, {}});
    section.members([&](const std::string& key, const JsonNode& value) {
      SettingValue& setting = sections.back().settings.emplace_back(key, false).second;
      if (value.is_text())
        setting = value.text();
      else if (value.is_boolean())
        setting = value.boolean();
      else if (value.is_array())
        setting = read_tables(value);
      else if (value.is_integer())
        setting = value.integer();
      else
        setting = value.number();
    });
  });
  return sections;
}

}  // namespace cplab
