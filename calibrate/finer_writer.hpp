// Parts of the writer of hardware files: where numbers come from, and the finer tables.
#pragma once

#include "calibrate/toml_text.hpp"
#include "sim/finer_tables.hpp"

namespace cplab::measure {

void write_origin(TomlText& out, const Provenance& from);
void write_finer_tables(TomlText& out, const FinerTables& finer);

}  // namespace cplab::measure
