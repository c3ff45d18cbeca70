// The arguments of one command. Boost.Program_options stays in arguments.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cplab {

// Words that are legal, or are proposed, somewhere; called when they are needed (cli/option_words.hpp).
using WordList = std::vector<std::string> (*)();

// One long option. `value` names its value in the help ("FILE"); empty: a switch. `words`: what word() takes,
// and what the shell's completion proposes.
struct OptionSpec {
  std::string_view name;
  std::string_view value;
  std::string_view help;
  bool repeatable = false;
  WordList words = nullptr;
};

class Arguments {
 public:
  // Parses what follows the command's name: options of `specs`, at most `max_positional` other words. Throws
  // InputError with the nearest legal option, or for a repeated one that is not repeatable.
  Arguments(const std::vector<std::string>& words, const std::vector<OptionSpec>& specs,
            std::size_t max_positional);

  bool has(std::string_view option) const;
  std::string text(std::string_view option, std::string_view otherwise) const;
  // A decimal integer in [low, high]; InputError otherwise.
  std::int64_t integer(std::string_view option, std::int64_t otherwise, std::int64_t low,
                       std::int64_t high) const;
  double number(std::string_view option, double otherwise, double low, double high) const;
  // One of the option's words; InputError with the nearest otherwise.
  std::string word(std::string_view option, std::string_view otherwise) const;
  std::vector<std::string> all(std::string_view option) const;  // of a repeatable option, in order
  const std::vector<std::string>& positional() const { return positional_; }
  // (option, value) in order; a switch has an empty value.
  const std::vector<std::pair<std::string, std::string>>& options() const { return options_; }
  // The same command line with these options in front.
  Arguments with(std::vector<std::pair<std::string, std::string>> more) const;

 private:
  const std::string* find(std::string_view option) const;
  std::vector<std::pair<std::string, std::string>> options_;
  std::vector<std::pair<std::string, WordList>> words_;  // of options that have some
  std::vector<std::string> positional_;
};

}  // namespace cplab
