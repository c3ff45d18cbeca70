// Plans written by hand, operation by operation, for tests that must not lean on the builder.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "plan/plan.hpp"

namespace cplab::hand {

// One rank under construction. Buffers lie one after the other in the arena unless told otherwise.
class Rank {
 public:
  Rank(Plan& plan, int rank);

  // Sets bytes and offset (the next free one if `at` < 0) and returns the buffer's index.
  std::uint32_t buffer(Buffer buffer, std::int64_t at = -1);
  // Any box; `ranges` empty: all rows.
  std::uint32_t view(std::uint32_t buffer, const std::vector<RowRange>& ranges = {}, int slot_begin = 0,
                     int slot_end = -1, int head_begin = 0, int head_end = -1, int width_begin = 0,
                     int width_end = -1);
  // Appends an operation and returns its index. Access modes: reads store, writes as given.
  std::uint32_t operation(OpKind kind, Lane lane, const std::vector<std::uint32_t>& read_views,
                          const std::vector<Access>& writes, const std::vector<std::uint32_t>& after = {},
                          double value = 0);
  std::uint32_t communication(OpKind kind, Lane lane, const std::vector<Part>& parts,
                              const std::vector<std::uint32_t>& after = {});
  void segments(std::uint32_t operation, const std::vector<Segment>& segments);

  RankPlan& plan() { return plan_.ranks[index_]; }

 private:
  Plan& plan_;
  std::size_t index_;
};

// A plan of `ranks` ranks in one group, fp64 unless told otherwise, without operations.
Plan empty_plan(int ranks, DType dtype = DType::fp64);

inline constexpr Lane compute0{LaneKind::compute, 0};
inline constexpr Lane compute1{LaneKind::compute, 1};
inline constexpr Lane comm0{LaneKind::comm, 0};

// A buffer [1, rows, 1, 1] of doubles (role nominal of an fp64 problem).
Buffer column(const std::string& name, std::int64_t rows, Category category = Category::working);

}  // namespace cplab::hand
