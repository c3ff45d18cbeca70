// What random mutations of a plan (mutations.hpp) are made of; only the sources that define them include
// this.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "derive/edits.hpp"
#include "plan/plan.hpp"

namespace cplab::hand {

class Mutation {
 public:
  Mutation(Plan& plan, std::uint64_t seed) : plan_(plan), state_(seed * 0x9E3779B97F4A7C15u + 99) {}

  // What was done, or nothing if the choice does not fit the plan.
  std::string apply();

 private:
  std::size_t below(std::size_t n) {  // splitmix64: the same numbers everywhere
    state_ += 0x9E3779B97F4A7C15u;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return static_cast<std::size_t>((z ^ (z >> 31)) % n);
  }
  Operation& op() { return rank_->operations[at_]; }
  std::string said(const std::string& what) { return operation_id(*rank_, op()) + ": " + what; }
  // The views of an operation: reads, writes, parts.
  std::size_t operands() { return op().reads.count + op().writes.count + op().parts.count; }
  std::uint32_t view_of(std::size_t which) {
    if (which < op().reads.count) return rank_->accesses[op().reads.first + which].view;
    which -= op().reads.count;
    if (which < op().writes.count) return rank_->accesses[op().writes.first + which].view;
    return rank_->parts[op().parts.first + which - op().writes.count].view;
  }
  // Reads and writes only.
  Operand operand_of(std::size_t which) {
    return rank_
        ->accesses[which < op().reads.count ? op().reads.first + which
                                            : op().writes.first + which - op().reads.count]
        .operand;
  }
  void set_view(std::size_t which, const View& view) {
    const std::uint32_t index = add_view(*rank_, view);
    if (which >= op().reads.count + op().writes.count) {
      auto list = std::vector<Part>(rank_->parts_of(op()).begin(), rank_->parts_of(op()).end());
      list[which - op().reads.count - op().writes.count].view = index;
      op().parts = add_parts(*rank_, list);
      return;
    }
    Span& span = which < op().reads.count ? op().reads : op().writes;
    auto list = std::vector<Access>(RankPlan::slice(rank_->accesses, span).begin(),
                                    RankPlan::slice(rank_->accesses, span).end());
    list[which < op().reads.count ? which : which - op().reads.count].view = index;
    span = add_accesses(*rank_, list);
  }
  // Changes one operand, or (one time in four) all operands of the operation in the same way.
  template <class Change>
  std::string change_views(const char* what, Change change) {
    if (operands() == 0) return {};
    const bool all = below(4) == 0;
    const std::size_t chosen = below(operands()), n = operands();
    bool done = false;
    for (std::size_t which = 0; which < n; ++which) {
      if (!all && which != chosen) continue;
      View view = rank_->views[view_of(which)];
      if (!change(view)) continue;
      set_view(which, view);
      done = true;
    }
    return done ? said(what) : std::string();
  }
  std::vector<RowRange> ranges_of(const View& v) const {
    return {rank_->rows_of(v).begin(), rank_->rows_of(v).end()};
  }
  // An interval within [0, size): narrowed, moved or grown.
  bool interval(std::int32_t& begin, std::int32_t& end, std::int64_t size, std::size_t how, std::int32_t by) {
    std::int32_t b = begin, e = end;
    if (how == 0) e -= by;
    if (how == 1) b += by;
    if (how == 2) b += by, e += by;
    if (how == 3) b -= by, e -= by;
    if (how == 4) e += by;
    if (how == 5) b = b + (e - b) / 2;
    if (how == 6) e = b + (e - b) / 2;
    if (b < 0 || e > size || b >= e || (b == begin && e == end)) return false;
    begin = b, end = e;
    return true;
  }

  // mutations.cpp
  std::string drop_edge();
  std::string start_edge();
  std::string swap_neighbours();
  std::string collective();
  std::string group();
  std::string lane();
  std::string mode();
  std::string segment();
  std::string chunk();
  std::string buffer();
  std::string slab();
  std::string repeat_operation();
  std::string remove();
  std::string part();
  std::string value();

  // kind_mutations.cpp
  std::string empty_view();
  std::string buffer_name();
  std::string scenario_key();
  std::string round_trip();
  std::string spelling();

  // view_mutations.cpp
  std::string width();
  std::string heads_or_slots();
  std::string rows();
  std::string repeat_rows();
  std::string stride();
  std::string reroute();
  std::string both_ends();
  std::string tile_heads();
  std::string split_tile();

  Plan& plan_;
  RankPlan* rank_ = nullptr;
  std::size_t at_ = 0;
  std::uint64_t state_;
};

}  // namespace cplab::hand
