// Reasons for slower kernels, in words; see fall_back.hpp and variants.hpp.
#include "kernels/work/fall_back.hpp"

#include <cmath>

#include "kernels/dtype_name.hpp"

namespace cplab::kernels::cuda {
namespace {

// Two digits: "260", "5".
std::string about(double number) {
  const double unit = number < 100 ? 1 : 10;
  return std::to_string(std::lround(number / unit) * std::lround(unit));
}

std::string size_name(const HeadSizes& sizes) {
  const std::string key = std::to_string(sizes.key);
  return sizes.key == sizes.value ? key : key + "/" + std::to_string(sizes.value);
}

}  // namespace

std::string missing_size(const View& q, const View& v) {
  if (q.dtype != DType::bf16 && q.dtype != DType::fp16) return "takes " + std::string(name_of(q.dtype));
  const std::string key = std::to_string(q.width);
  return q.width == v.width ? "has head size " + key
                            : "has head sizes " + key + " and " + std::to_string(v.width);
}

HeadSizes head_sizes(const View& q, const View& v) {
  return {static_cast<int>(q.width), static_cast<int>(v.width)};
}

std::string sizes_text(std::vector<HeadSizes> sizes) {
  std::sort(sizes.begin(), sizes.end(), [](const HeadSizes& a, const HeadSizes& b) {
    return a.key != b.key ? a.key < b.key : a.value < b.value;
  });
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  std::string text;
  for (const HeadSizes& each : sizes) text += (text.empty() ? "" : ", ") + size_name(each);
  return text;
}

std::string FallBack::text() const {
  std::string all = preferred.empty() ? "" : "not " + std::string(preferred) + ": ";
  all += !refused.empty() ? refused + ", so that `run` refuses; predicted is a build that has them"
         : missing.empty()
             ? reason.text()
             : "no kernel on tensor cores " + missing + " (this build has head sizes " + sizes + ")";
  if (times_slower > 0) all += "; about " + about(times_slower) + " times slower for a FLOP";
  return all;
}

}  // namespace cplab::kernels::cuda
