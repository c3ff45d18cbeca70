// The cache of measured choices between attention kernels: one JSON file, of one machine and build.
#pragma once

#include <string>
#include <vector>

#include "kernels/tune/machine.hpp"
#include "kernels/tune/tuner.hpp"
#include "report/json_writer.hpp"

namespace cplab {

struct ChoicesFile {
  kernels::tune::Machine machine;
  std::vector<kernels::tune::Decision> decisions;  // that were measured; one for each class

  kernels::cuda::MeasuredChoices choices() const;
  // Of the same class the new one counts.
  void add(const std::vector<kernels::tune::Decision>&);
};

// Throws JsonFileError for a file that is no such file, InputError for one that cannot be read. Its
// candidates have the names of kernels; of these nobody has asked whether this build has them.
ChoicesFile read_choices(const std::string& path);
ChoicesFile parse_choices(const std::string& text, const std::string& file_name);
// The whole file or nothing (report/output_file.hpp). Makes the folder. Throws OutputError.
void write_choices(const std::string& path, const ChoicesFile&);
// The member "machine".
void write_machine(JsonWriter&, const kernels::tune::Machine&);

// What contradicts itself, a sentence each: a kernel that no build has, a choice that was found wrong, or
// that is slower than another by what was measured. Empty: nothing.
std::vector<std::string> contradictions(const ChoicesFile&);

// --choices FILE, else cplab/choices.json in $XDG_CACHE_HOME or ~/.cache. Empty: there is no such place.
std::string default_choices_path();

}  // namespace cplab
