// Channels of exchanges over nccl; see channels.hpp.
#include "algorithms/channels.hpp"

#include "plan/live_pairs.hpp"
#include "plan/plan.hpp"

namespace cplab {
namespace {

constexpr double channel_bytes_s = 16e9, kernel_flops_s = 600e12, hidden_in = 0.75;
constexpr int most_channels = 16;

double pairs_of(const Problem& p) {
  const Window window = p.visible();
  const auto square = [&](std::int64_t tokens) {
    return live_pairs(Segment{0, tokens, 0, tokens, 0, window.left, window.right});
  };
  double pairs = 0;
  for (const std::int64_t length : p.lengths) pairs += square(length);
  return pairs;
}

double tokens_of(const Problem& p) {
  double tokens = 0;
  for (const std::int64_t length : p.padded_lengths) tokens += static_cast<double>(length);
  return tokens;
}

}  // namespace

int exchange_channels(const Scenario& s, Phase phase) {
  const OptionValue* value = s.schedule.find("channels");
  if (!value) return 0;
  if (const auto* count = std::get_if<std::int64_t>(value)) return static_cast<int>(*count);
  const Problem& p = s.problem;
  if (s.schedule.is_word("channels", "nccl") || p.attention == Attention::linear) return 0;
  const bool backward = phase == Phase::backward;
  const auto ranks = static_cast<double>(s.parallel.ranks), world = static_cast<double>(s.parallel.world());
  const OpKind kind = backward ? OpKind::attend_backward : OpKind::attend;
  const double tile_flops = pairs_of(p) * static_cast<double>(p.heads) *
                            flops_per_pair(kind, p.head_size, p.value_size) / (world * ranks);
  const bool wide = backward && !s.schedule.is_word("gradient_wire_dtype", "nominal");
  const std::int64_t element = element_bytes(Role::nominal, p.dtype);
  const std::int64_t gradient = wide ? element_bytes(Role::wide, p.dtype) : backward ? element : 0;
  const double bytes = tokens_of(p) / world *
                       static_cast<double>(p.kv_heads * (p.head_size + p.value_size) * (element + gradient));
  const double hidden_bytes = channel_bytes_s * hidden_in * tile_flops / kernel_flops_s;  // by one channel
  int channels = 1;
  while (channels <= most_channels && channels * hidden_bytes < bytes) channels *= 2;
  return channels <= most_channels ? channels : 0;
}

}  // namespace cplab
