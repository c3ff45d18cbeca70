// Fuzz target: the config of a model. One that the reader accepts is asked for its parameters.
#include <cstdint>
#include <string>

#include "cli/files/model_file.hpp"
#include "decide/model.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const cplab::Model model = cplab::parse_model(text, "config.json");
    (void)cplab::parameters(model, false);
    (void)cplab::prediction_parameters(model, true);
  } catch (const cplab::InputError&) {
  }
  return 0;
}
