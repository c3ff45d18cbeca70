// Models: Hugging Face config.json files as they are, the presets in scenarios/models, and [model] of a
// scenario. Every error is an InputError (exit code 2) that names file, line, key and what is legal.
#pragma once

#include <string>
#include <vector>

#include "cli/files/toml_table.hpp"
#include "decide/model.hpp"

namespace cplab {

// The text of a config.json. Configs with images or sound are read for their language part. Keys with an
// underscore in front are left to the file's readers ("_source" of a preset). Throws InputError for a
// model_type that is not known, with the known ones, nearest first; for a key that is missing, of another
// type or not legal; for a model that cannot be.
Model parse_model(const std::string& text, const std::string& file_name);
// The same of a file.
Model read_model_file(const std::string& path);

// The names of the presets, sorted.
std::vector<std::string> model_names();
// A preset by its name, a config by its path, or the folder that holds a config.json. Throws InputError with
// the nearest preset; EnvironmentError if it may be a preset and there is no folder scenarios/.
Model find_model(const std::string& name_or_path);

// Section [model] of a scenario (cli/files/model_section.cpp): config = "PATH" (beside `scenario`, which may
// be empty, or in the current folder) or preset = "NAME", each with keys that change it, or the sizes by
// hand. Throws InputError.
Model read_model(const Table& table, const std::string& scenario);
// Its keys.
const std::vector<std::string>& model_keys();

}  // namespace cplab
