// What the checker's tests expect of a plan.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "check/check.hpp"

namespace cplab::hand {

inline bool has(const CheckResult& result, FindingKind kind, int rank, const std::string& operation) {
  return std::ranges::any_of(result.findings, [&](const Finding& f) {
    return f.kind == kind && f.rank == rank && f.operation == operation;
  });
}

// All findings, for a failing test.
inline std::string text(const CheckResult& result) {
  std::string all;
  for (const Finding& f : result.findings)
    all += std::string(name(f.kind)) + " rank " + std::to_string(f.rank) + " " + f.operation + " [" +
           f.buffer + "] " + f.message + "\n";
  return all;
}

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

// A finding whose message says so.
inline void require_message(const Plan& plan, const std::string& part) {
  const CheckResult result = check(plan);
  INFO(text(result));
  CHECK(std::ranges::any_of(result.findings,
                            [&](const Finding& f) { return f.message.find(part) != std::string::npos; }));
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
