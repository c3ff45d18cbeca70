// The records of scenarios/measured against their index, INDEX.toml: every file has an entry and a reader.
#include <algorithm>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/tidy/rules.hpp"

namespace cplab::tidy {
namespace {

constexpr const char* records_folder = "scenarios/measured/";
constexpr const char* index_path = "scenarios/measured/INDEX.toml";

struct Record {
  int line = 0;
  std::map<std::string, std::string> words;
  std::vector<std::string> readers;
};

// The [[record]] tables, one key a line: a string, or a list of strings.
std::vector<Record> records_of(std::string_view text, std::vector<Finding>& findings) {
  static const std::regex pair("([a-z]+) = (\"[^\"]*\"|\\[\"[^\"]*\"(, \"[^\"]*\")*\\])"),
      word("\"([^\"]*)\"");
  std::vector<Record> records;
  int number = 0;
  for (const std::string_view view : lines_of(text)) {
    ++number;
    const std::string line(view);
    std::smatch match;
    if (line.empty() || line.starts_with('#')) continue;
    if (line == "[[record]]") {
      records.push_back({.line = number, .words = {}, .readers = {}});
    } else if (!records.empty() && std::regex_match(line, match, pair)) {
      const std::string key = match[1], value = match[2];
      if (key == "readers") {
        for (auto at = std::sregex_iterator(value.begin(), value.end(), word); at != std::sregex_iterator();
             ++at)
          records.back().readers.push_back((*at)[1]);
      } else {
        records.back().words[key] = value.substr(1, value.size() - 2);
      }
    } else {
      findings.push_back(
          {index_path, number, "is neither [[record]] nor KEY = \"WORDS\" nor a list of such"});
    }
  }
  return records;
}

// Whether a line of the reader, by its kind, opens the file: a page's command, a hardware file's source, or
// code rather than a comment.
bool opens(const std::string& path, std::string_view text, const std::string& file) {
  const auto reads = [&](std::string_view line) {
    if (line.find(file) == std::string_view::npos) return false;
    if (path.ends_with(".md")) return line.starts_with("$ ") || line.starts_with("<!-- $ ");
    if (path.ends_with(".toml")) return line.starts_with("source = ");
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    return !line.starts_with("//") && !line.starts_with('#');
  };
  const std::vector<std::string_view> lines = lines_of(text);
  return std::any_of(lines.begin(), lines.end(), reads);
}

void check_record(const Tree& tree, const Record& record, std::vector<Finding>& findings) {
  static const std::map<std::string, std::regex> forms = {
      {"claim", std::regex("[a-z0-9-]+")},
      {"says", std::regex(".+")},
      {"page", std::regex(".+\\.md")},
      {"machine", std::regex("[1-9][0-9]* x .+")},
      {"commit", std::regex("[0-9a-f]{7,40}(-dirty)?")},
      {"date", std::regex("20[0-9]{2}-[01][0-9]-[0-3][0-9]")},
      {"file", std::regex("[a-z0-9-]+\\.jsonl?")},
      {"supersedes", std::regex("([a-z0-9-]+\\.jsonl?)?")}};
  const auto say = [&](const std::string& what) { findings.push_back({index_path, record.line, what}); };
  for (const auto& [key, form] : forms) {
    const auto found = record.words.find(key);
    if (found == record.words.end() || !std::regex_match(found->second, form)) say("has no good " + key);
  }
  for (const auto& [key, value] : record.words)
    if (!forms.contains(key)) say("has an unknown key " + key);
  const auto file = record.words.find("file"), page = record.words.find("page");
  if (file == record.words.end() || page == record.words.end()) return;
  if (!tree.contains(records_folder + file->second)) say(file->second + " is not there");
  if (!tree.contains(page->second)) say(page->second + ", its page, is not there");
  if (record.readers.empty()) say(file->second + " has no reader");
  for (const std::string& reader : record.readers) {
    const auto found = tree.find(reader);
    if (found == tree.end() || !opens(reader, found->second, file->second))
      say(reader + " does not open " + file->second);
  }
}

}  // namespace

std::vector<Finding> check_records(const Tree& tree) {
  std::vector<Finding> findings;
  const auto index = tree.find(index_path);
  if (index == tree.end()) return {{index_path, 0, "is not there"}};
  std::set<std::string> named;
  std::map<std::string, std::vector<Record>> claims;
  for (const Record& record : records_of(index->second, findings)) {
    check_record(tree, record, findings);
    const auto word = [&](const char* key) {
      const auto found = record.words.find(key);
      return found == record.words.end() ? std::string() : found->second;
    };
    if (!named.insert(word("file")).second)
      findings.push_back({index_path, record.line, word("file") + " has two entries"});
    claims[word("claim")].push_back(record);
  }
  for (const auto& [claim, records] : claims) {
    const auto current = std::count_if(records.begin(), records.end(), [&](const Record& record) {
      return std::none_of(records.begin(), records.end(), [&](const Record& other) {
        const auto before = other.words.find("supersedes"), file = record.words.find("file");
        return before != other.words.end() && file != record.words.end() && before->second == file->second;
      });
    });
    if (current != 1 || records.size() > 2)
      findings.push_back({index_path, records.front().line,
                          "claim " + claim + " has not one current file and at most one older"});
  }
  std::size_t files = 0, bytes = 0;
  for (auto at = tree.lower_bound(records_folder); at != tree.end() && at->first.starts_with(records_folder);
       ++at) {
    ++files;
    bytes += at->second.size();
    const std::string name = at->first.substr(std::string_view(records_folder).size());
    if (at->first != index_path && !named.contains(name))
      findings.push_back({at->first, 0, "has no entry in INDEX.toml"});
  }
  if (files > 150) findings.push_back({records_folder, 0, std::to_string(files) + " files, more than 150"});
  if (bytes > 3'000'000)
    findings.push_back({records_folder, 0, std::to_string(bytes) + " bytes, more than 3 MB"});
  return findings;
}

}  // namespace cplab::tidy
