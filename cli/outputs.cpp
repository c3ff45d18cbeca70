// Which options write where; see outputs.hpp.
#include "cli/outputs.hpp"

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "cli/files/toml_table.hpp"
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
  std::vector<std::string> files{"json", "csv", "html"}, folders;
  for (const TimelineOutput& output : timeline_outputs()) {
    const std::filesystem::path place = arguments.text(output.option, "");
    const bool as_file = output.place == TimelineOutput::Place::file ||
                         (output.place == TimelineOutput::Place::file_or_folder &&
                          place.extension() == ".json" && !std::filesystem::is_directory(place));
    (as_file ? files : folders).emplace_back(output.option);
  }
  folders.emplace_back("save");
  for (const std::string& option : files) {
    if (!arguments.has(option)) continue;
    const std::string file = arguments.text(option, "");
    if (option == "html" && (file.empty() || is_stdout(file)))
      throw InputError("--html: needs the name of a file");
    try {
      const bool may_be_stdout = option == "json" || option == "csv";
      if (!may_be_stdout || !is_stdout(file)) try_one(option, file, places);
    } catch (const InputError&) {
      throw;
    } catch (const std::runtime_error& error) {
      throw EnvironmentError("--" + option + " " + error.what());
    }
  }
  for (const std::string& option : folders) {
    if (!arguments.has(option)) continue;
    const std::string folder = arguments.text(option, "");
    if (folder.empty()) throw InputError("--" + option + ": needs the name of a folder");
    try {
      try_output_folder(folder);
      if (option != "save" || !std::filesystem::exists(folder)) continue;
      std::set<std::string> saved;  // a tensor in two forms has one file
      for (const ProblemTensor& tensor : tensor_table())
        if (tensor.category == Category::output) saved.insert(npy_file(tensor.name));
      for (const std::string& file : saved)
        try_one(option, (std::filesystem::path(folder) / file).string(), places);
    } catch (const InputError&) {
      throw;
    } catch (const std::runtime_error& error) {
      throw EnvironmentError("--" + option + " " + error.what());
    }
  }
}

void write_timeline_outputs(const Arguments& arguments, Console& console, const TimelineResult& result) {
  for (const TimelineOutput& output : timeline_outputs())
    if (arguments.has(output.option)) console.say(output.write(arguments.text(output.option, ""), result));
}

void write_page_output(const Arguments& arguments, Console& console,
                       const std::function<void(std::ostream&)>& write) {
  if (!arguments.has("html")) return;
  const std::string path = arguments.text("html", "");
  OutputFile file(path);
  write(file.stream());
  file.commit();
  console.say("a page in " + path);
}

}  // namespace cplab
