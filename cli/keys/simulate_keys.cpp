// The keys of [simulate]; see keys.hpp.
#include "cli/keys/keys.hpp"

namespace cplab {

namespace {

constexpr std::int64_t most_count = std::int64_t{1} << 31;

}  // namespace

std::span<const KeyInfo> simulate_key_table() {
  using enum KeyType;
  static const std::vector<KeyInfo> keys{
      {.key = "simulate.collective_model",
       .type = word,
       .words = {"curve", "stepwise"},
       .value = "curve",
       .meaning = "collectives by their measured curve where there is one, or always step by step"},
      {.key = "simulate.cuda_graph",
       .type = flag,
       .value = "false",
       .meaning = "the whole plan is one CUDA graph: costs of the host are those of a graph"},
      {.key = "simulate.run_ahead",
       .type = whole,
       .least = 1,
       .most = most_count,
       .unit = "operations",
       .rule = "what the hardware file says",
       .meaning = "how many operations the host may have issued that are not complete"},
      {.key = "simulate.iteration",
       .type = whole,
       .least = 1,
       .most = most_count,
       .rule = "one of many",
       .meaning = "which iteration since the GPUs were idle: early ones run at the highest clock"},
      {.key = "simulate.engine",
       .type = word,
       .words = {"auto", "simgrid", "native"},
       .value = "auto",
       .meaning = "who shares the links among flows; auto: native, which says the same as SimGrid, faster"},
      {.key = "simulate.jitter",
       .type = number,
       .legal = "from 0 to below 1",
       .value = "0.0",
       .meaning = "kernels take from 1 - jitter to 1 + jitter of their time"},
      {.key = "simulate.seed",
       .type = whole,
       .least = 0,
       .most = INT64_MAX,
       .value = "1",
       .taken_by = "predictions with a jitter",
       .meaning = "of the jitter"},
      {.key = "simulate.slow",
       .type = section,
       .meaning = "[[simulate.slow]]: a rank that is slower than the machine says"},
      {.key = "simulate.slow[].rank",
       .type = whole,
       .least = 0,
       .most = 65535,
       .meaning = "which rank of the world"},
      {.key = "simulate.slow[].link",
       .type = number,
       .legal = "above 0, at most 1",
       .value = "1.0",
       .meaning = "factor on the speed of its link within the node"},
      {.key = "simulate.slow[].compute",
       .type = number,
       .legal = "above 0, at most 1",
       .value = "1.0",
       .meaning = "factor on the speed of its kernels"},
      {.key = "simulate.slow[].nic",
       .type = number,
       .legal = "above 0, at most 1",
       .value = "1.0",
       .meaning = "factor on the speed of its NIC"},
  };
  return keys;
}

}  // namespace cplab
