// The one home for writing a file that the user names: it appears whole or not at all.
//
// What is written goes to a temporary file in the same folder (.cplab-PID-N.tmp), which takes the name when
// it is complete and on the disk. A run that fails, is interrupted or finds the disk full leaves the file
// that was there before as it was, and nothing beside it (after SIGKILL or a power cut: perhaps the temporary
// file). The file keeps its permissions, and a symbolic link stays one: the file it names is replaced.
// Devices, pipes and descriptors (/dev/null, /dev/fd/3, a FIFO) cannot be replaced and are written as they
// are.
#pragma once

#include <list>
#include <memory>
#include <ostream>
#include <stdexcept>
#include <string>

#include "report/descriptor_buffer.hpp"
#include "report/leftovers.hpp"

namespace cplab {

// It could not be written: "PATH: cannot be written: No space left on device". Exit code 3.
struct OutputError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Whether there can be a file, or files in a folder that is made if it is missing. Tried by making a
// temporary file and removing it. Throws std::runtime_error ("PATH: cannot be written: there is no folder
// ..."). Of a file: where it will lie, links followed; "" if it is written as it is.
std::string try_output_file(const std::string& path);
void try_output_folder(const std::string& path);

// Makes it and its parents. Throws OutputError.
void make_output_folder(const std::string& path);

class OutputFile {
 public:
  // `durable`: on the disk before it takes its name, so that a power cut cannot leave it empty.
  explicit OutputFile(const std::string& path, bool durable = true);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  std::ostream& stream() { return stream_; }
  // All is written, though not under its name yet. Does nothing the second time. Throws OutputError.
  void finish();
  // Gives the file its name. Throws OutputError.
  void commit();

 private:
  [[noreturn]] void fail(int error) const;

  std::string path_;       // as the user said it
  std::string place_;      // where it will lie; empty: written as it is
  std::string temporary_;  // until it has its name
  Leftover leftover_;
  bool durable_;
  int descriptor_ = -1;
  std::unique_ptr<DescriptorBuffer> buffer_;
  std::ostream stream_{nullptr};
};

// Files that belong together: all are complete before the first takes its name. Only a rename that fails, or
// a SIGKILL or power cut between two of them, leaves some new and some old.
class OutputSet {
 public:
  explicit OutputSet(bool durable = true) : durable_(durable) {}
  // The next file; the one before is finished. Throws OutputError.
  std::ostream& open(const std::string& path);
  void commit();

 private:
  bool durable_;
  std::list<OutputFile> files_;
};

}  // namespace cplab
