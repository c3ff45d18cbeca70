// Sizes in text.
#include "report/size.hpp"

#include <charconv>
#include <system_error>

namespace cplab {

std::optional<std::int64_t> parse_size(std::string_view text, bool& overflow) {
  overflow = false;
  int shift = 0;
  if (!text.empty()) {
    const auto suffix = std::string_view("KMGT").find(text.back());
    if (suffix != std::string_view::npos) {
      shift = 10 * static_cast<int>(suffix + 1);
      text.remove_suffix(1);
    }
  }
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || end != text.data() + text.size()) return std::nullopt;
  const std::int64_t limit = INT64_MAX >> shift;
  overflow = error == std::errc::result_out_of_range || value > limit || value < -limit;
  if (overflow) return std::nullopt;
  return value * (std::int64_t{1} << shift);
}

}  // namespace cplab
