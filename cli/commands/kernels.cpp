// cplab kernels: every kernel of this build, what it takes of a multiprocessor, and how fast it was measured.
#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "cli/commands/command.hpp"
#include "cli/commands/kernel_rates.hpp"
#include "cli/files/toml_table.hpp"
#include "cli/kernel_notes.hpp"
#include "cli/vocabulary.hpp"
#include "kernels/compiled.hpp"
#include "kernels/dtype_name.hpp"
#include "kernels/no_gpu_code.hpp"
#include "report/json_parts.hpp"
#include "report/json_writer.hpp"

namespace cplab {
namespace {

namespace cuda = kernels::cuda;

// Of all kernels where nothing was compiled: what a build with nvcc would have.
constexpr cuda::KernelBuild usual_build{.hopper = true, .full = false};

constexpr const char* not_compiled = "not compiled";

struct ListedKernel {
  const cuda::KernelEntry* entry = nullptr;
  const cuda::CompiledKernel* compiled = nullptr;  // null: a build without nvcc
};

struct Listing {
  cuda::KernelBuild build;
  std::vector<ListedKernel> rows;
  std::vector<cuda::Architecture> gpus;
  std::vector<KernelRate> rates;
  bool with_rates = false;
  std::string left_out;  // empty: nothing
};

std::string left_out_text(bool compiled) {
  if (compiled) return {};
  return std::string(kernels::no_gpu_code) +
         ". Listed is what a build with a CUDA toolkit has by default, all of it not compiled here; left "
         "out: "
         "registers, barriers, spills, shared memory and occupancy, which the compiler decides";
}

// Words that all occur in the name, whatever their order: "hopper fused" finds "attend_backward hopper fused
// bf16 128".
bool matches(const cuda::KernelEntry& entry, const std::string& words) {
  const std::string name = entry.name();
  std::size_t begin = 0;
  while (begin < words.size()) {
    const std::size_t end = std::min(words.find(' ', begin), words.size());
    if (name.find(words.substr(begin, end - begin)) == std::string::npos) return false;
    begin = end + 1;
  }
  return true;
}

std::vector<ListedKernel> rows_of(const cuda::KernelBuild& build, const cuda::CompiledKernels* compiled,
                                  const std::string& words) {
  std::vector<ListedKernel> rows;
  const std::span<const cuda::KernelEntry> entries = kernel_entries(build);
  for (std::size_t n = 0; n < entries.size(); ++n)
    if (matches(entries[n], words)) rows.push_back({&entries[n], compiled ? &compiled->kernels[n] : nullptr});
  if (!rows.empty()) return rows;
  std::vector<std::string> names;
  for (const cuda::KernelEntry& entry : entries) names.push_back(entry.variant);
  throw InputError("kernels " + words + ": no kernel of that name" +
                   clause(meant_value("kernels", words, names)) + " `cplab kernels` names them all");
}

std::vector<cuda::Architecture> gpus_of(const Arguments& arguments) {
  const std::string wanted =
      arguments.has("architecture") ? arguments.word("architecture", "") : std::string();
  std::vector<cuda::Architecture> gpus;
  for (const cuda::Architecture& gpu : cuda::architectures)
    if (wanted.empty() || gpu.name == wanted) gpus.push_back(gpu);
  return gpus;
}

std::string size_text(int size) {
  return size == 0 ? "any" : std::to_string(size);
}

std::string head_text(const cuda::KernelEntry& entry) {
  if (entry.key_size == entry.value_size) return size_text(entry.key_size);
  return size_text(entry.key_size) + "/" + size_text(entry.value_size);
}

std::string tile_text(const cuda::KernelEntry& entry) {
  return entry.tile_rows == 0 ? "-" : fmt::format("{}x{}", entry.tile_rows, entry.tile_columns);
}

// What an architecture runs of a kernel: nothing where it is not claimed or has no code.
const cuda::CompiledCode* code_on(const ListedKernel& row, const cuda::Architecture& gpu) {
  return row.compiled && claims(row.entry->claim, gpu) ? row.compiled->code_for(gpu) : nullptr;
}

// One row a kernel and architecture.
TextTable kernel_table(const Listing& listing) {
  const bool compiled = !listing.rows.empty() && listing.rows.front().compiled != nullptr;
  std::vector<Column> columns{
      {"kernel", "", Align::left}, {"D", ""}, {"tile", ""}, {"stages", ""}, {"threads", ""},
      {"SM", "", Align::left}};
  if (compiled)
    for (const Column& column :
         {Column{"code", "", Align::left}, Column{"registers", ""}, Column{"spills", "bytes"},
          Column{"static shared", "bytes"}, Column{"dynamic shared", "bytes"}, Column{"blocks", ""},
          Column{"warps", ""}, Column{"occupancy", "%"}, Column{"limit", "", Align::left}})
      columns.push_back(column);
  TextTable table(columns);
  for (const ListedKernel& row : listing.rows) {
    const cuda::KernelEntry& entry = *row.entry;
    for (const cuda::Architecture& gpu : listing.gpus) {
      if (!claims(entry.claim, gpu)) continue;
      std::vector<std::string> cells{entry.name(),
                                     head_text(entry),
                                     tile_text(entry),
                                     entry.stages == 0 ? "-" : std::to_string(entry.stages),
                                     std::to_string(entry.threads),
                                     std::string(gpu.name)};
      if (const cuda::CompiledCode* code = code_on(row, gpu)) {
        const cuda::Occupancy held = occupancy(gpu, row.compiled->needs(*code));
        for (std::string& cell : std::vector<std::string>{
                 code->architecture, std::to_string(code->registers),
                 std::to_string(code->spill_store_bytes + code->spill_load_bytes),
                 std::to_string(code->static_shared_bytes),
                 std::to_string(row.compiled->dynamic_shared_bytes), std::to_string(held.blocks),
                 std::to_string(held.warps), format_percent(held.share), std::string(name_of(held.limit))})
          cells.push_back(std::move(cell));
      } else if (compiled) {
        cells.emplace_back("PTX");
        cells.resize(columns.size(), "-");
      }
      table.add_row(std::move(cells));
    }
  }
  return table;
}

void write_code(JsonWriter& json, const ListedKernel& row, const cuda::Architecture& gpu) {
  json.field("architecture", gpu.name);
  json.field("claimed", claims(row.entry->claim, gpu));
  const cuda::CompiledCode* code = code_on(row, gpu);
  if (!code) {
    if (!row.compiled) json.field("code", not_compiled);
    json.key("spill_bytes");
    json.null();
    return;
  }
  const cuda::BlockNeeds needs = row.compiled->needs(*code);
  const cuda::Occupancy held = occupancy(gpu, needs);
  json.field("code", code->architecture);
  json.field("registers", code->registers);
  json.field("barriers", code->barriers);
  json.field("stack_bytes", code->stack_bytes);
  json.field("spill_bytes", code->spill_store_bytes + code->spill_load_bytes);
  json.field("spill_store_bytes", code->spill_store_bytes);
  json.field("spill_load_bytes", code->spill_load_bytes);
  json.field("static_shared_bytes", code->static_shared_bytes);
  json.field("dynamic_shared_bytes", row.compiled->dynamic_shared_bytes);
  json.field("blocks", held.blocks);
  json.field("warps", held.warps);
  json.field("occupancy", held.share);
  json.field("limit", name_of(held.limit));
}

void write_entry(JsonWriter& json, const cuda::KernelEntry& entry) {
  json.field("variant", entry.variant);
  json.field("part", entry.part);
  json.field("kind", entry.kind);
  json.field("family", entry.family);
  json.field("dtype", kernels::name_of(entry.dtype));
  json.field("key_size", entry.key_size);
  json.field("value_size", entry.value_size);
  json.field("tile_rows", entry.tile_rows);
  json.field("tile_columns", entry.tile_columns);
  json.field("stages", entry.stages);
  json.field("threads", entry.threads);
  json.field("warps", entry.warps());
  json.field("deterministic", entry.deterministic);
  json.list("features", entry.features);
}

void write_kernels_json(std::ostream& out, const Listing& listing) {
  JsonWriter json(out);
  begin_result(json, "kernels", "kernels", versions_of_build());
  json.field("compiled", listing.left_out.empty());
  json.field("hopper", listing.build.hopper);
  json.field("full", listing.build.full);
  if (!listing.left_out.empty()) json.field("left_out", listing.left_out);
  json.list("notes", head_size_notes(listing.build));
  json.objects("architectures", listing.gpus, [&](const cuda::Architecture& gpu) {
    json.field("architecture", gpu.name);
    json.field("compile_and_occupancy_only", !has_record(gpu));
    json.field("registers", gpu.registers);
    json.field("thread_registers", gpu.thread_registers);
    json.field("shared_bytes", gpu.shared_bytes);
    json.field("block_shared_bytes", gpu.block_shared_bytes);
    json.field("reserved_shared_bytes", gpu.reserved_shared_bytes);
    json.field("warps", gpu.warps);
    json.field("blocks", gpu.blocks);
    json.field("barriers", gpu.barriers);
  });
  json.objects("kernels", listing.rows, [&](const ListedKernel& row) {
    write_entry(json, *row.entry);
    json.objects("architectures", listing.gpus,
                 [&](const cuda::Architecture& gpu) { write_code(json, row, gpu); });
  });
  if (listing.with_rates) write_rates(json, listing.rates);
  json.end_object();
}

}  // namespace

int command_kernels(const Arguments& arguments, Console& console) {
  const cuda::CompiledKernels* compiled = cuda::compiled_kernels();
  Listing listing;
  listing.build = compiled ? compiled->build : usual_build;
  listing.gpus = gpus_of(arguments);
  listing.rows =
      rows_of(listing.build, compiled, arguments.positional().empty() ? "" : arguments.positional().front());
  listing.left_out = left_out_text(compiled != nullptr);
  if (arguments.has("unset")) throw InputError("--unset: kernels reads no scenario");
  if (!arguments.has("hardware") && arguments.has("set"))
    console.say("note: --set: not used by kernels without --hardware");
  if (arguments.has("hardware")) {
    listing.with_rates = true;
    std::vector<std::string> variants;
    for (const ListedKernel& row : listing.rows) variants.push_back(row.entry->variant);
    listing.rates = kernel_rates(arguments.text("hardware", ""), arguments.all("set"), variants);
  }
  if (!listing.left_out.empty()) console.say("note: " + listing.left_out);
  const TextTable table = kernel_table(listing);
  std::ostream& out = console.text();
  table.write(out, console.style());
  out << '\n';
  write_folded(
      out,
      "tile: queries x keys, tokens x columns of a state; blocks, warps: of a multiprocessor at once, "
      "theoretical",
      console.style().width);
  for (const std::string& note : head_size_notes(listing.build))
    write_folded(out, note, console.style().width, "  ");
  if (!compiled)
    write_folded(out, std::string(not_compiled) + ": nothing is known of registers and spills",
                 console.style().width);
  std::string not_run;
  for (const cuda::Architecture& gpu : listing.gpus)
    if (!has_record(gpu)) not_run += (not_run.empty() ? "" : ", ") + std::string(gpu.name);
  if (compiled && !not_run.empty())
    out << not_run << ": compile- and occupancy-only, no record has a run on one\n";
  if (listing.with_rates) write_rates(out, arguments.text("hardware", ""), listing.rates, console.style());
  console.write_json_to_option([&](std::ostream& stream) { write_kernels_json(stream, listing); });
  console.write_csv_to_option([&](std::ostream& stream) { table.write_csv(stream); });
  return exit_fine;
}

}  // namespace cplab
