// Sections of q (kernels/work/dq_sections.hpp): which rows belong together, in which order, and how their
// work is divided between the launch before and a warp beside tiles.
#include <doctest/doctest.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/work/dq_sections.hpp"
#include "kernels/work/measured_constants.hpp"
#include "kernels/work/predicted_time.hpp"
#include "kernels/work/turns.hpp"
#include "kernels/work/variants.hpp"
#include "tests/kernels/backward_names.hpp"
#include "tests/kernels/chosen_variant.hpp"

namespace cplab::testing {
namespace {

using namespace kernels;
using namespace kernels::cuda;

// Tiles of 128 keys, each with one segment [q_begin, q_end) that all of its keys see.
WorkTables tiles_over(const std::vector<RowRange>& queries) {
  WorkTables by_k;
  for (std::size_t n = 0; n < queries.size(); ++n) {
    const auto begin = static_cast<std::int32_t>(128 * n), at = static_cast<std::int32_t>(n);
    by_k.tiles.push_back({begin, begin + 128, at, 1});
    by_k.segments.push_back({static_cast<std::int32_t>(queries[n].begin),
                             static_cast<std::int32_t>(queries[n].end), begin, begin + 128, -unbounded,
                             unbounded});
  }
  return by_k;
}

void check_parts(const DqSections& sections, std::int64_t rows, std::int32_t part_rows) {
  std::vector<int> times(static_cast<std::size_t>(rows), 0);
  for (std::size_t n = 0; n < sections.all.size(); ++n) {
    const DqSection& section = sections.all[n];
    for (std::int32_t p = section.first_part; p < section.first_part + section.parts; ++p) {
      const DqPart& part = sections.parts[static_cast<std::size_t>(p)];
      CHECK(part.section == static_cast<std::int32_t>(n));
      CHECK(part.end > part.begin);
      CHECK(part.end - part.begin <= part_rows);
      for (std::int32_t row = part.begin; row < part.end; ++row) ++times[static_cast<std::size_t>(row)];
    }
  }
  CHECK(times == std::vector<int>(static_cast<std::size_t>(rows), 1));
}

}  // namespace

// Rows 0..99 and 128..299, each seen by two tiles, and 320..399 by one, which the list has first. Rows
// between belong to the section before, those behind the last one to the last one.
TEST_CASE("sections of q: rows that tiles share, in the order of the list") {
  const WorkTables by_k = tiles_over({{320, 400}, {130, 256}, {0, 64}, {200, 300}, {32, 100}});
  const DqSections sections = dq_sections(by_k, 420, 64);
  REQUIRE(sections.all.size() == 3);
  CHECK(sections.of_tile == std::vector<std::int32_t>{0, 1, 2, 1, 2});
  CHECK(sections.all[0].tiles == 1);
  CHECK(sections.all[1].tiles == 2);
  CHECK(sections.all[2].tiles == 2);
  CHECK(sections.parts[0].begin == 320);
  CHECK(sections.parts[static_cast<std::size_t>(sections.all[1].first_part)].begin == 130);
  CHECK(sections.parts.back().end == 130);
  check_parts(sections, 420, 64);
}

TEST_CASE("sections of q: none without tiles, one where tiles overlap in turn") {
  CHECK(dq_sections({}, 100, 64).all.empty());
  const DqSections sections = dq_sections(tiles_over({{0, 96}, {64, 160}, {128, 256}}), 256, 64);
  CHECK(sections.all.size() == 1);
  check_parts(sections, 256, 64);
}

namespace {

// The fused kernel's list of a call that computes delta and rounds dq, and how its work is divided on 132
// multiprocessors.
struct Scheduled {
  explicit Scheduled(const Call& shape, std::optional<bool> asked = {}) : segments(shape.segments()) {
    call = rounding(shape, segments);
    call.out = call.dout;
    VariantOptions only = on_hopper;
    only.only = shape.D == 64 ? "attend_backward hopper fused bf16 64" : fused_kernel;
    only.works_beside = asked;
    chosen = choose_variant(call, only);
    sections = dq_sections(chosen.by_k, call.q.rows, dq_part_rows(call.q.width));
    schedule = beside_schedule(chosen, call, sections, only.sms);
    hidden_s = hidden_seconds(chosen, call, only);
  }
  bool beside() const { return works_beside_tiles(chosen, call); }

  std::vector<Segment> segments;
  AttendBackward call;
  ChosenBackward chosen;
  DqSections sections;
  BesideSchedule schedule;
  double hidden_s = 0;
};

}  // namespace

// 32 tiles a head, two heads side by side, 64 parts a head. The first 118 tiles (0.9 of 132) are those of the
// first two groups. Of 8 groups of 64 tiles 5 are drawn before the last 132 of 512 tiles.
TEST_CASE("beside tiles: what the launch before prepares, and what is rounded before the launch ends") {
  const Scheduled full({.S = 4096, .causal = false});
  CHECK(full.beside());
  CHECK(full.schedule.heads_together == 2);
  CHECK(full.schedule.heads == 4);
  CHECK(full.schedule.sections == 1);
  CHECK(full.schedule.rows == 4096);
  CHECK(full.schedule.parts == 64);
  CHECK(full.schedule.rounded_parts == 5 * 2 * 64);
  // 12 of 16 heads are prepared beside, and 10 rounded: bf16 out and dout, fp32 zeros; sums and what they
  // become.
  const double bytes = 4096.0 * 128 * (12 * (2 + 2 + 4) + 10 * (4 + 2));
  CHECK(full.hidden_s == doctest::Approx(measured("beside_hidden") * bytes / measured("rowwise_memory")));
}

// Eight sequences, each a section of 16 tiles a head and 32 parts; 8 heads side by side. The first 118 tiles
// are of the first sequence. The last group ends with two sequences that are mixed (chosen.by_k.ending): of
// 2048 tiles those from 1916 on end the launch, in the second group of heads from place 111 on.
TEST_CASE("beside tiles: sequences are prepared and rounded one after the other") {
  const Scheduled batch({.S = 2048, .B = 8});
  CHECK(batch.beside());
  REQUIRE(batch.sections.all.size() == 8);
  CHECK(batch.schedule.heads_together == 8);
  CHECK(batch.schedule.heads == 8);
  CHECK(batch.schedule.sections == 1);
  CHECK(batch.schedule.rows == 2048);
  CHECK(batch.schedule.parts == 32);
  CHECK(batch.schedule.rounded_parts == 8 * (8 + 6) * 32);
}

TEST_CASE("beside tiles: not where there are few, or sequences are short, or another launch needs delta") {
  CHECK_FALSE(Scheduled({.S = 2048}).beside());  // 256 tiles, of unequal length
  CHECK(Scheduled({.S = 2048, .causal = false}).beside());
  CHECK_FALSE(Scheduled({.S = 1024, .causal = false}).beside());
  CHECK_FALSE(Scheduled({.S = 512, .B = 32}).beside());
  CHECK(Scheduled({.S = 512, .B = 32}, true).beside());
  const Scheduled not_asked({.S = 4096}, false);
  CHECK_FALSE(not_asked.beside());
  CHECK(not_asked.hidden_s == 0);
  // Sums of dk and dv that TMA cannot add: a thread block has all query heads of a key head.
  Scheduled grouped({.S = 4096, .G = 4}, true);
  grouped.call.dk = grouped.call.dv = Call{.S = 4096}.view(4, 128, dtype_of_sums);
  CHECK(grouped.beside());
  grouped.call.dv.row_stride += 1;
  CHECK_FALSE(grouped.beside());
  Scheduled without({.S = 4096});
  CHECK(without.beside());
  without.call.out.reset();
  CHECK_FALSE(without.beside());
}

}  // namespace cplab::testing
