// Reading [training]; see training_file.hpp.
#include "cli/files/training_file.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "cli/files/scenario_words.hpp"
#include "cli/keys/keys.hpp"

namespace cplab {

namespace {

constexpr std::int64_t most_tokens = std::int64_t{1} << 31;

// Keys that say something of the backward or of the optimizer.
constexpr std::array training_only{"recompute",         "gradient_dtype",      "master_dtype",
                                   "optimizer",         "optimizer_dtype",     "lora_rank",
                                   "loss_chunks",       "feed_forward_chunks", "offload_checkpoints",
                                   "offload_optimizer", "offload_parameters",  "tokens_per_step"};

// Bytes of an element of the dtype; of "none", which there are none of, 0.
int bytes_of(std::string_view dtype) {
  if (dtype == "none") return 0;
  if (dtype == "fp32") return 4;
  return dtype == "fp8" ? 1 : 2;
}

// How many numbers the optimizer keeps of each weight.
int moments_of(std::string_view optimizer) {
  if (optimizer == "sgd") return 0;
  return optimizer == "adam" || optimizer == "adamw" ? 2 : 1;
}

void read_lengths(const Table& table, Training& training) {
  if (!table.has("lengths")) {
    training.sequence = whole(table, "sequence", ", or lengths = [[LENGTH, WEIGHT], ...]");
    if (table.has("balanced"))
      table.fail("balanced", "needs lengths: sequences of one length take equally long");
    return;
  }
  training.balanced = flag(table, "balanced");
  if (table.has("sequence"))
    table.fail("sequence", "goes without lengths: either says how long the sequences are");
  const std::string legal = "legal: [[LENGTH, WEIGHT], ...], a length from 1 on with its share of the tokens";
  double total = 0;
  for (const std::vector<double>& entry : table.number_lists("lengths")) {
    if (entry.size() != 2)
      table.fail("lengths", "an entry holds " + std::to_string(entry.size()) + " numbers; " + legal);
    if (!(entry[0] >= 1 && entry[0] <= static_cast<double>(most_tokens)) || entry[0] != std::floor(entry[0]))
      table.fail("lengths",
                 "a length is no whole number from 1 to " + std::to_string(most_tokens) + "; " + legal);
    if (!(entry[1] > 0) || !std::isfinite(entry[1]))
      table.fail("lengths", "a weight is not above 0; " + legal);
    const auto length = static_cast<std::int64_t>(entry[0]);
    for (const auto& [known, weight] : training.lengths)
      if (known == length) table.fail("lengths", "the length " + std::to_string(length) + " is there twice");
    training.lengths.emplace_back(length, entry[1]);
    total += entry[1];
  }
  if (training.lengths.empty()) table.fail("lengths", "is empty; " + legal);
  if (!std::isfinite(total)) table.fail("lengths", "the weights are too large; " + legal);
  std::sort(training.lengths.begin(), training.lengths.end());
  for (auto& [length, weight] : training.lengths) weight /= total;
}

void read_sharding(const Table& table, Training& training) {
  if (table.has("fsdp") && table.has("zero"))
    table.fail("fsdp", "goes without zero: fsdp = true is zero = 3, false is zero = 1");
  if (table.has("fsdp")) training.zero = table.flag("fsdp", false) ? 3 : 1;
  if (table.has("zero")) training.zero = static_cast<int>(whole(table, "zero"));
}

void read_precision(const Table& table, Training& training) {
  training.dtype = chosen(table, "dtype");
  training.parameter_bytes = bytes_of(chosen(table, "parameter_dtype"));
  training.gradient_bytes = bytes_of(chosen(table, "gradient_dtype"));
  training.master_bytes =
      bytes_of(chosen(table, "master_dtype", training.parameter_bytes == 4 ? "none" : "fp32"));
  training.optimizer_bytes =
      moments_of(chosen(table, "optimizer")) * bytes_of(chosen(table, "optimizer_dtype"));
}

// What divides `number`, at most `most` of it.
std::string divisors_up_to(std::int64_t number, std::int64_t most) {
  std::string text;
  for (std::int64_t each = 1; each <= std::min(number, most); ++each)
    if (number % each == 0) text += (text.empty() ? "" : " ") + std::to_string(each);
  return text;
}

// The degrees that are given must go into the GPUs; the error is put down to the last of them that does not.
void require_product(const Table& table, const Training& training) {
  std::int64_t product = 1;
  std::string said;
  const std::array<std::pair<const char*, std::int64_t>, 4> degrees{
      {{"tp", training.tp}, {"cp", training.cp}, {"pp", training.pp}, {"dp", training.dp}}};
  bool all = true;
  for (const auto& [key, degree] : degrees) {
    all = all && degree > 0;
    if (degree == 0) continue;
    said += (said.empty() ? "" : " x ") + std::string(key);
    if (training.gpus % (product * degree) != 0)
      table.fail(key, said + " = " + std::to_string(product * degree) +
                          " does not divide gpus = " + std::to_string(training.gpus) +
                          (training.gpus % product == 0
                               ? "; legal: " + divisors_up_to(training.gpus / product, training.gpus)
                               : std::string()));
    product *= degree;
  }
  if (all && product != training.gpus)
    table.fail("gpus", "is " + std::to_string(training.gpus) + ", but tp x cp x pp x dp = " +
                           std::to_string(product) + "; legal: gpus = " + std::to_string(product) +
                           ", or dp = " + std::to_string(training.gpus / (product / training.dp)));
  // Experts are spread over the GPUs of a stage.
  const std::int64_t stage = training.gpus / std::max<std::int64_t>(1, training.pp);
  const std::int64_t ep = std::max<std::int64_t>(1, training.ep);
  const std::int64_t etp = std::max<std::int64_t>(1, training.etp);
  if (stage % (ep * etp) != 0)
    table.fail(training.ep > 0 ? "ep" : "etp",
               "ep x etp = " + std::to_string(ep * etp) + " does not divide the " + std::to_string(stage) +
                   " GPUs of a stage (gpus / pp); legal for ep: " +
                   divisors_up_to(stage % etp == 0 ? stage / etp : stage, stage));
}

void read_degrees(const Table& table, Training& training) {
  const std::array<std::pair<const char*, std::int64_t Training::*>, 6> degrees{{{"tp", &Training::tp},
                                                                                 {"cp", &Training::cp},
                                                                                 {"pp", &Training::pp},
                                                                                 {"dp", &Training::dp},
                                                                                 {"ep", &Training::ep},
                                                                                 {"etp", &Training::etp}}};
  for (const auto& [key, degree] : degrees) training.*degree = whole_or(table, key, 0);
  training.pipeline_chunks = whole(table, "pipeline_chunks");
  if (training.pipeline_chunks > 1 && training.pp == 1)
    table.fail("pipeline_chunks", "a pipeline of one stage has no chunks; legal with pp = 1: 1");
}

}  // namespace

const std::vector<std::string>& training_keys() {
  static const std::vector<std::string> keys = names_of(training_key_table());
  return keys;
}

Training read_training(const Table& table) {
  for (const std::string& key : training_keys()) (void)table.has(key);
  table.finish();
  Training training;
  training.mode = std::array{Mode::training, Mode::prefill, Mode::decode}.at(word(table, "mode"));
  if (training.mode != Mode::training)
    for (const char* key : training_only)
      if (table.has(key)) table.fail(key, "only training has it; legal with mode = \"training\" alone");
  training.gpus = whole(table, "gpus");
  read_lengths(table, training);
  training.tokens_per_step = whole_or(table, "tokens_per_step", 0);
  training.micro_batch = whole(table, "micro_batch");
  const std::int64_t least = (training.lengths.empty() ? training.sequence : 1) * training.micro_batch;
  if (training.tokens_per_step > 0 && training.tokens_per_step < least)
    table.fail("tokens_per_step", "is less than one micro-batch of " + std::to_string(least) + " tokens");
  read_degrees(table, training);
  require_product(table, training);
  read_sharding(table, training);
  training.recompute_given = table.has("recompute");
  training.recompute =
      std::array{Recompute::none, Recompute::selective, Recompute::full}.at(word(table, "recompute", "none"));
  read_precision(table, training);
  training.lora_rank = whole(table, "lora_rank");
  training.loss_chunks = whole(table, "loss_chunks");
  training.offload_checkpoints = flag(table, "offload_checkpoints");
  training.offload_optimizer = flag(table, "offload_optimizer");
  training.offload_parameters = flag(table, "offload_parameters");
  if (training.offload_parameters && training.zero != 3)
    table.fail("offload_parameters",
               "goes with zero = 3 alone, which gathers the weights of a layer at a time");
  training.overlap_tensor = flag(table, "overlap_tensor");
  training.fused_kernels = flag(table, "fused_kernels");
  training.feed_forward_chunks = whole(table, "feed_forward_chunks");
  if (table.has("host_bytes")) {
    training.host_bytes = table.whole("host_bytes", Quantity::bytes);
    if (training.host_bytes < 1)
      table.fail("host_bytes", "legal: from 1 byte on; without the key nothing bounds it");
  }
  return training;
}

std::string why_illegal(const std::string& degree, std::int64_t value, const Model& model) {
  const auto said = [&](const std::string& why) {
    return degree + " = " + std::to_string(value) + ": " + why;
  };
  if (degree == "tp") {
    for (const AttentionKind& kind : model.attention)
      if (kind.heads % value != 0)
        return said("layers of kind \"" + kind.name + "\" have " + std::to_string(kind.heads) +
                    " heads; legal: " + divisors_text(kind.heads));
    return "";
  }
  if (degree == "pp" && value > model.layer_count())
    return said("the model has " + std::to_string(model.layer_count()) + " layers; legal: from 1 to that");
  if (degree != "ep" && degree != "etp") return "";
  bool any = false;
  for (const FeedForwardKind& kind : model.feed_forward) {
    if (kind.experts == 0) continue;
    any = true;
    if (degree == "ep" && kind.experts % value != 0)
      return said("the model has " + std::to_string(kind.experts) +
                  " experts; legal: " + divisors_text(kind.experts));
    if (degree == "etp" && kind.width % value != 0)
      return said("an expert is " + std::to_string(kind.width) + " wide; legal: what divides that");
  }
  return any || value == 1 ? "" : said("the model has no experts; legal: 1");
}

void require_legal(const Table& table, const Training& training, const Model& model) {
  const std::array<std::pair<const char*, std::int64_t>, 4> degrees{
      {{"tp", training.tp}, {"pp", training.pp}, {"ep", training.ep}, {"etp", training.etp}}};
  for (const auto& [key, degree] : degrees) {
    const std::string why = degree > 0 ? why_illegal(key, degree, model) : "";
    if (!why.empty()) table.fail(key, why);
  }
  // Embedding and head may count as a layer each: 126 layers go over 16 stages of 8 chunks.
  const std::int64_t parts = model.layer_count() + 2;
  if (training.pp > 0 && training.pipeline_chunks > 1 && training.pp * training.pipeline_chunks > parts)
    table.fail("pipeline_chunks",
               "pp x pipeline_chunks = " + std::to_string(training.pp * training.pipeline_chunks) +
                   " is more than the " + std::to_string(model.layer_count()) +
                   " layers, embedding and head; legal: from 1 to " + std::to_string(parts / training.pp));
}

}  // namespace cplab
