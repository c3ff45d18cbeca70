// The lists of an operation: chunks, segments, columns; see plan_json_chunks.hpp.
#include "report/plan_json_chunks.hpp"

#include <cstdint>

#include "plan/structure.hpp"

namespace cplab {

std::vector<Chunk> read_chunk_list(const JsonNode& list) {
  std::vector<Chunk> chunks;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const JsonNode entry = list.at(i);
    entry.only({"row", "count", "state", "edges", "exponents", "resets"});
    const auto number = [&](const char* key) { return entry.at(key).integer(0, most_extent); };
    const auto of_pair = [&](const char* key, std::size_t side, std::int64_t least, std::int64_t most) {
      if (!entry.has(key)) return least;
      entry.at(key).expect_size(2, "[left, right]");
      return entry.at(key).at(side).integer(least, most);
    };
    constexpr std::int64_t most_states = INT32_MAX;
    Chunk& c = chunks.emplace_back();
    c.row = number("row");
    c.count = number("count");
    if (entry.has("state")) c.state = static_cast<std::int32_t>(entry.at("state").integer(-1, most_states));
    c.left = static_cast<std::int32_t>(of_pair("edges", 0, -1, most_states));
    c.right = static_cast<std::int32_t>(of_pair("edges", 1, -1, most_states));
    c.left_exponent = of_pair("exponents", 0, 0, most_extent);
    c.right_exponent = of_pair("exponents", 1, 0, most_extent);
    c.resets = entry.has("resets") && entry.at("resets").boolean();
  }
  return chunks;
}

std::vector<Segment> read_segment_list(const JsonNode& list) {
  std::vector<Segment> segments;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const JsonNode entry = list.at(i);
    entry.only({"q", "k", "offset", "left", "right"});
    const auto run = [&](const char* which, std::size_t which_end) {
      entry.at(which).expect_size(2, "[begin, count]");
      return entry.at(which).at(which_end).integer(-most_extent, most_extent);
    };
    const auto bound = [&](const char* which) { return entry.at(which).integer(-most_extent, most_extent); };
    segments.emplace_back(Segment{run("q", 0), run("q", 1), run("k", 0), run("k", 1), bound("offset"),
                                  bound("left"), bound("right")});
  }
  return segments;
}

std::vector<RowRange> read_column_list(const JsonNode& list) {
  std::vector<RowRange> columns;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const JsonNode entry = list.at(i);
    entry.expect_size(3, "[begin, count, step]");
    // Of a bias by formula they are positions, and a query may stand before the first key.
    const auto number = [&](std::size_t at, std::int64_t least = 0) {
      return entry.at(at).integer(least, most_extent);
    };
    columns.push_back({number(0, -most_extent), number(1), number(2)});
  }
  return columns;
}

void refuse_chunks(const JsonNode& operation, OpKind kind) {
  for (const char* key : {"work", "reverse", "chunks"})
    if (operation.has(key))
      operation.at(key).fail("only operations of linear attention have it, not " + std::string(name(kind)));
}

}  // namespace cplab
