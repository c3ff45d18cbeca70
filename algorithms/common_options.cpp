// The options that every algorithm has.
#include "algorithms/common_options.hpp"

namespace cplab {

std::vector<OptionInfo> common_options() {
  return {
      {.key = "transport",
       .legal = {option_word("nccl"), option_word("copy")},
       .default_value = option_word("nccl"),
       .help = "NCCL kernels or copy engines"},
      {.key = "reserved_sms",
       .legal = {option_count(0)},
       .any_count = true,
       .default_value = option_count(0),
       .help = "multiprocessors left free for communication; of kernels on GPUs only those for Hopper obey, "
               "the deterministic backward not"},
      {.key = "reuse",
       .legal = {option_word("time"), option_word("peak")},
       .default_value = option_word("time"),
       .help = "share memory where no operation waits for it (time), or wherever lifetimes allow it (peak)"},
      {.key = "between",
       .legal = {option_word("nothing"), option_word("layers")},
       .default_value = option_word("nothing"),
       .help = "what lies between forward and backward: with layers only saved buffers and inputs cross"},
  };
}

OptionInfo pack_above_option() {
  return {.key = "pack_above",
          .legal = {option_count(0)},
          .any_count = true,
          .default_value = option_count(16),
          .help = "messages of more contiguous pieces are packed into one by a copy"};
}

Transport transport_of(const Schedule& s) {
  return s.is_word("transport", "copy") ? Transport::copy : Transport::nccl;
}

}  // namespace cplab
