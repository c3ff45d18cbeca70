// A layout as the arguments of the frameworks that train and serve: flags to paste, and as comments whatever
// a framework has no flag for.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "decide/layout.hpp"
#include "decide/model.hpp"

namespace cplab {

enum class Framework : std::uint8_t { megatron, torchtitan, verl, ms_swift, deepspeed, vllm, sglang };
std::string_view name(Framework);            // "ms-swift", as --emit takes it
const std::vector<Framework>& frameworks();  // in the order above
std::optional<Framework> framework_of(std::string_view name);

// A flag that `emit` may write, and what of a layout it says. All views are of static text.
struct EmittedFlag {
  Framework framework = Framework::megatron;
  // As it is typed, values left out; of DeepSpeed the dotted path of a key of its configuration.
  std::string_view flag;
  std::string_view file;  // that declares it, in the repository
  std::string_view says;
  std::string_view repository;  // "OWNER/NAME"
  std::string_view seen;        // the release, or commit and date, in which it was found
  // A mapping that the framework hands on as it is: keys below it are another project's.
  bool open = false;
};
std::vector<EmittedFlag> flags_of(Framework);

// A bash array of arguments, or for DeepSpeed its configuration (Hjson, which is JSON with comments). Lines
// that begin with "#" say, in this order of words: "not expressible" what the framework has no flag for and
// what stands in for it, "illegal here" what it would refuse, anything else what follows without a flag.
// Degrees are those of the layout; that they are legal for the model is otherwise the caller's affair. Throws
// std::invalid_argument where the layout has not one choice for each kind of attention layer, or names an
// algorithm that is none.
std::string emit(Framework, const Model&, const Training&, const ModelLayout&);

}  // namespace cplab
