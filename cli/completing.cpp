// See completing.hpp.
#include "cli/completing.hpp"

#include <algorithm>
#include <set>

#include "algorithms/core/list.hpp"
#include "cli/commands/command.hpp"
#include "cli/files/changes.hpp"
#include "cli/keys/keys.hpp"
#include "cli/option_words.hpp"

namespace cplab {

namespace {

using Words = std::vector<std::string>;

Words starting_with(const Words& all, const std::string& begin) {
  Words some;
  std::set<std::string> seen;
  for (const std::string& word : all)
    if (word.starts_with(begin) && seen.insert(word).second) some.push_back(word);
  return some;
}

// Legal values of "section.key", as --set takes them.
Words values_of(const std::string& key) {
  if (key == "parallel.algorithm") {
    Words words = algorithm_words();
    words.erase(words.begin());  // "all" is of --algorithms
    return words;
  }
  if (key == "parallel.placement") return placement_words();
  if (key == "hardware.file") return machine_words();
  if (key == "model.preset") return model_words();
  if (key.starts_with("schedule.")) {
    Words words;
    for (const Algorithm& algorithm : algorithms())
      if (const OptionInfo* option = find_option(algorithm, key.substr(9)))
        for (const OptionValue& value : option->legal) words.push_back(to_string(value));
    return words;
  }
  const KeyInfo* const row = find_key(key);
  if (!row) return {};
  if (row->type == KeyType::flag) return {"true", "false"};
  return {row->words.begin(), row->words.end()};
}

// Keys that --set may change: sections first, then the keys of the one that is typed.
Words keys_for(const std::string& begin, const std::string& command) {
  const std::size_t dot = begin.rfind('.');
  Words words;
  const auto add = [&](const std::string& key) {
    if (!key.starts_with(begin)) return;
    const std::size_t next = key.find('.', begin.size());
    words.push_back(next == std::string::npos ? key + "=" : key.substr(0, next + 1));
  };
  const bool whole = command == "advise";
  for (const std::string_view section : key_sections()) {
    if (section == "study" || (!whole && (section == "model" || section == "training"))) continue;
    for (const KeyInfo& key : key_table(section))
      if (key.type != KeyType::section && key.key.find('[') == std::string_view::npos)
        add(std::string(key.key));
  }
  if (dot == std::string::npos || begin.starts_with("schedule."))
    for (const std::string& key : option_keys()) add("schedule." + key);
  return words;
}

// Behind --set or --unset.
Words changes_for(const std::string& given, const std::string& command, bool takes_value) {
  const std::size_t equals = given.find('=');
  if (equals == std::string::npos) {
    Words words = keys_for(given, command);
    if (!takes_value)
      for (std::string& word : words)
        if (word.ends_with("=")) word.pop_back();
    return words;
  }
  if (!takes_value) return {};
  Words words;
  for (const std::string& value : values_of(given.substr(0, equals)))
    words.push_back(given.substr(0, equals + 1) + value);
  return words;
}

// Of a list between commas the last word.
Words list_of(const Words& all, const std::string& given) {
  const std::size_t comma = given.rfind(',');
  if (comma == std::string::npos) return all;
  Words words;
  for (const std::string& word : all) words.push_back(given.substr(0, comma + 1) + word);
  return words;
}

Words values_for(const OptionSpec& option, const std::string& given, const std::string& command) {
  if (option.name == "set" || option.name == "unset")
    return changes_for(given, command, option.name == "set");
  if (!option.words) return {};
  return option.name == "algorithms" ? list_of(option.words(), given) : option.words();
}

const OptionSpec* option_of(const Command& command, std::string_view name) {
  for (const auto* options : {&command.options, &options_of_all()})
    for (const OptionSpec& option : *options)
      if (option.name == name) return &option;
  return nullptr;
}

Words option_names(const Command& command) {
  Words names;
  for (const auto* options : {&command.options, &options_of_all()})
    for (const OptionSpec& option : *options) names.push_back("--" + std::string(option.name));
  return names;
}

// The first word that is no option and no value of one stands before the last of `words`.
bool has_argument(const Command& command, const Words& words) {
  for (std::size_t i = 1; i + 1 < words.size(); ++i) {
    if (!words[i].starts_with("--")) return true;
    const OptionSpec* const option = option_of(command, words[i].substr(2));
    if (option && !option->value.empty()) ++i;  // "--set", then its value
  }
  return false;
}

constexpr const char* bash_script =
    R"script(# Completion of cplab for bash; `cplab completion bash` prints it.
_cplab() {
  local line=${COMP_LINE:0:COMP_POINT} current cut
  local -a words
  read -ra words <<<"$line"
  if [[ $line == *[[:space:]] ]]; then words+=(""); fi
  current=${words[-1]}
  mapfile -t COMPREPLY < <("${words[0]}" completion words "${words[@]:1}" 2>/dev/null)
  # What bash takes for several words begins anew behind "=": what stands before it stays.
  cut=${current%"${current##*=}"}
  if [[ -n $cut && $COMP_WORDBREAKS == *=* ]]; then COMPREPLY=("${COMPREPLY[@]#"$cut"}"); fi
  if [[ ${#COMPREPLY[@]} -gt 0 && ${COMPREPLY[0]} == *[=.:] ]]; then compopt -o nospace 2>/dev/null; fi
}
complete -o bashdefault -o default -F _cplab cplab
)script";

constexpr const char* zsh_script = R"script(#compdef cplab
# Completion of cplab for zsh; `cplab completion zsh` prints it.
_cplab() {
  local -a program answers goes_on ends
  program=(${~${(Q)words[1]}})
  answers=("${(@f)$("$program[1]" completion words "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}")
  goes_on=(${(M)answers:#*[=.:]})
  ends=(${answers:#*[=.:]})
  if (( ${#goes_on} + ${#ends} == 0 )); then
    compset -P '*='  # --save=FOLDER
    _files
    return
  fi
  (( ${#goes_on} )) && compadd -Q -S '' -- "${goes_on[@]}"
  (( ${#ends} )) && compadd -Q -- "${ends[@]}"
}
if [[ $funcstack[1] == _cplab ]]; then
  _cplab "$@"
elif (( $+functions[compdef] )); then
  compdef _cplab cplab
else
  print -u2 'cplab: no completion yet: zsh needs "autoload -Uz compinit; compinit" before'
fi
)script";

}  // namespace

std::vector<std::string> completions(const std::vector<std::string>& words) {
  if (words.empty()) return {};
  const std::string& given = words.back();
  if (words.size() == 1) {
    Words all;
    for (const Command& command : commands()) all.emplace_back(command.name);
    all.insert(all.end(), {"--help", "--version"});
    return starting_with(all, given);
  }
  const auto command = std::find_if(commands().begin(), commands().end(),
                                    [&](const Command& each) { return each.name == words.front(); });
  if (command == commands().end()) return {};
  const std::string name(command->name);
  const std::string& before = words[words.size() - 2];
  if (words.size() > 2 && before.starts_with("--")) {
    const OptionSpec* const option = option_of(*command, before.substr(2));
    if (option && !option->value.empty()) return starting_with(values_for(*option, given, name), given);
  }
  const std::size_t equals = given.find('=');
  if (given.starts_with("--") && equals != std::string::npos) {  // --device=gpu
    const OptionSpec* const option = option_of(*command, given.substr(2, equals - 2));
    Words all;
    if (option)
      for (const std::string& value : values_for(*option, given.substr(equals + 1), name))
        all.push_back(given.substr(0, equals + 1) + value);
    return starting_with(all, given);
  }
  if (given.starts_with("-")) return starting_with(option_names(*command), given);
  if (!command->words || has_argument(*command, words)) return {};
  return starting_with(command->words(), given);
}

std::string completion_script(const std::string& shell) {
  return shell == "zsh" ? zsh_script : bash_script;
}

}  // namespace cplab
