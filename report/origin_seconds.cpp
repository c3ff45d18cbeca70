// See origin_seconds.hpp.
#include "report/origin_seconds.hpp"

#include <utility>

namespace cplab {

void OriginSeconds::scale(double factor) {
  for (double& s : seconds) s *= factor;
}

void OriginSeconds::raise(Origin floor) {
  for (std::size_t n = 0; n < static_cast<std::size_t>(floor); ++n) add(floor, std::exchange(seconds[n], 0));
}

Origin OriginSeconds::most() const {
  std::size_t most = 0;
  for (std::size_t n = 1; n < seconds.size(); ++n)
    if (seconds[n] >= seconds[most]) most = n;
  return static_cast<Origin>(most);
}

}  // namespace cplab
