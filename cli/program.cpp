// The command table, help, and which error means which exit code.
#include "cli/program.hpp"

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <new>
#include <string>

#include "cli/commands/command.hpp"
#include "cli/completing.hpp"
#include "cli/files/scenario_file.hpp"
#include "cli/files/toml_table.hpp"
#include "cli/help.hpp"
#include "cli/injection.hpp"
#include "cli/option_words.hpp"
#include "cli/outputs.hpp"
#include "cli/prediction.hpp"
#include "cli/vocabulary.hpp"
#include "exec/processes/board.hpp"
#include "exec/processes/rendezvous.hpp"
#include "plan/finding.hpp"
#include "plan/tensors.hpp"
#include "report/json_reader.hpp"
#include "report/output_file.hpp"
#include "report/printable.hpp"
#include "report/timeline_output.hpp"

namespace cplab {

const std::vector<OptionSpec>& options_of_all() {
  static const std::vector<OptionSpec> options = [] {
    std::vector<OptionSpec> all{
        {"set", "SECTION.KEY=VALUE", "change one key of the scenario (hardware.* too)", true},
        {"unset", "SECTION.KEY", "take one key of the scenario's file away, before --set", true},
        {"json", "FILE", "the result as JSON; - is stdout"},
        {"csv", "FILE", "the table as CSV; - is stdout"},
    };
    for (const TimelineOutput& output : timeline_outputs())
      all.push_back({output.option, output.value, output.help});
    all.insert(all.end(), {
                              {"html", "FILE", "a page for a browser; of commands with an answer"},
                              {"seed", "N", "of random inputs and orders (default 1)"},
                              {"quiet", "", "no talk on stderr"},
                              {"color", "WHEN", "auto, always or never", false, color_words},
                              {"help", "", "this text"},
                          });
    return all;
  }();
  return options;
}

const std::vector<Command>& commands() {
  static const std::string inputs_help = "read " + tensor_names(Category::input) + " from DIR/*.npy";
  static const std::string save_help =
      "write inputs and " + tensor_names(Category::output) +
      " to DIR/*.npy; what is right into DIR/reference/*.npy writes `verify --save` alone, which computes it";
  static const std::string against_help = "execute nothing: compare your own " +
                                          tensor_names(Category::output) + " (DIR/*.npy) with the reference";
  static const OptionSpec inputs{"inputs", "DIR", inputs_help};
  static const OptionSpec save{"save", "DIR", save_help};
  static const OptionSpec ranks_per_gpu{"ranks-per-gpu", "N", "several ranks on one GPU, by transport copy"};
  static const OptionSpec allocator{"allocator", "KIND", "of a GPU: arena, or separate (for memory checkers)",
                                    false, allocator_words};
  static const OptionSpec jitter{"jitter", "SEED", "of a GPU: random spins before operations, on every lane"};
  static const OptionSpec deterministic{"deterministic", "",
                                        "of a GPU: kernels that give the same bits in every run"};
  static const OptionSpec order{"order", "ORDER", "of the CPU: program or random:SEED", false, order_words};
  static const OptionSpec timeout{
      "timeout", "SECONDS",
      "give up (exit 3) and say how far it came, who waits for what (default 300, more for more work)"};
  static const OptionSpec choose{
      "choose", "WAY", "attention kernels on a GPU: static (default), heuristic, autotune or hybrid", false,
      way_words};
  static const OptionSpec choices{
      "choices", "FILE", "of autotune and hybrid: what was measured (default: cplab/ in the user's cache)"};
  static const OptionSpec hardware{"hardware", "FILE|NAME",
                                   "the machine: a hardware file, or a name of `list hardware`", false,
                                   machine_words};
  static const OptionSpec operations{"operations", "", "name every operation with its times in --json"};
  static const OptionSpec plan{"plan", "FILE", "a plan written by show --json; - is standard input"};
  static const OptionSpec ranks{"ranks", "", "print every rank (default: worst, best and mean of many)"};
  static const std::vector<Command> table{
      {"list",
       "[KIND]",
       "what exists: algorithms, placements, scenarios, hardware, models, faults, published, studies",
       "cplab list algorithms",
       {},
       command_list,
       list_words},
      {"show",
       "SCENARIO | --plan FILE",
       "the plan, step by step: bytes, FLOPs, what binds and what would help",
       "cplab show ring --rank 3",
       {plan, {"rank", "N|all", "whose plan (default 0)"}, hardware, inject_mutation_option},
       command_show,
       scenario_words},
      {"check",
       "SCENARIO | --plan FILE",
       "prove the plan right without a clock, or say what is wrong",
       "cplab check ring --set parallel.ranks=64",
       {plan, hardware, inject_mutation_option},
       command_check,
       scenario_words},
      {"simulate",
       "SCENARIO | --plan FILE",
       "predict time and memory on the machine of [hardware]",
       "cplab simulate ring --set problem.sequence=256K --json -",
       {plan,
        hardware,
        operations,
        {"strict", "", "exit 1 if any time is extrapolated or assumed, or if it does not fit"},
        ranks,
        choose,
        {"choices", "FILE", "of autotune and hybrid: what was measured on such a GPU"},
        {"algorithms", "all|A,B",
         "a table of these algorithms, with their placements and team sizes, fastest first", false,
         algorithm_words},
        {"rerun", "RESULT.json", "repeat a result of simulate to the bit, with the same program and files"},
        {"anyway", "", "of --rerun: also with another version or hardware file, which the result then says"},
        inject_mutation_option},
       command_simulate,
       scenario_words,
       true},
      {"sweep",
       "STUDY | --merge FILE ...",
       "predict every point of a study: keys that vary, constraints, shards, resumed from its JSON lines",
       "cplab sweep degrees --csv degrees.csv",
       {{"merge", "", "put files of JSON lines together, those of shards for example, instead of a study"},
        {"jsonl", "FILE", "a line for each point as it ends; what the file holds already is not done again"},
        {"shard", "I/N", "one point in N, beginning with the I-th: 0/4 to 3/4, or 1/4 to 4/4, are all"},
        {"workers", "N", "processes (default: one for each core)"},
        hardware,
        {"strict", "", "exit 1 if a point does not fit, or any time is extrapolated or assumed"},
        choose,
        {"choices", "FILE", "of autotune and hybrid: what was measured on such a GPU"}},
       command_sweep,
       study_words},
      {"run",
       "SCENARIO | --plan FILE",
       "execute and measure",
       "cplab run ring-small --device cpu --json -",
       {plan,
        {"device", "DEVICE", "gpu (default) or cpu", false, device_words},
        hardware,
        inputs,
        save,
        order,
        timeout,
        operations,
        ranks,
        ranks_per_gpu,
        allocator,
        jitter,
        deterministic,
        choose,
        choices,
        {"graph", "", "of a GPU: the whole plan as one CUDA graph"},
        {"warmup", "N",
         "iterations that are not measured (default on a GPU 5 and 0.4 s, until clocks have settled; on a "
         "CPU 1)"},
        {"iterations", "N", "measured iterations (default 20 on a GPU, 3 on a CPU)"}},
       command_run,
       scenario_words,
       true,
       true},
      {"verify",
       "SCENARIO | --plan FILE",
       "check the plan, execute it, and compare with the dense reference",
       "cplab verify faults/ring --inject ring-slot-reuse --order random:6",
       {plan,
        {"device", "DEVICE", "cpu (default) or gpu", false, device_words},
        hardware,
        inject_option,
        inputs,
        {"against", "DIR", against_help},
        {"tensors", "T,...", "of --against: these outputs alone, such as out,dq (default: all)"},
        {"sums", "T=N,...", "of --against: tolerances allow N additions in problem.dtype, such as dkv=8"},
        {"sample", "N",
         "compare N rows per tensor and head, drawn by --seed, and all edges of sequences and shards; what "
         "softmax attention needs for these is computed alone (default: all)"},
        save,
        order,
        timeout,
        ranks_per_gpu,
        allocator,
        jitter,
        deterministic,
        choose,
        choices},
       command_verify,
       scenario_words,
       false,
       true},
      {"reproduce",
       "[NAME]",
       "published figures beside ours",
       "cplab reproduce te-p2p-memory",
       {{"detail", "", "also where ours come from, and what is not alike"}},
       command_reproduce,
       published_words},
      {"advise", "SCENARIO | --model NAME|config.json",
       "which layout and algorithm for a model on so many GPUs, whether it fits, and how sure",
       "cplab advise --model llama3-70b --gpus 64 --sequence 128K --hardware h100x8",
       advise_options(hardware), command_advise, scenario_words},
      {"demo",
       "",
       "ring attention on a node of 8 GPUs: buffers and placements compared",
       "cplab demo",
       {},
       command_demo,
       nullptr,
       false,
       true},
      {"compare",
       "PREDICTED.json MEASURED.json",
       "a prediction beside a measurement, another prediction, or a trace of Kineto or nsys",
       "cplab compare predicted.json measured.json",
       {},
       command_compare},
      {"kernels",
       "[NAME]",
       "the kernels of this build: registers, spills, shared memory, occupancy, measured rates",
       "cplab kernels \"hopper bf16 128\" --architecture 9.0 --hardware h200x4",
       {{"architecture", "SM", "8.0, 8.6, 8.9 or 9.0 alone (default: all of them)", false,
         architecture_words},
        {"hardware", "FILE", "also the rates that this hardware file's tables were measured at", false,
         machine_words}},
       command_kernels},
      {"tune",
       "[SCENARIO]",
       "measure which attention kernels are fastest, show and check what was measured",
       "cplab tune ring-h200 --choose autotune",
       {{"choose", "WAY", "hybrid (default) or autotune", false, way_words},
        choices,
        {"hardware", "FILE|NAME", "whose [rates] say which kernels are worth measuring (default: this GPU's)",
         false, machine_words},
        {"fresh", "", "measure anew: nothing that the file holds is used, and it is replaced"},
        {"show", "", "what the file holds; needs no GPU"},
        {"verify", "", "whether the file can be used here and agrees with itself; exit 1 if not"},
        {"rounds", "N", "samples of each kernel (default 7)"},
        deterministic},
       command_tune,
       scenario_words},
      {"calibrate",
       "",
       "measure this machine's GPUs, links and host into a hardware file",
       "cplab calibrate --out hw.toml --budget 300",
       {{"out", "FILE",
         "the hardware file: complete after every part, what is not measured yet assumed; one that is there "
         "goes on"},
        {"budget", "SECONDS", "of GPU time (default 300); 0 measures nothing and needs no GPU"},
        {"gpus", "N", "the first N of the machine (default all)"},
        {"base", "FILE|NAME",
         "what is not measured (default: the shipped file of this GPU, else its data sheet)", false,
         machine_words},
        {"import", "FILE", "messages from the JSON of nccl-tests (-J) or nvbandwidth (-j)", true},
        {"scenario", "SCENARIO",
         "measure the squares of attention that it issues too, and hold its prediction against a run", true,
         scenario_words},
        {"strict", "", "exit 1 if anything made the measurement doubtful"}},
       command_calibrate,
       nullptr,
       false,
       true},
      {"new", "[FILE]",
       "write a scenario: asks five questions on a terminal, or takes the answers as options",
       "cplab new mine.toml --algorithm ring --ranks 8 --sequence 128K --heads 32 --hardware h100x8",
       new_options(hardware), command_new},
      {"explain",
       "[WORD]",
       "what a key, option, algorithm, placement or key of a result is: unit, default, legal values, page",
       "cplab explain problem.window",
       {},
       command_explain,
       explained_words},
      {"schema",
       "COMMAND",
       "the JSON schema of a command's --json",
       "cplab schema simulate",
       {},
       command_schema,
       schema_words},
      {"completion",
       "bash|zsh",
       "the shell's completion, to be sourced",
       "source <(cplab completion bash)",
       {},
       command_completion,
       shell_words},
      {"man", "", "this program's manual page, for man -l", "cplab man > cplab.1", {}, command_man},
  };
  return table;
}

namespace {

const Command& find_command(const std::string& name) {
  const auto found = std::find_if(commands().begin(), commands().end(),
                                  [&](const Command& command) { return command.name == name; });
  if (found != commands().end()) return *found;
  std::vector<std::string> names;
  for (const Command& command : commands()) names.emplace_back(command.name);
  for (const std::string& scenario : all_scenario_names()) {
    if (scenario == name || scenario == name + ".toml") {
      throw InputError(name + ": a scenario, not a command; did you mean cplab simulate " + name +
                       ", show, check, verify or run? See cplab --help");
    }
  }
  throw InputError(name + ": no such command" + clause(meant_command(name, names)) + " See cplab --help");
}

// Words of "PREDICTED.json MEASURED.json"; an option after "|" is none. "..." stands for any number.
std::size_t positional_count(const Command& command) {
  if (command.positional.ends_with("...")) return SIZE_MAX;
  const std::string_view words = command.positional.substr(0, command.positional.find(" |"));
  return words.empty() ? 0 : static_cast<std::size_t>(std::count(words.begin(), words.end(), ' ')) + 1;
}

// The commands that write one.
constexpr const char* with_page = "simulate, run, compare, check, sweep, advise";
bool has_page(const Command& command) {
  return std::string_view(with_page).find(command.name) != std::string_view::npos;
}

// Options that are taken everywhere and have no effect here. What of a scenario a command does not use is
// said in cli/session.cpp.
void say_unused(const Arguments& arguments, const Command& command, Console& console) {
  const std::string name(command.name);
  for (const TimelineOutput& output : timeline_outputs()) {
    if (!arguments.has(output.option) || command.has_timeline) continue;
    console.say("note: --" + std::string(output.option) + ": " + name +
                " has no timeline; nothing is written there");
  }
  if (arguments.has("seed") && !command.uses_seed) {
    console.say("note: --seed: not used by " + name + ", which draws nothing at random");
  }
  if (arguments.has("seed") && arguments.has("inputs"))
    console.say(
        "note: --seed: not used beside --inputs; orders have seeds of their own (--order random:SEED)");
  if (arguments.has("operations") && !arguments.has("json")) {
    console.say("note: --operations: not used without --json, which alone names operations");
  }
  for (const char* option : {"set", "unset"}) {
    if (arguments.has(option) && command.name == "list")
      console.say("note: --" + std::string(option) + ": not used by list, which reads no scenario");
  }
}

// Messages quote files and command lines: line breaks in what they quote must not look like messages of ours,
// and long quotes must not fill the screen.
std::string one_line(const std::string& message) {
  constexpr std::size_t most = 8000, kept_at_end = 2000;
  std::string text = printable(message.substr(0, most));
  if (message.size() <= most) return text;
  const std::string end = printable(message.substr(std::max(most, message.size() - kept_at_end)));
  return text + " [...] " + end;
}

int dispatch(const std::vector<std::string>& words, std::ostream& out, std::ostream& err,
             const StopFlag* stop) {
  if (words.empty()) {
    write_overview(err);
    return exit_usage;
  }
  if (words.front() == "--help" || words.front() == "-h" || words.front() == "help") {
    if (words.size() > 1 && !words[1].starts_with("-")) {
      write_help(out, find_command(words[1]));
    } else {
      write_overview(out);
    }
    return exit_fine;
  }
  if (words.front() == "--version") {
    for (const auto& [name, text] : versions_of_build()) out << name << ' ' << text << '\n';
    return exit_fine;
  }
  if (words.front() == "completion" && words.size() > 1 && words[1] == "words") {  // what the scripts ask
    for (const std::string& word : completions({words.begin() + 2, words.end()})) out << word << '\n';
    return exit_fine;
  }
  const Command& command = find_command(words.front());
  const std::vector<std::string> rest(words.begin() + 1, words.end());
  if (std::find(rest.begin(), rest.end(), "--help") != rest.end()) {
    write_help(out, command);
    return exit_fine;
  }
  std::vector<OptionSpec> options = command.options;
  options.insert(options.end(), options_of_all().begin(), options_of_all().end());
  const Arguments arguments(rest, options, positional_count(command));
  (void)arguments.integer("seed", 1, 0, INT64_MAX);  // a wrong value is an error even where it is not used
  Console console(out, err, arguments, stop);
  if (arguments.has("html") && !has_page(command))
    throw InputError("--html: " + std::string(command.name) + " has no page; " + with_page + " have");
  try_outputs(arguments);
  say_unused(arguments, command, console);
  return command.run(arguments, console);
}

}  // namespace

int run_program(int argc, const char* const* argv, std::ostream& out, std::ostream& err,
                const Caller* caller) {
  const PrintableStream results(out), talk(err);
  const auto complain = [&](int code, const std::string& message) {
    out.flush();
    // In one line and one piece: other ranks may speak at the same time.
    err << "cplab: " + one_line(message) + "\n";
    return code;
  };
  const TextsForFiles::Texts none;
  const TextsForFiles texts(caller ? caller->texts : none);
  try {
    return dispatch({argv + std::min(argc, 1), argv + argc}, out, err, caller ? &caller->stop : nullptr);
  } catch (const Interrupted&) {
    return complain(exit_interrupted, "stopped by the caller");
  } catch (const InputErrors& errors) {
    constexpr std::size_t most = 50;  // a list of kernels may have hundreds
    const std::size_t shown = std::min(errors.messages.size(), most), left = errors.messages.size() - shown;
    for (std::size_t i = 0; i < shown; ++i) complain(exit_usage, errors.messages[i]);
    return left == 0 ? exit_usage : complain(exit_usage, "and " + std::to_string(left) + " more errors");
  } catch (const CannotPredict& error) {
    complain(exit_usage, error.what());
    if (!error.example.empty())
      err << "with your numbers in it, such a table is\n\n" << error.example << '\n';
    return exit_usage;
  } catch (const InputError& error) {
    return complain(exit_usage, error.what());
  } catch (const JsonFileError& error) {
    return complain(exit_usage, error.what());
  } catch (const ScenarioError& error) {  // of a plan that came from no scenario file
    return complain(exit_usage, error.key + ": " + error.what());
  } catch (const EnvironmentError& error) {
    return complain(exit_environment, error.what());
  } catch (const MeetingError& error) {
    return complain(exit_environment, error.what());
  } catch (const BoardError& error) {
    return complain(exit_environment, error.what());
  } catch (const PlanTooLarge& error) {
    return complain(exit_environment, error.what());
  } catch (const OutputError& error) {
    return complain(exit_environment, error.what());
  } catch (const std::bad_alloc&) {
    return complain(exit_environment, "not enough memory");
  } catch (const std::exception& error) {
    return complain(exit_environment, std::string("internal error, please report: ") + error.what());
  }
}

}  // namespace cplab
