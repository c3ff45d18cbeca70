// Any bytes as a trace of another program: read, with ends that are not before starts, or refused.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "report/json_reader.hpp"
#include "report/spans.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    double start_s = -1e300;
    for (const cplab::TraceSpan& span : cplab::read_spans(text, "trace.json").spans) {
      if (!(span.start_s >= start_s && span.end_s >= span.start_s)) std::abort();
      start_s = span.start_s;
    }
  } catch (const cplab::JsonFileError&) {
  }
  return 0;
}
