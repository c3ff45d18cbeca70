// Which options write where; see outputs.hpp.
#include "cli/outputs.hpp"

#include <filesystem>
#include <map>

#include "cli/toml_table.hpp"
#include "cli/verify/tensors.hpp"
#include "exec/processes/launch.hpp"
#include "report/output_file.hpp"

namespace cplab {

namespace {

// Of several processes only rank 0 writes; where the others run there need be no such folder.
bool writes() {
  try {
    return discover_launch().rank == 0;
  } catch (const LaunchError&) {
    return true;  // the command will say so if it matters
  }
}

void try_one(const std::string& option, const std::string& file, std::map<std::string, std::string>& places) {
  const std::string place = try_output_file(file);
  if (place.empty()) return;
  const auto [other, fresh] =
      places.emplace(std::filesystem::path(place).lexically_normal().string(), option);
  if (!fresh) throw InputError("--" + option + " " + file + ": --" + other->second + " writes to that file");
}

}  // namespace

bool is_stdout(const std::string& file) {
  return file == "-" || file == "/dev/stdout" || file == "/dev/fd/1" || file == "/proc/self/fd/1";
}

void try_outputs(const Arguments& arguments) {
  if (!writes()) return;
  std::map<std::string, std::string> places;  // option by file
  for (const std::string option : {"json", "csv", "html"}) {
    if (!arguments.has(option)) continue;
    const std::string file = arguments.text(option, "");
    try {
      if (!is_stdout(file)) try_one(option, file, places);
    } catch (const InputError&) {
      throw;
    } catch (const std::runtime_error& error) {
      throw InputError("--" + option + " " + error.what());
    }
  }
  for (const std::string option : {"trace", "save"}) {
    if (!arguments.has(option)) continue;
    const std::string folder = arguments.text(option, "");
    if (folder.empty()) throw InputError("--" + option + ": needs the name of a folder");
    try {
      try_output_folder(folder);
      if (option != "save" || !std::filesystem::exists(folder)) continue;
      for (const ProblemTensor& tensor : tensor_table())
        if (tensor.category == Category::output)
          try_one(option, (std::filesystem::path(folder) / npy_file(tensor.name)).string(), places);
    } catch (const InputError&) {
      throw;
    } catch (const std::runtime_error& error) {
      throw InputError("--" + option + " " + error.what());
    }
  }
}

}  // namespace cplab
