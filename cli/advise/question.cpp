// From a command line to a question; see question.hpp.
#include "cli/advise/question.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "algorithms/core/list.hpp"
#include "cli/advise/other_machines.hpp"
#include "cli/files/changes.hpp"
#include "cli/files/hardware_file.hpp"
#include "cli/files/model_file.hpp"
#include "cli/files/scenario_disturbance.hpp"
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
  if (!value || *value < 1)
    throw InputError(option + ": " + key + " = " + text + ": a count from 1 on is legal, such as 4");
  return *value;
}

// A degree or count of --over; of zero the levels.
std::int64_t value_of(const std::string& option, const std::string& key, const std::string& text) {
  if (key != "zero") return count_of(option, key, text);
  if (text.size() != 1 || text[0] < '0' || text[0] > '3')
    throw InputError(option + ": zero = " + text + ": legal: 0 1 2 3");
  return text[0] - '0';
}

template <class Things>
std::vector<std::string> names_of(const Things& things) {
  std::vector<std::string> names;
  for (const auto& each : things) names.emplace_back(each.name);
  return names;
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

// What one attention layer of a scenario has that a layer of a model cannot say.
void refuse_foreign(const ScenarioFile& file) {
  const Problem& p = file.scenario.problem;
  if (p.attention != Attention::softmax)
    file.fail("problem.attention",
              "\"" + std::string(name(p.attention)) +
                  "\": advise takes softmax attention, or a [model]; `cplab simulate --algorithms all` "
                  "compares the algorithms of this one");
  if (!p.causal) file.fail("problem.mask", "advise takes mask = \"causal\", or a [model]");
  if (p.dtype != DType::bf16 && p.dtype != DType::fp16)
    file.fail("problem.dtype", "advise times 16-bit attention; legal: \"bf16\", \"fp16\"");
  if (p.bias != BiasForm::none) file.fail("problem.bias", "advise takes attention without a bias");
  if (p.has_backward() && p.direction != Direction::forward_backward)
    file.fail("problem.direction",
              "a backward alone; advise takes \"forward\" or \"forward+backward\", in which rows are kept");
}

// Rows of documents of one length each, by their shares of the tokens.
void set_documents(const Problem& p, Training& t) {
  std::map<std::int64_t, std::int64_t> tokens;
  for (const std::int64_t length : p.lengths) tokens[length] += length;
  t.sequence = 0;
  for (const auto& [length, of_them] : tokens) t.sequence += of_them;
  t.tokens_per_step = t.sequence;
  if (tokens.size() == 1 && p.lengths.size() == 1) return;
  for (const auto& [length, of_them] : tokens)
    t.lengths.emplace_back(length, static_cast<double>(of_them) / static_cast<double>(t.sequence));
}

// A scenario without [model]: one layer of its attention, nothing around it.
void ask_attention(const ScenarioFile& file, Question& question) {
  refuse_foreign(file);
  const Problem& p = file.scenario.problem;
  question.attention_alone = true;
  AttentionKind kind;
  kind.name = "attention";
  kind.heads = p.heads, kind.kv_heads = p.kv_heads, kind.head_size = p.head_size,
  kind.value_size = p.value_size, kind.softcap = p.softcap, kind.sink = p.sink;
  if (p.window.left >= 0) kind.window = p.window.left + 1;
  question.model.name = "attention";
  question.model.attention = {kind};
  question.model.feed_forward = {FeedForwardKind{}};
  question.model.layers = {{0, 0, 1}};
  Training& t = question.training;
  t.mode = p.has_backward() ? Mode::training : Mode::prefill;
  t.gpus = file.scenario.parallel.world();
  t.tp = t.pp = 1;
  t.micro_batch = 0;  // all rows of a replica in one call
  t.zero = 0;
  t.recompute_given = true;
  t.parameter_bytes = t.gradient_bytes = t.master_bytes = t.optimizer_bytes = 0;
  if (p.packed) {
    set_documents(p, t);
    if (t.lengths.size() > 1)
      question.notes.emplace_back(
          "problem.lengths: time is the mean over rows of documents of one length each, by their share of "
          "the "
          "tokens; `cplab simulate --algorithms all` has the very row");
  } else {
    t.sequence = p.sequence;
    t.tokens_per_step = p.batch * p.sequence;
  }
}

// What of the machine the scenario and the command line say.
struct MachineAsked {
  std::string file;
  HardwareOverrides overrides;
};

// The scenario's table with what the command line says in it; of no scenario an empty one.
Table subject_table(const Arguments& arguments, const std::string& path, Question& question,
                    MachineAsked& machine) {
  Table table = path.empty() ? Table::parse("", "advise") : Table::open(path);
  machine.overrides = apply_changes(table, changes_of(arguments), question.notes);
  const bool lengths = table.is_set("training.lengths"), sequence = table.is_set("training.sequence");
  if (lengths && !sequence && table.remove("training.sequence"))
    question.notes.emplace_back("--set training.lengths: replaces the file's training.sequence");
  if (arguments.has("gpus"))
    table.assign("training.gpus", std::to_string(arguments.integer("gpus", 0, 1, limits::world)));
  if (arguments.has("sequence")) {
    const std::string text = arguments.text("sequence", "");
    table.assign("training.sequence", std::to_string(count_of("--sequence", "sequence", text)));
  }
  if (arguments.has("sequence") || (sequence && !lengths))
    if (table.remove("training.lengths")) (void)table.remove("training.balanced");
  return table;
}

// Every section has a reader, here or in another command.
void require_sections(const Table& table, const std::string& path, Question& question) {
  for (const char* section : {"model", "training", "hardware", "published", "simulate"})
    (void)table.has(section);
  for (const char* section : {"problem", "parallel", "schedule"}) {
    if (!table.has(section)) continue;
    question.notes.push_back("[" + std::string(section) + "] of " + path +
                             ": not used, the question is of a model");
    const Table unused = table.table(section);
    for (const std::string& key : unused.keys()) (void)unused.has(key);
  }
  if (table.has("hardware")) {
    const Table hardware = table.table("hardware");
    (void)hardware.has("file");
  }
  table.finish();
}

// read_training with what was given as an option called so.
Training training_of(const Table& training, const Model& model) {
  try {
    Training read = read_training(training);
    require_legal(training, read, model);
    return read;
  } catch (const InputError& error) {
    std::string message = error.what();
    for (const std::string option : {"gpus", "sequence"}) {
      const std::string set = "--set training." + option;
      if (message.starts_with(set)) message.replace(0, set.size(), "--" + option);
    }
    throw InputError(message);
  }
}

// [[simulate.slow]], by GPU; nothing else of [simulate] is a planner's.
void read_slow(const Table& table, Question& question) {
  if (!table.has("simulate")) return;
  const Table simulate = table.table("simulate");
  question.slow = read_disturbance(simulate, question.training.gpus, question.notes).slow;
  for (const std::string& key : simulate.keys())
    if (key != "slow") {
      (void)simulate.has(key);
      question.notes.push_back("[simulate] " + key + ": not used, the question is of a model");
    }
}

void ask_model(const Arguments& arguments, const Table& table, const std::string& path, Question& question) {
  question.model = arguments.has("model") ? find_model(arguments.text("model", ""))
                                          : read_model(table.table("model"), path);
  require_sections(table, path, question);
  const Table training = table.table("training");
  if (!training.has("gpus"))
    throw InputError("advise: --gpus N is needed (or training.gpus of the scenario)");
  if (!training.has("sequence") && !training.has("lengths"))
    throw InputError(
        "advise: --sequence L is needed (or training.sequence or training.lengths of the scenario)");
  question.training = training_of(training, question.model);
  read_slow(table, question);
  const Model& m = question.model;
  if (m.max_positions > 0 && row_tokens(question.training) > m.max_positions)
    question.notes.push_back(fmt::format("{} is configured for {} positions; rows have {}", m.name,
                                         m.max_positions, row_tokens(question.training)));
  if (!m.assumed.empty())
    question.notes.push_back(
        fmt::format("{}: the architecture says, not the config: {}", m.name, fmt::join(m.assumed, ", ")));
  if (!m.unread.empty())
    question.notes.push_back(fmt::format("{}: keys of the config that are not known and may matter: {}",
                                         m.name, fmt::join(m.unread, ", ")));
}

// A scenario of [problem] alone, with --gpus and --sequence in place of its ranks and its length.
void ask_problem(const Arguments& arguments, Question& question, MachineAsked& machine) {
  std::vector<std::string> changes = changes_of(arguments);
  if (arguments.has("sequence"))
    changes.push_back("problem.sequence=" +
                      std::to_string(count_of("--sequence", "sequence", arguments.text("sequence", ""))));
  const ScenarioFile file = read_scenario(arguments.positional().front(), changes);
  for (const std::string& note : file.notes) question.notes.push_back(note);
  ask_attention(file, question);
  if (arguments.has("gpus")) question.training.gpus = arguments.integer("gpus", 0, 1, limits::world);
  machine = {file.hardware, file.hardware_overrides};
}

MachineAsked read_subject(const Arguments& arguments, Question& question) {
  MachineAsked machine;
  std::string path;
  if (!arguments.positional().empty())
    path = find_scenario(arguments.positional().front());
  else if (!arguments.has("model"))
    throw InputError("advise: a SCENARIO or --model NAME|config.json is needed; presets: " +
                     fmt::format("{}", fmt::join(model_names(), " ")));
  const Table table = subject_table(arguments, path, question, machine);
  refuse_both(arguments, table);
  if (table.has("model") || arguments.has("model")) {
    ask_model(arguments, table, path, question);
    const Table hardware = table.table("hardware");
    if (hardware.has("file")) machine.file = find_hardware(hardware, path);
  } else {
    question.notes.clear();  // said again where the file is read whole
    ask_problem(arguments, question, machine);
  }
  return machine;
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
    if (key.empty()) throw InputError(option + ": KEY=VALUE[,KEY=VALUE...] is legal, such as tp=2,cp=4");
    for (const std::string& value : split(values, '|')) {
      if (std::vector<std::int64_t>* counts = counts_of(space, key)) {
        counts->push_back(value_of(option, key, value));
      } else if (key == "recompute") {
        bool known = false;
        for (const Recompute each : {Recompute::none, Recompute::selective, Recompute::full})
          if (name(each) == value) space.recompute.push_back(each), known = true;
        if (!known) throw InputError(option + ": recompute = " + value + ": legal: none selective full");
      } else if (key == "algorithm") {
        const Algorithm* algorithm = find_algorithm(value);
        if (algorithm == nullptr)
          throw InputError(option + ": algorithm " + value + " is not known" +
                           clause(meant_value("algorithm", value, names_of(algorithms()), Quotes::no)) +
                           " See `cplab list algorithms`");
        space.algorithms.emplace_back(algorithm->name);
      } else if (key == "placement") {
        const PlacementInfo* placement = find_placement(value);
        if (placement == nullptr)
          throw InputError(option + ": placement " + value + " is not known; legal: " +
                           fmt::format("{}", fmt::join(names_of(placements()), " ")));
        space.placements.emplace_back(placement->name);
      } else {
        static const std::vector<std::string> keys{"tp",        "cp",          "pp",          "dp",
                                                   "ep",        "micro_batch", "loss_chunks", "zero",
                                                   "recompute", "algorithm",   "placement"};
        const std::string near = nearest(key, keys);
        throw InputError(option + ": key " + key + " is not known" +
                         (near.empty() ? std::string() : "; did you mean " + near + "?") +
                         "; legal: " + fmt::format("{}", fmt::join(keys, " ")));
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

namespace {

// The machine, with a network where it is asked for more than its node.
void read_machine(const MachineAsked& machine, bool any_count, Question& question) {
  if (machine.file.empty()) {
    std::string shipped;
    for (const std::string& each : scenario_names("hardware"))
      shipped += " " + std::filesystem::path(each).stem().string();
    throw InputError("advise: --hardware FILE|NAME is needed; shipped:" + shipped);
  }
  question.machine = machine.file;
  question.hardware = read_hardware(machine.file, machine.overrides);
  // Where the fewest GPUs are asked for, they may be more than a node's.
  const std::int64_t most = any_count ? limits::world : question.training.gpus;
  if (std::string note = give_network(question.hardware, most); !note.empty())
    question.notes.push_back(std::move(note));
  try {
    require_ranks(question.hardware, question.training.gpus);
  } catch (const HardwareError& error) {
    throw InputError("--gpus " + std::to_string(question.training.gpus) + ": " + error.what());
  }
  question.hardware.slow = question.slow;
  question.others = next_machines(question.hardware, question.training.gpus);
}

}  // namespace

Question question_of(const Arguments& arguments) {
  Question question;
  const MachineAsked machine = read_subject(arguments, question);
  for (const std::string& over : arguments.all("over"))
    restrict_space(question.space, "--over " + over, over);
  read_machine(machine, arguments.has("fit"), question);
  if (arguments.has("baseline")) {
    question.baseline_text = arguments.text("baseline", "");
    restrict_space(question.baseline.emplace(), "--baseline", question.baseline_text);
  }
  question.price_per_gpu_hour = arguments.number("price", 0, 0, 1e6);
  return question;
}

}  // namespace cplab
