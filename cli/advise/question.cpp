// From a command line to a question; see question.hpp.
#include "cli/advise/question.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "algorithms/core/list.hpp"
#include "cli/advise/other_machines.hpp"
#include "cli/files/hardware_file.hpp"
#include "cli/files/model_file.hpp"
#include "cli/files/scenario_file.hpp"
#include "cli/files/toml_table.hpp"
#include "cli/files/training_file.hpp"
#include "cli/prediction.hpp"
#include "cli/session.hpp"
#include "cli/vocabulary.hpp"
#include "report/quantity.hpp"

namespace cplab {

namespace {

constexpr double assumed_nic_bytes_s = 50e9;

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(at, begin), text.size());
    if (end > begin) parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::int64_t count_of(const std::string& option, const std::string& key, const std::string& text) {
  bool overflow = false;
  const std::optional<std::int64_t> value = parse_whole(text, Quantity::count, overflow);
  if (!value || *value < 0)
    throw InputError(option + ": " + key + " = " + text + ": a count is legal, such as 4");
  return *value;
}

std::vector<std::int64_t>* counts_of(SearchSpace& space, const std::string& key) {
  if (key == "tp") return &space.tp;
  if (key == "cp") return &space.cp;
  if (key == "pp") return &space.pp;
  if (key == "dp") return &space.dp;
  if (key == "ep") return &space.ep;
  if (key == "micro_batch") return &space.micro_batch;
  if (key == "loss_chunks") return &space.loss_chunks;
  if (key == "zero") return &space.zero;
  return nullptr;
}

// A table that --model takes the place of: [model] of a scenario and --model are two answers to one question.
void refuse_both(const Arguments& arguments, const Table& table) {
  if (arguments.has("model") && table.has("model"))
    table.fail("model", "the scenario has a [model], and --model " + arguments.text("model", "") +
                            " names another; legal is one of them");
}

// A scenario without [model]: one layer of its attention, nothing around it.
void ask_attention(const ScenarioFile& file, Question& question) {
  const Problem& p = file.scenario.problem;
  if (p.attention != Attention::softmax)
    throw InputError(
        file.path + ": problem.attention = \"" + std::string(name(p.attention)) +
        "\": advise takes softmax attention, or a [model]; `cplab simulate --algorithms all` compares "
        "the algorithms of this one");
  if (!p.causal) throw InputError(file.path + ": problem.mask: advise takes mask = \"causal\", or a [model]");
  question.attention_alone = true;
  AttentionKind kind;
  kind.name = "attention";
  kind.heads = p.heads, kind.kv_heads = p.kv_heads, kind.head_size = p.head_size,
  kind.value_size = p.value_size;
  if (p.window.left >= 0) kind.window = p.window.left + 1;
  question.model.name = "attention";
  question.model.attention = {kind};
  question.model.feed_forward = {FeedForwardKind{}};
  question.model.layers = {{0, 0, 1}};
  Training& t = question.training;
  t.mode = p.has_backward() ? Mode::training : Mode::prefill;
  t.gpus = file.scenario.parallel.world();
  t.tp = t.pp = 1;
  t.zero = 0;
  t.recompute_given = true;
  t.parameter_bytes = t.gradient_bytes = t.master_bytes = t.optimizer_bytes = 0;
  if (p.packed) {
    double all = 0;
    for (const std::int64_t length : p.lengths) all += static_cast<double>(length);
    for (const std::int64_t length : p.lengths)
      t.lengths.emplace_back(length, static_cast<double>(length) / all);
    t.sequence = static_cast<std::int64_t>(all);
    t.tokens_per_step = t.sequence;
  } else {
    t.sequence = p.sequence;
    t.tokens_per_step = p.batch * p.sequence;
  }
}

void read_subject(const Arguments& arguments, Question& question, std::string& hardware) {
  if (arguments.positional().empty()) {
    if (!arguments.has("model"))
      throw InputError("advise: a SCENARIO or --model NAME|config.json is needed; presets: " +
                       fmt::format("{}", fmt::join(model_names(), " ")));
    question.model = find_model(arguments.text("model", ""));
    return;
  }
  const std::string path = find_scenario(arguments.positional().front());
  Table table = Table::open(path);
  for (const std::string& set : arguments.all("set")) {
    const std::size_t equals = set.find('=');
    if (equals == std::string::npos) throw InputError("--set " + set + ": SECTION.KEY=VALUE is legal");
    table.assign(set.substr(0, equals), set.substr(equals + 1));
  }
  refuse_both(arguments, table);
  if (!table.has("model") && !arguments.has("model")) {
    const ScenarioFile file = read_scenario(arguments.positional().front(), arguments.all("set"));
    ask_attention(file, question);
    if (!file.hardware.empty()) hardware = file.hardware;
    return;
  }
  question.model = arguments.has("model") ? find_model(arguments.text("model", ""))
                                          : read_model(table.table("model"), path);
  question.training = read_training(table.table("training"));
  require_legal(table.table("training"), question.training, question.model);
  if (table.has("hardware")) hardware = find_hardware(table.table("hardware"), path);
}

void read_amounts(const Arguments& arguments, Question& question) {
  Training& t = question.training;
  if (arguments.has("gpus")) t.gpus = arguments.integer("gpus", 0, 1, limits::world);
  if (arguments.has("sequence")) {
    t.sequence = count_of("--sequence", "sequence", arguments.text("sequence", ""));
    t.lengths.clear();
  }
  if (t.gpus <= 0) throw InputError("advise: --gpus N is needed (or training.gpus of the scenario)");
  if (row_tokens(t) <= 0)
    throw InputError(
        "advise: --sequence L is needed (or training.sequence or training.lengths of the scenario)");
  for (const std::string& over : arguments.all("over"))
    restrict_space(question.space, "--over " + over, over);
}

}  // namespace

void restrict_space(SearchSpace& space, const std::string& option, const std::string& text) {
  std::string key;
  for (const std::string& part : split(text, ',')) {
    std::string values = part;
    if (const std::size_t equals = part.find('='); equals != std::string::npos) {
      key = part.substr(0, equals);
      values = part.substr(equals + 1);
    }
    if (key.empty()) throw InputError(option + ": KEY=VALUE[,VALUE...] is legal");
    for (const std::string& value : split(values, '|')) {
      if (std::vector<std::int64_t>* counts = counts_of(space, key)) {
        counts->push_back(count_of(option, key, value));
      } else if (key == "recompute") {
        bool known = false;
        for (const Recompute each : {Recompute::none, Recompute::selective, Recompute::full})
          if (name(each) == value) space.recompute.push_back(each), known = true;
        if (!known) throw InputError(option + ": recompute = " + value + ": legal: none selective full");
      } else if (key == "algorithm") {
        const Algorithm* algorithm = find_algorithm(value);
        if (algorithm == nullptr)
          throw InputError(option + ": algorithm " + value + " is not known; `cplab list algorithms`");
        space.algorithms.emplace_back(algorithm->name);
      } else if (key == "placement") {
        const PlacementInfo* placement = find_placement(value);
        if (placement == nullptr)
          throw InputError(option + ": placement " + value + " is not known; `cplab list placements`");
        space.placements.emplace_back(placement->name);
      } else {
        throw InputError(option + ": key " + key +
                         " is not known; legal: tp cp pp dp ep micro_batch loss_chunks zero recompute "
                         "algorithm placement");
      }
    }
  }
}

std::string give_network(Hardware& hardware, std::int64_t gpus) {
  if (gpus <= hardware.node.gpus || hardware.network.nic_bytes_s > 0) return {};
  NetworkSpec& network = hardware.network;
  network.fabric = "non_blocking";
  network.nics = hardware.node.gpus;
  network.nic_bytes_s = assumed_nic_bytes_s;
  network.provenance.origin = Origin::assumed;
  network.provenance.source = "one 400 Gb/s NIC a GPU, non-blocking: the file has one node";
  // As exchanges go over such NICs where they were measured: 10 us before the first byte, nine tenths of the
  // wire.
  MessageTable table;
  table.kind = OpKind::exchange;
  table.path = Path::inter;
  table.group = 2;
  table.channels = 8;
  constexpr double startup_s = 15e-6, share = 0.9;
  for (const double bytes : {64e3, 1e6, 16e6, 256e6})
    table.points.push_back({bytes, startup_s + bytes / (share * assumed_nic_bytes_s)});
  table.provenance = network.provenance;
  hardware.messages.push_back(table);
  return hardware.name + " has one node of " + std::to_string(hardware.node.gpus) +
         " GPUs: a network of one 400 Gb/s NIC a GPU that does not block is assumed";
}

Question question_of(const Arguments& arguments) {
  Question question;
  std::string hardware;
  read_subject(arguments, question, hardware);
  read_amounts(arguments, question);
  if (arguments.has("hardware")) hardware = find_hardware(arguments.text("hardware", ""));
  if (hardware.empty()) {
    std::string shipped;
    for (const std::string& each : scenario_names("hardware")) shipped += " " + each;
    throw InputError("advise: --hardware FILE|NAME is needed; shipped:" + shipped);
  }
  question.machine = hardware;
  question.hardware = read_hardware(hardware);
  if (std::string note = give_network(question.hardware, question.training.gpus); !note.empty())
    question.notes.push_back(std::move(note));
  try {
    require_ranks(question.hardware, question.training.gpus);
  } catch (const HardwareError& error) {
    throw InputError("--gpus " + std::to_string(question.training.gpus) + ": " + error.what());
  }
  question.others = next_machines(question.hardware, question.training.gpus);
  if (arguments.has("baseline")) {
    question.baseline_text = arguments.text("baseline", "");
    restrict_space(question.baseline.emplace(), "--baseline", question.baseline_text);
  }
  question.price_per_gpu_hour = arguments.number("price", 0, 0, 1e6);
  const Model& m = question.model;
  if (m.max_positions > 0 && row_tokens(question.training) > m.max_positions)
    question.notes.push_back(fmt::format("{} is configured for {} positions; rows have {}", m.name,
                                         m.max_positions, row_tokens(question.training)));
  return question;
}

}  // namespace cplab
