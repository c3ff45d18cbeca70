// Section [training] of a scenario: how many GPUs, which tokens, and what of the layout is given. Every error
// is an InputError (exit code 2) that names file, line, key and what is legal.
#pragma once

#include <string>
#include <vector>

#include "cli/files/toml_table.hpp"
#include "decide/layout.hpp"
#include "decide/model.hpp"

namespace cplab {

// Throws InputError for what no model could be trained with: unknown keys, wrong types and ranges, degrees
// whose product does not divide the GPUs.
Training read_training(const Table& table);
// Its keys.
const std::vector<std::string>& training_keys();

// What the model does not allow: tp that does not divide the heads, ep that does not divide the experts, more
// stages than layers. Throws InputError with the legal values.
void require_legal(const Table& table, const Training&, const Model&);

// The same of a degree that was given otherwise: empty if it is legal, else why not and what is ("tp = 3: 28
// heads; legal: 1 2 4 7 14 28"). `degree` is tp, cp, pp, ep or etp.
std::string why_illegal(const std::string& degree, std::int64_t value, const Model&);

}  // namespace cplab
