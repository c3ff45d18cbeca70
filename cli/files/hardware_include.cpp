// What a hardware file says before its sections: of which schema it is, what it includes, what to say of it.
#include <algorithm>
#include <filesystem>
#include <optional>

#include "cli/files/hardware_table.hpp"
#include "cli/files/scenario_file.hpp"
#include "cli/files/text_file.hpp"
#include "cli/files/toml_overlay.hpp"

namespace cplab {
namespace {

constexpr std::string_view schema_name = "cplab.hardware.";
constexpr std::int64_t schema_version = 1;  // nothing older was ever written

const OverlayRules& overlay_rules() {
  static const OverlayRules rules{{{"kernel",
                                    {{"class", ""},
                                     {"variant", ""},
                                     {"dtype", ""},
                                     {"head_size", ""},
                                     {"value_size", "=head_size"},
                                     {"mask", ""},
                                     {"tile_rows", "128"},
                                     {"sustained", "true"},
                                     {"l2", "warm"},
                                     {"cut", "blocked"},
                                     {"chunk", "0"},
                                     {"sequences", "1"},
                                     {"states", ""},
                                     {"results", ""}}},
                                   {"message",
                                    {{"kind", ""},
                                     {"transport", ""},
                                     {"path", ""},
                                     {"group", ""},
                                     {"busy", "all"},
                                     {"cuda_graph", "false"}}},
                                   {"interference", {{"class", ""}, {"beside", ""}}}},
                                  {"origin", "tool", "machine", "date", "source"}};
  return rules;
}

void require_schema(const Table& table) {
  if (!table.has("schema")) return;
  const std::string given = table.text("schema");
  const std::string ours = std::string(schema_name) + std::to_string(schema_version);
  if (given == ours) return;
  const bool hardware = given.starts_with(schema_name);
  const std::string version = hardware ? given.substr(schema_name.size()) : "";
  const bool number = !version.empty() && version.find_first_not_of("0123456789") == std::string::npos;
  if (number && version.find_first_not_of('0') != std::string::npos)
    table.fail("schema", "\"" + given + "\" is newer than this program, which reads \"" + ours +
                             "\" (and files without this key as that); take the cplab that wrote the file");
  table.fail("schema", "\"" + given + "\" is no schema of hardware files; legal is \"" + ours + "\"");
}

// The links of the file as it stands, for what one of its messages was measured over; nothing: the file does
// not say, or what it says is wrong, which its reader tells.
std::optional<Hardware> links_of(const Table& table, Path path) {
  try {
    Hardware hardware;
    const Table node = table.table("node"), network = table.table("network");
    if (path == Path::intra) {
      hardware.node.link_bytes_s = node.quantity("link_bytes_s", Quantity::bytes_s);
      return hardware;
    }
    hardware.node.gpus = static_cast<int>(std::clamp<std::int64_t>(node.integer("gpus"), 1, 1 << 20));
    hardware.network.nics = static_cast<int>(std::clamp<std::int64_t>(network.integer("nics"), 1, 1 << 20));
    hardware.network.nic_bytes_s = network.quantity("nic_bytes_s", Quantity::bytes_s);
    return hardware;
  } catch (const InputError&) {
    return std::nullopt;
  }
}

bool says(const Table& message, const char* key, std::string_view value) {
  return message.kind(key) == Table::Kind::text && message.text(key) == value;
}

bool changes_links(const Table& table) {
  return table.has("node") || table.has("network");
}

// The files that led here, each including the next.
std::string chain_text(const std::vector<std::string>& chain) {
  std::string text;
  for (const std::string& file : chain) text += (text.empty() ? "" : " includes ") + file;
  return text;
}

std::string canonical(const std::string& path) {
  std::error_code error;
  const std::filesystem::path whole = std::filesystem::weakly_canonical(path, error);
  return error ? path : whole.string();
}

OpenedHardware open_chain(const std::string& text, const std::string& file_name,
                          std::vector<std::string> chain) {
  OpenedHardware opened{Table::parse(text, file_name), text, {}, {}};
  Table& table = opened.table;
  require_schema(table);
  if (table.has("note")) opened.notes.push_back(table.text("note"));
  if (!table.has("include")) return opened;
  const std::string path = find_included(table, file_name);
  chain.push_back(file_name);
  const bool again = std::any_of(chain.begin(), chain.end(),
                                 [&](const std::string& each) { return canonical(each) == canonical(path); });
  if (again) {
    chain.push_back(path);
    table.fail("include", "a file cannot include itself: " + chain_text(chain));
  }
  OpenedHardware lower = [&] {
    try {
      return open_chain(read_text_file(path), path, chain);
    } catch (const InputError& error) {
      if (std::string_view(error.what()).find(" includes ") != std::string_view::npos) throw;
      chain.push_back(path);
      throw InputError(std::string(error.what()) + "; " + chain_text(chain));
    }
  }();
  if (changes_links(table)) keep_measured_links(lower.table);
  for (const char* own : {"schema", "include", "name", "note", "source"}) lower.table.remove(own);
  // What this file says of a whole section, with its origin, it says alone.
  std::vector<std::string> restated;
  for (const std::string& key : table.keys())
    if (table.kind(key) == Table::Kind::table && table.table(key).has("origin")) restated.push_back(key);
  for (const auto& change : lower.changes) {
    const std::string section = change.first.substr(0, change.first.find('.'));
    if (std::find(restated.begin(), restated.end(), section) == restated.end())
      opened.changes.push_back(change);
  }
  for (std::string& key : table.lay_over(lower.table, overlay_rules()))
    opened.changes.emplace_back(std::move(key), file_name);
  opened.text += lower.text;
  opened.notes.insert(opened.notes.end(), lower.notes.begin(), lower.notes.end());
  return opened;
}

}  // namespace

void keep_measured_links(Table& table) {
  std::vector<Table> messages;
  try {
    messages = table.tables("message");
  } catch (const InputError&) {
    return;  // its reader says what they are instead
  }
  for (Table& message : messages) {
    const Path path = says(message, "path", "inter") ? Path::inter : Path::intra;
    const std::optional<Hardware> links = links_of(table, path);
    if (!links) continue;
    MessageTable measured;
    measured.path = path;
    if (!says(message, "kind", name(OpKind::exchange))) measured.kind = OpKind::barrier;  // any collective
    const double link = links->curve_bytes_s(measured);
    if (link > 0 && !message.has("link_bytes_s")) message.put("link_bytes_s", link);
    if (path == Path::inter && !message.has("nics_per_gpu"))
      message.put("nics_per_gpu", static_cast<std::int64_t>(links->nics_per_gpu()));
  }
}

OpenedHardware open_hardware(const std::string& text, const std::string& file_name) {
  OpenedHardware opened = open_chain(text, file_name, {});
  if (opened.table.has("efficiency")) opened.text += read_text_file(measured_rest_file());
  return opened;
}

void know_head(const Table& table) {
  for (const char* key : {"schema", "include", "name", "note", "kernels_of", "calibration", "source"})
    (void)table.has(key);
}

}  // namespace cplab
