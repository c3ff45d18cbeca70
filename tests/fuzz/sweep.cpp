// Fuzz target: a study, and a line of the JSON lines that a sweep goes on from.
#include "report/sweep.hpp"

#include <cstdint>
#include <string>

#include "cli/sweep/study.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

void read_as_study(const std::string& text) {
  const cplab::Study study = cplab::parse_study(text, "study.toml");
  constexpr std::size_t most_points = 1000;  // more only take longer
  std::size_t points = 1;
  for (const cplab::StudyAxis& axis : study.axes) {
    points *= axis.rows.size();
    if (points > most_points) return;
  }
  const cplab::StudyPoints all(study, {});
  for (std::int64_t number = 0; number < all.size(); ++number) (void)all.changes(number);
  if (all.size() > 0) (void)study.read(all.changes(0));
}

void read_as_line(const std::string& text) {
  const cplab::JsonDocument document(text, "line");
  const cplab::JsonNode line = document.root();
  if (line.has("schema"))
    (void)cplab::line_of(cplab::read_sweep_header(line));
  else if (cplab::is_refusal(line))
    (void)cplab::line_of(cplab::read_sweep_refusal(line));
  else
    (void)cplab::line_of(cplab::read_sweep_point(line));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    if (text.starts_with("{"))
      read_as_line(text);
    else
      read_as_study(text);
  } catch (const cplab::InputError&) {
  } catch (const cplab::JsonFileError&) {
  }
  return 0;
}
