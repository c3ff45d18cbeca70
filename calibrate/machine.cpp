// The date; see machine.hpp.
#include "calibrate/machine.hpp"

#include <ctime>

namespace cplab::measure {

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[16] = {};
  std::strftime(text, sizeof text, "%Y-%m-%d", &parts);
  return text;
}

}  // namespace cplab::measure
