// How the thread blocks of a kernel fill a GPU that takes one a multiprocessor at a time. Internal to sim/.
#pragma once

#include <algorithm>
#include <cmath>

namespace cplab {

struct Waves {
  int count = 1;
  int tail_sms = 1;  // multiprocessors that the last wave occupies
  double fill = 1;   // share of multiprocessor time in use
};

inline Waves waves_of(double blocks, int sms) {
  Waves waves;
  const double count = std::max(1.0, std::ceil(blocks / sms));
  waves.count = static_cast<int>(std::min(count, 1e9));
  waves.tail_sms = std::clamp(static_cast<int>(blocks - (count - 1) * sms), 1, sms);
  waves.fill = std::max(1.0, blocks) / (count * sms);
  return waves;
}

}  // namespace cplab
