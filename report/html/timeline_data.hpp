// What the timeline of a page draws (report/html/timeline.js reads it): rows of boxes on lanes, memory over
// time, the chain that determines the end. Encoded in few bytes; what does not fit is left out, and said.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "derive/memory.hpp"
#include "plan/plan.hpp"
#include "report/chain.hpp"
#include "report/figures.hpp"
#include "report/timeline.hpp"

namespace cplab {

// How a box is coloured.
enum class BoxUse : std::uint8_t { attention, kernel, communication, host };
BoxUse use_of(OpKind);

// One operation, or whatever else has a start and an end. The texts outlive the drawing.
struct TimelineBox {
  std::string lane;  // "compute 0"
  std::string_view kind, variant, phase, origin;
  BoxUse use = BoxUse::kernel;
  std::uint32_t ordinal = 0, step = 0;  // its id is RANK/PHASE/ORDINAL where it has a phase
  double start_s = 0, end_s = 0, wait_s = 0;
  std::int64_t bytes = 0;
  double flops = 0;
};

struct MemoryChange {
  double time_s = 0;
  Category category = Category::working;
  std::int64_t bytes = 0;
};

struct TimelineRow {
  std::string label;  // "rank 3, worst"
  int rank = 0;
  std::size_t side = 0;              // of TimelineDrawing::sides
  bool open = false;                 // lane by lane from the start; else a thin row until it is clicked
  std::vector<TimelineBox> boxes;    // in the order of the plan
  std::vector<MemoryChange> memory;  // in order of time; empty: not known
};

struct TimelineDrawing {
  std::vector<std::string> sides{""};  // "predicted", "measured"
  std::size_t row_count = 0;
  std::function<bool(std::size_t)> is_open;          // of a row
  std::function<TimelineRow(std::size_t)> make_row;  // called when needed, perhaps twice
  std::span<const ChainStep> chain;                  // of side 0; operation: the place in boxes
  std::string no_chain;                              // why there is none
  bool steps = true;                                 // boxes have steps
  std::string words;                                 // what else is said beneath
  std::size_t most_rows = 256;                       // that are drawn one by one
  std::size_t most_bytes = 700'000;                  // of what is encoded
};

struct EncodedTimeline {
  std::string json;                   // one object, safe inside a script element
  std::vector<std::string> left_out;  // a sentence each
  std::size_t boxes = 0, rows = 0;    // that are encoded
};
EncodedTimeline encode(const TimelineDrawing&);

// The rows of one plan under a clock.
TimelineRow timeline_row(const Plan&, const Timeline&, const MemoryPlan&, std::size_t rank);

// "</" and "<!--" must not end a script element: every < becomes \u003c, which JSON reads as <.
std::string safe_in_script(std::string_view json);

}  // namespace cplab
