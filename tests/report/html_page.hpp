// What tests read of an HTML page, without a browser: its elements, the numbers that name a place in the JSON
// result, the data inside.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace cplab::testing {

struct PageNumber {
  std::string key, value, text;
};

struct ReadPage {
  std::vector<PageNumber> numbers;
  nlohmann::json result;
  nlohmann::json timeline;       // null: it has none
  std::string visible;           // text outside of scripts and style, entities resolved
  std::vector<std::string> ids;  // in their order
};

// Throws std::runtime_error for an element that is not closed or closes another one, an attribute without
// quotes, an id twice, a reference to anything outside of the file, or data that is no JSON.
ReadPage read_page(const std::string& html);

// Checks (doctest) that every number of the page is the one of `result` at its place.
void check_numbers(const ReadPage& page, const nlohmann::json& result);

// A row of a timeline, decoded without the code that encodes it.
struct DecodedBox {
  std::string lane, phase, kind, variant, origin;
  std::int64_t use = 0, ordinal = 0, step = 0;
  double bytes = 0, flops = 0;
  std::int64_t start_ns = 0, end_ns = 0, wait_ns = 0;
};
std::vector<DecodedBox> decode_boxes(const nlohmann::json& timeline, std::size_t row);
struct DecodedMemory {
  std::int64_t at_ns = 0;
  std::string category;
  double bytes = 0;  // negative: freed
};
std::vector<DecodedMemory> decode_memory(const nlohmann::json& timeline, std::size_t row);
struct DecodedStep {
  std::int64_t rank = 0, operation = 0, end_ns = 0;
  bool host = false;
};
std::vector<DecodedStep> decode_chain(const nlohmann::json& timeline);
// Bytes of base 64.
std::vector<std::uint8_t> decode_base64(const std::string& text);

}  // namespace cplab::testing
