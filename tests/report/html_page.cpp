// See html_page.hpp.
#include "tests/report/html_page.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>
#include <utility>

namespace cplab::testing {
namespace {

using Json = nlohmann::json;

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error("page: " + what);
}

std::string resolved(std::string text) {
  for (const auto& [entity, character] : {std::pair{"&lt;", "<"},
                                          {"&gt;", ">"},
                                          {"&quot;", "\""},
                                          {"&minus;", "-"},
                                          {"&larr;", "<-"},
                                          {"&rarr;", "->"},
                                          {"&uarr;", "^"},
                                          {"&darr;", "v"},
                                          {"&amp;", "&"}})
    for (std::size_t at = 0; (at = text.find(entity, at)) != std::string::npos; ++at)
      text.replace(at, std::string(entity).size(), character);
  return text;
}

class Reader {
 public:
  explicit Reader(const std::string& html) : html_(html) {}

  ReadPage read() {
    if (!html_.starts_with("<!doctype html>\n")) fail("does not begin with its doctype");
    at_ = html_.find('\n');
    while (at_ < html_.size()) {
      const std::size_t tag = std::min(html_.find('<', at_), html_.size());
      add_text(html_.substr(at_, tag - at_));
      at_ = tag;
      if (at_ < html_.size()) read_tag();
    }
    if (!open_.empty()) fail("<" + open_.back().name + "> is not closed");
    return page_;
  }

 private:
  struct Element {
    std::string name;
    std::map<std::string, std::string> attributes;
  };

  void read_tag() {
    const std::size_t end = html_.find('>', at_);
    if (end == std::string::npos) fail("a tag does not end");
    std::string inside = html_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    if (inside.starts_with("/")) {
      if (open_.empty() || open_.back().name != inside.substr(1))
        fail("</" + inside.substr(1) + "> closes another element");
      open_.pop_back();
      return;
    }
    const bool empty = inside.ends_with("/");
    if (empty) inside.pop_back();
    const Element element = element_of(inside);
    const std::set<std::string> without_end{"meta", "link", "input", "br"};
    if (empty || without_end.contains(element.name)) return;
    open_.push_back(element);
    if (element.name == "script" || element.name == "style") read_raw(element);
  }

  Element element_of(const std::string& inside) {
    Element element;
    std::size_t at = std::min(inside.find_first_of(" \n"), inside.size());
    element.name = inside.substr(0, at);
    while ((at = inside.find_first_not_of(" \n", at)) != std::string::npos) {
      const std::size_t end = inside.find_first_of("= \n", at);
      const std::string name = inside.substr(at, end - at);
      std::string value;
      at = end;
      if (end != std::string::npos && inside[end] == '=') {
        if (inside[end + 1] != '"') fail(name + " of <" + element.name + "> has no quotes");
        const std::size_t close = inside.find('"', end + 2);
        if (close == std::string::npos) fail(name + " of <" + element.name + "> does not end");
        value = resolved(inside.substr(end + 2, close - end - 2));
        at = close + 1;
      }
      element.attributes[name] = value;
      if (at == std::string::npos) break;
    }
    for (const char* reference : {"src", "href", "action", "data", "poster", "srcset"})
      if (element.attributes.contains(reference) && element.attributes[reference] != "data:,")
        fail("<" + element.name + "> refers to " + element.attributes[reference]);
    if (const auto id = element.attributes.find("id"); id != element.attributes.end()) {
      if (std::ranges::find(page_.ids, id->second) != page_.ids.end())
        fail("two elements have the id " + id->second);
      page_.ids.push_back(id->second);
    }
    return element;
  }

  void read_raw(const Element& element) {
    const std::size_t end = html_.find("</" + element.name + ">", at_);
    if (end == std::string::npos) fail("<" + element.name + "> is not closed");
    const std::string text = html_.substr(at_, end - at_);
    at_ = end;
    for (const char* outside : {"http:", "https:", "@import", "url(", "import(", "fetch(", "XMLHttpRequest"})
      if (text.find(outside) != std::string::npos && !element.attributes.contains("id"))
        fail("<" + element.name + "> holds " + outside);
    const auto id = element.attributes.find("id");
    if (id == element.attributes.end()) return;
    if (text.find('<') != std::string::npos) fail("data with <");
    (id->second == "result" ? page_.result : page_.timeline) = Json::parse(text);
  }

  void add_text(const std::string& text) {
    if (open_.empty()) return;
    page_.visible += resolved(text);
    const Element& element = open_.back();
    if (element.name != "data") return;
    page_.numbers.push_back({element.attributes.at("data-key"), element.attributes.at("value"), text});
  }

  const std::string& html_;
  std::size_t at_ = 0;
  std::vector<Element> open_;
  ReadPage page_;
};

class Numbers {
 public:
  explicit Numbers(const std::string& text) : bytes_(decode_base64(text)) {}
  bool more() const { return at_ < bytes_.size(); }
  std::int64_t next() {
    std::int64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const std::uint8_t byte = bytes_.at(at_++);
      value |= std::int64_t{byte & 127} << shift;
      if (byte < 128) return value;
    }
  }
  std::int64_t next_signed() {
    const std::int64_t value = next();
    return value % 2 == 1 ? -(value + 1) / 2 : value / 2;
  }

 private:
  std::vector<std::uint8_t> bytes_;
  std::size_t at_ = 0;
};

}  // namespace

std::vector<std::uint8_t> decode_base64(const std::string& text) {
  const std::string letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  REQUIRE(text.size() % 4 == 0);
  std::vector<std::uint8_t> bytes;
  unsigned bits = 0;
  int count = 0;
  for (const char c : text) {
    if (c == '=') break;
    const std::size_t value = letters.find(c);
    REQUIRE(value != std::string::npos);
    bits = bits << 6 | static_cast<unsigned>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes.push_back(static_cast<std::uint8_t>(bits >> count & 255U));
  }
  return bytes;
}

ReadPage read_page(const std::string& html) {
  return Reader(html).read();
}

void check_numbers(const ReadPage& page, const Json& result) {
  for (const PageNumber& number : page.numbers) {
    CAPTURE(number.key);
    const Json::json_pointer place(number.key);
    REQUIRE(result.contains(place));
    REQUIRE(result.at(place).is_number());
    CHECK(result.at(place).get<double>() == std::stod(number.value));
    CHECK_FALSE(number.text.empty());
  }
}

std::vector<DecodedBox> decode_boxes(const Json& timeline, std::size_t row) {
  std::vector<DecodedBox> boxes;
  std::map<std::string, std::int64_t> ordinals;
  std::map<std::int64_t, std::int64_t> free_ns;
  std::int64_t step = 0;
  for (Numbers from(timeline["rows"][row]["boxes"].get<std::string>()); from.more();) {
    const Json& signature = timeline["signatures"].at(static_cast<std::size_t>(from.next()));
    DecodedBox box;
    const auto lane = signature[0].get<std::int64_t>();
    box.lane = timeline["lanes"].at(static_cast<std::size_t>(lane));
    box.phase = signature[1];
    box.kind = signature[2];
    box.variant = signature[3];
    box.origin = signature[4];
    box.use = signature[5];
    box.ordinal = ordinals[box.phase] + from.next_signed();
    ordinals[box.phase] = box.ordinal + 1;
    box.step = step += from.next_signed();
    box.bytes = timeline["numbers"].at(static_cast<std::size_t>(from.next()));
    box.flops = timeline["numbers"].at(static_cast<std::size_t>(from.next()));
    box.start_ns = free_ns[lane] + from.next_signed();
    box.end_ns = free_ns[lane] = box.start_ns + from.next();
    box.wait_ns = from.next();
    boxes.push_back(box);
  }
  return boxes;
}

std::vector<DecodedMemory> decode_memory(const Json& timeline, std::size_t row) {
  std::vector<DecodedMemory> changes;
  std::int64_t at = 0;
  for (Numbers from(timeline["rows"][row]["memory"].get<std::string>()); from.more();) {
    at += from.next_signed();
    const auto category = static_cast<std::size_t>(from.next());
    const std::int64_t place = from.next();
    const double bytes = timeline["numbers"].at(static_cast<std::size_t>(place / 2));
    changes.push_back({at, timeline["categories"].at(category), place % 2 == 1 ? -bytes : bytes});
  }
  return changes;
}

std::vector<DecodedStep> decode_chain(const Json& timeline) {
  std::vector<DecodedStep> steps;
  std::int64_t rank = 0, end = 0;
  for (Numbers from(timeline["chain"].get<std::string>()); from.more();) {
    rank += from.next_signed();
    const std::int64_t place = from.next();
    end += from.next();
    steps.push_back({rank, place / 2, end, place % 2 == 1});
  }
  return steps;
}

}  // namespace cplab::testing
