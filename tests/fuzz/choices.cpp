// Any bytes as a cache of measured choices: it is read, judged, and sent to other processes, or refused.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "cli/files/choices_file.hpp"
#include "cli/files/toml_table.hpp"
#include "report/json_reader.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const cplab::ChoicesFile file =
        cplab::parse_choices(std::string(reinterpret_cast<const char*>(data), size), "choices.json");
    (void)cplab::contradictions(file);
    const auto choices = file.choices();
    if (cplab::kernels::cuda::MeasuredChoices::from_text(choices.text()).all() != choices.all()) std::abort();
  } catch (const cplab::JsonFileError&) {
  } catch (const cplab::InputError&) {
  }
  return 0;
}
