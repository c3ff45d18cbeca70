// Parts of the reader of hardware files.
#pragma once

#include <string>
#include <vector>

#include "cli/toml_table.hpp"
#include "cli/vocabulary.hpp"
#include "sim/hardware.hpp"

namespace cplab {

// One of `values` by its name.
template <class Enum, class Name>
Enum choice(const Table& table, const char* key, const std::string& given, const std::vector<Enum>& values,
            Name name_of) {
  std::vector<std::string> legal;
  for (const Enum& value : values) {
    legal.emplace_back(name_of(value));
    if (legal.back() == given) return value;
  }
  std::string message = "\"" + given + "\" is not legal; legal are";
  for (const std::string& word : legal) message += " \"" + word + "\"";
  table.fail(key, message + "; " + meant_value(key, given, legal));
}

// cut, chunk, sequences, states, results and the points of a class of linear attention. Throws InputError.
void read_chunk_points(const Table& table, KernelTable& kernel);

}  // namespace cplab
