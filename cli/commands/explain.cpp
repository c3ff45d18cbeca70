// cplab explain [WORD]: what a key, an option, an algorithm, a placement or a key of a result is.
#include <algorithm>
#include <ostream>
#include <set>

#include "cli/commands/command.hpp"
#include "cli/explained.hpp"
#include "cli/files/toml_table.hpp"
#include "cli/keys/keys.hpp"
#include "cli/vocabulary.hpp"
#include "report/json_parts.hpp"

namespace cplab {

namespace {

using Entries = std::vector<const Explained*>;

bool is_section(std::string_view word) {
  return word == "schedule" || std::ranges::find(key_sections(), word) != key_sections().end();
}

Entries of_section(std::string_view section) {
  Entries entries;
  for (const Explained& entry : all_explained()) {
    const bool in = section == "study" ? entry.what == "key of studies"
                                       : entry.what != "key of results" &&
                                             entry.name.starts_with(std::string(section) + ".");
    if (in) entries.push_back(&entry);
  }
  return entries;
}

[[noreturn]] void fail_unknown(const std::string& word) {
  const std::vector<std::string> names = names_explained();
  std::set<std::string> ends;
  for (const std::string& name : names) ends.insert(name.substr(name.rfind('.') + 1));
  const std::vector<std::string> last(ends.begin(), ends.end());
  const std::size_t dot = word.find('.');
  const std::string section = dot == std::string::npos ? "" : word.substr(0, dot);
  std::string hint;
  if (!section.empty() && section != "hardware") hint = meant_key(section, word.substr(dot + 1), {});
  if (hint.empty()) hint = meant_key("", word, names);
  if (hint.empty())
    if (const std::string near = nearest(word, last); !near.empty()) hint = "did you mean \"" + near + "\"?";
  throw InputError("explain " + word + ": nothing has that name" + clause(hint) +
                   " `cplab explain` alone names the sections, `cplab list algorithms` the algorithms");
}

std::string legal_of(const Explained& entry) {
  return entry.legal.empty() ? entry.type : entry.legal;
}

void write_entry(std::ostream& out, const Explained& entry, std::size_t width) {
  write_folded(out, entry.name + ": " + entry.what, width, "  ");
  const auto line = [&](std::string_view label, const std::string& text) {
    if (!text.empty())
      write_beside(out, "  " + std::string(label) + std::string(10 - label.size(), ' '), text, width);
  };
  line("what", entry.meaning);
  line("type", entry.type + (entry.unit.empty() ? "" : ", in " + entry.unit));
  line("default", entry.by_default);
  line("legal", entry.legal);
  line("of", entry.of);
  line("page", entry.page.empty() ? "" : "docs/" + entry.page);
}

// A table for a section: many keys, a row each.
TextTable section_table(const Entries& entries, std::string_view section) {
  TextTable table({{"key", "", Align::left},
                   {"default", "", Align::left},
                   {"legal", "", Align::left},
                   {"what it is", "", Align::left}});
  const std::size_t cut = section == "study" ? 0 : section.size() + 1;
  for (const Explained* entry : entries) {
    std::string meaning = entry->meaning;
    if (!entry->unit.empty()) meaning += " (in " + entry->unit + ")";
    if (!entry->of.empty()) meaning += "; of " + entry->of;
    table.add_row({entry->name.substr(cut), entry->by_default, legal_of(*entry), meaning});
  }
  return table;
}

void write_sections(std::ostream& out, std::size_t width) {
  for (const std::string_view section : key_sections()) {
    write_beside(out, "  " + std::string(section) + std::string(12 - section.size(), ' '),
                 std::string(meaning_of_section(section)), width);
    if (section == "parallel")
      write_beside(out, "  schedule    ",
                   "free choices of the algorithm: time, memory and rounding, never which result", width);
  }
  out << '\n';
  write_folded(
      out,
      "`cplab explain SECTION` lists its keys, `cplab explain KEY` says all about one. Words may also be "
      "algorithms, placements and keys of results (time_s, ranks[].peak_bytes).",
      width);
}

void write_explained_json(std::ostream& out, const std::string& asked, const Entries& entries) {
  JsonWriter json(out);
  begin_result(json, "explain", "explain", versions_of_build());
  const auto text = [&](std::string_view key, const std::string& value) {
    json.key(key);
    if (value.empty())
      json.null();
    else
      json.value(value);
  };
  text("asked", asked);
  json.objects("explained", entries, [&](const Explained* entry) {
    json.field("what", entry->what);
    json.field("name", entry->name);
    json.field("of", entry->of);
    json.field("meaning", entry->meaning);
    json.field("type", entry->type);
    text("unit", entry->unit);
    text("default", entry->by_default);
    json.list("legal", entry->words);
    text("legal_text", entry->legal);
    text("page", entry->page.empty() ? "" : "docs/" + entry->page);
  });
  json.end_object();
}

}  // namespace

int command_explain(const Arguments& arguments, Console& console) {
  const std::string word = arguments.positional().empty() ? "" : arguments.positional().front();
  Entries entries;
  if (word.empty())
    for (const Explained& entry : all_explained()) entries.push_back(&entry);
  else
    entries = is_section(word) ? of_section(word) : explained_as(word);
  if (entries.empty()) fail_unknown(word);
  std::ostream& out = console.text();
  const TextStyle style = console.style();
  if (word.empty()) {
    write_sections(out, style.width);
  } else if (is_section(word)) {
    section_table(entries, word).write(out, style);
  } else {
    for (const Explained* entry : entries) {
      if (entry != entries.front()) out << '\n';
      write_entry(out, *entry, style.width);
    }
  }
  console.write_json_to_option([&](std::ostream& stream) { write_explained_json(stream, word, entries); });
  console.write_csv_to_option(
      [&](std::ostream& stream) { section_table(entries, "study").write_csv(stream); });
  return exit_fine;
}

}  // namespace cplab
