// Keys of the results of simulate, run, sweep and demo; see result_keys.hpp.
#include "cli/keys/result_keys.hpp"

namespace cplab {

namespace {

constexpr std::string_view results_page = "06-files.md#results---json-file---csv-file---is-stdout";

void add_band(ResultKeys& keys, const std::string& at, std::string_view of_time) {
  keys.insert(keys.end(), {{at + "time_s", "number", "s", of_time},
                           {at + "low_s", "number", "s", "lower end of the model's band"},
                           {at + "high_s", "number", "s", "upper end of the model's band"}});
}

void add_chain(ResultKeys& keys, const std::string& at) {
  keys.insert(
      keys.end(),
      {{at + "chain", "object", "", "shares of the chain of operations that ends last, by use"},
       {at + "chain.attention", "number", "", "attention kernels"},
       {at + "chain.other_kernels", "number", "", "kernels beside attention"},
       {at + "chain.communication", "number", "", "messages; waiting for a peer counts as what it did"},
       {at + "chain.host", "number", "", "the host: issue, launch, dependencies"}});
}

void add_chain_parts(ResultKeys& keys, std::string_view resources) {
  keys.insert(keys.end(),
              {{"chain_parts", "list", "", "the same chain by what its largest parts use; at most 48"},
               {"chain_parts[]", "object", "", "one part"},
               {"chain_parts[].resource", "string", "", resources},
               {"chain_parts[].kind", "string", "", "an operation's; launch of the host"},
               {"chain_parts[].rank", "integer", "", "whose"},
               {"chain_parts[].peer", "integer", "", "of a message to it; -1: none"},
               {"chain_parts[].time_s", "number", "s", "its length"},
               {"chain_parts[].share", "number", "", "of the chain"}});
}

void add_origins(ResultKeys& keys, const std::string& at) {
  keys.insert(keys.end(),
              {{at + "origins", "object", "", "shares of busy time, by where the numbers come from"},
               {at + "origins.measured", "number", "", "at a measured point"},
               {at + "origins.interpolated", "number", "", "between measured points"},
               {at + "origins.extrapolated", "number", "", "beyond them"},
               {at + "origins.assumed", "number", "", "never measured"}});
}

void add_phases(ResultKeys& keys, const std::string& at, std::string_view type, std::string_view meaning) {
  keys.insert(keys.end(), {{at, type, "", meaning},
                           {at + "[]", "object", "", "one phase"},
                           {at + "[].name", "string", "", "forward or backward"},
                           {at + "[].time_s", "number", "s",
                            "forward ends with its last operation on any rank; the rest"}});
}

void add_fit(ResultKeys& keys, const std::string& at) {
  keys.insert(
      keys.end(),
      {{at + "capacity_bytes", "integer|null", "bytes", "memory of one GPU; null without a hardware file"},
       {at + "fixed_bytes", "integer|null", "bytes", "of context and libraries, outside the plan"},
       {at + "fits", "boolean|null", "", "whether headroom_bytes is at least 0: of one attention call alone"},
       {at + "headroom_bytes", "integer|null", "bytes", "capacity - fixed - the largest arena"}});
}

void add_ranks(ResultKeys& keys) {
  keys.insert(
      keys.end(),
      {{"ranks", "list", "", "one entry for each rank of the world"},
       {"ranks[]", "object", "", "one rank"},
       {"ranks[].rank", "integer", "", "in the world"},
       {"ranks[].replica", "integer", "", "which group"},
       {"ranks[].position", "integer", "", "its place in the group, from 0 to P - 1"},
       {"ranks[].time_s", "number", "s", "end of the rank's last operation"},
       {"ranks[].compute_s", "number", "s", "in which at least one compute lane runs something"},
       {"ranks[].communication_s", "number", "s",
        "in which a communication has started and not ended, waiting included"},
       {"ranks[].exposed_communication_s", "number", "s",
        "the part of it in which no compute lane runs anything"},
       {"ranks[].exposed_wait_s", "number", "s", "of that: every communication under way still lacks a peer"},
       {"ranks[].exposed_transfer_s", "number", "s", "of that: at least one has all of its peers"},
       {"ranks[].peak_bytes", "integer", "bytes", "largest live memory"},
       {"ranks[].arena_bytes", "integer", "bytes", "the allocation that holds it, with fragmentation"},
       {"ranks[].saved_bytes", "integer?", "bytes",
        "with between = layers: what stays while other layers run"},
       {"ranks[].transient_bytes", "integer?", "bytes", "with between = layers: the rest of peak_bytes"},
       {"ranks[].sent_bytes", "integer", "bytes", "to other ranks, both phases"},
       {"ranks[].received_bytes", "integer", "bytes", "from other ranks, both phases"}});
}

void add_memory(ResultKeys& keys) {
  keys.insert(keys.end(),
              {{"peak_bytes", "integer", "bytes", "the largest live peak of a rank"},
               {"peak_rank", "integer", "", "the first rank that has it"},
               {"peak_buffers", "list", "", "what lives there then"},
               {"peak_buffers[]", "object", "", "one buffer"},
               {"peak_buffers[].name", "string", "", "its name in the plan"},
               {"peak_buffers[].category", "string", "", "input, output, saved, working, workspace"},
               {"peak_buffers[].bytes", "integer", "bytes", "its size"}});
  add_fit(keys, "");
}

void add_messages(ResultKeys& keys) {
  keys.insert(keys.end(),
              {{"messages", "integer", "", "parts sent to other ranks, all ranks and phases"},
               {"host_syncs", "integer", "", "times a host waits for a lane, all ranks and phases"},
               {"transports", "list", "", "what each transport carries"},
               {"transports[]", "object", "", "one transport"},
               {"transports[].transport", "string", "", "nccl or copy"},
               {"transports[].operations", "integer", "", "operations that go over it"},
               {"transports[].messages", "integer", "", "parts sent over it"},
               {"transports[].bytes", "integer", "bytes", "sent over it"}});
}

void add_operations(ResultKeys& keys) {
  keys.insert(keys.end(),
              {{"variants", "list", "", "kernels that carry out what computes"},
               {"variants[]", "object", "", "one kernel"},
               {"variants[].variant", "string", "", "its name"},
               {"variants[].kind", "string", "", "of the operations"},
               {"variants[].operations", "integer", "", "how many"},
               {"variants[].time_share", "number", "", "share of the time of all that computes"},
               {"variants[].flops_share", "number", "", "share of its FLOPs"},
               {"operations", "list?", "", "with --operations: every operation with its times"},
               {"operations[]", "object", "", "one operation"},
               {"operations[].id", "string", "", "rank/phase/ordinal"},
               {"operations[].rank", "integer", "", "whose"},
               {"operations[].lane", "object", "", "the in-order queue that it is in"},
               {"operations[].lane.kind", "string", "", "compute, comm, copy or host"},
               {"operations[].lane.index", "integer", "", "which of that kind"},
               {"operations[].kind", "string", "", "attend, exchange, ..."},
               {"operations[].variant", "string?", "",
                "the kernel; of a run also the NCCL call, or how the copy went"},
               {"operations[].fall_back", "string?", "", "why it is not the preferred kernel of the device"},
               {"operations[].start_s", "number", "s", "from the common start"},
               {"operations[].end_s", "number", "s", "from the common start"},
               {"operations[].wait_s", "number", "s", "of communication: without all of its peers"},
               {"operations[].bytes", "integer", "bytes", "read plus written; of communication sent"},
               {"operations[].flops", "integer", "FLOP", "of live pairs"},
               {"operations[].origin", "string", "", "measured, interpolated, extrapolated or assumed"}});
}

void add_figures(ResultKeys& keys) {
  add_phases(keys, "phases", "list", "forward and backward");
  add_ranks(keys);
  add_memory(keys);
  add_messages(keys);
  add_origins(keys, "");
  add_operations(keys);
  add_notes(keys, "what had no effect, what was left out, where the forecast leaves what was measured");
}

void add_run(ResultKeys& keys) {
  keys.insert(
      keys.end(),
      {{"device", "string", "", "cpu or gpu; a CPU's times say nothing about a GPU's"},
       {"time_s", "number", "s", "the median of times_s"},
       {"times_s", "list", "s", "one for each iteration: the maximum over ranks, from a common start"},
       {"times_s[]", "number", "s", "of one iteration"},
       {"environment", "map string?", "",
        "on GPUs: their name and number, driver, CUDA, NCCL, clocks, NCCL's variables"},
       {"launch", "string?", "", "on GPUs: threads or processes"},
       {"ranks_per_gpu", "integer?", "", "on GPUs: how many ranks share one"},
       {"links", "map string?", "", "on GPUs: how copy and nccl reach their peers"},
       {"graph", "boolean?", "", "on GPUs: whether the plan was one CUDA graph"},
       {"warmup", "integer?", "", "on GPUs: iterations before the measured ones"},
       {"clock_residual_s", "number?", "s",
        "on GPUs: by how much times of one rank may be off against another's"},
       {"instrumented_s", "number?", "s", "on GPUs: end of the iteration whose operations are shown"},
       {"memory", "list?", "",
        "on GPUs: growth of used memory = context + communicator + tables + arena + unexplained"},
       {"memory[]", "object", "", "of one rank"},
       {"memory[].rank", "integer", "", "which"},
       {"memory[].context_bytes", "integer", "bytes", "of the CUDA context"},
       {"memory[].communicator_bytes", "integer", "bytes", "of NCCL"},
       {"memory[].tables_bytes", "integer", "bytes", "of segments and row lists"},
       {"memory[].arena_bytes", "integer", "bytes", "of the plan"},
       {"memory[].growth_bytes", "integer", "bytes", "by which used memory of the GPU grew"},
       {"memory[].unexplained_bytes", "integer", "bytes", "what of it nothing explains"},
       {"allocation_log_equals_plan", "boolean?", "",
        "on GPUs: the executor's log of uses is the plan's, event by event"}});
  add_phases(keys, "undisturbed_phases", "list?",
             "medians over the iterations, without events between operations");
  add_chain(keys, "");
  add_chain_parts(keys, "gpu or cpu, message, host: whatever else passed meanwhile");
  keys.insert(keys.end(), {{"chain_communications", "integer", "", "of the chain, those with other ranks"},
                           {"chain_undecided", "integer", "",
                            "of these, those in which the clocks cannot say which end came last"}});
}

ResultTable simulate_result() {
  ResultTable table{"cplab.simulate.1", "simulate", results_page, {}};
  ResultKeys& keys = table.keys;
  add_start(keys, true);
  keys.insert(keys.end(),
              {{"machine", "string", "", "what the hardware file calls the machine"},
               {"gpu", "string", "", "what it calls its GPU"},
               {"placement_padding_tokens", "integer", "tokens", "that only the placement added"}});
  add_band(keys, "", "the last end over all ranks");
  add_chain(keys, "");
  add_chain_parts(keys, "gpu, link, nic, startup or host");
  add_figures(keys);
  return table;
}

ResultTable run_result() {
  ResultTable table{"cplab.run.1", "run", results_page, {}};
  add_start(table.keys, true);
  table.keys.push_back({"placement_padding_tokens", "integer", "tokens", "that only the placement added"});
  add_run(table.keys);
  add_figures(table.keys);
  return table;
}

ResultTable algorithms_result() {
  ResultTable table{"cplab.algorithms.1", "simulate", results_page, {}};
  ResultKeys& keys = table.keys;
  add_start(keys, true);
  keys.insert(
      keys.end(),
      {{"rows", "list", "", "a row for each algorithm, placement and choice, the fastest first"},
       {"rows[]", "object", "", "one row"},
       {"rows[].algorithm", "string", "", "its name"},
       {"rows[].placement", "string", "", "its placement"},
       {"rows[].options", "map string", "", "of this row; else as the scenario has them, or the defaults"},
       {"rows[].may_be_fastest", "boolean", "", "its band reaches down into the band of the first row"},
       {"rows[].exposed_wait_s", "number", "s", "of the rank with most exposed communication"},
       {"rows[].exposed_transfer_s", "number", "s", "of the same rank"},
       {"rows[].sent_bytes", "integer", "bytes", "of the rank that sends most"},
       {"rows[].peak_bytes", "integer", "bytes", "the largest live peak of a rank"},
       {"rows[].imbalance", "number", "", "the longest compute of a rank over the mean"},
       {"rows[].fits", "boolean|null", "", "one attention call fits into a GPU"},
       {"rows[].headroom_bytes", "integer|null", "bytes", "capacity - fixed - the largest arena"}});
  add_band(keys, "rows[].", "the last end over all ranks");
  add_chain(keys, "rows[].");
  add_origins(keys, "rows[].");
  keys.insert(keys.end(), {{"refused", "list", "", "what does not take this scenario"},
                           {"refused[]", "object", "", "one of them"},
                           {"refused[].algorithm", "string", "", "its name"},
                           {"refused[].placement", "string", "", "its placement"},
                           {"refused[].options", "map string", "", "of this row"},
                           {"refused[].reason", "string", "", "why"}});
  add_notes(keys, "what had no effect, where the forecast leaves what was measured");
  return table;
}

void add_study(ResultKeys& keys) {
  keys.insert(keys.end(), {{"study", "object", "", "the study as it was read"},
                           {"study.name", "string", "", "as it was named"},
                           {"study.scenario", "string", "", "its scenario"},
                           {"study.scenario_sha256", "string", "", "of what that held"},
                           {"study.files", "list", "", "files that were read"},
                           {"study.files[]", "object", "", "one of them"},
                           {"study.files[].option", "string", "", "what named it"},
                           {"study.files[].file", "string", "", "its path or name"},
                           {"study.files[].sha256", "string", "", "of what it held"},
                           {"study.set", "list", "", "of --set"},
                           {"study.set[]", "string", "", "section.key=value"},
                           {"study.unset", "list", "", "of --unset"},
                           {"study.unset[]", "string", "", "section.key"},
                           {"study.options", "map string", "", "the command's own options"},
                           {"study.vary", "map any", "", "by key, or keys between commas: the values"},
                           {"study.where", "list", "", "the constraints"},
                           {"study.where[]", "string", "", "an expression"},
                           {"study.product", "integer", "", "points of the product of all values"},
                           {"study.points", "integer", "", "of them kept"},
                           {"study.excluded", "list", "", "how many each constraint left out"},
                           {"study.excluded[]", "object", "", "one constraint"},
                           {"study.excluded[].where", "string", "", "the expression"},
                           {"study.excluded[].count", "integer", "", "points"},
                           {"shard", "string|null", "", "i/n of --shard"}});
}

void add_points(ResultKeys& keys) {
  const std::string at = "points[].";
  keys.insert(keys.end(),
              {{"points", "list", "", "what was simulated"},
               {"points[]", "object", "", "one point"},
               {at + "number", "integer", "", "in the order of the product"},
               {at + "set", "map any", "", "the keys that vary and their values"},
               {at + "algorithm", "string", "", "as resolved"},
               {at + "placement", "string", "", "as resolved"},
               {at + "machine", "string", "", "what the hardware file calls the machine"},
               {at + "gpu", "string", "", "what it calls its GPU"},
               {at + "placement_padding_tokens", "integer", "tokens", "that only the placement added"}});
  add_band(keys, at, "the last end over all ranks");
  add_chain(keys, at);
  add_phases(keys, at + "phases", "list", "forward and backward");
  keys.insert(keys.end(),
              {{at + "exposed_wait_s", "number", "s", "of the rank with most exposed communication"},
               {at + "exposed_transfer_s", "number", "s", "of the same rank"},
               {at + "peak_bytes", "integer", "bytes", "the largest live peak of a rank"},
               {at + "peak_rank", "integer", "", "the first rank that has it"},
               {at + "messages", "integer", "", "parts sent, all ranks and phases"},
               {at + "host_syncs", "integer", "", "times a host waits for a lane"},
               {at + "notes", "list", "", "of this point"},
               {at + "notes[]", "string", "", "a sentence"}});
  add_fit(keys, at);
  add_origins(keys, at);
}

ResultTable sweep_result() {
  ResultTable table{"cplab.sweep.1", "sweep", "16-sweep.md#results", {}};
  ResultKeys& keys = table.keys;
  add_start(keys, false);
  add_resolved_scenario(keys, "object|null");
  add_study(keys);
  add_points(keys);
  keys.insert(
      keys.end(),
      {{"refused", "list", "", "points that are no plan, or do not fit this machine, by reason"},
       {"refused[]", "object", "", "one reason"},
       {"refused[].kind", "string", "", "input or environment"},
       {"refused[].reason", "string", "", "in a sentence"},
       {"refused[].count", "integer", "", "points"},
       {"refused[].nearest", "string|null", "", "what would be legal"},
       {"refused[].example", "object", "", "the first of them"},
       {"refused[].example.number", "integer", "", "of the point"},
       {"refused[].example.set", "map any", "", "its keys and values"},
       {"missing", "integer", "", "points that no file holds yet"},
       {"fastest", "list", "", "numbers of the fastest point of each problem"},
       {"fastest[]", "integer", "", "of a point"},
       {"pareto", "list", "", "numbers of points that no other of the same problem beats in time and memory"},
       {"pareto[]", "integer", "", "of a point"}});
  add_notes(keys, "of the whole sweep");
  return table;
}

ResultTable demo_result() {
  ResultTable table{"cplab.demo.1", "demo", results_page, {}};
  ResultKeys& keys = table.keys;
  add_start(keys, true);
  keys.insert(keys.end(),
              {{"rows", "list", "", "buffers and placements compared"},
               {"rows[]", "object", "", "one row"},
               {"rows[].kv_slots", "string", "", "receive buffers for K and V"},
               {"rows[].placement", "string", "", "which tokens a rank holds"},
               {"rows[].exposed_communication_s", "number", "s", "that no computation hides"},
               {"rows[].peak_bytes", "integer", "bytes", "the largest live peak of a rank"},
               {"rows[].fits", "boolean|null", "", "one attention call fits into a GPU"},
               {"rows[].headroom_bytes", "integer|null", "bytes", "capacity - fixed - the largest arena"},
               {"rows[].verified", "boolean", "", "a small problem of this row was executed and compared"},
               {"rows[].best", "boolean", "", "the fastest row"}});
  add_band(keys, "rows[].", "the last end over all ranks");
  return table;
}

}  // namespace

std::vector<ResultTable> timeline_results() {
  std::vector<ResultTable> all;
  all.push_back(simulate_result());
  all.push_back(algorithms_result());
  all.push_back(run_result());
  all.push_back(sweep_result());
  all.push_back(demo_result());
  return all;
}

}  // namespace cplab
