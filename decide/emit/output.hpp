// The lines of one framework's output, flags and comments in the order in which they are written.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "decide/emit/emit.hpp"

namespace cplab::emitting {

class Output {
 public:
  explicit Output(Framework framework) : framework_(framework) {}

  Framework framework() const { return framework_; }
  bool knows(std::string_view flag) const;
  // Values are joined by a space; none: a switch. Of DeepSpeed a value is JSON. Throws std::logic_error for a
  // flag that is not in the table of flags: nothing is emitted that it does not account for.
  void flag(std::string_view flag, const std::vector<std::string>& values = {});
  void flag(std::string_view name, const std::string& value) { flag(name, std::vector{value}); }
  void flag(std::string_view name, std::int64_t value) { flag(name, std::to_string(value)); }
  // A key of an open mapping (EmittedFlag::open) of a framework that is configured by Hydra.
  void entry(std::string_view mapping, std::string_view key, const std::string& value);

  void note(std::string_view text);       // what follows without a flag
  void cannot(const std::string& text);   // the framework has no flag for it
  void illegal(const std::string& text);  // the framework would refuse it

  // Below a comment that says how to launch it: the array, by that name.
  std::string as_array(std::string_view launch, std::string_view array) const;
  std::string as_json(std::string_view launch) const;

 private:
  struct Line {
    std::string flag;  // empty: a comment
    std::string text;
  };
  const EmittedFlag& known(std::string_view flag) const;

  Framework framework_;
  std::vector<Line> lines_;
};

}  // namespace cplab::emitting
