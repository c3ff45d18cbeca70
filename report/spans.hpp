// What ran on a GPU, as another program's profiler wrote it: a Chrome trace of PyTorch's profiler (Kineto),
// or the lines of JSON that `nsys export --type jsonlines` writes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cplab {

// What spans of different programs are matched by. Kernels of other kinds (products of matrices, ...) are
// `other`, which nothing is matched with.
enum class SpanClass : std::uint8_t {
  attend,
  attend_backward,
  elementwise,  // merge, copy, cast, add, fill, row_dot: whatever goes over its operands once
  send_receive,
  all_gather,
  reduce_scatter,
  all_reduce,
  other,
};
std::string_view name(SpanClass);  // "attend", "element-wise", "send/receive", ...

struct TraceSpan {
  std::string name;  // of the kernel, or "Memcpy DtoD"
  double start_s = 0, end_s = 0;
  SpanClass of = SpanClass::other;
  std::int64_t stream = 0;  // of the GPU; 0 where the file does not say
};

struct SpanFile {
  std::string file, tool;  // "Kineto", "nsys"
  int rank = -1;           // -1: it does not say
  std::vector<TraceSpan> spans;
  std::vector<std::string> notes;  // what was left out, a sentence each
};

// The class of a kernel by its name, which frameworks and libraries choose.
SpanClass class_of_kernel(std::string_view kernel);
// Whether a span moves data between GPUs: those classes, and whatever else of NCCL's.
bool communicates(const TraceSpan&);
// The class of one of our operations by its kind; `other`: no other program has such a thing.
SpanClass class_of_operation(std::string_view kind);

// Whether the text looks like either of the two.
bool is_span_file(const std::string& text);
// Kernels, copies and fills in order of their start; of Kineto's steps (ProfilerStep on the GPU) the last,
// of several devices the first. Throws JsonFileError, also if nothing ran on a GPU.
SpanFile read_spans(const std::string& text, const std::string& file_name);

}  // namespace cplab
