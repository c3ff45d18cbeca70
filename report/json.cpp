// The results of the commands, key by key as DESIGN.md section 6 lists them.
#include "report/json.hpp"

#include "report/json_parts.hpp"
#include "report/json_writer.hpp"

namespace cplab {
namespace {

using Style = JsonWriter::Style;

void write_start(JsonWriter& json, std::string_view command, const ResultHeader& header) {
  begin_result(json, command, command, header);
}

template <class T>
void write_optional(JsonWriter& json, std::string_view key, const std::optional<T>& value) {
  json.key(key);
  if (value) {
    json.value(*value);
  } else {
    json.null();
  }
}

void write_text_or_null(JsonWriter& json, std::string_view key, const std::string& text) {
  write_optional(json, key, text.empty() ? std::nullopt : std::optional(text));
}

void write_rank_or_null(JsonWriter& json, std::string_view key, int rank) {
  write_optional(json, key, rank < 0 ? std::nullopt : std::optional(rank));
}

void write_notes(JsonWriter& json, const std::vector<std::string>& notes) {
  json.key("notes");
  json.begin_array();
  for (const std::string& note : notes) json.value(note);
  json.end_array();
}

// ---- simulate, run -------------------------------------------------------------------------------

void write_ranks(JsonWriter& json, const Figures& figures) {
  const bool saved = figures.saves();
  json.objects("ranks", figures.ranks, [&](const RankFigures& rank) {
    json.field("rank", rank.rank);
    json.field("replica", rank.replica);
    json.field("position", rank.position);
    json.field("time_s", rank.time_s);
    json.field("compute_s", rank.compute_s);
    json.field("communication_s", rank.communication_s);
    json.field("exposed_communication_s", rank.exposed_communication_s);
    json.field("exposed_wait_s", rank.exposed_wait_s);
    json.field("exposed_transfer_s", rank.exposed_transfer_s);
    json.field("peak_bytes", rank.peak_bytes);
    json.field("arena_bytes", rank.arena_bytes);
    if (saved) json.field("saved_bytes", rank.saved_bytes);
    if (saved) json.field("transient_bytes", rank.peak_bytes - rank.saved_bytes);
    json.field("sent_bytes", rank.sent_bytes);
    json.field("received_bytes", rank.received_bytes);
  });
}

void write_phases(JsonWriter& json, std::string_view key, const std::vector<PhaseTime>& phases) {
  json.objects(key, phases, [&](const PhaseTime& phase) {
    json.field("name", name(phase.phase));
    json.field("time_s", phase.time_s);
  });
}

void write_memory(JsonWriter& json, const Figures& figures, const std::optional<Fit>& fit) {
  json.field("peak_bytes", figures.peak_bytes);
  json.field("peak_rank", figures.peak_rank);
  json.objects("peak_buffers", figures.peak_buffers, [&](const PeakBuffer& buffer) {
    json.field("name", buffer.name);
    json.field("category", name(buffer.category));
    json.field("bytes", buffer.bytes);
  });
  write_optional(json, "capacity_bytes", fit ? std::optional(fit->capacity_bytes) : std::nullopt);
  write_optional(json, "fixed_bytes", fit ? std::optional(fit->fixed_bytes) : std::nullopt);
  write_optional(json, "fits", fit ? std::optional(fit->fits) : std::nullopt);
  write_optional(json, "headroom_bytes", fit ? std::optional(fit->headroom_bytes) : std::nullopt);
}

void write_operations(JsonWriter& json, const std::optional<OperationTimes>& operations) {
  if (!operations) return;
  json.key("operations");
  json.begin_array();
  for (std::size_t r = 0; r < operations->plan->ranks.size(); ++r) {
    const RankPlan& rank = operations->plan->ranks[r];
    for (std::size_t i = 0; i < rank.operations.size(); ++i) {
      const Operation& op = rank.operations[i];
      const OperationTime& time = operations->timeline->ranks[r][i];
      json.begin_object(Style::line);
      json.field("id", operation_id(rank, op));
      json.field("rank", rank.rank);
      write_lane(json, op.lane);
      json.field("kind", name(op.kind));
      const auto& variants = operations->timeline->variants;
      if (!variants.empty() && !variants[r][i].empty()) json.field("variant", variants[r][i]);
      const auto& fall_backs = operations->timeline->fall_backs;
      if (r < fall_backs.size() && i < fall_backs[r].size() && !fall_backs[r][i].empty())
        json.field("fall_back", fall_backs[r][i]);
      json.field("start_s", time.start_s);
      json.field("end_s", time.end_s);
      json.field("wait_s", time.wait_s);
      json.field("bytes", op.bytes);
      json.field("flops", op.flops);
      json.field("origin", name(time.origin));
      json.end_object();
    }
  }
  json.end_array();
}

void write_figures(JsonWriter& json, const Figures& figures, const std::optional<Fit>& fit) {
  write_phases(json, "phases", figures.phases);
  write_ranks(json, figures);
  write_memory(json, figures, fit);
  json.field("messages", figures.messages);
  json.field("host_syncs", figures.host_syncs);
  json.key("transports");
  json.begin_array();
  for (const TransportUse& use : figures.transports) {
    json.begin_object(Style::line);
    json.field("transport", name(use.transport));
    json.field("operations", use.operations);
    json.field("messages", use.messages);
    json.field("bytes", use.bytes);
    json.end_object();
  }
  json.end_array();
  write_origins(json, figures.origins);
}

void write_words(JsonWriter& json, std::string_view key,
                 const std::vector<std::pair<std::string, std::string>>& words) {
  json.key(key);
  json.begin_object();
  for (const auto& [name, text] : words) json.field(name, text);
  json.end_object();
}

void write_gpu(JsonWriter& json, const GpuRun& gpu, double instrumented_s) {
  write_words(json, "environment", gpu.environment);
  json.field("launch", gpu.launch);
  json.field("ranks_per_gpu", gpu.ranks_per_gpu);
  write_words(json, "links", gpu.links);
  json.field("graph", gpu.cuda_graph);
  json.field("warmup", gpu.warmup);
  json.field("clock_residual_s", gpu.clock_residual_s);
  json.field("instrumented_s", instrumented_s);
  json.objects("memory", gpu.memory, [&](const RankMemory& memory) {
    json.field("rank", memory.rank);
    json.field("context_bytes", memory.context_bytes);
    json.field("communicator_bytes", memory.communicator_bytes);
    json.field("tables_bytes", memory.tables_bytes);
    json.field("arena_bytes", memory.arena_bytes);
    json.field("growth_bytes", memory.growth_bytes);
    json.field("unexplained_bytes", memory.unexplained_bytes);
  });
  json.field("allocation_log_equals_plan", gpu.allocation_log_equals_plan);
}

// ---- compare -------------------------------------------------------------------------------------

void write_side(JsonWriter& json, std::string_view key, const CompareSide& side) {
  json.key(key);
  json.begin_object();
  json.field("file", side.file);
  json.field("command", side.command);
  write_text_or_null(json, "machine", side.machine);
  write_text_or_null(json, "gpu", side.gpu);
  json.field("time_s", side.time_s);
  json.field("operations_s", side.operations_s);
  if (side.last_rank >= 0) json.field("last_rank", side.last_rank);
  json.field("peak_bytes", side.peak_bytes);
  write_versions(json, side.versions);
  if (side.given) write_given(json, *side.given);
  json.end_object();
}

// ---- verify, check -------------------------------------------------------------------------------

void write_findings(JsonWriter& json, const std::vector<Finding>& findings) {
  json.objects("findings", findings, [&](const Finding& finding) {
    json.field("kind", name(finding.kind));
    write_rank_or_null(json, "rank", finding.rank);
    write_text_or_null(json, "operation", finding.operation);
    write_text_or_null(json, "buffer", finding.buffer);
    json.field("message", finding.message);
  });
}

// ---- list ----------------------------------------------------------------------------------------

void write_value(JsonWriter& json, const OptionValue& option) {
  std::visit([&](const auto& value) { json.value(value); }, option);
}

void write_algorithm(JsonWriter& json, const ListedAlgorithm& algorithm) {
  json.begin_object();
  json.field("name", algorithm.name);
  json.list("aliases", algorithm.aliases);
  json.field("summary", algorithm.summary);
  json.list("placements", algorithm.placements);
  json.objects("options", algorithm.options, [&](const ListedOption& option) {
    json.field("key", option.key);
    json.key("legal");
    json.begin_array();
    for (const OptionValue& value : option.legal) write_value(json, value);
    json.end_array();
    json.field("any_count", option.any_count);
    json.key("default");
    if (option.default_rule.empty())
      write_value(json, option.default_value);
    else
      json.null();
    write_text_or_null(json, "default_rule", option.default_rule);
    write_text_or_null(json, "applies", option.applies);
    json.field("help", option.help);
  });
  json.end_object();
}

void write_placement(JsonWriter& json, const ListedPlacement& placement) {
  json.begin_object();
  json.field("name", placement.name);
  json.list("aliases", placement.aliases);
  json.field("help", placement.help);
  json.end_object();
}

void write_fault(JsonWriter& json, const ListedFault& fault) {
  json.begin_object();
  json.field("name", fault.name);
  json.field("form", fault.form);
  json.field("help", fault.help);
  json.field("scenario", fault.scenario);
  json.list("devices", fault.devices);
  json.key("expected");
  if (fault.expected) {
    json.begin_object(Style::line);
    json.field("kind", name(fault.expected->kind));
    write_rank_or_null(json, "rank", fault.expected->rank);
    write_text_or_null(json, "operation", fault.expected->operation);
    json.end_object();
  } else {
    json.null();
  }
  json.end_object();
}

void write_listed_file(JsonWriter& json, const ListedFile& file) {
  json.begin_object();
  json.field("name", file.name);
  json.field("file", file.file);
  json.field("summary", file.summary);
  json.end_object();
}

void write_listed_model(JsonWriter& json, const ListedModel& model) {
  json.begin_object();
  json.field("name", model.name);
  json.field("file", model.file);
  json.field("layers", model.layers);
  json.field("hidden", model.hidden);
  json.field("heads", model.heads);
  json.field("kv_heads", model.kv_heads);
  json.field("vocabulary", model.vocabulary);
  json.objects("attention", model.attention, [&](const auto& kind) {
    json.field("kind", kind.first);
    json.field("layers", kind.second);
  });
  json.field("experts", model.experts);
  json.field("experts_per_token", model.experts_per_token);
  json.field("parameters", model.parameters);
  json.field("active_parameters", model.active_parameters);
  json.list("unread", model.unread);
  json.end_object();
}

template <class Entries, class Write>
void write_list(JsonWriter& json, const char* key, const std::optional<Entries>& entries, Write write) {
  if (!entries) return;
  json.key(key);
  json.begin_array();
  for (const auto& entry : *entries) write(json, entry);
  json.end_array();
}

}  // namespace

void write_json(std::ostream& out, const SimulateReport& report) {
  JsonWriter json(out);
  write_start(json, "simulate", report.header);
  json.field("machine", report.machine);
  json.field("gpu", report.gpu);
  json.field("placement_padding_tokens", report.placement_padding_tokens);
  json.field("time_s", report.figures.time_s);
  json.field("low_s", report.low_s);
  json.field("high_s", report.high_s);
  write_chain(json, report.chain);
  write_chain_parts(json, report.chain_parts, report.chain_s);
  write_figures(json, report.figures, report.fit);
  write_variants(json, report.variants);
  write_operations(json, report.operations);
  write_notes(json, report.header.notes);
  json.end_object();
}

void write_json(std::ostream& out, const RunReport& report) {
  JsonWriter json(out);
  write_start(json, "run", report.header);
  json.field("placement_padding_tokens", report.placement_padding_tokens);
  json.field("device", report.device);
  json.field("time_s", report.time_s);
  json.list("times_s", report.times_s);
  if (!report.undisturbed_phases.empty()) write_phases(json, "undisturbed_phases", report.undisturbed_phases);
  if (report.gpu) write_gpu(json, *report.gpu, report.figures.time_s);
  write_chain(json, report.path.by_use.shares());
  write_chain_parts(json, report.path.parts, report.path.time_s());
  json.field("chain_communications", report.path.communications);
  json.field("chain_undecided", report.path.undecided);
  write_figures(json, report.figures, report.fit);
  write_variants(json, report.variants);
  write_operations(json, report.operations);
  write_notes(json, report.header.notes);
  json.end_object();
}

void write_json(std::ostream& out, const VerifyReport& report) {
  JsonWriter json(out);
  write_start(json, "verify", report.header);
  json.field("placement_padding_tokens", report.placement_padding_tokens);
  json.field("device", report.device);
  write_text_or_null(json, "injected", report.injected);
  if (!report.against.empty()) json.field("against", report.against);
  if (report.sampled_rows) {
    json.field("sampled_rows", *report.sampled_rows);
    json.field("rows", report.rows);
  }
  json.field("ok", report.ok);
  json.objects("tensors", report.tensors, [&](const TensorFigures& tensor) {
    json.field("rank", tensor.rank);
    json.field("tensor", tensor.tensor);
    json.field("rel_l2", tensor.rel_l2);
    json.field("max_abs", tensor.max_abs);
    json.field("tolerance", tensor.tolerance);
    json.field("ok", tensor.ok);
  });
  write_findings(json, report.findings);
  write_notes(json, report.header.notes);
  json.end_object();
}

void write_json(std::ostream& out, const CheckReport& report) {
  JsonWriter json(out);
  write_start(json, "check", report.header);
  json.field("placement_padding_tokens", report.placement_padding_tokens);
  json.field("ok", report.result.ok());
  write_findings(json, report.result.findings);
  json.field("rounds", report.result.rounds);
  json.field("messages", report.result.messages);
  json.list("flops", report.result.flops);
  json.list("sent_bytes", report.result.sent_bytes);
  write_notes(json, report.header.notes);
  json.end_object();
}

void write_json(std::ostream& out, const CompareReport& report) {
  JsonWriter json(out);
  write_start(json, "compare", ResultHeader{report.versions, report.scenario, {}, {}, {}});
  write_side(json, "predicted", report.predicted);
  write_side(json, "measured", report.measured);
  json.field("time_error", report.time_error);
  json.field("compute_alone_s", report.compute_alone_s);
  json.field("compute_alone_error", report.compute_alone_error);
  json.objects("segments", report.segments, [&](const CompareSegment& segment) {
    json.field("name", segment.name);
    json.field("predicted_s", segment.predicted_s);
    json.field("measured_s", segment.measured_s);
    json.field("error", segment.error);
    json.field("absolute_s", segment.absolute_s);
    if (segment.null_s) {
      json.field("null_s", *segment.null_s);
      json.field("null_error", segment.null_error);
    }
  });
  json.objects("terms", report.terms, [&](const CompareTerm& term) {
    json.field("name", term.name);
    json.field("predicted_s", term.predicted_s);
    json.field("measured_s", term.measured_s);
    json.field("difference_s", term.predicted_s - term.measured_s);
  });
  json.field("memory_error_bytes", report.memory_error_bytes);
  json.field("rank_memory_error_bytes", report.rank_memory_error_bytes);
  write_notes(json, report.notes);
  json.end_object();
}

void write_json(std::ostream& out, const ReproduceReport& report) {
  JsonWriter json(out);
  write_start(json, "reproduce", report.header);
  json.field("name", report.name);
  json.list("ranks", report.ranks);
  json.objects("rows", report.rows, [&](const ReproduceRow& row) {
    json.field("label", row.label);
    write_optional(json, "published", row.published);
    json.field("ours", row.ours);
    write_optional(json, "error", row.error);
    json.field("derived", row.derived);
    json.field("unit", row.unit);
  });
  write_notes(json, report.notes);
  json.end_object();
}

void write_json(std::ostream& out, const ListReport& report) {
  JsonWriter json(out);
  begin_result(json, "list", "list", report.versions);
  write_list(json, "algorithms", report.algorithms, write_algorithm);
  write_list(json, "placements", report.placements, write_placement);
  write_list(json, "scenarios", report.scenarios, write_listed_file);
  write_list(json, "hardware", report.hardware, write_listed_file);
  write_list(json, "models", report.models, write_listed_model);
  write_list(json, "faults", report.faults, write_fault);
  write_list(json, "published", report.published, write_listed_file);
  write_list(json, "studies", report.studies, write_listed_file);
  json.end_object();
}

}  // namespace cplab
