// Drawing scenarios; see held_out.hpp.
#include "calibrate/held_out.hpp"

#include <algorithm>
#include <cmath>
#include <random>

namespace cplab::measure {
namespace {

// The same numbers with every standard library, which the distributions of <random> do not promise.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed) {}
  double uniform() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }
  std::int64_t integer(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(uniform() * static_cast<double>(high - low + 1));
  }
  std::int64_t log_uniform(std::int64_t low, std::int64_t high) {
    const double from = std::log(static_cast<double>(low)), to = std::log(static_cast<double>(high));
    return std::lround(std::exp(from + uniform() * (to - from)));
  }
  bool one_in(int n) { return integer(1, n) == 1; }
  template <class Value>
  Value of(std::initializer_list<Value> values) {
    return *(values.begin() + integer(0, static_cast<std::int64_t>(values.size()) - 1));
  }

 private:
  std::mt19937_64 engine_;
};

constexpr const char* several[] = {"ring", "all_gather", "all_to_all", "packed",       "window",
                                   "lasp", "batch",      "scan",       "head_strided", "one_gpu"};
constexpr const char* single[] = {"one_gpu"};

constexpr std::int64_t shortest = 3 << 10, longest = 48 << 10;

std::string lengths_text(Dice& dice, std::int64_t tokens, std::int64_t count) {
  std::vector<std::int64_t> cuts{0, tokens};
  while (static_cast<std::int64_t>(cuts.size()) <= count) {
    const std::int64_t cut = dice.integer(1, tokens - 1);
    if (std::find(cuts.begin(), cuts.end(), cut) == cuts.end()) cuts.push_back(cut);
  }
  std::sort(cuts.begin(), cuts.end());
  std::string text;
  for (std::size_t i = 1; i < cuts.size(); ++i)
    text += (text.empty() ? "" : ", ") + std::to_string(cuts[i] - cuts[i - 1]);
  return "lengths = [" + text + "]\n";
}

std::string key(const char* name, std::int64_t value) {
  return std::string(name) + " = " + std::to_string(value) + "\n";
}
std::string key(const char* name, const std::string& value) {
  return std::string(name) + " = \"" + value + "\"\n";
}

std::string parallel_text(std::int64_t ranks, const std::string& algorithm, const std::string& placement) {
  return "\n[parallel]\n" + key("ranks", ranks) + key("algorithm", algorithm) + key("placement", placement);
}

Drawn draw_linear(Dice& dice, const std::string& kind, std::int64_t ranks) {
  const std::string algorithm =
      kind == "lasp" ? dice.of<const char*>({"lasp_fuse_parallel", "lasp_fuse_parallel", "lasp_fuse"})
                     : dice.of<const char*>({"lasp_blelloch", "lasp_all_gather", "lasp_kogge_stone"});
  // Whole blocks on every rank, as the chunks of these methods want them.
  const std::int64_t blocks = dice.log_uniform(shortest, 2 * longest) / (256 * ranks) + 1;
  std::string text = "[problem]\n" + key("attention", "linear") + key("slopes", "alibi") + key("batch", 1) +
                     key("sequence", blocks * 256 * ranks) +
                     key("heads", dice.of<std::int64_t>({8, 16, 32})) + key("head_size", 128) +
                     key("dtype", "bf16") + key("mask", "causal") +
                     key("direction", dice.one_in(3) ? "forward" : "forward+backward");
  text += parallel_text(ranks, algorithm, "contiguous");
  text += "\n[schedule]\n" + key("transport", dice.of<const char*>({"copy", "nccl"}));
  return {kind, text};
}

Drawn draw_softmax(Dice& dice, const std::string& kind, std::int64_t ranks, int form) {
  const std::string algorithm = kind == "one_gpu" ? "ring"
                                : kind == "packed"
                                    ? dice.of<const char*>({"ring", "all_gather", "all_to_all"})
                                : kind == "window" || kind == "batch"
                                    ? dice.of<const char*>({"ring", "ring", "all_gather", "all_to_all"})
                                    : kind;
  const std::string placement = algorithm == "all_to_all" || ranks == 1
                                    ? "contiguous"
                                    : dice.of<const char*>({"zigzag", "zigzag", "contiguous", "striped"});
  const bool packed = kind == "packed" || (kind == "one_gpu" && form == 1);
  const bool window = kind == "window" || (kind == "one_gpu" && form == 2);
  const bool batch = kind == "batch" || (kind == "one_gpu" && form == 3);
  const std::int64_t tokens = dice.log_uniform(shortest, longest), unit = 2 * ranks;
  const std::int64_t kv_heads = std::max(ranks, dice.of<std::int64_t>({2, 4, 8, 16}));
  std::string text = "[problem]\n";
  std::int64_t length = tokens;
  if (packed) {
    text += lengths_text(dice, tokens / unit * unit, dice.integer(2, 16));
  } else {
    const std::int64_t sequences = batch ? dice.integer(2, 6) : 1;
    length = std::max<std::int64_t>(unit, tokens / sequences / unit * unit);
    text += key("batch", sequences) + key("sequence", length);
  }
  text += key("heads", kv_heads * dice.integer(1, std::max<std::int64_t>(1, 32 / kv_heads)));
  text += key("kv_heads", kv_heads) + key("head_size", dice.one_in(4) ? 64 : 128) + key("dtype", "bf16");
  const bool full = placement == "contiguous" && !window && dice.one_in(2);
  text += key("mask", full ? "full" : "causal");
  if (window) text += "window = [" + std::to_string(dice.log_uniform(128, length / 2)) + ", 0]\n";
  text += key("direction", dice.one_in(4) ? "forward" : "forward+backward");
  text += parallel_text(ranks, algorithm, placement);
  text += "\n[schedule]\n" + key("transport", ranks == 1 ? "copy" : dice.of<const char*>({"copy", "nccl"}));
  return {kind, text};
}

}  // namespace

Drawn draw(std::uint64_t seed, int index, int gpus) {
  const auto number = static_cast<std::uint64_t>(index);
  Dice dice(seed * 1'000'003 + number);
  const std::size_t kinds = gpus > 1 ? std::size(several) : std::size(single);
  const std::string kind = (gpus > 1 ? several : single)[number % kinds];
  const int form = static_cast<int>(number / kinds % 4);  // of one GPU: plain, packed, window, batch
  if (kind == "lasp" || kind == "scan") return draw_linear(dice, kind, gpus);
  return draw_softmax(dice, kind, kind == "one_gpu" ? 1 : gpus, form);
}

}  // namespace cplab::measure
