// Keys of the results of list, kernels, tune, calibrate, reproduce, explain, new and advise; see
// result_keys.hpp.
#include <utility>

#include "cli/keys/result_keys.hpp"

namespace cplab {

namespace {

constexpr std::string_view results_page = "06-files.md#results---json-file---csv-file---is-stdout";
constexpr std::string_view program_page = "24-program.md";

void add_algorithms(ResultKeys& keys) {
  const std::string at = "algorithms[].";
  keys.insert(keys.end(),
              {{"algorithms", "list?", "", "that a scenario may name"},
               {"algorithms[]", "object", "", "one of them"},
               {at + "name", "string", "", "its name"},
               {at + "aliases", "list", "", "other names that are taken"},
               {at + "aliases[]", "string", "", "a name"},
               {at + "summary", "string", "", "what it does, in a line"},
               {at + "placements", "list", "", "that it takes, the default first"},
               {at + "placements[]", "string", "", "a name"},
               {at + "options", "list", "", "of [schedule]"},
               {at + "options[]", "object", "", "one option"},
               {at + "options[].key", "string", "", "its name"},
               {at + "options[].legal", "list", "", "its legal values"},
               {at + "options[].legal[]", "integer|string|boolean", "", "a value"},
               {at + "options[].any_count", "boolean", "", "every integer from the first legal one on"},
               {at + "options[].default", "integer|string|boolean|null", "", "null: see default_rule"},
               {at + "options[].default_rule", "string|null", "", "what is taken, where it depends"},
               {at + "options[].applies", "string|null", "", "beside which other options it has no value"},
               {at + "options[].help", "string", "", "what it does, in a line"},
               {"placements", "list?", "", "of tokens"},
               {"placements[]", "object", "", "one of them"},
               {"placements[].name", "string", "", "its name"},
               {"placements[].aliases", "list", "", "other names that are taken"},
               {"placements[].aliases[]", "string", "", "a name"},
               {"placements[].help", "string", "", "which tokens a rank holds"}});
}

void add_models_and_faults(ResultKeys& keys) {
  keys.insert(keys.end(),
              {{"models", "list?", "", "presets of [model]"},
               {"models[]", "object", "", "one model"},
               {"models[].name", "string", "", "its name"},
               {"models[].file", "string", "", "relative to scenarios/"},
               {"models[].layers", "integer", "", "how many"},
               {"models[].hidden", "integer", "", "width of the residual stream"},
               {"models[].heads", "integer", "", "query heads"},
               {"models[].kv_heads", "integer", "", "key heads"},
               {"models[].vocabulary", "integer", "tokens", "rows of the embedding"},
               {"models[].attention", "list", "", "kinds of layers"},
               {"models[].attention[]", "object", "", "one kind"},
               {"models[].attention[].kind", "string", "", "global, window, ..."},
               {"models[].attention[].layers", "integer", "", "of that kind"},
               {"models[].experts", "integer", "", "of a layer; 0: none"},
               {"models[].experts_per_token", "integer", "", "that a token goes through"},
               {"models[].parameters", "integer", "", "all; both embeddings counted, prediction layers not"},
               {"models[].active_parameters", "integer", "", "of experts those that a token takes"},
               {"models[].unread", "list", "", "keys of the config that nobody knows"},
               {"models[].unread[]", "string", "", "a key"},
               {"faults", "list?", "", "for --inject"},
               {"faults[]", "object", "", "one fault"},
               {"faults[].name", "string", "", "its name"},
               {"faults[].form", "string", "", "mutation, substitute or identity"},
               {"faults[].help", "string", "", "what it breaks"},
               {"faults[].scenario", "string", "", "an example, relative to scenarios/"},
               {"faults[].devices", "list", "", "on which it can be injected"},
               {"faults[].devices[]", "string", "", "cpu or gpu"},
               {"faults[].expected", "object|null", "", "the finding that it must give"},
               {"faults[].expected.kind", "string", "", "of the finding"},
               {"faults[].expected.rank", "integer|null", "", "of the finding"},
               {"faults[].expected.operation", "string|null", "", "of the finding"}});
}

ResultTable list_result() {
  ResultTable table{"cplab.list.1", "list", results_page, {}};
  ResultKeys& keys = table.keys;
  add_start(keys, false);
  add_algorithms(keys);
  add_models_and_faults(keys);
  for (const auto& [kind, meaning] : {std::pair<std::string, const char*>{"scenarios", "shipped scenarios"},
                                      {"hardware", "shipped machines"},
                                      {"published", "published figures, for reproduce"},
                                      {"studies", "shipped studies, for sweep"}})
    keys.insert(keys.end(), {{kind, "list?", "", meaning},
                             {kind + "[]", "object", "", "one file"},
                             {kind + "[].name", "string", "", "by which it is found"},
                             {kind + "[].file", "string", "", "relative to scenarios/"},
                             {kind + "[].summary", "string", "", "its first line"}});
  return table;
}

void add_build(ResultKeys& keys) {
  keys.insert(keys.end(),
              {{"compiled", "boolean", "", "whether this build has GPU code"},
               {"hopper", "boolean", "", "whether it has the kernels for Hopper"},
               {"full", "boolean", "", "whether it has fp64 and more head sizes"},
               {"left_out", "string?", "", "without GPU code: what is missing"},
               {"architectures", "list", "", "budgets of GPUs"},
               {"architectures[]", "object", "", "one architecture"},
               {"architectures[].architecture", "string", "", "its compute capability"},
               {"architectures[].compile_and_occupancy_only", "boolean", "", "nothing of ours was run on it"},
               {"architectures[].registers", "integer", "", "of a multiprocessor"},
               {"architectures[].thread_registers", "integer", "", "of a thread at most"},
               {"architectures[].shared_bytes", "integer", "bytes", "of a multiprocessor"},
               {"architectures[].block_shared_bytes", "integer", "bytes", "of a block at most"},
               {"architectures[].reserved_shared_bytes", "integer", "bytes", "of each block, for the system"},
               {"architectures[].warps", "integer", "", "of a multiprocessor"},
               {"architectures[].blocks", "integer", "", "of a multiprocessor"},
               {"architectures[].barriers", "integer", "", "of a multiprocessor; 0: unbounded"}});
}

void add_kernel(ResultKeys& keys) {
  const std::string at = "kernels[].", of = "kernels[].architectures[].";
  keys.insert(keys.end(), {{"kernels", "list", "", "that this program knows"},
                           {"kernels[]", "object", "", "one kernel"},
                           {at + "variant", "string", "", "by which results name it"},
                           {at + "part", "string", "", "of several launches: which"},
                           {at + "kind", "string", "", "of operations"},
                           {at + "family", "string", "", "that it belongs to"},
                           {at + "dtype", "string", "", "of its operands"},
                           {at + "key_size", "integer", "elements", "of q and k; 0: any"},
                           {at + "value_size", "integer", "elements", "of v; 0: any"},
                           {at + "tile_rows", "integer", "", "of a thread block; 0: no tile"},
                           {at + "tile_columns", "integer", "", "of a thread block; 0: no tile"},
                           {at + "stages", "integer", "", "of its pipeline; 0: no tile"},
                           {at + "threads", "integer", "", "of a block"},
                           {at + "warps", "integer", "", "of a block"},
                           {at + "deterministic", "boolean", "", "the same bits in every run"},
                           {at + "features", "list", "", "of the hardware that it uses"},
                           {at + "features[]", "string", "", "wgmma, tma, ..."},
                           {at + "architectures", "list", "", "what the compiler made of it"},
                           {at + "architectures[]", "object", "", "on one architecture"},
                           {of + "architecture", "string", "", "its compute capability"},
                           {of + "claimed", "boolean", "", "whether it runs there"},
                           {of + "code", "string?", "", "for which architecture; not compiled"},
                           {of + "spill_bytes", "integer|null", "bytes",
                            "stores and loads of a thread; null: not compiled"},
                           {of + "registers", "integer?", "", "of a thread"},
                           {of + "barriers", "integer?", "", "of a block"},
                           {of + "stack_bytes", "integer?", "bytes", "of a thread"},
                           {of + "spill_store_bytes", "integer?", "bytes", "of a thread"},
                           {of + "spill_load_bytes", "integer?", "bytes", "of a thread"},
                           {of + "static_shared_bytes", "integer?", "bytes", "of a block"},
                           {of + "dynamic_shared_bytes", "integer?", "bytes", "of a block"},
                           {of + "blocks", "integer?", "", "that a multiprocessor holds"},
                           {of + "warps", "integer?", "", "that it holds"},
                           {of + "occupancy", "number?", "", "share of the warps that there may be"},
                           {of + "limit", "string?", "", "what bounds it"}});
}

ResultTable kernels_result() {
  ResultTable table{"cplab.kernels.1", "kernels", "14-kernels.md", {}};
  ResultKeys& keys = table.keys;
  add_start(keys, false);
  add_build(keys);
  add_kernel(keys);
  const std::string at = "measured[].";
  keys.insert(
      keys.end(),
      {{"measured", "list?", "", "with --hardware: every point of that file's tables of these kernels"},
       {"measured[]", "object", "", "one point"},
       {at + "variant", "string", "", "the kernel"},
       {at + "gpu", "string", "", "on which"},
       {at + "dtype", "string", "", "of its operands"},
       {at + "bytes", "number?", "bytes", "of what goes over its operands once: read plus written"},
       {at + "head_size", "integer?", "elements", "of q and k"},
       {at + "value_size", "integer?", "elements", "of v"},
       {at + "mask", "string?", "", "full or causal"},
       {at + "batch", "integer?", "", "sequences"},
       {at + "sequence", "integer?", "tokens", "of each"},
       {at + "heads", "integer?", "", "query heads"},
       {at + "seconds", "number", "s", "that it took"},
       {at + "flops_s", "number?", "FLOP/s", "live pairs times 2(D+E), backward 2(3D+2E)"},
       {at + "bytes_s", "number?", "bytes/s", "read plus written"},
       {at + "origin", "string", "", "measured or assumed"},
       {at + "tool", "string", "", "what measured it"},
       {at + "machine", "string", "", "on what"},
       {at + "date", "string", "", "when"}});
  add_notes(keys, "which head sizes are fast");
  return table;
}

ResultTable tune_result() {
  ResultTable table{"cplab.tune.1", "tune", "14-kernels.md#which-of-them-takes-a-call", {}};
  ResultKeys& keys = table.keys;
  add_start(keys, false);
  const std::string at = "choices[].", of = "choices[].tried[].";
  keys.insert(keys.end(),
              {{"ok", "boolean", "", "the file can be used here and agrees with itself"},
               {"file", "string", "", "that holds the choices"},
               {"machine", "object", "", "that they were measured on"},
               {"machine.gpu", "string", "", "its GPU"},
               {"machine.compute_capability", "string", "", "of the GPU"},
               {"machine.sms", "integer", "", "multiprocessors"},
               {"machine.driver", "string", "", "its version"},
               {"machine.runtime", "string", "", "CUDA's version"},
               {"machine.kernels", "string", "", "hash of the kernels of the build"},
               {"findings", "list", "", "what is wrong with the file"},
               {"findings[]", "string", "", "a sentence"},
               {"choices", "list", "", "classes of calls"},
               {"choices[]", "object", "", "one class"},
               {at + "call", "string", "", "which calls"},
               {at + "variant", "string", "", "the kernel that is taken"},
               {at + "not_measured", "string", "", "why nothing was measured; empty: it was"},
               {at + "gain", "number|null", "", "over the kernel that would be taken without measuring"},
               {at + "tried", "list", "", "kernels that could take the call"},
               {at + "tried[]", "object", "", "one kernel"},
               {of + "variant", "string", "", "its name"},
               {of + "tile_rows", "integer", "", "of a thread block"},
               {of + "standing", "string", "", "measured, predicted too slow, ..."},
               {of + "reason", "string", "", "for it"},
               {of + "of_table", "boolean", "", "the prediction comes from a table of the hardware file"},
               {of + "predicted_s", "number|null", "s", "by the rates"},
               {of + "median_s", "number|null", "s", "of the samples"},
               {of + "samples", "list", "s", "measured"},
               {of + "samples[]", "number", "s", "one sample"}});
  return table;
}

ResultTable calibrate_result() {
  ResultTable table{"cplab.calibrate.1", "calibrate", "05-cost-model.md#hardware-files", {}};
  ResultKeys& keys = table.keys;
  add_start(keys, false);
  keys.insert(keys.end(), {{"ok", "boolean", "", "no warning"},
                           {"file", "string", "", "the hardware file"},
                           {"gpu", "string", "", "what was measured"},
                           {"gpus", "integer", "", "how many"},
                           {"seconds", "number", "s", "of GPU time"},
                           {"done", "list", "", "parts that are measured"},
                           {"done[]", "string", "", "a part"},
                           {"left_out", "list", "", "parts that are not, whose numbers are assumed"},
                           {"left_out[]", "string", "", "a part"},
                           {"warnings", "list", "", "what makes the measurement doubtful"},
                           {"warnings[]", "string", "", "a sentence"},
                           {"accuracy", "list", "", "predictions held against runs, by kind of scenario"},
                           {"accuracy[]", "object", "", "one kind"},
                           {"accuracy[].kind", "string", "", "of scenario"},
                           {"accuracy[].points", "integer", "", "runs"},
                           {"accuracy[].median", "number", "", "of |predicted / measured - 1|"},
                           {"accuracy[].signed", "number", "", "mean of predicted / measured - 1"},
                           {"accuracy[].half_width", "number", "", "that nine of ten lie within"}});
  return table;
}

ResultTable reproduce_result() {
  ResultTable table{"cplab.reproduce.1", "reproduce", "11-published.md", {}};
  ResultKeys& keys = table.keys;
  add_start(keys, true);
  keys.insert(keys.end(),
              {{"name", "string", "", "of the published figures"},
               {"ranks", "list", "", "counts that they cover"},
               {"ranks[]", "integer", "", "a count"},
               {"rows", "list", "", "published figures beside ours"},
               {"rows[]", "object", "", "one figure"},
               {"rows[].label", "string", "", "of the figure"},
               {"rows[].published", "number|null", "", "what was published"},
               {"rows[].ours", "number|null", "", "what we get"},
               {"rows[].error", "number|null", "", "ours / published - 1"},
               {"rows[].derived", "boolean", "", "false: a term that no plan explains, or a sum with one"},
               {"rows[].unit", "string", "", "of both figures"}});
  add_notes(keys, "where ours come from, and what is not alike");
  return table;
}

ResultTable explain_result() {
  ResultTable table{"cplab.explain.1", "explain", program_page, {}};
  ResultKeys& keys = table.keys;
  add_start(keys, false);
  const std::string at = "explained[].";
  keys.insert(keys.end(),
              {{"asked", "string|null", "", "the word; null: everything"},
               {"explained", "list", "", "what has that name"},
               {"explained[]", "object", "", "one of them"},
               {at + "what", "string", "", "scenario key, option, algorithm, placement, result key"},
               {at + "name", "string", "", "in full"},
               {at + "of", "string", "", "who takes it, or which results have it; empty: everybody"},
               {at + "meaning", "string", "", "in a sentence"},
               {at + "type", "string", "", "of its values"},
               {at + "unit", "string|null", "", "of its values"},
               {at + "default", "string|null", "", "what is taken without it"},
               {at + "legal", "list", "", "legal words"},
               {at + "legal[]", "string", "", "a word"},
               {at + "legal_text", "string|null", "", "what is legal, in words"},
               {at + "page", "string|null", "", "of docs/, with its heading"}});
  return table;
}

ResultTable new_result() {
  ResultTable table{"cplab.new.1", "new", program_page, {}};
  add_start(table.keys, true);
  table.keys.push_back({"file", "string", "", "that was written; - is standard output"});
  add_notes(table.keys, "why this algorithm, what was taken where nothing was asked");
  return table;
}

void add_layout(ResultKeys& keys, const std::string& at) {
  keys.insert(keys.end(),
              {{at + "tp", "integer", "GPUs", "tensor parallelism"},
               {at + "cp", "integer", "GPUs", "context parallelism"},
               {at + "pp", "integer", "GPUs", "pipeline parallelism"},
               {at + "dp", "integer", "GPUs", "replicas"},
               {at + "ep", "integer", "GPUs", "expert parallelism"},
               {at + "etp", "integer", "GPUs", "tensor parallelism within an expert"},
               {at + "micro_batch", "integer", "sequences", "that a replica takes at once"},
               {at + "micro_batches", "integer", "", "of a step"},
               {at + "pipeline_chunks", "integer", "", "of layers that each stage holds"},
               {at + "zero", "integer", "", "what replicas share"},
               {at + "recompute", "string", "", "none, selective or full"},
               {at + "loss_chunks", "integer", "", "in which logits are computed"},
               {at + "offload_checkpoints", "boolean", "", "kept activations are on the host"},
               {at + "offload_optimizer", "boolean", "", "optimizer states are on the host"},
               {at + "algorithm", "string", "", "of the first kind of attention; none with cp = 1"},
               {at + "placement", "string", "", "of the first kind of attention"},
               {at + "schedule", "map string", "", "its options that are not the defaults"},
               {at + "attention", "list", "", "each kind of layers"},
               {at + "attention[]", "object", "", "one kind"},
               {at + "attention[].kind", "string", "", "global, window, ..."},
               {at + "attention[].algorithm", "string", "", "none with cp = 1"},
               {at + "attention[].placement", "string", "", "of tokens"},
               {at + "attention[].schedule", "map string", "", "options that are not the defaults"}});
}

void add_step(ResultKeys& keys, const std::string& at) {
  keys.insert(keys.end(),
              {{at + "time_s", "number", "s", "of a step"},
               {at + "low_s", "number", "s", "lower end of its band"},
               {at + "high_s", "number", "s", "upper end of its band"},
               {at + "tokens", "integer", "tokens", "of a step"},
               {at + "tokens_s_gpu", "number", "tokens/s", "of a GPU"},
               {at + "share_of_peak", "number|null", "", "of the peak that the model's FLOPs use"},
               {at + "limit_s", "number|null", "s", "no faster step is possible on these GPUs"},
               {at + "exposed_wait_s", "number", "s", "waits for peers that no computation hides"},
               {at + "exposed_transfer_s", "number", "s", "transfers that no computation hides"},
               {at + "memory", "list", "", "of the fullest GPU, by kind"},
               {at + "memory[]", "object", "", "one kind"},
               {at + "memory[].kind", "string", "", "weights, gradients, activations, ..."},
               {at + "memory[].bytes", "integer", "bytes", "of it"},
               {at + "memory_bytes", "integer", "bytes", "all of them"},
               {at + "host_bytes", "integer", "bytes", "on the host of a node"},
               {at + "fits", "boolean", "", "into the GPUs and the hosts"},
               {at + "headroom_bytes", "integer", "bytes", "what is left of a GPU"},
               {at + "terms", "list", "", "what the time is made of"},
               {at + "terms[]", "object", "", "one term"},
               {at + "terms[].name", "string", "", "attention, products, exchanges, ..."},
               {at + "terms[].kind", "string", "", "compute, ..."},
               {at + "terms[].seconds", "number", "s", "of the step"},
               {at + "terms[].origin", "string", "", "measured, interpolated, extrapolated or assumed"},
               {at + "formulas", "list", "", "how terms beyond attention are computed"},
               {at + "formulas[]", "string", "", "in words"}});
}

void add_question(ResultKeys& keys) {
  keys.insert(keys.end(),
              {{"scenario", "object", "", "the question as resolved; degrees that are searched are 0"},
               {"scenario.model", "object", "", "the model"},
               {"scenario.model.name", "string", "", "its name"},
               {"scenario.model.layers", "integer", "", "how many"},
               {"scenario.model.parameters", "integer", "", "all"},
               {"scenario.training", "map any", "", "keys of [training]"},
               {"scenario.hardware", "object", "", "the machine"},
               {"scenario.hardware.file", "string", "", "its file"},
               {"scenario.hardware.sha256", "string", "", "of what that held"},
               {"model", "string", "", "its name"},
               {"machine", "string", "", "what the hardware file calls it"},
               {"gpus", "integer", "GPUs", "all of them"},
               {"tokens_per_row", "integer", "tokens", "of a sequence"},
               {"considered", "integer", "", "layouts that were looked at"},
               {"pruned", "integer", "", "of them left out by bounds, unsimulated"}});
}

}  // namespace

ResultTable advise_result() {
  ResultTable table{"cplab.advise.1", "advise", "18-advise.md", {}};
  ResultKeys& keys = table.keys;
  add_start(keys, false);
  add_question(keys);
  keys.insert(keys.end(), {{"candidates", "list", "", "layouts, the best first"},
                           {"candidates[]", "object", "", "one layout"}});
  add_layout(keys, "candidates[].");
  add_step(keys, "candidates[].");
  keys.insert(
      keys.end(),
      {{"candidates[].bound_s", "number", "s", "the bound by which it was ordered before it was simulated"},
       {"candidates[].equal_to_best", "boolean", "", "its band reaches down into that of the first"},
       {"candidates[].proved", "string", "", "whether its plans were checked: yes, or why not"},
       {"candidates[].binds", "string", "", "the resource that takes most of its time"},
       {"binds", "list", "", "of the best: what takes its time"},
       {"binds[]", "object", "", "one resource"},
       {"binds[].resource", "string", "", "attention kernels, products, NICs, ..."},
       {"binds[].seconds", "number", "s", "of the step"},
       {"binds[].share", "number", "", "of the step"},
       {"changes", "list", "", "what would change the time"},
       {"changes[]", "object", "", "one change"},
       {"changes[].what", "string", "", "in words"},
       {"changes[].time_s", "number", "s", "of a step then"},
       {"changes[].delta_s", "number", "s", "more than the best, or less"},
       {"changes[].fits", "boolean", "", "with it"},
       {"changes[].note", "string", "", "more about it"},
       {"break_even", "list", "", "from where on something pays"},
       {"break_even[]", "object", "", "one of them"},
       {"break_even[].what", "string", "", "in words"},
       {"break_even[].tokens", "integer", "tokens", "of a sequence; 0: another unit, or never"},
       {"break_even[].nic_bytes_s", "number", "bytes/s", "of a NIC; 0: another unit"},
       {"fit", "object", "", "what would fit"},
       {"fit.gpus", "integer", "GPUs", "the fewest, with --fit; else 0"},
       {"fit.tokens", "integer", "tokens", "the longest sequence, with --fit; else 0"},
       {"fit.first_lever", "list", "", "what frees memory first"},
       {"fit.first_lever[]", "object", "", "one lever"},
       {"fit.first_lever[].what", "string", "", "in words"},
       {"fit.first_lever[].frees_bytes", "integer", "bytes", "of a GPU"},
       {"fit.first_lever[].slower", "number", "", "by this part of the step"},
       {"fit.first_lever[].fits", "boolean", "", "with it"},
       {"regret", "number?", "", "by how much the best may be slower than the truly best, as measured"},
       {"baseline", "object?", "", "the layout that was asked about"},
       {"refused", "list", "", "layouts that cannot be, by reason"},
       {"refused[]", "object", "", "one reason"},
       {"refused[].reason", "string", "", "in a sentence"},
       {"refused[].count", "integer", "", "layouts"},
       {"refused[].nearest", "string", "", "what would be legal"},
       {"price_per_million_tokens", "number?", "", "with a price of GPUs, in its currency"},
       {"emit", "list", "", "with --emit: arguments of the framework"},
       {"emit[]", "string", "", "a line"}});
  add_layout(keys, "baseline.");
  add_step(keys, "baseline.");
  add_notes(keys, "what was assumed, and where the answer is unsure");
  return table;
}

std::vector<ResultTable> listing_results() {
  std::vector<ResultTable> all;
  all.push_back(list_result());
  all.push_back(kernels_result());
  all.push_back(tune_result());
  all.push_back(calibrate_result());
  all.push_back(reproduce_result());
  all.push_back(explain_result());
  all.push_back(new_result());
  return all;
}

}  // namespace cplab
