// Names of findings; see finding.hpp.
#include "plan/finding.hpp"

namespace cplab {

std::string_view name(FindingKind kind) {
  switch (kind) {
    case FindingKind::race: return "race";
    case FindingKind::deadlock: return "deadlock";
    case FindingKind::unmatched: return "unmatched";
    case FindingKind::order: return "order";
    case FindingKind::coverage: return "coverage";
    case FindingKind::uninitialised: return "uninitialised";
    case FindingKind::leak: return "leak";
    case FindingKind::lifetime: return "lifetime";
    case FindingKind::numerics: return "numerics";
  }
  return "unknown";
}

}  // namespace cplab
