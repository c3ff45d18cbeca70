// cplab new [FILE]: writes a scenario from five answers, asked for on a terminal or given as options.
#include <algorithm>
#include <array>
#include <filesystem>
#include <iostream>
#include <ostream>

#include "algorithms/core/list.hpp"
#include "cli/commands/algorithm_table.hpp"
#include "cli/commands/command.hpp"
#include "cli/files/changes.hpp"
#include "cli/files/scenario_file.hpp"
#include "cli/files/toml_table.hpp"
#include "cli/keys/keys.hpp"
#include "cli/memory_need.hpp"
#include "cli/option_words.hpp"
#include "cli/prediction.hpp"
#include "cli/session.hpp"
#include "cli/vocabulary.hpp"
#include "report/json_parts.hpp"
#include "report/output_file.hpp"

namespace cplab {

namespace {

namespace fs = std::filesystem;

constexpr const char* advised =
    "advise";  // in the place of an algorithm: the one that simulate finds fastest

struct Asked {
  const char* option;
  const char* key;
  const char* question;
  const char* proposed;  // what an empty line takes
};
constexpr std::array<Asked, 5> questions{
    {{"algorithm", "parallel.algorithm", "Which algorithm (a name of `cplab list algorithms`), or advise",
      advised},
     {"ranks", "parallel.ranks", "Over how many GPUs is a sequence split", "8"},
     {"sequence", "problem.sequence", "How many tokens has it, such as 128K", "128K"},
     {"heads", "problem.heads", "How many query heads has the layer", "32"},
     {"hardware", "hardware.file", "On which machine (a name of `cplab list hardware`, or a file)",
      "h100x8"}}};

using Answers = std::array<std::string, questions.size()>;

// Throws InputError for an answer that no scenario could have, whatever the others are.
void require_legal(const Asked& asked, const std::string& answer) {
  const std::string key = asked.key, option = "--" + std::string(asked.option) + " " + answer;
  if (key == "hardware.file") {
    (void)find_hardware(answer);
    return;
  }
  if (key == "parallel.algorithm") {
    if (answer == advised || find_algorithm(answer)) return;
    throw InputError(option + ": no such algorithm" +
                     clause(meant_value("algorithm", answer, new_algorithm_words(), Quotes::no)) +
                     " Legal: advise, and the names of `cplab list algorithms`");
  }
  const KeyInfo& row = *find_key(key);
  bool overflow = false;
  const std::optional<std::int64_t> count = parse_whole(answer, Quantity::count, overflow);
  if (!count || *count < row.least || *count > row.most)
    throw InputError(option + ": legal: " + legal_text(row));
}

Answers answers_of(const Arguments& arguments, Console& console) {
  Answers answers;
  std::string missing;
  for (std::size_t i = 0; i < questions.size(); ++i) {
    const Asked& asked = questions[i];
    answers[i] = arguments.text(asked.option, "");
    if (arguments.has(asked.option))
      require_legal(asked, answers[i]);
    else
      missing += (missing.empty() ? "--" : ", --") + std::string(asked.option);
  }
  if (missing.empty()) return answers;
  if (!console.asks())
    throw InputError("new: nobody to ask, standard input and error are no terminal; missing: " + missing);
  for (std::size_t i = 0; i < questions.size(); ++i) {
    const Asked& asked = questions[i];
    while (answers[i].empty()) {
      console.ask(std::string(asked.question) + "? [" + asked.proposed + "] ");
      std::string line;
      if (!std::getline(std::cin, line))
        throw InputError("new: the answers ended before " + std::string(asked.option));
      line.erase(0, line.find_first_not_of(" \t"));
      line.erase(line.find_last_not_of(" \t\r") + 1);
      try {
        require_legal(asked, line.empty() ? asked.proposed : line);
        answers[i] = line.empty() ? asked.proposed : line;
      } catch (const InputError& error) {
        console.say(error.what());
      }
    }
  }
  return answers;
}

// A machine that is a file: as a scenario in the folder of `file` finds it.
std::string machine_for(const std::string& answer, const std::string& file) {
  const std::vector<std::string> shipped = machine_words();
  if (std::find(shipped.begin(), shipped.end(), answer) != shipped.end()) return answer;
  const fs::path found = fs::absolute(find_hardware(answer)).lexically_normal();
  if (file == "-") return found.string();
  return found.lexically_proximate(fs::absolute(file).lexically_normal().parent_path()).string();
}

// As a file says it: text in quotes.
std::string toml_of(const TomlValue& value) {
  const auto* const text = std::get_if<std::string>(&value.value);
  if (!text || value.is_list || value.is_table) return value.toml;
  std::string quoted = "\"";
  for (const char c : *text) quoted += (c == '"' || c == '\\' ? "\\" : "") + std::string(1, c);
  return quoted + '"';
}

// "key = value  # what it is", the comment where a line of 100 has room for it.
std::string line_of(const Table& section, const std::string& path, const std::string& key) {
  std::string line = key + " = " + toml_of(section.value(key));
  const KeyInfo* const row = find_key(path + "." + key);
  if (!row) return line;
  std::string comment(row->meaning);
  if (!row->unit.empty()) comment += " (in " + std::string(row->unit) + ")";
  line.resize(std::max<std::size_t>(line.size(), 26), ' ');
  return line.size() + comment.size() + 4 <= page_width ? line + "  # " + comment
                                                        : line.substr(0, line.find_last_not_of(' ') + 1);
}

// The scenario as a file says it: sections and keys in the order of their tables.
std::string text_of(const Table& table, const std::string& file) {
  const std::string name = file == "-" ? "FILE" : file;
  std::string text = "# Written by `cplab new`. Next: cplab check " + name + ", cplab simulate " + name +
                     "; cplab explain KEY.\n";
  for (const char* section : {"problem", "parallel", "schedule", "simulate", "hardware"}) {
    if (!table.has(section)) continue;
    const Table part = table.table(section);
    std::vector<std::string> keys = part.keys(), order = names_of(key_table(section));
    const auto place = [&](const std::string& key) { return std::find(order.begin(), order.end(), key); };
    std::stable_sort(keys.begin(), keys.end(),
                     [&](const auto& a, const auto& b) { return place(a) < place(b); });
    text += "\n[" + std::string(section) + "]\n";
    for (const std::string& key : keys) text += line_of(part, section, key) + "\n";
  }
  return text;
}

struct Made {
  std::string text;
  ScenarioFile scenario;
};

// The scenario with these settings beside --set; of an algorithm of linear attention alone with attention =
// "linear".
Made made_of(const std::vector<std::string>& settings, const std::vector<std::string>& sets,
             const std::string& file) {
  const auto with = [&](const std::vector<std::string>& more) {
    Table table = Table::parse("", "new");
    std::vector<std::string> all{"problem.head_size=128", "problem.dtype=bf16", "problem.mask=causal"};
    for (const auto* some : {&more, &settings, &sets}) all.insert(all.end(), some->begin(), some->end());
    for (const std::string& set : all) {
      const std::size_t equals = set.find('=');
      if (equals == std::string::npos)
        throw InputError("--set " + set + ": must be section.key=value, such as --set problem.head_size=64");
      table.assign(set.substr(0, equals), set.substr(equals + 1));
    }
    std::string text = text_of(table, file);
    ScenarioFile scenario = read_scenario_text(text, file == "-" ? "new.toml" : file, "", {});
    return Made{std::move(text), std::move(scenario)};
  };
  // Algorithms of linear attention take no other, and some of them delta rules alone.
  const std::vector<std::string> linear{"problem.attention=linear"},
      matrix{"problem.attention=linear", "problem.transition=matrix"};
  std::string why;
  for (const std::vector<std::string>& more : {std::vector<std::string>{}, linear, matrix}) {
    try {
      return with(more);
    } catch (const InputError& error) {
      if (why.empty()) why = error.what();
    }
  }
  throw InputError("new: with these answers " + why);
}

// What `advise` stands for, and a note why.
// `machine`: the setting of the machine, as it is found from anywhere.
std::vector<std::string> advised_settings(const std::vector<std::string>& settings,
                                          const std::string& machine, const Arguments& arguments,
                                          const std::string& file, Console& console,
                                          std::vector<std::string>& notes) {
  const std::vector<std::string> sets = arguments.all("set");
  const Made made = [&] {
    for (const Algorithm& algorithm : algorithms()) {
      std::vector<std::string> some = settings;
      some.push_back(machine);
      some.push_back("parallel.algorithm=" + std::string(algorithm.name));
      try {
        Made tried = made_of(some, sets, "-");
        tried.scenario.text = tried.text;  // rows of other algorithms are read from it
        return tried;
      } catch (const InputError&) {
        if (&algorithm == &algorithms().back()) throw;
      }
    }
    throw InputError("new: no algorithm takes this problem");
  }();
  Progress progress(console, "simulating");
  const FastestAlgorithm fastest = fastest_algorithm(made.scenario, progress);
  progress.end();
  std::vector<std::string> all = settings;
  all.push_back("parallel.algorithm=" + fastest.algorithm);
  all.push_back("parallel.placement=" + fastest.placement);
  for (const auto& [key, value] : fastest.options) all.push_back("schedule." + key + "=" + value);
  notes.push_back(fastest.algorithm + ", " + fastest.placement + ": the fastest of " +
                  std::to_string(fastest.rows) + " that were simulated on this machine" +
                  (fastest.fits ? " and fit" : ", none of which fits") + "; `cplab simulate " +
                  (file == "-" ? "FILE" : file) + " --algorithms all` shows them");
  return all;
}

void write_result(Console& console, const Made& made, const std::string& file,
                  const std::vector<std::string>& notes) {
  console.write_json_to_option([&](std::ostream& out) {
    JsonWriter json(out);
    begin_result(json, "new", "new", header_of(made.scenario));
    json.field("file", file);
    json.list("notes", notes);
    json.end_object();
  });
}

}  // namespace

std::vector<OptionSpec> new_options(const OptionSpec& hardware) {
  return {{"algorithm", "NAME|advise",
           "a name of `list algorithms`; advise: the one that is simulated to be fastest", false,
           new_algorithm_words},
          {"ranks", "N", "GPUs over which a sequence is split"},
          {"sequence", "L", "tokens of a sequence, such as 128K"},
          {"heads", "H", "query heads"},
          hardware,
          {"force", "", "also over a file that is there"}};
}

int command_new(const Arguments& arguments, Console& console) {
  const std::string file = arguments.positional().empty() ? "scenario.toml" : arguments.positional().front();
  if (arguments.has("unset"))
    throw InputError("--unset: a new scenario has nothing to take away; legal here: --set");
  if (arguments.has("csv")) throw InputError("--csv: a scenario is no table");
  std::error_code error;
  if (file != "-" && fs::exists(file, error) && !arguments.has("force"))
    throw InputError(file + ": is there already; --force writes over it, another FILE leaves it");
  const Answers answers = answers_of(arguments, console);
  std::vector<std::string> settings, notes;
  for (std::size_t i = 1; i < questions.size(); ++i) {
    const bool machine = std::string_view(questions[i].key) == "hardware.file";
    settings.push_back(std::string(questions[i].key) + "=" +
                       (machine ? '"' + machine_for(answers[i], file) + '"' : answers[i]));
  }
  if (answers[0] == advised)
    settings = advised_settings(settings, "hardware.file=\"" + machine_for(answers[4], "-") + '"', arguments,
                                file, console, notes);
  else
    settings.push_back("parallel.algorithm=" + std::string(find_algorithm(answers[0])->name));
  const Made made = made_of(settings, arguments.all("set"), file);
  (void)predict(made.scenario, plan_of(made.scenario, PlanUse::simulate), nullptr, SettingNotes::no);
  if (file == "-") {
    console.text() << made.text;
  } else {
    OutputFile output(file);
    output.stream() << made.text;
    output.commit();
    write_folded(console.text(), "wrote " + file + ": " + describe(made.scenario.scenario),
                 console.style().width, "  ");
  }
  for (const std::string& note : notes) console.say("note: " + note);
  if (file != "-") console.say("next: cplab check " + file + "; cplab simulate " + file);
  write_result(console, made, file, notes);
  return exit_fine;
}

}  // namespace cplab
