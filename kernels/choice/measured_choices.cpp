// Classes of calls, and what was measured for them; see measured_choices.hpp.
#include "kernels/choice/measured_choices.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <utility>

#include "kernels/dtype_name.hpp"

namespace cplab::kernels::cuda {
namespace {

using kernels::name_of;  // beside those here

std::string_view name_of(Write write) {
  return write == Write::store ? "store" : write == Write::add ? "add" : "merge";
}

// "2^12", "2^12.5": the nearest half octave; "0".
std::string octaves(double value) {
  if (value <= 0) return "0";
  const auto halves = std::lround(2 * std::log2(value));
  return "2^" + std::to_string(halves / 2) + (halves % 2 != 0 ? ".5" : "");
}

struct Extent {
  double sequences = 0, rows = 0, keys = 0, density = 0;
  bool right = false, left = false;
};

Extent extent_of(std::span<const Segment> segments) {
  Extent extent;
  double area = 0, pairs = 0;
  for (const DeviceSegment& segment : live_segments(segments)) {
    const double rows = segment.q_end - segment.q_begin, keys = segment.k_end - segment.k_begin;
    extent.sequences += 1;
    extent.rows += rows;
    extent.keys += keys;
    area += rows * keys;
    pairs += static_cast<double>(live_pairs(segment));
    // Bounds that cut nothing off are none.
    extent.right |= segment.q_begin + segment.high < segment.k_end - 1;
    extent.left |= segment.q_end - 1 + segment.low > segment.k_begin;
  }
  if (extent.sequences == 0) return extent;
  extent.rows /= extent.sequences;
  extent.keys /= extent.sequences;
  extent.density = pairs / area;
  return extent;
}

// `out`: the tensor whose dtype and rows matter beside those of q.
template <class Call>
std::string common(std::string_view operation, const Call& call, const View& out, Write write,
                   const VariantOptions& options) {
  const Extent extent = extent_of(call.segments);
  const auto number = [](std::int64_t n) { return std::to_string(n); };
  std::string text(operation);
  text += " " + std::string(name_of(call.q.dtype)) + "->" + std::string(name_of(out.dtype));
  text += " D" + number(call.q.width) + " E" + number(call.v.width);
  text += " H" + number(call.q.heads) + "/" + number(call.k.heads);
  text += " rows " + octaves(extent.rows) + " keys " + octaves(extent.keys);
  text += " sequences " + octaves(extent.sequences);
  text += " density " + number(std::lround(8 * extent.density)) + "/8";
  text += extent.left ? (extent.right ? " window" : " left") : (extent.right ? " causal" : " full");
  text += " " + std::string(name_of(write));
  if (call.q.runs.size() > 1 || call.k.runs.size() > 1 || out.runs.size() > 1) text += " apart";
  text += " sms " + number(options.sms);
  if (wants_same_bits(options.choice)) text += " deterministic";
  if (options.shared_gpu) text += " shared";
  return text;
}

}  // namespace

std::string call_class(const Attend& call, const VariantOptions& options) {
  return common("attend", call, call.out, call.write, options) + (call.max_logit ? " max_logit" : "");
}

std::string call_class(const AttendBackward& call, const VariantOptions& options) {
  return common("attend_backward", call, call.dq, call.write_dq, options) + (call.out ? " delta" : "") +
         (call.rounded_dq ? " rounded" : "") + (call.rounded_dk ? " dk rounded" : "") +
         (call.write_dk == call.write_dq ? "" : " dk " + std::string(name_of(call.write_dk)));
}

std::string MeasuredChoices::text() const {
  std::string text;
  for (const auto& [call, variant] : by_class_) text += call + '\t' + variant + '\n';
  return text;
}

MeasuredChoices MeasuredChoices::from_text(std::string_view text) {
  MeasuredChoices choices;
  while (!text.empty()) {
    const std::size_t end = text.find('\n'), tab = text.substr(0, end).find('\t');
    if (end == std::string_view::npos || tab == std::string_view::npos || tab == 0 || tab + 1 == end)
      throw std::invalid_argument("choices of kernels: not a class, a tab and a kernel in a line");
    choices.set(std::string(text.substr(0, tab)), std::string(text.substr(tab + 1, end - tab - 1)));
    text.remove_prefix(end + 1);
  }
  return choices;
}

}  // namespace cplab::kernels::cuda
