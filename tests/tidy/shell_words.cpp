// Which commands a shell script runs: a reader of bash that knows quotes, substitutions, here documents, case
// patterns, arrays that are run and the commands that run another command. It expands no variables.
#include <algorithm>
#include <array>
#include <cctype>

#include "tests/tidy/shell_words.hpp"

namespace cplab::tidy {
namespace {

template <std::size_t N>
bool is_word_of(std::string_view word, const std::array<std::string_view, N>& words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// A command follows each of these.
constexpr std::array<std::string_view, 11> openers = {"if",    "then", "elif", "else", "do",  "while",
                                                      "until", "!",    "{",    "time", "exec"};

// What bash does itself, and words after which no command follows.
constexpr std::array<std::string_view, 52> own_words = {
    "alias",   "bg",       "break",   "builtin", "case", "cd",     "command",  "continue", "declare",
    "done",    "echo",     "esac",    "eval",    "exit", "export", "false",    "fg",       "fi",
    "for",     "function", "getopts", "hash",    "in",   "jobs",   "kill",     "let",      "local",
    "mapfile", "popd",     "printf",  "pushd",   "pwd",  "read",   "readonly", "return",   "select",
    "set",     "shift",    "shopt",   "source",  "test", "trap",   "true",     "type",     "typeset",
    "ulimit",  "umask",    "unset",   "wait",    ".",    ":",      "["};

// Commands that run the command among their arguments, after options, assignments and numbers.
constexpr std::array<std::string_view, 7> runners = {"env",  "nice",    "nohup", "setpriv",
                                                     "sudo", "timeout", "xargs"};

bool is_assignment(std::string_view word) {
  const std::size_t equals = word.find('=');
  if (equals == std::string_view::npos || equals == 0) return false;
  return std::all_of(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(equals), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '+' || c == '[' || c == ']';
  });
}

bool is_name(std::string_view word) {
  return !word.empty() && std::isalpha(static_cast<unsigned char>(word[0])) != 0 &&
         std::all_of(word.begin(), word.end(), [](char c) {
           return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.' ||
                  c == '+';
         });
}

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  ShellWords read() {
    commands_until('\0');
    const std::string_view whole = text_;
    for (bool found = true; found;) {  // an array that is run may begin with another one
      found = false;
      for (Array& array : arrays_) {
        if (array.read || !run_.contains(array.name)) continue;
        array.read = found = true;
        text_ = whole.substr(0, array.end);
        at_ = array.begin;
        one_command_ = true;
        commands_until('\0');
        break;  // the loop's own vector may have grown
      }
      text_ = whole;
    }
    return std::move(words_);
  }

 private:
  bool at_end() const { return at_ >= text_.size(); }
  char peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  bool take(std::string_view what) {
    if (!text_.substr(at_).starts_with(what)) return false;
    at_ += what.size();
    return true;
  }

  // Commands up to an unquoted `end`, which is taken; '\0' is the end of the text.
  void commands_until(char end) {
    Place place;
    while (!at_end()) {
      const char c = peek();
      if (c == '\n') {
        finish(place);
        ++at_;
        skip_here_documents();
        if (place.test_depth == 0 && !one_command_) {
          place.command = true;
          place.runner = false;
        }
      } else if (c == ' ' || c == '\t') {
        finish(place);
        ++at_;
      } else if (c == '#' && place.word.empty() && !place.opaque) {
        while (!at_end() && peek() != '\n') ++at_;
      } else if (c == ')' && place.pattern) {
        place.word.clear();
        place.pattern = place.opaque = false;
        place.command = true;
        ++at_;
      } else if (c == end && end != '\0') {
        finish(place);
        ++at_;
        return;
      } else if (place.pattern && (c == '|' || c == '(')) {
        ++at_;
      } else if (c == ';' || c == '|' || c == '&') {
        separator(place);
      } else if (c == '<' || c == '>') {
        redirection(place);
      } else if (c == '(') {
        parenthesis(place);
      } else if (c == ')') {  // a subshell's end
        finish(place);
        ++at_;
        place.command = false;
      } else {
        piece_of_word(place);
      }
    }
    finish(place);
  }

  struct Array {  // NAME=(...)
    std::string name;
    std::size_t begin = 0, end = 0;  // its elements in the text
    bool read = false;
  };

  struct Place {
    std::string word;
    std::size_t began = 0;  // where the word begins in the text
    bool opaque = false;    // the word has quoted or substituted parts
    bool command = true;    // the next word is a command's name
    bool runner = false;    // among the arguments of env, timeout and the like
    bool target = false;    // the next word is a redirection's
    bool pattern = false;   // between `in` or ;; and )
    bool of_case = false;   // after `case`, before its `in`
    int test_depth = 0;     // inside [[ ]]
  };

  void separator(Place& place) {
    const bool amp = peek() == '&';
    finish(place);
    if (amp && peek(1) == '>') {  // &>
      ++at_;
      return;
    }
    const bool next_case = take(";;");
    if (!next_case) ++at_;
    while (peek() == '|' || peek() == '&') ++at_;
    if (place.test_depth > 0) return;
    place.runner = false;
    place.pattern = next_case;
    place.command = true;
  }

  void redirection(Place& place) {
    if (place.test_depth > 0) {
      ++at_;
      return;
    }
    if (!place.opaque && std::all_of(place.word.begin(), place.word.end(),
                                     [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }))
      place.word.clear();  // a descriptor, not a word
    finish(place);
    if ((peek() == '<' || peek() == '>') && peek(1) == '(') {
      at_ += 2;
      commands_until(')');
      return;
    }
    if (take("<<<")) {
      place.target = true;
    } else if (take("<<")) {
      if (peek() == '-') ++at_;
      std::string delimiter;
      while (!at_end() && std::isspace(static_cast<unsigned char>(peek())) == 0) {
        if (peek() != '\'' && peek() != '"') delimiter += peek();
        ++at_;
      }
      here_documents_.push_back(delimiter);
    } else {
      ++at_;
      while (peek() == '>' || peek() == '&' || peek() == '|') ++at_;
      place.target = true;
    }
  }

  void skip_here_documents() {
    for (const std::string& delimiter : here_documents_) {
      while (!at_end()) {
        const std::size_t end = std::min(text_.find('\n', at_), text_.size());
        std::string_view line = text_.substr(at_, end - at_);
        at_ = std::min(end + 1, text_.size());
        while (line.starts_with('\t')) line.remove_prefix(1);
        if (line == delimiter) break;
      }
    }
    here_documents_.clear();
  }

  void parenthesis(Place& place) {
    ++at_;
    if (place.test_depth > 0) return;
    if (place.word.ends_with('=')) {  // an array's elements: data
      Array array{place.word.substr(0, place.word.find_first_of("+=")), at_, 0, false};
      elements();
      array.end = at_ - 1;
      arrays_.push_back(array);
      place.word.clear();
      place.opaque = false;
    } else if (!place.word.empty() && peek() == ')') {
      ++at_;
      words_.functions.insert(place.word);
      place.word.clear();
      place.command = true;
    } else if (peek() == '(') {
      ++at_;
      arithmetic(2);
      place.command = false;
    } else {
      commands_until(')');
      place.command = false;
    }
  }

  void elements() {
    while (!at_end() && peek() != ')') {
      if (peek() == '#') {
        while (!at_end() && peek() != '\n') ++at_;
      } else if (std::isspace(static_cast<unsigned char>(peek())) != 0) {
        ++at_;
      } else {
        Place element;
        piece_of_word(element);
      }
    }
    ++at_;
  }

  // Up to the parenthesis that closes; `open` are open already.
  void arithmetic(int open) {
    while (!at_end()) {
      if (take("$(")) {
        substitution();
        continue;
      }
      if (peek() == '(') ++open;
      if (peek() == ')' && --open == 0) {
        ++at_;
        return;
      }
      ++at_;
    }
  }

  // After "$(".
  void substitution() {
    if (peek() == '(') {
      ++at_;
      arithmetic(2);
    } else {
      commands_until(')');
    }
  }

  // After "${".
  void parameter() {
    while (!at_end() && peek() != '}') {
      if (take("$("))
        substitution();
      else if (take("${"))
        parameter();
      else
        ++at_;
    }
    ++at_;
  }

  void piece_of_word(Place& place) {
    const char c = peek();
    if (place.word.empty() && !place.opaque) place.began = at_;
    ++at_;
    if (c == '\\') {
      if (peek() != '\n') place.word += peek();
      ++at_;
    } else if (c == '\'') {
      while (!at_end() && peek() != '\'') ++at_;
      ++at_;
      place.opaque = true;
    } else if (c == '"') {
      place.opaque = true;
      while (!at_end() && peek() != '"') {
        if (peek() == '\\') ++at_;
        if (take("$("))
          substitution();
        else if (take("${"))
          parameter();
        else
          ++at_;
      }
      ++at_;
    } else if (c == '$') {
      place.opaque = true;
      if (peek() == '(') {
        ++at_;
        substitution();
      } else if (peek() == '{') {
        ++at_;
        parameter();
      }
    } else {
      place.word += c;
    }
  }

  // The word that ends here, if there is one.
  void finish(Place& place) {
    if (place.word.empty() && !place.opaque) return;
    const std::string word = std::move(place.word);
    const bool opaque = place.opaque;
    place.word.clear();
    place.opaque = false;
    if (place.target) {
      place.target = false;
    } else if (place.pattern) {
      if (word == "esac") place.pattern = place.command = false;
    } else if (place.of_case) {
      if (word == "in") {
        place.of_case = false;
        place.pattern = true;
      }
    } else if (word == "]]") {
      place.test_depth = 0;
    } else if (place.command || place.runner) {
      command_word(place, word, opaque);
    }
  }

  void command_word(Place& place, const std::string& word, bool opaque) {
    if (is_assignment(word)) return;
    if (place.runner) {
      if (opaque && word.empty()) return;
      // An option, a duration, a signal's name.
      if (word.starts_with('-') || std::islower(static_cast<unsigned char>(word[0])) == 0) return;
    }
    const std::string_view raw = text_.substr(place.began, at_ - place.began);
    if (raw.starts_with("\"${") && raw.ends_with("[@]}\"")) {
      const std::string name(raw.substr(3, raw.size() - 8));
      run_.insert(name);
      // What follows an array that can be empty can be the command.
      place.command = std::any_of(arrays_.begin(), arrays_.end(), [&](const Array& array) {
        return array.name == name && array.begin == array.end;
      });
      place.runner = false;
      return;
    }
    place.command = place.runner = false;
    if (word == "[[") {
      place.test_depth = 1;
    } else if (word == "case") {
      place.of_case = true;
    } else if (is_word_of(word, openers)) {
      place.command = true;
      place.runner = word == "exec";
    } else if (!opaque && is_name(word) && !is_word_of(word, own_words)) {
      const auto line =
          1 + std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(at_ - 1), '\n');
      words_.commands.push_back({word, static_cast<int>(line)});
      place.runner = is_word_of(word, runners);
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::vector<std::string> here_documents_;  // delimiters of those that begin at the next line
  std::vector<Array> arrays_;
  std::set<std::string> run_;  // names of arrays that stand where a command does
  bool one_command_ = false;   // an array's elements are read: a line's end ends nothing
  ShellWords words_;
};

}  // namespace

ShellWords read_shell(std::string_view text) {
  return Reader(text).read();
}

}  // namespace cplab::tidy
