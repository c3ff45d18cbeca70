// Files of `cplab calibrate`: what one was measured with, and what a new one begins with.
#pragma once

#include <optional>
#include <string>

#include "calibrate/calibration.hpp"
#include "sim/hardware.hpp"

namespace cplab {

// The machine and its section [calibration], if `path` exists. Throws InputError if it is no file of
// calibrate, which then is not to be written over, or if it is damaged.
std::optional<measure::State> read_calibration(const std::string& path);
// The same of text; `file_name` is for messages.
measure::State parse_calibration(const std::string& text, const std::string& file_name);

// What is not measured: the file `asked` (a path or a name of `list hardware`), else the shipped file of that
// GPU that has the rates of our kernels, else its data sheet; all of it assumed. Throws InputError for a file
// that times another library's kernels, where ours are to be measured (machine.gpus > 0).
Hardware base_machine(const std::string& asked, const measure::Machine& machine);

}  // namespace cplab
