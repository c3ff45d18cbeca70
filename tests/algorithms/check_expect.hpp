// What the checker's tests expect of a plan.
#pragma once

#include <doctest/doctest.h>

#include <string>

#include "tests/hand_plans/check_hand_plans.hpp"

namespace cplab::hand {

// No finding at all.
inline void require_right(const Plan& plan) {
  const CheckResult result = check(plan);
  INFO(text(result));
  CHECK(result.ok());
}

// A finding of that kind, rank and operation; there may be others.
inline void require_finding(const Plan& plan, FindingKind kind, int rank, const std::string& operation) {
  const CheckResult result = check(plan);
  INFO("expected " << std::string(name(kind)) << " rank " << rank << " " << operation << ", found:\n"
                   << text(result));
  CHECK(has(result, kind, rank, operation));
}

// A finding of that kind somewhere.
inline void require_anywhere(const Plan& plan, FindingKind kind) {
  const CheckResult result = check(plan);
  INFO(text(result));
  bool found = false;
  for (const Finding& f : result.findings) found = found || f.kind == kind;
  CHECK(found);
}

}  // namespace cplab::hand
