// A result of ours beside a trace of another program: spans matched by class, then by order.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "report/compare.hpp"
#include "report/spans.hpp"

namespace cplab {

struct SpanComparison {
  // Spans of a class: how many there are on each side, and the seconds of those that are matched.
  struct Class {
    SpanClass of = SpanClass::other;
    std::int64_t ours = 0, theirs = 0, matched = 0;
    double predicted_s = 0, measured_s = 0;
    double error = 0;       // predicted / measured - 1; NaN where nothing is matched
    double absolute_s = 0;  // the differences without their signs, summed
  };
  struct Pair {
    SpanClass of = SpanClass::other;
    std::string id, name;  // of our operation; of their kernel
    double predicted_s = 0, wait_s = 0, measured_s = 0;
  };
  struct Unmatched {
    bool ours = false;
    SpanClass of = SpanClass::other;
    std::string name;  // of theirs the kernel; of ours the kind
    std::int64_t count = 0;
    double seconds = 0;
  };
  // Time in which something of a sort is under way, whatever else is: "compute", "communication" (waiting for
  // peers included, which a kernel of NCCL does too), "exposed_communication" (of it what is beside no
  // computation), "total" (first start to last end).
  struct Segment {
    std::string name;
    double predicted_s = 0, measured_s = 0, error = 0;
  };
  // What one stream of theirs ran.
  struct Stream {
    std::int64_t number = 0, spans = 0;
    double compute_s = 0, communication_s = 0;
  };
  Versions versions;
  Scenario scenario;
  CompareSide predicted;
  std::string file, tool;
  int rank = 0;  // ours, which was compared
  // From the first span to the last end; and of that the null model, attention and element-wise alone.
  double predicted_s = 0, measured_s = 0, error = 0, compute_alone_s = 0, compute_alone_error = 0;
  std::vector<Segment> segments;
  std::vector<Stream> streams;
  std::vector<Class> classes;        // those that either side has, in the order of SpanClass
  std::vector<Pair> pairs;           // in the order of the trace
  std::vector<Unmatched> unmatched;  // the longest first
  std::vector<std::string> notes;
};

// The n-th span of a class with the n-th operation of that class of the trace's rank (0 where the trace does
// not say one). Throws JsonFileError if the result has no operations, or not that rank.
SpanComparison compare_spans(const ResultFile& result, const SpanFile& trace);

// Schema cplab.spans.1.
void write_json(std::ostream& out, const SpanComparison& comparison);

}  // namespace cplab
