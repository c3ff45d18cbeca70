// Runs a fuzz target over files, for compilers without libFuzzer: every file of the folders that are named,
// and files that are named themselves. Ends like a fuzzer: a target that does not return takes the program
// with it.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int main(int argc, char** argv) {
  namespace fs = std::filesystem;
  std::vector<fs::path> files;
  for (int i = 1; i < argc; ++i) {
    if (fs::is_directory(argv[i])) {
      for (const auto& entry : fs::directory_iterator(argv[i])) files.push_back(entry.path());
    } else {
      files.emplace_back(argv[i]);
    }
  }
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) {
    std::ifstream in(file, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    if (!in.is_open()) {
      std::cerr << file.string() << ": cannot be read\n";
      return 2;
    }
    std::cerr << file.filename().string() << '\n';  // the last name printed is the one that fails
    const std::vector<std::uint8_t> bytes(text.begin(), text.end());  // its own block: reads beyond it show
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
  std::cout << files.size() << " inputs\n";
  return files.empty() ? 2 : 0;  // a corpus that is not there is no test
}
