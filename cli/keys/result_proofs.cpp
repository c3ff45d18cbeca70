// Keys of the results of check, verify, compare and show; see result_keys.hpp.
#include "cli/keys/result_keys.hpp"

namespace cplab {

namespace {

constexpr std::string_view results_page = "06-files.md#results---json-file---csv-file---is-stdout";

ResultTable check_result() {
  ResultTable table{"cplab.check.1", "check", results_page, {}};
  ResultKeys& keys = table.keys;
  add_start(keys, true);
  keys.insert(
      keys.end(),
      {{"placement_padding_tokens", "integer", "tokens", "that only the placement added"},
       {"ok", "boolean", "", "no finding"},
       {"rounds", "integer", "", "longest chain of communication operations, both phases"},
       {"messages", "integer", "", "parts sent, all ranks and phases; a hop's K and V are one part"},
       {"flops", "list", "FLOP", "one for each rank, both phases"},
       {"flops[]", "integer", "FLOP", "live pairs x query heads x (2 (D+E) forward, 2 (3D+2E) backward)"},
       {"sent_bytes", "list", "bytes", "one for each rank, both phases"},
       {"sent_bytes[]", "integer", "bytes", "to other ranks"}});
  add_findings(keys);
  add_notes(keys, "what each value of reuse costs, which kernels are slow, what had no effect");
  return table;
}

ResultTable verify_result() {
  ResultTable table{"cplab.verify.1", "verify", results_page, {}};
  ResultKeys& keys = table.keys;
  add_start(keys, true);
  keys.insert(
      keys.end(),
      {{"placement_padding_tokens", "integer", "tokens", "that only the placement added"},
       {"device", "string", "", "cpu or gpu; empty with --against"},
       {"injected", "string|null", "", "the fault of --inject"},
       {"against", "string?", "", "with --against: the folder of your own tensors"},
       {"sampled_rows", "integer?", "", "with --sample: rows that were compared of each tensor and head"},
       {"rows", "integer?", "", "with --sample: rows that there are"},
       {"ok", "boolean", "", "no finding, and every tensor within its tolerance"},
       {"tensors", "list", "", "for every rank each of out, lse, dq, dk, dv, ..."},
       {"tensors[]", "object", "", "one tensor of one rank"},
       {"tensors[].rank", "integer", "", "whose"},
       {"tensors[].tensor", "string", "", "out, lse, dq, dk, dv, state, ..."},
       {"tensors[].rel_l2", "number|null", "", "||error|| / max(||reference||, ||terms||) of the worst head"},
       {"tensors[].max_abs", "number|null", "", "largest error of an element, of all heads"},
       {"tensors[].tolerance", "number|null", "", "of rel_l2 of that head"},
       {"tensors[].ok", "boolean", "", "within it"}});
  add_findings(keys);
  add_notes(keys, "what had no effect, by what inputs were scaled, what could not be seen");
  return table;
}

void add_side(ResultKeys& keys, const std::string& side, std::string_view meaning) {
  keys.insert(keys.end(), {{side, "object", "", meaning},
                           {side + ".file", "string", "", "that holds it"},
                           {side + ".command", "string", "", "that wrote it"},
                           {side + ".machine", "string|null", "", "as it names the machine"},
                           {side + ".gpu", "string|null", "", "as it names the GPU"},
                           {side + ".time_s", "number", "s", "of the whole"},
                           {side + ".operations_s", "number", "s", "end of the last operation"},
                           {side + ".last_rank", "integer?", "", "the rank that ends last"},
                           {side + ".peak_bytes", "integer", "bytes", "the largest live peak"},
                           {side + ".versions", "map string", "", "of the program that wrote it"}});
  add_given(keys, side + ".", "object?");
}

ResultTable compare_result() {
  ResultTable table{"cplab.compare.1", "compare", results_page, {}};
  ResultKeys& keys = table.keys;
  add_start(keys, true);
  add_side(keys, "predicted", "the first file");
  add_side(keys, "measured", "the second file");
  keys.insert(
      keys.end(),
      {{"time_error", "number|null", "", "predicted / measured - 1"},
       {"compute_alone_s", "number|null", "s",
        "null model: compute_s of the rank that computes longest as predicted"},
       {"compute_alone_error", "number|null", "", "its error"},
       {"segments", "list", "", "total, phases, means over ranks, kinds of operations"},
       {"segments[]", "object", "", "one of them"},
       {"segments[].name", "string", "", "total, forward, compute, PHASE/KIND, ..."},
       {"segments[].predicted_s", "number|null", "s", "of the first file"},
       {"segments[].measured_s", "number|null", "s", "of the second file"},
       {"segments[].error", "number|null", "", "predicted / measured - 1"},
       {"segments[].absolute_s", "number|null", "s",
        "differences of its operations without their signs, summed"},
       {"segments[].null_s", "number|null?", "s", "of total and phases: what the null model says"},
       {"segments[].null_error", "number|null?", "", "its error"},
       {"terms", "list", "", "the time of the rank that ends last, by what runs on it at each moment"},
       {"terms[]", "object", "", "one of them"},
       {"terms[].name", "string", "",
        "attention, PHASE/KIND, PHASE/KIND/transfer, PHASE/KIND/wait, PHASE/launch"},
       {"terms[].predicted_s", "number|null", "s", "of the first file"},
       {"terms[].measured_s", "number|null", "s", "of the second file"},
       {"terms[].difference_s", "number|null", "s", "the first less the second"},
       {"memory_error_bytes", "integer", "bytes", "of the largest peak, the first less the second"},
       {"rank_memory_error_bytes", "integer", "bytes", "of the rank whose peak is furthest off"}});
  add_notes(keys, "whether the two are of one kind, and what differs");
  return table;
}

ResultTable spans_result() {
  ResultTable table{"cplab.spans.1", "compare", results_page, {}};
  ResultKeys& keys = table.keys;
  add_start(keys, true);
  keys.insert(keys.end(),
              {{"predicted", "string", "", "the file of the prediction"},
               {"measured", "string", "", "the trace of a profiler"},
               {"tool", "string", "", "that wrote the trace"},
               {"rank", "integer", "", "the rank of ours that it is held against"},
               {"predicted_s", "number|null", "s", "from the first start to the last end"},
               {"measured_s", "number|null", "s", "the same of the trace"},
               {"error", "number|null", "", "predicted / measured - 1"},
               {"compute_alone_s", "number|null", "s", "null model: compute alone"},
               {"compute_alone_error", "number|null", "", "its error"},
               {"segments", "list", "", "time under way"},
               {"segments[]", "object", "", "compute, communication, or what of it is exposed"},
               {"segments[].name", "string", "", "which"},
               {"segments[].predicted_s", "number|null", "s", "of ours"},
               {"segments[].measured_s", "number|null", "s", "of the trace"},
               {"segments[].error", "number|null", "", "predicted / measured - 1"},
               {"streams", "list", "", "streams of the trace"},
               {"streams[]", "object", "", "one stream"},
               {"streams[].stream", "integer", "", "as the trace has it"},
               {"streams[].spans", "integer", "", "kernels on it"},
               {"streams[].compute_s", "number|null", "s", "time of those that compute"},
               {"streams[].communication_s", "number|null", "s", "time of those that communicate"},
               {"classes", "list", "", "kernels by class"},
               {"classes[]", "object", "", "one class"},
               {"classes[].class", "string", "", "attention forward, send/receive, ..."},
               {"classes[].ours", "integer", "", "operations of ours"},
               {"classes[].theirs", "integer", "", "kernels of the trace"},
               {"classes[].matched", "integer", "", "n-th with n-th"},
               {"classes[].predicted_s", "number|null", "s", "of the matched"},
               {"classes[].measured_s", "number|null", "s", "of the matched"},
               {"classes[].error", "number|null", "", "predicted / measured - 1"},
               {"classes[].absolute_s", "number|null", "s", "differences without their signs, summed"},
               {"matched", "list", "", "pairs"},
               {"matched[]", "object", "", "one pair"},
               {"matched[].class", "string", "", "of both"},
               {"matched[].id", "string", "", "our operation"},
               {"matched[].name", "string", "", "their kernel"},
               {"matched[].predicted_s", "number|null", "s", "of ours"},
               {"matched[].wait_s", "number|null", "s", "of ours, without all of its peers"},
               {"matched[].measured_s", "number|null", "s", "of theirs"},
               {"unmatched", "list", "", "what has no partner, the longest first"},
               {"unmatched[]", "object", "", "one name"},
               {"unmatched[].side", "string", "", "ours or theirs"},
               {"unmatched[].class", "string", "", "of it"},
               {"unmatched[].name", "string", "", "of the kernel"},
               {"unmatched[].count", "integer", "", "how many"},
               {"unmatched[].seconds", "number|null", "s", "of all of them"}});
  add_notes(keys, "what was matched how");
  return table;
}

// A buffer and a box of it.
void add_view(ResultKeys& keys, const std::string& at) {
  keys.insert(keys.end(), {{at + "buffer", "string", "", "its name"},
                           {at + "box", "object", "", "the part of it"},
                           {at + "box.slot", "list", "", "[begin, end]"},
                           {at + "box.slot[]", "integer", "", "a slot"},
                           {at + "box.rows", "list", "", "ranges of rows"},
                           {at + "box.rows[]", "list", "", "[begin, count, step]"},
                           {at + "box.rows[][]", "integer", "", "a row, a count, a step"},
                           {at + "box.heads", "list", "", "[begin, end]"},
                           {at + "box.heads[]", "integer", "", "a head"},
                           {at + "box.width", "list", "", "[begin, end]"},
                           {at + "box.width[]", "integer", "", "a column"}});
}

void add_buffers(ResultKeys& keys) {
  const std::string at = "ranks[].buffers[].";
  keys.insert(
      keys.end(),
      {{"ranks[].buffers", "list", "", "of the rank"},
       {"ranks[].buffers[]", "object", "", "one buffer"},
       {at + "name", "string", "", "by which operations name it"},
       {at + "role", "string", "", "its dtype: nominal, wide, integer"},
       {at + "category", "string", "", "input, output, saved, working, workspace"},
       {at + "layout", "string", "", "order of its axes in memory"},
       {at + "axes", "list", "", "slot, rows, heads, width"},
       {at + "axes[]", "object", "", "one axis"},
       {at + "axes[].name", "string", "", "of the axis"},
       {at + "axes[].size", "integer", "", "of the axis"},
       {at + "planes", "integer", "", "rows of one sample, of a layout with samples outermost; 0: none"},
       {at + "bytes", "integer", "bytes", "its size"},
       {at + "offset", "integer", "bytes", "in the arena"},
       {at + "slab", "string?", "", "buffers of one slab share its bytes, one after the other"}});
}

void add_plan_operations(ResultKeys& keys) {
  const std::string at = "ranks[].operations[].";
  keys.insert(
      keys.end(),
      {{"ranks[].operations", "list", "", "of the rank, in issue order"},
       {"ranks[].operations[]", "object", "", "one operation"},
       {at + "id", "string", "", "rank/phase/ordinal"},
       {at + "phase", "string", "", "forward or backward"},
       {at + "step", "integer", "", "of the algorithm's loop"},
       {at + "lane", "object", "", "the in-order queue that it is in"},
       {at + "lane.kind", "string", "", "compute, comm, copy or host"},
       {at + "lane.index", "integer", "", "which of that kind"},
       {at + "kind", "string", "", "attend, exchange, ..."},
       {at + "transport", "string", "", "nccl or copy"},
       {at + "channels", "integer?", "", "multiprocessors of an exchange; without it NCCL's own choice"},
       {at + "group", "string|null", "", "of communication: which ranks"},
       {at + "reduction", "string?", "", "of all_reduce: sum or max"},
       {at + "value", "number|string?", "", "of fill: what is written; of attend: the scale"},
       {at + "reads", "list", "", "what it reads"},
       {at + "reads[]", "object", "", "one operand"},
       {at + "reads[].operand", "string?", "", "q, k, v, out, lse, ..."},
       {at + "writes", "list", "", "what it writes"},
       {at + "writes[]", "object", "", "one operand"},
       {at + "writes[].operand", "string?", "", "q, k, v, out, lse, ..."},
       {at + "writes[].mode", "string", "", "store, add or merge"},
       {at + "parts", "list", "", "of an exchange: sends and receives posted together"},
       {at + "parts[]", "object", "", "one part"},
       {at + "parts[].send", "boolean", "", "else it receives"},
       {at + "parts[].peer", "integer", "", "the rank on the other side"},
       {at + "parts[].view", "object", "", "what is sent, or written"},
       {at + "segments", "list", "", "of attend: which queries see which keys"},
       {at + "segments[]", "object", "", "a run of query rows and one of key rows"},
       {at + "segments[].q", "list", "", "[begin, count]"},
       {at + "segments[].q[]", "integer", "", "a row, a count"},
       {at + "segments[].k", "list", "", "[begin, count]"},
       {at + "segments[].k[]", "integer", "", "a row, a count"},
       {at + "segments[].offset", "integer", "", "of the diagonal"},
       {at + "segments[].left", "integer", "", "keys to the left of it that are seen"},
       {at + "segments[].right", "integer", "", "keys to the right of it that are seen"},
       {at + "heads", "list", "", "[begin, end] of query heads"},
       {at + "heads[]", "integer", "", "a head"},
       {at + "after", "list", "", "operations of other lanes whose end it waits for"},
       {at + "after[]", "string", "", "an id"},
       {at + "after_started", "list", "", "operations whose start it waits for"},
       {at + "after_started[]", "string", "", "an id"},
       {at + "flops", "integer", "FLOP", "of live pairs"},
       {at + "bytes", "integer", "bytes", "read plus written; of communication sent"}});
  for (const char* view : {"reads[].", "writes[].", "parts[].view."}) add_view(keys, at + view);
  keys.insert(keys.end(),
              {{at + "softcap", "number?", "", "of attend, where there is one"},
               {at + "bias", "string?", "", "of attend, where there is one: alibi, buckets, ..."},
               {at + "columns", "list?", "", "of a bias: its columns, or positions of keys, then of queries"},
               {at + "columns[]", "list", "", "[begin, count, step]"},
               {at + "columns[][]", "integer", "", "a column, a count, a step"},
               {at + "work", "string?", "", "of linear attention: how it is cut: blocked, serial, sliced"},
               {at + "reverse", "boolean?", "", "of scan and combine: from the last token to the first"},
               {at + "chunks", "list?", "", "of linear attention: runs of rows and their states"},
               {at + "chunks[]", "object", "", "one chunk"},
               {at + "chunks[].row", "integer", "", "its first row"},
               {at + "chunks[].count", "integer", "tokens", "its rows"},
               {at + "chunks[].state", "integer", "", "the state that it writes; -1: none"},
               {at + "chunks[].edges", "list", "", "states at its left and right edge; -1: none"},
               {at + "chunks[].edges[]", "integer", "", "a state"},
               {at + "chunks[].exponents", "list", "", "tokens by which these have decayed"},
               {at + "chunks[].exponents[]", "integer", "tokens", "a count"},
               {at + "chunks[].resets", "boolean", "", "a sequence begins with it"}});
}

}  // namespace

std::vector<ResultTable> proof_results() {
  std::vector<ResultTable> all;
  all.push_back(check_result());
  all.push_back(verify_result());
  all.push_back(compare_result());
  all.push_back(spans_result());
  return all;
}

ResultTable plan_result() {
  ResultTable table{"cplab.plan.1", "show", results_page, {}};
  ResultKeys& keys = table.keys;
  add_start(keys, true);
  keys.insert(
      keys.end(),
      {{"defaults", "list?", "", "options that nobody set, for which the best value depends on the machine"},
       {"defaults[]", "object", "", "one option or choice"},
       {"defaults[].choice", "string", "", "its name"},
       {"defaults[].value", "integer|string|boolean", "", "what was taken"},
       {"defaults[].rule", "string", "", "why"},
       {"placement_padding_tokens", "integer", "tokens", "that only the placement added"},
       {"groups", "list", "", "named, ordered ranks"},
       {"groups[]", "object", "", "one group"},
       {"groups[].name", "string", "", "by which operations name it"},
       {"groups[].ranks", "list", "", "of the world, in order"},
       {"groups[].ranks[]", "integer", "", "a rank"},
       {"ranks", "list", "", "the plan of every rank"},
       {"ranks[]", "object", "", "one rank"},
       {"ranks[].rank", "integer", "", "in the world"},
       {"ranks[].replica", "integer", "", "which group"},
       {"ranks[].position", "integer", "", "its place in the group"},
       {"ranks[].arena_bytes", "integer", "bytes", "the allocation that holds its buffers"}});
  add_buffers(keys);
  add_plan_operations(keys);
  return table;
}

}  // namespace cplab
