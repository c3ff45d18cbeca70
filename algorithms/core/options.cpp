// The options that every algorithm has.
#include "algorithms/core/options.hpp"

#include "algorithms/core/defaults.hpp"

namespace cplab {

std::vector<OptionInfo> common_options() {
  std::vector<OptionInfo> options{
      {.key = "transport",
       .legal = {option_word("auto"), option_word("nccl"), option_word("copy")},
       .default_value = option_word("auto"),
       .help =
           "NCCL kernels or copy engines; auto: of every message copy engines where its ends share a node "
           "and reach each other's memory, else NCCL"},
      {.key = "channels",
       .legal = {option_word("nccl"), option_count(1), option_count(2), option_count(4), option_count(8),
                 option_count(16), option_count(32)},
       .default_value = option_word("nccl"),
       .help = "multiprocessors of an exchange over nccl; nccl: NCCL's own choice"},
      {.key = "head_start_us",
       .legal = {option_count(0)},
       .any_count = true,
       .default_value = option_count(defaults::head_start()),
       .help = "microseconds by which an attention kernel starts after what goes over nccl beside it; 0: it "
               "does not wait"},
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
  for (OptionInfo& option : options) option = defaults::by_machine(option);
  return options;
}

OptionInfo word_option(std::string_view key, std::initializer_list<const char*> words,
                       std::string_view help) {
  OptionInfo option{.key = key, .legal = {}, .default_value = option_word(*words.begin()), .help = help};
  for (const char* word : words) option.legal.push_back(option_word(word));
  return option;
}

OptionInfo count_option(std::string_view key, std::initializer_list<std::int64_t> counts,
                        std::string_view help) {
  OptionInfo option{.key = key, .legal = {}, .default_value = option_count(*counts.begin()), .help = help};
  for (const std::int64_t count : counts) option.legal.push_back(option_count(count));
  return option;
}

OptionInfo least_option(std::string_view key, std::int64_t least, std::int64_t by_default,
                        std::string_view help) {
  return {.key = key,
          .legal = {option_count(least)},
          .any_count = true,
          .default_value = option_count(by_default),
          .help = help};
}

OptionInfo switch_option(std::string_view key, bool by_default, std::string_view help) {
  return {.key = key,
          .legal = {OptionValue(true), OptionValue(false)},
          .default_value = OptionValue(by_default),
          .help = help};
}

OptionInfo pack_above_option() {
  return defaults::by_machine(
      least_option("pack_above", 0, defaults::unpacked_pieces(),
                   "messages of more contiguous pieces are packed into one by a copy"));
}

OptionInfo accumulator_option() {
  return word_option("accumulator", {"fp32", "nominal"}, "dtype of the running out and dq");
}

OptionInfo row_dot_option() {
  return word_option(
      "row_dot", {"with_tile", "apart"},
      "delta = rowsum(dO * O) is computed by the first tile of softmax attention backward, if it has all "
      "of a rank's rows, stores dq and nothing is sent before it, else by an operation of its own "
      "(with_tile); always so (apart)");
}

OptionInfo gradient_wire_option() {
  return word_option("gradient_wire_dtype", {"fp32", "nominal"},
                     "dtype in which dK and dV are summed and sent");
}

std::uint8_t exchange_channels(const Schedule& resolved) {
  const OptionValue* value = resolved.find("channels");
  const auto* count = value == nullptr ? nullptr : std::get_if<std::int64_t>(value);
  return count == nullptr ? std::uint8_t{0} : static_cast<std::uint8_t>(*count);
}

TransportChoice transport_of(const Schedule& s) {
  if (s.is_word("transport", "copy")) return Transport::copy;
  if (s.is_word("transport", "nccl")) return Transport::nccl;
  return std::nullopt;
}

bool wide_accumulator(const Schedule& s) {
  return s.is_word("accumulator", "fp32");
}

Role gradient_wire_of(const Schedule& s) {
  return s.is_word("gradient_wire_dtype", "fp32") ? Role::wide : Role::nominal;
}

}  // namespace cplab
