// How flags and comments are spelt: bash arrays, where a comment may stand between arguments, and JSON.
#include "decide/emit/output.hpp"

#include <algorithm>
#include <memory>
#include <stdexcept>

namespace cplab::emitting {
namespace {

// A word that bash leaves as it is.
std::string quoted(const std::string& word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("-_./:=,+").find(static_cast<char>(c)) != std::string_view::npos;
  });
  return plain ? word : "'" + word + "'";
}

// A JSON object whose members keep the order in which they came.
struct Object {
  std::vector<std::pair<std::string, std::string>> values;
  std::vector<std::pair<std::string, std::unique_ptr<Object>>> objects;

  Object& below(const std::string& key) {
    for (auto& [name, object] : objects)
      if (name == key) return *object;
    return *objects.emplace_back(key, std::make_unique<Object>()).second;
  }
  void write(std::string& out, const std::string& indent) const {
    out += "{";
    const char* comma = "\n";
    for (const auto& [key, value] : values) {
      out += comma + indent + "  \"" + key + "\": " + value;
      comma = ",\n";
    }
    for (const auto& [key, object] : objects) {
      out += comma + indent + "  \"" + key + "\": ";
      object->write(out, indent + "  ");
      comma = ",\n";
    }
    out += "\n" + indent + "}";
  }
};

}  // namespace

bool Output::knows(std::string_view flag) const {
  const std::vector<EmittedFlag> table = flags_of(framework_);
  return std::any_of(table.begin(), table.end(), [&](const EmittedFlag& row) { return row.flag == flag; });
}

void Output::flag(std::string_view flag, const std::vector<std::string>& values) {
  if (!knows(flag)) throw std::logic_error("no row of the table of flags has " + std::string(flag));
  std::string text;
  if (framework_ == Framework::deepspeed) {
    text = values.at(0);
  } else if (framework_ == Framework::verl) {
    text = values.empty() ? std::string(flag) : quoted(std::string(flag) + "=" + values.at(0));
  } else {
    text = flag;
    for (const std::string& value : values) text += " " + quoted(value);
  }
  lines_.push_back({std::string(flag), text});
}

void Output::entry(std::string_view mapping, std::string_view key, const std::string& value) {
  if (!knows(mapping)) throw std::logic_error("no row of the table of flags has " + std::string(mapping));
  lines_.push_back(
      {std::string(mapping), quoted("+" + std::string(mapping) + "." + std::string(key) + "=" + value)});
}

void Output::note(std::string_view text) {
  lines_.push_back({"", "# " + std::string(text)});
}
void Output::cannot(const std::string& text) {
  note("not expressible: " + text);
}
void Output::illegal(const std::string& text) {
  note("illegal here: " + text);
}

std::string Output::as_array(std::string_view launch, std::string_view array) const {
  std::string out =
      "# " + std::string(launch) + " \"${" + std::string(array) + "[@]}\"\n" + std::string(array) + "=(\n";
  for (const Line& line : lines_) out += "  " + line.text + "\n";
  return out + ")\n";
}

std::string Output::as_json(std::string_view launch) const {
  std::string out = "# " + std::string(launch) + "\n";
  Object root;
  for (const Line& line : lines_) {
    if (line.flag.empty()) {
      out += line.text + "\n";
      continue;
    }
    Object* object = &root;
    std::size_t begin = 0;
    for (std::size_t dot = 0; (dot = line.flag.find('.', begin)) != std::string::npos; begin = dot + 1)
      object = &object->below(line.flag.substr(begin, dot - begin));
    object->values.emplace_back(line.flag.substr(begin), line.text);
  }
  root.write(out, "");
  return out + "\n";
}

}  // namespace cplab::emitting
