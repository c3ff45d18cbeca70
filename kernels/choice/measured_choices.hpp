// Which variant was measured fastest, for every class of calls that anybody measured. Plain host code.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "kernels/families/variants.hpp"

namespace cplab::kernels::cuda {

// What calls have in common that may share a choice, in words: operation, dtypes, sizes, heads, sequences,
// mean rows and keys of a sequence (half octaves), the share of live pairs (eighths), mask, how results are
// written, whether rows lie apart, how many multiprocessors, whether the same bits are wanted in every run.
// "attend bf16->bf16 D128 E128 H16/16 rows 2^12 keys 2^12 sequences 2^0 density 4/8 causal store sms 132".
// What a choice depends on beside the call and the options (GPU, driver, build) is for the owner of the
// choices to keep apart (tune/machine.hpp).
std::string call_class(const Attend& call, const VariantOptions& options);
std::string call_class(const AttendBackward& call, const VariantOptions& options);

class MeasuredChoices {
 public:
  void set(std::string call, std::string variant) { by_class_[std::move(call)] = std::move(variant); }
  // Null: nobody measured calls of that class.
  const std::string* find(std::string_view call) const {
    const auto found = by_class_.find(call);
    return found == by_class_.end() ? nullptr : &found->second;
  }
  const std::map<std::string, std::string, std::less<>>& all() const { return by_class_; }

  // For other processes: one line a class. from_text throws std::invalid_argument for anything else.
  std::string text() const;
  static MeasuredChoices from_text(std::string_view text);

 private:
  std::map<std::string, std::string, std::less<>> by_class_;
};

}  // namespace cplab::kernels::cuda
