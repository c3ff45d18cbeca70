// A table that a hardware file lacks, as it could stand there.
#pragma once

#include <string>

#include "plan/plan.hpp"
#include "sim/hardware.hpp"

namespace cplab {

// Legal TOML, a line each key, of the [[kernel]] or [[message]] that HardwareError::table and key say is
// missing ("kernel", "class=attend dtype=fp16"); its times are made up, so that its origin is "assumed".
// Empty where no table is missing.
std::string table_example(const std::string& table, const std::string& key, const Plan&, const Hardware&);

}  // namespace cplab
