// The answer as JSON, by the contract's keys; see answer.hpp.
#include <ostream>

#include "cli/advise/answer.hpp"
#include "report/json_parts.hpp"

namespace cplab {

namespace {

void write_schedule(JsonWriter& json, const Schedule& schedule) {
  json.key("schedule");
  json.begin_object();
  for (const auto& [key, value] : schedule.options) json.field(key, to_string(value));
  json.end_object();
}

void write_layout(JsonWriter& json, const Question& question, const ModelLayout& layout) {
  json.field("tp", layout.tp);
  json.field("cp", layout.cp);
  json.field("pp", layout.pp);
  json.field("dp", layout.dp);
  json.field("ep", layout.ep);
  json.field("etp", layout.etp);
  json.field("micro_batch", layout.micro_batch);
  json.field("micro_batches", layout.micro_batches);
  json.field("pipeline_chunks", layout.pipeline_chunks);
  json.field("zero", layout.zero);
  json.field("recompute", name(layout.recompute));
  json.field("loss_chunks", layout.loss_chunks);
  json.field("offload_checkpoints", layout.offload_checkpoints);
  json.field("offload_optimizer", layout.offload_optimizer);
  json.field("algorithm", layout.attention.empty() || layout.cp == 1 ? std::string("none")
                                                                     : layout.attention[0].algorithm);
  json.field("placement", layout.attention.empty() ? std::string() : layout.attention[0].placement);
  write_schedule(json, layout.attention.empty() ? Schedule{} : layout.attention[0].schedule);
  json.key("attention");
  json.begin_array();
  for (std::size_t kind = 0; kind < layout.attention.size(); ++kind) {
    json.begin_object();
    json.field("kind", question.model.attention[kind].name);
    json.field("algorithm", layout.cp == 1 ? std::string("none") : layout.attention[kind].algorithm);
    json.field("placement", layout.attention[kind].placement);
    write_schedule(json, layout.attention[kind].schedule);
    json.end_object();
  }
  json.end_array();
}

void write_step(JsonWriter& json, const StepEstimate& step) {
  json.field("time_s", step.time_s);
  json.field("low_s", step.low_s);
  json.field("high_s", step.high_s);
  json.field("tokens", step.tokens);
  json.field("tokens_s_gpu", step.tokens_s_gpu);
  json.field("share_of_peak", step.share_of_peak);
  json.field("limit_s", step.limit_s);
  json.field("exposed_wait_s", step.exposed_wait_s());
  json.field("exposed_transfer_s", step.exposed_transfer_s());
  json.objects("memory", step.memory.parts, [&](const MemoryPart& part) {
    json.field("kind", name(part.kind));
    json.field("bytes", part.bytes);
  });
  json.field("memory_bytes", step.memory.total_bytes);
  json.field("host_bytes", step.memory.host_bytes);
  json.field("fits", step.fits && step.host_fits);
  json.field("headroom_bytes", step.headroom_bytes());
  json.objects("terms", step.terms, [&](const StepTerm& term) {
    json.field("name", term.name);
    json.field("kind", term.kind == TermKind::compute    ? "compute"
                       : term.kind == TermKind::transfer ? "transfer"
                                                         : "wait");
    json.field("seconds", term.seconds());
    json.field("origin", name(term.origins.most()));
  });
  json.list("formulas", step.formulas);
}

// The question as resolved, by the scenario's keys. Degrees that are searched are 0.
void write_question(JsonWriter& json, const Question& question) {
  const Training& t = question.training;
  json.key("scenario");
  json.begin_object();
  json.key("model");
  json.begin_object();
  json.field("name", question.model.name);
  json.field("layers", question.model.layer_count());
  json.field("parameters", parameters(question.model, false));
  json.end_object();
  json.key("training");
  json.begin_object();
  json.field("mode", name(t.mode));
  json.field("gpus", t.gpus);
  json.field("sequence", row_tokens(t));
  json.key("lengths");
  json.begin_array();
  for (const auto& [length, share] : t.lengths) {
    json.begin_array();
    json.value(length);
    json.value(share);
    json.end_array();
  }
  json.end_array();
  json.field("balanced", t.balanced);
  json.field("tokens_per_step", t.tokens_per_step);
  json.field("micro_batch", t.micro_batch);
  for (const auto& [key, degree] : {std::pair{"tp", t.tp}, std::pair{"cp", t.cp}, std::pair{"pp", t.pp},
                                    std::pair{"dp", t.dp}, std::pair{"ep", t.ep}, std::pair{"etp", t.etp}})
    json.field(key, degree);
  json.field("zero", t.zero);
  json.field("recompute", t.recompute_given ? std::string(name(t.recompute)) : std::string());
  json.field("dtype", t.dtype);
  json.field("lora_rank", t.lora_rank);
  json.field("host_bytes", t.host_bytes);
  json.end_object();
  json.key("hardware");
  json.begin_object();
  json.field("file", question.machine);
  json.field("sha256", question.hardware.sha256);
  json.end_object();
  json.end_object();
}

void write_levers(JsonWriter& json, const std::vector<MemoryLever>& levers) {
  json.objects("first_lever", levers, [&](const MemoryLever& lever) {
    json.field("what", lever.what);
    json.field("frees_bytes", lever.frees_bytes);
    json.field("slower", lever.slower);
    json.field("fits", lever.fits);
  });
}

}  // namespace

void write_answer_json(std::ostream& out, const Question& question, const Answer& answer,
                       const Versions& versions) {
  JsonWriter json(out);
  begin_result(json, "advise", "advise", versions);
  write_question(json, question);
  json.field("model", question.model.name);
  json.field("machine", question.hardware.name);
  json.field("gpus", question.training.gpus);
  json.field("tokens_per_row", row_tokens(question.training));
  json.field("considered", answer.search.considered);
  json.field("pruned", answer.search.pruned);
  std::size_t row = 0;
  const std::string binds = answer.bindings.empty() ? std::string() : answer.bindings.front().resource;
  json.objects("candidates", answer.search.candidates, [&](const Candidate& candidate) {
    write_layout(json, question, candidate.layout);
    write_step(json, candidate.step);
    json.field("bound_s", candidate.bound_s);
    json.field("equal_to_best", candidate.equal_to_best);
    json.field("proved", answer.proved[row]);
    const auto of = bindings_of(candidate.step);
    json.field("binds", of.empty() ? std::string() : of.front().resource);
    ++row;
  });
  json.objects("binds", answer.bindings, [&](const Binding& binding) {
    json.field("resource", binding.resource);
    json.field("seconds", binding.seconds);
    json.field("share", binding.share);
  });
  json.objects("changes", answer.changes, [&](const Change& change) {
    json.field("what", change.what);
    json.field("time_s", change.time_s);
    json.field("delta_s", change.delta_s);
    json.field("fits", change.fits);
    json.field("note", change.note);
  });
  json.objects("break_even", answer.break_even, [&](const BreakEven& each) {
    json.field("what", each.what);
    json.field("tokens", each.tokens);
    json.field("nic_bytes_s", each.bytes_s);
  });
  json.key("fit");
  json.begin_object();
  json.field("gpus", answer.fit ? answer.fit->gpus : 0);
  json.field("tokens", answer.fit ? answer.fit->tokens : 0);
  write_levers(json, answer.fit && !answer.fit->levers.empty() ? answer.fit->levers : answer.levers);
  json.end_object();
  if (answer.regret) json.field("regret", answer.regret->share);
  if (answer.baseline) {
    json.key("baseline");
    json.begin_object();
    write_layout(json, question, answer.baseline->layout);
    write_step(json, answer.baseline->step);
    json.end_object();
  }
  json.objects("refused", answer.search.refused, [&](const Refusal& refusal) {
    json.field("reason", refusal.reason);
    json.field("count", refusal.count);
    json.field("nearest", refusal.nearest);
  });
  if (question.price_per_gpu_hour > 0)
    json.field("price_per_million_tokens",
               question.price_per_gpu_hour / 3600 * 1e6 / answer.search.candidates.front().step.tokens_s_gpu);
  json.list("emit", answer.emitted);
  json.list("notes", question.notes);
  json.end_object();
}

}  // namespace cplab
