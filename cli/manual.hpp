// The manual page cplab(1), from the tables of commands, options and keys.
#pragma once

#include <iosfwd>

namespace cplab {

// In the man macros of groff and mandoc.
void write_manual(std::ostream& out);

}  // namespace cplab
