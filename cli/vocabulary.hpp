// What other tools call our keys and values, for "did you mean": Hugging Face configurations, Megatron-LM,
// DeepSpeed, TransformerEngine, PyTorch. A synonym is suggested, never taken; aliases that are taken are
// those of the registry (algorithms/core/list.hpp).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cplab {

// A hint for a word that is not legal: "did you mean \"parallel.ranks\"?", or a sentence that says why there
// is no such thing; empty where nothing is known of it. A word is suggested only if the tables know that it
// is meant, or if what was given is a misspelling of it.

// For a key that is not legal in `section` of a scenario or of a hardware file ("" is the root): by meaning
// first (a synonym, or the name of a key of another section), else by letters. Without the section where the
// key belongs into this one.
std::string meant_key(std::string_view section, std::string_view given,
                      const std::vector<std::string>& legal);

// The same for a value of a key of [problem], [parallel] or [schedule], or of an option of the command line
// ("dtype", "mask", "algorithm", "device", ...). A value whose meaning is known and not among `legal` is said
// to be missing in this version. Values of files stand in quotes, words of the command line do not.
enum class Quotes : bool { no, yes };
std::string meant_value(std::string_view key, std::string_view given, const std::vector<std::string>& legal,
                        Quotes quotes = Quotes::yes);

// The same for commands and for long options ("--cp" is "--set parallel.ranks=...").
std::string meant_command(std::string_view given, const std::vector<std::string>& legal);
std::string meant_option(std::string_view given, const std::vector<std::string>& legal);

// The same for a file of `names`, which are scenarios or machines relative to scenarios/.
std::string meant_file(std::string_view given, const std::vector<std::string>& names);

// How a hint goes on what is wrong: "; did you mean ...?", or a full stop without one.
std::string clause(const std::string& hint);

// "\"full\", \"causal\"".
std::string quoted_list(const std::vector<std::string>& words);

// The word in `legal` that `given` is a misspelling of, or the only one that begins with it; empty if there
// is none. Use the functions above where a table knows more.
std::string nearest(std::string_view given, const std::vector<std::string>& legal);

}  // namespace cplab
