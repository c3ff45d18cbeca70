// Parts of the reader of hardware files.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/files/toml_table.hpp"
#include "cli/vocabulary.hpp"
#include "sim/hardware.hpp"

namespace cplab {

// One of `values` by its name.
template <class Enum, class Name>
Enum choice(const Table& table, const char* key, const std::string& given, const std::vector<Enum>& values,
            Name name_of) {
  std::vector<std::string> legal;
  for (const Enum& value : values) {
    legal.emplace_back(name_of(value));
    if (legal.back() == given) return value;
  }
  std::string message = "\"" + given + "\" is not legal; legal are";
  for (const std::string& word : legal) message += " \"" + word + "\"";
  table.fail(key, message + "; " + meant_value(key, given, legal));
}

// Reads on behind an error, so that all of a file's are told at once.
class HardwareFaults {
 public:
  // `section` ("gpu", "message.3") is faulty if `read` throws an InputError, which is kept.
  template <class Read>
  void attempt(const std::string& section, Read read) {
    try {
      read();
    } catch (const InputError& error) {
      messages.emplace_back(error.what());
      sections.insert(section);
    }
  }
  std::vector<std::string> messages;
  std::set<std::string> sections;
};

// All of a hardware file but its head (schema, include, name, notes), with every key asked for. Sections that
// --set had to make may lack their origin. Throws nothing that `faults` can keep.
Hardware read_sections(const Table& table, HardwareFaults& faults);

// [efficiency], with which a file is one of a data sheet: what stands for the source of its sections, which
// need not say one; empty without it.
std::string read_efficiency(const Table& root, Hardware& hardware, HardwareFaults& faults);
// The path of scenarios/hardware/parts/as-measured.toml. Throws EnvironmentError without that folder.
std::string measured_rest_file();
// Fills in what such a file leaves out from that one (sim/data_sheet.hpp).
// `said`: the sections that it has. Throws EnvironmentError or InputError without it.
void complete_from_measured(Hardware& hardware, const Table& said);

// [[form]], [[pieces]], [[beside]], [[launch]], [[gemm]] and [cards], all of which a file may leave out.
FinerTables read_finer_tables(const Table& root, HardwareFaults& faults);
// [accuracy]. Throws InputError.
std::vector<KindAccuracy> read_accuracy(const Table& section);
// Kinds that have tables (host_sync has none): those that communicate, or the others.
std::vector<OpKind> kinds_of(bool communication);
// origin, and tool, machine, date or source of a section; what is wrong with them goes into `faults`.
void read_provenance(const Table& section, const std::string& name, HardwareFaults& faults, Provenance& to);

// A hardware file, with what it includes laid under it.
struct OpenedHardware {
  Table table;
  std::string text;                // its own and, behind it, that of each file that it includes
  std::vector<std::string> notes;  // of all of them, in this order
  // Keys of sections that a file changes without saying where its numbers come from, and that file.
  std::vector<std::pair<std::string, std::string>> changes;
};
// Throws InputError for a file that is missing, of a newer schema, or that includes itself.
OpenedHardware open_hardware(const std::string& text, const std::string& file_name);
// Their keys, of a file that was opened so: what stands in front of the sections.
void know_head(const Table& table);
// Writes into every [[message]] that does not say so the bandwidth of the link it was measured over, which is
// that of the file as it stands: links that change below it then bound its flows.
void keep_measured_links(Table& table);

// compute_capability of [gpu], 9.0 or "9.0", to gpu.sm_major and sm_minor. Throws InputError.
void read_capability(const Table& gpu_table, GpuSpec& gpu);

// cut, chunk, sequences, states, results and the points of a class of linear attention. Throws InputError.
void read_chunk_points(const Table& table, KernelTable& kernel);

}  // namespace cplab
