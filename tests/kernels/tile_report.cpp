// What a run of many cases says; see tile_cases.hpp.
#include <algorithm>
#include <cstdio>
#include <mutex>
#include <string>
#include <string_view>

#include "tests/kernels/tile_cases.hpp"

namespace cplab::testing {

void Report::share(const std::string& variant, const std::string& where, const char* what, double share) {
  const std::lock_guard lock(mutex_);
  Variant& entry = variants_[variant];
  ++entry.checks;
  if (!(share <= entry.worst)) entry.worst = share;
  if (share <= 1) return;
  ++entry.failures;
  std::printf("FAILED  %s: %s is off by %.3g of its tolerance  [%s]\n", variant.c_str(), what, share,
              where.c_str());
}

void Report::holds(const std::string& variant, const std::string& where, const char* what, bool holds) {
  const std::lock_guard lock(mutex_);
  Variant& entry = variants_[variant];
  ++entry.checks;
  if (holds) return;
  ++entry.failures;
  std::printf("FAILED  %s: %s  [%s]\n", variant.c_str(), what, where.c_str());
}

bool Report::ran(std::string_view part) const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(variants_,
                             [&](const auto& v) { return v.first.find(part) != std::string::npos; });
}

bool Report::summary() const {
  const std::lock_guard lock(mutex_);
  bool fine = !variants_.empty();
  for (const auto& [name, entry] : variants_) {
    std::printf("%-34s %7lld checks, %lld failed, worst error/tolerance %.3g\n", name.c_str(),
                static_cast<long long>(entry.checks), static_cast<long long>(entry.failures), entry.worst);
    fine = fine && entry.failures == 0;
  }
  return fine;
}

}  // namespace cplab::testing
