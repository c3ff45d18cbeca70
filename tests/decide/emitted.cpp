// Takes apart what emitters write.
#include "tests/decide/emitted.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

namespace cplab {
namespace {

// Words of a line of bash in which quotes are single ones around whole words.
std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at < line.size();) {
    if (line[at] == ' ') {
      ++at;
      continue;
    }
    const bool quoted = line[at] == '\'';
    const std::size_t begin = at + (quoted ? 1 : 0),
                      end = std::min(line.find(quoted ? '\'' : ' ', begin), line.size());
    words.push_back(line.substr(begin, end - begin));
    at = end + 1;
  }
  return words;
}

void flatten(const nlohmann::json& object, const std::string& above, Emitted& out) {
  for (const auto& [key, value] : object.items()) {
    if (value.is_object())
      flatten(value, above + key + ".", out);
    else
      out.flags[above + key] = {value.dump()};
  }
}

void take_flag(Framework framework, std::vector<std::string> words, Emitted& out) {
  std::string flag = words.front();
  words.erase(words.begin());
  const std::size_t equals = flag.find('=');
  if (framework == Framework::verl && equals != std::string::npos && flag.find('.') < equals) {
    words = {flag.substr(equals + 1)};
    flag = flag.substr(0, equals);
  }
  if (out.flags.contains(flag)) throw std::runtime_error("twice: " + flag);
  out.flags[flag] = words;
}

FeedForwardKind feed_forward(const std::string& name, std::int64_t width, std::int64_t experts,
                             std::int64_t chosen) {
  FeedForwardKind kind;
  kind.name = name;
  kind.width = width;
  kind.experts = experts;
  kind.chosen = chosen;
  return kind;
}

Case of_kinds(std::vector<AttentionKind> kinds, std::int64_t layers) {
  Case c;
  c.model.name = "model";
  c.model.hidden = 4096;
  c.model.vocabulary = 128256;
  c.model.attention = std::move(kinds);
  c.model.feed_forward = {feed_forward("dense", 14336, 0, 0)};
  c.model.layers = {{0, 0, layers}};
  c.training.sequence = 131072;
  c.layout.tp = 2;
  c.layout.cp = 4;
  c.layout.dp = 2;
  c.layout.micro_batches = 8;
  for (std::size_t k = 0; k < c.model.attention.size(); ++k)
    c.layout.attention.push_back({"ring", "zigzag", {}});
  c.training.gpus = c.layout.gpus();
  return c;
}

AttentionKind heads(const std::string& name, std::int64_t query, std::int64_t keys) {
  AttentionKind kind;
  kind.name = name;
  kind.heads = query;
  kind.kv_heads = keys;
  kind.head_size = kind.value_size = 128;
  return kind;
}

}  // namespace

std::string Emitted::value(const std::string& flag) const {
  const auto found = flags.find(flag);
  if (found == flags.end()) return "(none)";
  std::string text;
  for (const std::string& word : found->second) text += (text.empty() ? "" : " ") + word;
  return text;
}

std::int64_t Emitted::count(const std::string& flag) const {
  return std::stoll(value(flag));
}

int Emitted::says(const std::string& text) const {
  int count = 0;
  for (const std::string& comment : comments) count += comment.find(text) != std::string::npos;
  return count;
}

Emitted taken_apart(Framework framework, const std::string& text) {
  Emitted out;
  std::istringstream lines(text);
  std::string json;
  std::getline(lines, out.launch);
  bool inside = framework == Framework::deepspeed;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t begin = line.find_first_not_of(' ');
    if (begin == std::string::npos) throw std::runtime_error("an empty line");
    if (line.substr(begin, 2) == "# ")
      out.comments.push_back(line.substr(begin + 2));
    else if (framework == Framework::deepspeed)
      json += line + "\n";
    else if (!inside)
      inside = line.ends_with("=(");
    else if (line != ")")
      take_flag(framework, words_of(line.substr(begin)), out);
  }
  if (framework == Framework::deepspeed) flatten(nlohmann::json::parse(json), "", out);
  if (!inside) throw std::runtime_error("no array");
  return out;
}

Case dense() {
  return of_kinds({heads("global", 64, 8)}, 80);
}

Case experts() {
  Case c = of_kinds({heads("global", 32, 4)}, 48);
  c.model.feed_forward = {feed_forward("128 experts, 8 each", 768, 128, 8)};
  c.layout.ep = 4;
  return c;
}

Case windows() {
  Case c = of_kinds({heads("global", 32, 16), heads("window 1024", 32, 16)}, 0);
  c.model.attention[1].window = 1024;
  c.model.layers = {{1, 0, 5}, {0, 0, 1}, {1, 0, 5}, {0, 0, 1}};
  return c;
}

}  // namespace cplab
