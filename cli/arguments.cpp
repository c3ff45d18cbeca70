// Boost.Program_options behind plain data; its errors as ours, with the nearest legal word.
#include "cli/arguments.hpp"

#include <algorithm>
#include <boost/program_options.hpp>
#include <charconv>
#include <cmath>
#include <map>
#include <stdexcept>

#include "cli/files/toml_table.hpp"
#include "cli/vocabulary.hpp"

namespace cplab {

namespace po = boost::program_options;

Arguments::Arguments(const std::vector<std::string>& words, const std::vector<OptionSpec>& specs,
                     std::size_t max_positional) {
  po::options_description description;
  std::map<std::string, bool, std::less<>> repeatable;
  std::vector<std::string> legal;
  for (const OptionSpec& spec : specs) {
    const std::string name(spec.name);
    repeatable[name] = spec.repeatable;
    legal.push_back("--" + name);
    if (spec.words) words_.emplace_back(name, spec.words);
    if (spec.value.empty()) {
      description.add_options()(name.c_str(), "");
    } else {
      description.add_options()(name.c_str(), po::value<std::vector<std::string>>()->composing(), "");
    }
  }
  // No guessing of shortened names: a later option must not change what a script means. No short options.
  namespace style = po::command_line_style;
  po::parsed_options parsed(&description);
  try {
    parsed = po::command_line_parser(words)
                 .options(description)
                 .style(style::allow_long | style::long_allow_next | style::long_allow_adjacent)
                 .allow_unregistered()
                 .run();
  } catch (const po::error_with_option_name& error) {
    throw InputError(std::string(error.what()) + "; see --help");
  } catch (const po::error& error) {
    throw InputError(std::string("command line: ") + error.what() + "; see --help");
  }
  for (const po::option& option : parsed.options) {
    if (option.unregistered ||
        (option.position_key >= 0 && option.string_key.empty() && option.value.front().size() > 1 &&
         option.value.front().starts_with('-') && option.value.front() != "-")) {
      const std::string given = option.unregistered ? option.original_tokens.front() : option.value.front();
      throw InputError(given + ": no such option" +
                       clause(meant_option(given.substr(0, given.find('=')), legal)) + " See --help");
    }
    if (option.position_key >= 0) {
      if (positional_.size() == max_positional) {
        throw InputError(option.value.front() + ": one argument too many; see --help");
      }
      positional_.push_back(option.value.front());
      continue;
    }
    if (has(option.string_key) && !repeatable[option.string_key]) {
      throw InputError("--" + option.string_key + ": given twice");
    }
    options_.emplace_back(option.string_key, option.value.empty() ? std::string() : option.value.front());
  }
}

Arguments Arguments::with(std::vector<std::pair<std::string, std::string>> more) const {
  Arguments all = *this;
  more.insert(more.end(), options_.begin(), options_.end());
  all.options_ = std::move(more);
  return all;
}

const std::string* Arguments::find(std::string_view option) const {
  for (const auto& [name, value] : options_) {
    if (name == option) return &value;
  }
  return nullptr;
}

bool Arguments::has(std::string_view option) const {
  return find(option) != nullptr;
}

std::string Arguments::text(std::string_view option, std::string_view otherwise) const {
  const std::string* value = find(option);
  return value ? *value : std::string(otherwise);
}

std::int64_t Arguments::integer(std::string_view option, std::int64_t otherwise, std::int64_t low,
                                std::int64_t high) const {
  const std::string* text = find(option);
  if (!text) return otherwise;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size() || value < low || value > high) {
    throw InputError("--" + std::string(option) + " " + *text + ": must be an integer from " +
                     std::to_string(low) + " to " + std::to_string(high));
  }
  return value;
}

double Arguments::number(std::string_view option, double otherwise, double low, double high) const {
  const std::string* text = find(option);
  if (!text) return otherwise;
  double value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size() || !(value >= low && value <= high)) {
    throw InputError("--" + std::string(option) + " " + *text + ": must be a number from " +
                     std::to_string(low) + " to " + std::to_string(high));
  }
  return value;
}

std::string Arguments::word(std::string_view option, std::string_view otherwise) const {
  if (!has(option)) return std::string(otherwise);
  std::string value = text(option, otherwise);
  const auto words =
      std::find_if(words_.begin(), words_.end(), [&](const auto& each) { return each.first == option; });
  if (words == words_.end()) throw std::logic_error("--" + std::string(option) + " has no words");
  const std::vector<std::string> legal = words->second();
  if (std::find(legal.begin(), legal.end(), value) != legal.end()) return value;
  std::string message = "--" + std::string(option) + " " + value + ": not known" +
                        clause(meant_value(option, value, legal, Quotes::no)) + " Legal:";
  for (const std::string& each : legal) message += " " + each;
  throw InputError(message);
}

std::vector<std::string> Arguments::all(std::string_view option) const {
  std::vector<std::string> values;
  for (const auto& [name, value] : options_) {
    if (name == option) values.push_back(value);
  }
  return values;
}

}  // namespace cplab
