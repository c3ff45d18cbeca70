// Every output of a timeline: those named in CMakeLists.txt. NAME.cpp exports NAME_output().
#include <vector>

#include "report/timeline_output.hpp"

namespace cplab {

#define CPLAB_OUTPUT(name) TimelineOutput name##_output();
#include "named_outputs.inc"
#undef CPLAB_OUTPUT

std::span<const TimelineOutput> timeline_outputs() {
  static const std::vector<TimelineOutput> all{
#define CPLAB_OUTPUT(name) name##_output(),
#include "named_outputs.inc"
#undef CPLAB_OUTPUT
  };
  return all;
}

}  // namespace cplab
