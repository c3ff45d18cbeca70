// A study: one scenario, and which of its keys take which values. Read from TOML; docs/16-sweep.md shows one.
//
//   scenario = "ring"                   a path, relative to the study or the current folder, or a shipped
//   name;
//                                       or sections [scenario.problem], [scenario.parallel], ...
//   where = "..."                       a condition (expression.hpp), or a list of them
//   shard = "1/4"                       also --shard
//   [vary]                              each key is an axis; the study is their product, the last one fastest
//   "problem.sequence" = ["32K", "64K"]                       a list (or one value)
//   "parallel.ranks" = {from = 8, to = 64, times = 2}         8, 16, 32, 64
//   "schedule.head_stride" = {from = 1, to = 4, step = 1}     1, 2, 3, 4
//   "problem.heads, problem.kv_heads" = [[32, 8], [64, 8]]    keys that vary together, or
//   [[vary.ANY_NAME]]                                         a table for each row of them
//   [[constraint]]
//   where = "problem.heads % parallel.ranks == 0"             points of which it is false are left out
//   why = "a sentence"
//   [output]
//   jsonl = "points.jsonl"              also --jsonl; relative to the current folder
//   csv = "points.csv"
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/files/scenario_file.hpp"
#include "cli/files/toml_table.hpp"
#include "cli/sweep/expression.hpp"
#include "report/results.hpp"
#include "report/sweep.hpp"

namespace cplab {

// One value of one key: as results say it, and as --set KEY=VALUE says it.
struct StudyValue {
  SweepValue value;
  std::string set;
};

struct StudyAxis {
  std::vector<std::string> keys;
  std::vector<std::vector<StudyValue>> rows;  // a value for each key
  std::uint32_t line = 0;                     // of the file
};

struct StudyConstraint {
  Expression where;
  std::string why;    // may be empty
  std::string place;  // "FILE:LINE: constraint[0].where"
};

// Points whose place leaves `index` when divided by `count`: 0/4 to 3/4 are all of them, and so are 1/4 to
// 4/4.
struct Shard {
  std::int64_t index = 0, count = 1;
  bool has(std::int64_t number) const { return number % count == index % count; }
  std::string text() const { return std::to_string(index) + "/" + std::to_string(count); }
};
// "i/n" with 0 <= i <= n; nothing for other text.
std::optional<Shard> parse_shard(const std::string& text);

struct Study {
  std::string path;      // of the study
  std::string given;     // as it was named
  std::string scenario;  // as the study names it; empty: it stands in the study
  std::string scenario_path;
  std::string scenario_text;  // what that file held
  std::vector<StudyAxis> axes;
  std::vector<StudyConstraint> constraints;
  std::optional<Shard> shard;
  std::string csv, jsonl;  // of [output]; empty: none

  // The scenario with these changes (cli/files/changes.hpp). Throws InputError.
  ScenarioFile read(const std::vector<std::string>& changes) const;
  // The same where it is legal; it may not be without what varies.
  std::optional<ScenarioFile> read_if_legal(const std::vector<std::string>& changes) const;
  Table table() const;  // the scenario's, before any change
};

// A path, a name in scenarios/studies/, or - for standard input. Throws InputError.
Study read_study(const std::string& argument);
// The same of text; `path` is for messages and for what lies beside it.
Study parse_study(const std::string& text, const std::string& path);

// The points of a study: those of its product that the constraints leave, in order.
class StudyPoints {
 public:
  // `changes` are those of the command line, which constraints see too. Throws InputError for a constraint
  // that has no answer, a key that is set and varied, and more than `most` points.
  StudyPoints(const Study&, const std::vector<std::string>& changes);

  static constexpr std::int64_t most = 10'000'000;

  std::int64_t size() const { return static_cast<std::int64_t>(kept_.size()); }
  std::int64_t product() const { return product_; }
  // (condition, points of the product that it is the first to leave out)
  const std::vector<std::pair<std::string, std::int64_t>>& excluded() const { return excluded_; }
  std::vector<std::string> keys() const;  // of all axes, in order
  // (key, value) of the point with that number, 0 to size() - 1.
  std::vector<std::pair<std::string, StudyValue>> values(std::int64_t number) const;
  // The same as changes: "section.key=value".
  std::vector<std::string> changes(std::int64_t number) const;

 private:
  // The value of a key that does not vary; the lookup knows all keys of the point.
  using Fixed = std::function<Expression::Value(const std::string& key, const Expression::Lookup&)>;
  std::vector<std::size_t> rows(std::int64_t place) const;  // of each axis
  bool keep(const std::vector<std::size_t>& rows, const Fixed& fixed);

  std::vector<StudyAxis> axes_;
  std::vector<StudyConstraint> constraints_;
  std::int64_t product_ = 1;
  std::vector<std::int64_t> kept_;  // places in the product
  std::vector<std::pair<std::string, std::int64_t>> excluded_;
};

}  // namespace cplab
