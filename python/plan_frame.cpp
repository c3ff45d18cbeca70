// Placement and tiles for cplab.Plan; see plan_frame.hpp.
#include "python/plan_frame.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "algorithms/core/placement.hpp"
#include "algorithms/core/tile.hpp"
#include "plan/live_pairs.hpp"
#include "plan/visible.hpp"
#include "report/json_reader.hpp"
#include "report/scenario_json.hpp"

namespace nb = nanobind;

namespace cplab {
namespace {

// TokenRun: sequence, row, rows, valid, position, stride, row_step.
using RunTuple = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                            std::int64_t, std::int64_t>;
using RangeTuple = std::tuple<std::int64_t, std::int64_t, std::int64_t>;  // RowRange
// Segment: q_begin, q_count, k_begin, k_count, offset, left, right.
using SegmentTuple = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                                std::int64_t, std::int64_t>;

std::vector<TokenRun> runs_of(const std::vector<RunTuple>& tuples) {
  std::vector<TokenRun> runs;
  for (const auto& [sequence, row, rows, valid, position, stride, row_step] : tuples)
    runs.push_back({sequence, row, rows, valid, position, stride, row_step});
  return runs;
}

std::vector<RangeTuple> tuples_of(const std::vector<RowRange>& ranges) {
  std::vector<RangeTuple> tuples;
  for (const RowRange& range : ranges) tuples.emplace_back(range.begin, range.count, range.step);
  return tuples;
}

Take take_of(const std::string& word) {
  if (word == "live") return Take::live;
  if (word == "queries") return Take::queries;
  if (word == "keys") return Take::keys;
  if (word == "all") return Take::all;
  throw std::invalid_argument("take = \"" + word + "\"; legal: live, queries, keys, all");
}

class PlanFrame {
 public:
  // `text`: a plan as `show --json` writes it, of which the scenario alone is read.
  explicit PlanFrame(const std::string& text) {
    const JsonDocument document(text, "the plan of a scenario");
    scenario_ = read_scenario(document.root().at("scenario"));
    visible_ = Visible(scenario_.problem);
    for (int replica = 0; replica < static_cast<int>(scenario_.parallel.replicas); ++replica)
      for (const Side side : {Side::queries, Side::keys})
        placements_.emplace_back(scenario_.problem, scenario_.parallel, scenario_.placement, replica, side);
  }

  // The rows of a rank: those of its queries, or of its keys.
  std::int64_t rows(int replica, bool keys) const { return placement(replica, keys).rows(); }
  std::vector<RunTuple> runs(int replica, int position, bool keys) const {
    std::vector<RunTuple> tuples;
    for (const TokenRun& run : placement(replica, keys).runs(position))
      tuples.emplace_back(run.sequence, run.row, run.rows, run.valid, run.position, run.stride, run.row_step);
    return tuples;
  }

  // (rows of the queries, rows of the keys, segments in places of these, live pairs).
  nb::tuple tile(const std::vector<RunTuple>& q, const std::vector<RunTuple>& k,
                 const std::string& take) const {
    const std::vector<TokenRun> q_runs = runs_of(q), k_runs = runs_of(k);
    // Consecutive rows at one stride, as placements have them, are joined further than any list of rows can
    // be.
    const auto plain = [&](const TokenRun& run) {
      return run.row_step == 1 && run.stride == (q_runs.empty() ? run : q_runs.front()).stride;
    };
    bool rows_alone = true;
    for (const std::vector<TokenRun>* runs : {&q_runs, &k_runs})
      for (const TokenRun& run : *runs) rows_alone = rows_alone && plain(run);
    if (rows_alone) {
      const Tile tile = row_tile(q_runs, k_runs, visible_, take_of(take));
      return tuple_of(tile.q_rows.ranges(), tile.k_rows.ranges(), tile.segments);
    }
    const ListTile tile = tile_between(q_runs, k_runs, visible_, take_of(take));
    return tuple_of(tile.q_rows, tile.k_rows, tile.segments);
  }

 private:
  const Placement& placement(int replica, bool keys) const {
    return placements_.at(2 * static_cast<std::size_t>(replica) + (keys ? 1 : 0));
  }

  static nb::tuple tuple_of(const std::vector<RowRange>& q_rows, const std::vector<RowRange>& k_rows,
                            const std::vector<Segment>& segments) {
    std::vector<SegmentTuple> tuples;
    double pairs = 0;
    for (const Segment& s : segments) {
      tuples.emplace_back(s.q_begin, s.q_count, s.k_begin, s.k_count, s.offset, s.left, s.right);
      pairs += live_pairs(s);
    }
    return nb::make_tuple(tuples_of(q_rows), tuples_of(k_rows), tuples, pairs);
  }

  Scenario scenario_;
  Visible visible_{Window{}};
  std::vector<Placement> placements_;  // by replica, of queries and then of keys
};

}  // namespace

void add_plan_frame(nb::module_& module) {
  nb::class_<PlanFrame>(module, "PlanFrame")
      .def(nb::init<const std::string&>())
      .def("rows", &PlanFrame::rows, nb::arg("replica"), nb::arg("keys"))
      .def("runs", &PlanFrame::runs, nb::arg("replica"), nb::arg("position"), nb::arg("keys"))
      .def("tile", &PlanFrame::tile, nb::arg("q"), nb::arg("k"), nb::arg("take"));
}

}  // namespace cplab
