// A new empty folder for the files of a test; it goes with all that is in it.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>

namespace cplab::testing {

struct EmptyFolder {
  EmptyFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "cplab_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path = name;
  }
  ~EmptyFolder() {
    std::error_code error;
    std::filesystem::remove_all(path, error);
  }
  EmptyFolder(const EmptyFolder&) = delete;
  EmptyFolder& operator=(const EmptyFolder&) = delete;

  std::filesystem::path path;
};

}  // namespace cplab::testing
