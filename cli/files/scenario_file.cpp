// Reading order: unknown keys first (a misspelt key is the better message than the missing one), then types,
// then ranges and combinations, then what only the registry knows (algorithm, placement, options).
#include "cli/files/scenario_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>
#include <set>

#include "algorithms/core/resolve.hpp"
#include "cli/files/changes.hpp"
#include "cli/files/scenario_choices.hpp"
#include "cli/files/scenario_dynamic_mask.hpp"
#include "cli/files/scenario_groups.hpp"
#include "cli/files/scenario_linear.hpp"
#include "cli/files/scenario_logits.hpp"
#include "cli/files/scenario_rectangles.hpp"
#include "cli/files/scenario_words.hpp"
#include "cli/vocabulary.hpp"

namespace cplab {

namespace {

// A note for each side of the window that no sequence is long enough for, and for the right side under a
// causal mask: it changes nothing, which is legal and may be a mistake.
void note_window(const Problem& problem, std::vector<std::string>& notes) {
  const Window& window = problem.window;
  const std::vector<std::int64_t>& lengths = problem.lengths_of(Side::keys);
  if (lengths.empty() || problem.is_cross()) return;
  const std::int64_t longest = *std::ranges::max_element(lengths);
  const std::string given = fmt::format("problem.window = [{}, {}]", window.left, window.right);
  const auto note_side = [&](const char* side) {
    notes.push_back(fmt::format("{}: the {} side cuts nothing off, the longest sequence has {} tokens", given,
                                side, longest));
  };
  if (window.left >= 0 && window.left >= longest - 1) note_side("left");
  if (problem.causal && window.right > 0)
    notes.push_back(given + ": the right side changes nothing, the causal mask ends there; [" +
                    std::to_string(window.left) + ", 0] is the same");
  else if (!problem.causal && window.right >= 0 && window.right >= longest - 1)
    note_side("right");
}

// Lengths [LENGTHS, PADDED] of packed sequences. As many as `count`, if that is not 0.
void read_lengths(const Table& table, const char* key, const char* padded_key, std::size_t wanted,
                  std::vector<std::int64_t>& lengths, std::vector<std::int64_t>& padded) {
  lengths = table.integers(key);
  const auto count = static_cast<std::int64_t>(lengths.size());
  if (count < 1 || count > limits::sequences)
    table.fail(key, "must hold from 1 to " + std::to_string(limits::sequences) + " lengths");
  if (wanted > 0 && lengths.size() != wanted)
    table.fail(key, "must hold as many entries as lengths (" + std::to_string(wanted) + "), but holds " +
                        std::to_string(count));
  for (const std::int64_t length : lengths) in_range(table, key, length, 0, limits::tokens);
  padded = lengths;
  if (!table.has(padded_key)) return;
  padded = table.integers(padded_key);
  if (padded.size() != lengths.size())
    table.fail(padded_key, "must hold as many entries as " + std::string(key) + " (" + std::to_string(count) +
                               "), but holds " + std::to_string(padded.size()));
  for (std::size_t b = 0; b < lengths.size(); ++b) {
    if (padded[b] < lengths[b])
      table.fail(padded_key, "entry " + std::to_string(b) + " is " + std::to_string(padded[b]) +
                                 ", shorter than its length " + std::to_string(lengths[b]));
    in_range(table, padded_key, padded[b], 0, limits::tokens);
  }
}

void read_packed_lengths(const Table& table, Problem& problem) {
  for (const char* key : {"batch", "sequence"}) {
    if (table.has(key))
      table.fail(key, std::string("goes without lengths: the lengths say how many sequences of which size") +
                          (table.is_set(key) ? "; --set problem.sequence alone takes their place" : ""));
  }
  if (table.has("format") && problem.format != Format::thd) {
    table.fail("format", "lengths mean packed sequences: legal with them is \"thd\" alone");
  }
  problem.format = Format::thd;
  problem.packed = true;
  read_lengths(table, "lengths", "padded_lengths", 0, problem.lengths, problem.padded_lengths);
}

// Keys of their own: their lengths, and where the diagonal lies between them and the queries.
void read_cross(const Table& table, Problem& problem) {
  const char* key = problem.packed ? "kv_lengths" : "kv_sequence";
  for (const char* other : {"kv_lengths", "kv_padded_lengths", "kv_sequence"}) {
    const bool packed = std::string_view(other) != "kv_sequence";
    if (table.has(other) && packed != problem.packed)
      table.fail(other, packed ? "goes with lengths; dense queries have kv_sequence"
                               : "goes with sequence; packed queries have kv_lengths");
  }
  if (!table.has(key)) {
    if (table.has("kv_padded_lengths")) table.fail("kv_padded_lengths", "needs kv_lengths beside it");
    if (table.has("align"))
      table.fail("align",
                 "needs kv_sequence or kv_lengths: without them queries and keys are of the same "
                 "tokens, and the diagonal has one place");
    return;
  }
  if (problem.packed) {
    read_lengths(table, key, "kv_padded_lengths", problem.lengths.size(), problem.kv_lengths,
                 problem.kv_padded_lengths);
  } else {
    problem.kv_sequence = whole(table, key);
    problem.kv_lengths.assign(static_cast<std::size_t>(problem.batch), problem.kv_sequence);
    problem.kv_padded_lengths = problem.kv_lengths;
  }
  const bool has_diagonal = problem.causal || !(problem.window == Window{});
  if (!table.has("align") && has_diagonal && problem.kv_lengths != problem.lengths)
    table.fail(
        "align",
        "missing; where queries and keys differ in number, a causal mask or window needs it; legal: "
        "\"top_left\" (the first query stands on the first key), \"bottom_right\" (the last one on the "
        "last key)");
  problem.align = std::array{Diagonal::top_left, Diagonal::bottom_right}.at(word(table, "align", "top_left"));
}

// What else a latent asks for is require_sizes' to say.
void read_latent(const Table& table, Problem& problem) {
  if (!table.has("kv_latent")) {
    if (table.has("rope_size"))
      table.fail("rope_size", "only latent keys and values have it: missing beside it is kv_latent");
    return;
  }
  problem.kv_latent = whole(table, "kv_latent");
  problem.rope_size = whole(table, "rope_size");
}

Problem read_problem(const Table& table) {
  Problem problem;
  constexpr std::array attentions{Attention::softmax, Attention::linear, Attention::dynamic_mask};
  problem.attention = attentions.at(word(table, "attention"));
  problem.format = static_cast<Format>(word(table, "format", "bshd"));
  if (table.has("lengths")) {
    read_packed_lengths(table, problem);
  } else {
    if (table.has("padded_lengths")) table.fail("padded_lengths", "needs lengths beside it");
    problem.batch = whole(table, "batch");
    problem.sequence = whole(table, "sequence", "; or lengths instead of batch and sequence");
    problem.lengths.assign(static_cast<std::size_t>(problem.batch), problem.sequence);
    problem.padded_lengths = problem.lengths;
  }
  problem.heads = whole(table, "heads");
  problem.kv_heads = whole_or(table, "kv_heads", problem.heads);
  if (problem.heads % problem.kv_heads != 0) {
    std::string divisors;
    for (std::int64_t g = 1; g <= problem.heads; ++g) {
      if (problem.heads % g == 0) divisors += (divisors.empty() ? "" : ", ") + std::to_string(g);
    }
    table.fail("kv_heads", "must divide heads = " + std::to_string(problem.heads) + ", but is " +
                               std::to_string(problem.kv_heads) + "; legal: " + divisors);
  }
  problem.head_size = whole(table, "head_size");
  problem.value_size = whole_or(table, "value_size", problem.head_size);
  constexpr DType dtypes[] = {DType::bf16, DType::fp16, DType::fp32, DType::fp64};
  problem.dtype = dtypes[word(table, "dtype")];
  const std::size_t mask = word(table, "mask");
  problem.causal = mask == 1;
  problem.only_rectangles = mask == 2;
  if (table.has("window")) {
    const bool list = table.kind("window") == Table::Kind::list;
    const auto window = list ? table.integers("window") : std::vector<std::int64_t>();
    if (window.size() != 2 || window[0] < -1 || window[1] < -1) {
      table.fail("window",
                 "must be a list [left, right], each -1 (unlimited) or a count of tokens from 0 on");
    }
    problem.window = {window[0], window[1]};
  }
  read_cross(table, problem);
  read_rectangles(table, problem);
  problem.scale = table.number("scale", 1.0 / std::sqrt(static_cast<double>(problem.head_size)));
  problem.max_logit = flag(table, "max_logit");
  constexpr std::array directions{Direction::forward, Direction::forward_backward, Direction::backward};
  problem.direction = directions.at(word(table, "direction"));
  read_linear(table, problem);
  read_logits(table, problem);
  read_latent(table, problem);
  read_dynamic_mask(table, problem);
  return problem;
}

Parallel read_parallel(const Table& table) {
  Parallel parallel;
  parallel.ranks = whole(table, "ranks");
  parallel.replicas = whole(table, "replicas");
  if (parallel.world() > limits::world) {
    table.fail("replicas", "ranks x replicas is " + std::to_string(parallel.world()) + "; at most " +
                               std::to_string(limits::world) + " ranks are supported");
  }
  parallel.groups = read_groups(table, parallel);
  parallel.keys_everywhere = word(table, "kv_placement") == 1;
  parallel.tokens_per_rank = whole_or(table, "tokens_per_rank", 0);
  if (table.has("pieces")) {
    for (const std::vector<std::int64_t>& piece : table.integer_lists("pieces")) {
      if (piece.size() != 4 || piece[0] < 0 || piece[0] >= limits::world)
        table.fail("pieces", "must be a list of [position, sequence, first row, rows]");
      parallel.pieces.push_back({static_cast<int>(piece[0]), piece[1], piece[2], piece[3]});
    }
  }
  if (table.has("homes")) {
    const std::vector<std::int64_t> homes = table.integers("homes");
    if (homes.empty()) table.fail("homes", "is empty; without this key sequences are shared out evenly");
    for (const std::int64_t home : homes) {
      // Which positions there are is resolve_homes' to say.
      if (home < -1 || home >= limits::world)
        table.fail("homes", "names " + std::to_string(home) + "; at most " + std::to_string(limits::world) +
                                " ranks are supported, and -1 is a sequence that is cut");
      parallel.homes.push_back(static_cast<int>(home));
    }
  }
  return parallel;
}

SimulateSettings read_simulate(const Table& table, std::int64_t world, std::vector<std::string>& notes) {
  SimulateSettings settings;
  settings.stepwise = word(table, "collective_model") == 1;
  settings.cuda_graph = flag(table, "cuda_graph");
  if (table.has("run_ahead")) settings.run_ahead = whole(table, "run_ahead");
  if (table.has("iteration")) settings.iteration = whole(table, "iteration");
  settings.engine = static_cast<FlowEngineChoice>(word(table, "engine"));
  settings.disturbance = read_disturbance(table, world, notes);
  return settings;
}

// "[{rank = 5, link = 0.5}]"
std::string tables_text(const SettingTables& tables) {
  std::string text;
  for (const auto& table : tables) {
    std::string entry;
    for (const auto& [key, number] : table)
      entry += (entry.empty() ? "" : ", ") + key + " = " +
               std::visit([](auto value) { return fmt::format("{}", value); }, number);
    text += (text.empty() ? "{" : ", {") + entry + "}";
  }
  return "[" + text + "]";
}

std::string setting_text(const SettingValue& value) {
  if (const auto* tables = std::get_if<SettingTables>(&value)) return tables_text(*tables);
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* count = std::get_if<std::int64_t>(&value)) return std::to_string(*count);
  return fmt::format("{}", std::get<double>(value));
}

std::string toml_text(const SettingValue& value) {
  if (!std::holds_alternative<std::string>(value)) return setting_text(value);
  std::string text = "\"";
  for (const char c : setting_text(value)) {
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  return text + '"';
}

// [model] and [training] may stand beside a [problem]; without one there is no plan to speak of.
void require_problem(const Table& table, const std::string& path) {
  for (const char* section : {"model", "training"}) {
    if (!table.has(section)) continue;
    if (!table.has("problem"))
      table.fail(section, "a question of a whole model, which `cplab advise " + path +
                              "` takes; this command needs a [problem]");
    for (const std::string& key : legal_keys(section)) {
      if (table.is_set(section + ("." + key)))
        table.fail(section + ("." + key),
                   "this command is about one attention call; [model] and [training] are for `cplab advise`");
      (void)table.table(section).has(key);
    }
  }
}

ScenarioFile read(Table table, const std::string& path, const std::vector<std::string>& sets, bool is_file) {
  ScenarioFile file{path, std::move(table), {}, {}, {}, {}, {}, sets, {}};
  const std::string file_algorithm = algorithm_of(file.table);
  file.hardware_overrides = apply_changes(file.table, sets, file.notes);
  require_problem(file.table, path);
  const Table problem = file.table.table("problem");
  const Table parallel = file.table.table("parallel");
  const Table schedule = file.table.table("schedule");
  const Table simulate = file.table.table("simulate");
  const Table hardware = file.table.table("hardware");
  (void)file.table.has("published");  // figures beside the scenario, for `reproduce` alone
  for (const char* section : {"problem", "parallel", "simulate", "hardware"})
    for (const std::string& key : legal_keys(section)) (void)file.table.table(section).has(key);
  for (const std::string& key : schedule.keys()) (void)schedule.has(key);
  know_slow_ranks(simulate);
  file.table.finish();

  file.scenario.problem = read_problem(problem);
  file.scenario.parallel = read_parallel(parallel);
  read_choices(file.table, file_algorithm, file.scenario, file.notes);
  file.simulate = read_simulate(simulate, file.scenario.parallel.world(), file.notes);
  if (hardware.has("file")) {
    file.hardware_given = hardware.text("file");
    file.hardware = find_hardware(hardware, is_file ? path : std::string());
  }
  file.asked = file.scenario.schedule;
  try {
    file.scenario = resolve(std::move(file.scenario));
  } catch (const ScenarioError& error) {
    file.fail(error);
  }
  note_window(file.scenario.problem, file.notes);
  const OptionValue* const chunk = file.asked ? file.asked->find("balance_chunk") : nullptr;
  if (chunk != nullptr && file.scenario.placement != "balanced")
    file.notes.push_back("schedule.balance_chunk changes nothing: placement is " + file.scenario.placement +
                         ", which has no chunks");
  return file;
}

// An error that the file alone does not have names the --set without which it disappears, else all of them.
ScenarioFile read_blaming_sets(const std::function<Table()>& open, const std::string& path,
                               const std::vector<std::string>& sets, bool is_file) {
  const auto reads = [&](const std::vector<std::string>& some) {
    try {
      (void)read(open(), path, some, is_file);
      return true;
    } catch (const InputError&) {
      return false;
    }
  };
  Table table = open();
  try {
    return read(std::move(table), path, sets, is_file);
  } catch (const InputError& error) {
    const std::string_view what = error.what();
    if (sets.empty() || what.starts_with("--set ") || what.starts_with("--unset ") || !reads({})) throw;
    std::string blamed, all;
    for (std::size_t i = 0; i < sets.size(); ++i) {
      std::vector<std::string> others = sets;
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
      if (reads(others)) blamed += (blamed.empty() ? "" : ", ") + option_text(sets[i]);
      all += (all.empty() ? "" : ", ") + option_text(sets[i]);
    }
    throw InputError((blamed.empty() ? all : blamed) + ": " + error.what());
  }
}

}  // namespace

void ScenarioFile::fail(const std::string& key, const std::string& message) const {
  // A line of the file may be wrong only together with what --set says of another key: such settings are
  // named.
  std::string with;
  const std::string section = key.substr(0, key.find('.') + 1);
  for (const std::string& set : sets) {
    if (!table.is_set(key) && is_of_section(set, section))
      with += (with.empty() ? "" : ", ") + option_text(set);
  }
  table.fail(key, message + (with.empty() ? "" : "; with " + with));
}

void ScenarioFile::fail(const ScenarioError& error) const {
  fail(error.key, error.what());
}

ScenarioFile read_scenario(const std::string& argument, const std::vector<std::string>& sets) {
  const std::string path = find_scenario(argument);
  ScenarioFile file = read_blaming_sets([&] { return Table::open(path); }, path, sets, true);
  file.argument = argument;
  return file;
}

ScenarioFile parse_scenario(const std::string& text, const std::string& file_name,
                            const std::vector<std::string>& sets) {
  return read_blaming_sets([&] { return Table::parse(text, file_name); }, file_name, sets, false);
}

ScenarioFile read_scenario_text(const std::string& text, const std::string& path, const std::string& inside,
                                const std::vector<std::string>& sets) {
  const auto open = [&] {
    Table table = Table::parse(text, path);
    return inside.empty() ? table : table.taken(inside);
  };
  return read_blaming_sets(open, path, sets, true);
}

ScenarioFile resolved_scenario(const std::string& file_name, Scenario scenario,
                               const std::vector<ScenarioSection>& sections,
                               const std::vector<std::string>& sets, const std::string& beside,
                               const std::string& hardware_place) {
  for (const std::string& set : sets) {
    const bool legal =
        set_keys({set}).size() == 1 && (is_of_section(set, "simulate.") || is_of_section(set, "hardware."));
    if (!legal)
      throw InputError(option_text(set) + ": " + file_name +
                       " is taken as it is; legal beside it: --set of simulate.* and hardware.*");
  }
  // The sections as a file would say them, so that one reader reads them all.
  std::string text;
  std::vector<std::pair<std::string, std::string>> of_hardware;
  for (const ScenarioSection& section : sections) {
    if (section.name != "simulate" && section.name != "hardware") continue;
    text += "[" + section.name + "]\n";
    for (const auto& [key, value] : section.settings) {
      if (section.name == "hardware" && key != "file")
        of_hardware.emplace_back(key, setting_text(value));
      else
        text += key + " = " + toml_text(value) + "\n";
    }
  }
  ScenarioFile file{file_name, Table::parse(text, file_name), std::move(scenario), {}, {}, {}, {}, sets, {}};
  file.hardware_overrides = apply_changes(file.table, sets, file.notes);
  for (const char* section : {"simulate", "hardware"})
    for (const std::string& key : legal_keys(section)) (void)file.table.table(section).has(key);
  know_slow_ranks(file.table.table("simulate"));
  file.table.finish();
  file.simulate = read_simulate(file.table.table("simulate"), file.scenario.parallel.world(), file.notes);
  const Table hardware = file.table.table("hardware");
  if (!hardware.has("file")) return file;
  file.hardware_given = hardware.text("file");
  file.hardware = hardware_place.empty() ? find_hardware(hardware, beside) : find_hardware(hardware_place);
  // Of the machine that it was written for, unless another one was set.
  if (hardware.is_set("file")) return file;
  const auto is_set = [&](const auto& own) {
    return std::any_of(file.hardware_overrides.begin(), file.hardware_overrides.end(),
                       [&](const auto& each) { return each.first == own.first; });
  };
  std::erase_if(of_hardware, is_set);
  file.hardware_overrides.insert(file.hardware_overrides.begin(), of_hardware.begin(), of_hardware.end());
  return file;
}

}  // namespace cplab
