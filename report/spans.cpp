// See spans.hpp.
#include "report/spans.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <initializer_list>
#include <map>
#include <utility>

#include "plan/plan.hpp"
#include "report/json_reader.hpp"

namespace cplab {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

bool has_any(const std::string& text, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(),
                     [&](std::string_view word) { return text.find(word) != std::string::npos; });
}

// Spans may overlap: streams run beside each other.
void sort_by_start(std::vector<TraceSpan>& spans) {
  std::stable_sort(spans.begin(), spans.end(),
                   [](const TraceSpan& a, const TraceSpan& b) { return a.start_s < b.start_s; });
}

// ---- Kineto ----------------------------------------------------------------------------------------

constexpr std::string_view step_name = "ProfilerStep";
constexpr double us = 1e-6;

// Kineto says it in args, and as the thread's number.
std::int64_t stream_of(const JsonNode& event) {
  if (event.has("args") && event.at("args").has("stream") && event.at("args").at("stream").is_integer())
    return event.at("args").at("stream").integer();
  return event.has("tid") && event.at("tid").is_integer() ? event.at("tid").integer() : 0;
}

SpanFile read_kineto(const std::string& text, const std::string& file_name) {
  const JsonDocument document(text, file_name);
  const JsonNode root = document.root();
  SpanFile file{file_name, "Kineto", -1, {}, {}};
  if (root.has("distributedInfo") && root.at("distributedInfo").has("rank"))
    file.rank = static_cast<int>(root.at("distributedInfo").at("rank").integer(0, 1 << 20));
  std::vector<TraceSpan> steps;
  const JsonNode events = root.at("traceEvents");
  for (std::size_t i = 0; i < events.size(); ++i) {
    const JsonNode event = events.at(i);
    if (!event.has("cat") || !event.has("dur")) continue;
    const std::string category = lower(event.at("cat").text());
    const bool step = category == "gpu_user_annotation" && event.at("name").text().starts_with(step_name);
    const bool runs = category == "kernel" || category == "gpu_memcpy" || category == "gpu_memset";
    if (!step && !runs) continue;
    const double start_s = event.at("ts").number() * us, seconds = event.at("dur").number() * us;
    if (!(seconds >= 0)) event.at("dur").fail("legal: microseconds from 0 on");
    TraceSpan span{event.at("name").text(), start_s, start_s + seconds, SpanClass::other};
    span.of = runs ? class_of_kernel(span.name) : SpanClass::other;
    span.stream = stream_of(event);
    (step ? steps : file.spans).push_back(std::move(span));
  }
  if (steps.empty()) return file;
  sort_by_start(steps);
  const TraceSpan& last = steps.back();
  std::erase_if(file.spans, [&](const TraceSpan& span) {
    return span.start_s < last.start_s || span.start_s >= last.end_s;
  });
  if (steps.size() > 1)
    file.notes.push_back(file_name + ": the last of " + std::to_string(steps.size()) + " steps, " +
                         last.name);
  return file;
}

// ---- nsys ------------------------------------------------------------------------------------------

// Whole numbers are text there, and names places in the list of the first line.
double number_of(const JsonNode& node, double most) {
  const double number = node.is_text() ? std::atof(node.text().c_str()) : node.number();
  if (!(number >= 0 && number <= most)) node.fail("legal: a number from 0 to " + std::to_string(most));
  return number;
}
constexpr double ns = 1e-9, most_ns = 1e19, most_devices = 1e6;

class NsysReader {
 public:
  explicit NsysReader(const std::string& file_name) : file_name_(file_name) {}

  void read_line(const std::string& line, std::size_t number) {
    const bool event = line.find("\"CudaEvent\"") != std::string::npos;
    if (!event && !(names_.empty() && line.find("\"data\"") != std::string::npos)) return;
    const JsonDocument document(line, file_name_ + ":" + std::to_string(number));
    const JsonNode root = document.root();
    if (!event) {
      const JsonNode data = root.at("data");
      if (!data.is_array()) return;
      for (std::size_t i = 0; i < data.size(); ++i) names_.push_back(data.at(i).text());
      return;
    }
    const JsonNode cuda = root.at("CudaEvent");
    const std::string name = name_of(cuda);
    if (name.empty()) return;
    TraceSpan span{name, number_of(cuda.at("startNs"), most_ns) * ns,
                   number_of(cuda.at("endNs"), most_ns) * ns, class_of_kernel(name)};
    if (span.end_s < span.start_s) cuda.at("endNs").fail("lies before startNs");
    if (cuda.has("streamId"))
      span.stream = static_cast<std::int64_t>(number_of(cuda.at("streamId"), most_ns));
    const int device =
        cuda.has("deviceId") ? static_cast<int>(number_of(cuda.at("deviceId"), most_devices)) : 0;
    by_device_[device].push_back(std::move(span));
  }

  SpanFile taken() {
    SpanFile file{file_name_, "nsys", -1, {}, {}};
    if (by_device_.empty()) return file;
    file.spans = std::move(by_device_.begin()->second);
    if (by_device_.size() > 1)
      file.notes.push_back(file_name_ + ": device " + std::to_string(by_device_.begin()->first) + " of " +
                           std::to_string(by_device_.size()));
    return file;
  }

 private:
  // Empty: nothing runs (a synchronization, an event).
  std::string name_of(const JsonNode& cuda) const {
    if (cuda.has("memset")) return "Memset";
    if (cuda.has("memcpy")) return "Memcpy";
    if (!cuda.has("kernel")) return {};
    const JsonNode kernel = cuda.at("kernel");
    const JsonNode which = kernel.at(kernel.has("demangledName") ? "demangledName" : "shortName");
    if (which.is_text() && which.text().find_first_not_of("0123456789") != std::string::npos)
      return which.text();
    const std::int64_t place = which.is_text() ? std::atoll(which.text().c_str()) : which.integer(0);
    if (place < 0 || static_cast<std::size_t>(place) >= names_.size())
      which.fail("is no place in the list of names, which the first line holds (\"data\")");
    return names_[static_cast<std::size_t>(place)];
  }

  std::string file_name_;
  std::vector<std::string> names_;
  std::map<int, std::vector<TraceSpan>> by_device_;
};

SpanFile read_nsys(const std::string& text, const std::string& file_name) {
  NsysReader reader(file_name);
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size(); ++number) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    reader.read_line(text.substr(begin, end - begin), number + 1);
    begin = end + 1;
  }
  return reader.taken();
}

bool is_kineto(const std::string& text) {
  return text.find("\"traceEvents\"") != std::string::npos;
}

}  // namespace

std::string_view name(SpanClass of) {
  constexpr std::array names{"attend",     "attend_backward", "element-wise", "send/receive",
                             "all_gather", "reduce_scatter",  "all_reduce",   "other"};
  return names[static_cast<std::size_t>(of)];
}

// The names of FlashAttention 2 to 4, of cuDNN's and PyTorch's attention, of NCCL, of PyTorch's and Triton's
// element-wise kernels. What prepares and rounds a backward has names of attention and is element-wise.
SpanClass class_of_kernel(std::string_view kernel) {
  const std::string text = lower(kernel);
  if (has_any(text, {"nccl"})) {
    if (has_any(text, {"allgather"})) return SpanClass::all_gather;
    if (has_any(text, {"reducescatter"})) return SpanClass::reduce_scatter;
    if (has_any(text, {"allreduce"})) return SpanClass::all_reduce;
    if (has_any(text, {"sendrecv", "alltoall"})) return SpanClass::send_receive;
    return SpanClass::other;
  }
  if (has_any(text, {"memcpy ptop", "memcpy p2p"})) return SpanClass::send_receive;
  const bool attention = has_any(text, {"flash", "fmha", "sdpa", "attn", "attention"});
  if (attention && has_any(text, {"dot_do_o", "preprocess", "convert_d", "postprocess", "combine"}))
    return SpanClass::elementwise;
  if (attention && has_any(text, {"bwd", "bprop", "backward"})) return SpanClass::attend_backward;
  if (attention) return SpanClass::attend;
  if (has_any(text, {"elementwise", "memcpy", "memset", "triton_poi", "triton_per", "triton_red", "catarray",
                     "copy_kernel", "reduce_kernel", "fill_kernel", "index_select", "gather_kernel"}))
    return SpanClass::elementwise;
  return class_of_operation(kernel);  // a trace of ours
}

bool communicates(const TraceSpan& span) {
  const bool class_moves = span.of == SpanClass::send_receive || span.of == SpanClass::all_gather ||
                           span.of == SpanClass::reduce_scatter || span.of == SpanClass::all_reduce;
  return class_moves || has_any(lower(span.name), {"nccl"});
}

SpanClass class_of_operation(std::string_view kind) {
  const auto is = [&](OpKind of) { return kind == cplab::name(of); };
  if (is(OpKind::attend)) return SpanClass::attend;
  if (is(OpKind::attend_backward)) return SpanClass::attend_backward;
  if (is(OpKind::exchange) || is(OpKind::all_to_all)) return SpanClass::send_receive;
  if (is(OpKind::all_gather)) return SpanClass::all_gather;
  if (is(OpKind::reduce_scatter)) return SpanClass::reduce_scatter;
  if (is(OpKind::all_reduce)) return SpanClass::all_reduce;
  for (const OpKind each :
       {OpKind::row_dot, OpKind::sink_gradient, OpKind::merge, OpKind::copy, OpKind::cast, OpKind::add,
        OpKind::maximum, OpKind::fill, OpKind::convolve, OpKind::filter_gradient})
    if (is(each)) return SpanClass::elementwise;
  return SpanClass::other;
}

bool is_span_file(const std::string& text) {
  return is_kineto(text) || text.find("\"CudaEvent\"") != std::string::npos;
}

SpanFile read_spans(const std::string& text, const std::string& file_name) {
  SpanFile file = is_kineto(text) ? read_kineto(text, file_name) : read_nsys(text, file_name);
  if (file.spans.empty())
    throw JsonFileError(file_name + ": nothing in it ran on a GPU: " +
                        (file.tool == "nsys" ? "no CudaEvent is a kernel, a copy or a fill"
                                             : "no event is of cat kernel, gpu_memcpy or gpu_memset"));
  sort_by_start(file.spans);
  return file;
}

}  // namespace cplab
