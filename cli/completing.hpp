// What the shell's completion proposes: from the tables of commands, options and keys, and from what `list`
// names.
#pragma once

#include <string>
#include <vector>

namespace cplab {

// `words`: what stands behind the program's name up to the cursor; the last may be empty, and is what is
// completed. Candidates that begin with it, each once, in the order of the tables; one that ends with "=" or
// "." goes on. Empty: a file name, or anything, is meant.
std::vector<std::string> completions(const std::vector<std::string>& words);

// The script that a shell ("bash", "zsh") sources; it asks `cplab completion words ...`.
std::string completion_script(const std::string& shell);

}  // namespace cplab
