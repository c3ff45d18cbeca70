// Names of the origins, as results print them.
#include "report/timeline.hpp"

namespace cplab {

std::string_view name(Origin origin) {
  switch (origin) {
    case Origin::measured: return "measured";
    case Origin::interpolated: return "interpolated";
    case Origin::extrapolated: return "extrapolated";
    case Origin::assumed: return "assumed";
  }
  return "?";
}

}  // namespace cplab
