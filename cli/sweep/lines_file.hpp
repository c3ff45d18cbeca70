// The file of JSON lines that a sweep writes while it goes: a header, then a line for each point in the order
// in which they end. What is there already is taken over; at the end the lines stand in the study's order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/sweep.hpp"

namespace cplab {

struct SweepLines {
  SweepHeader header;
  std::vector<SweepPoint> points;     // in the order of the file
  std::vector<SweepRefusal> refused;
  bool has_header = false;  // else the file is empty, or its header is torn
  std::string torn;         // the last line, if it has no end
  std::size_t whole_bytes = 0;  // of all lines before it
};

// Reads such a file. A point that is there twice is there twice in the result. Throws JsonFileError, with the
// line, for one that is none of these lines, and for a number beyond the study's.
SweepLines read_sweep_lines(const std::string& path);

class LinesFile {
 public:
  // No file: nothing is written, nothing was there.
  LinesFile() = default;
  // Takes over what the file holds of this very study, versions and shard. Points that this machine had too
  // little memory for, or where the program failed, are to be done again and not taken over. A torn last line
  // is cut off, with a note. Throws InputError for a file of anything else, saying what differs, or one that
  // cannot be written; JsonFileError; EnvironmentError if another process writes it.
  LinesFile(std::string path, const SweepHeader&, std::vector<std::string>& notes);
  ~LinesFile();
  LinesFile(const LinesFile&) = delete;
  LinesFile& operator=(const LinesFile&) = delete;
  LinesFile(LinesFile&& other) noexcept;
  LinesFile& operator=(LinesFile&&) = delete;

  std::vector<SweepPoint> points;     // taken over
  std::vector<SweepRefusal> refused;  // the same
  const std::string& path() const { return path_; }

  // Each line is in the file when this returns. Throws OutputError.
  void add(const std::string& line);
  // The whole file anew, in the order of the numbers, if it is in another order. Throws OutputError.
  void end(const SweepReport&);

 private:
  void write(const std::string& text);

  std::string path_;
  int descriptor_ = -1;
  bool regular_ = false;
  std::vector<std::string> lines_;  // what it holds now
};

// The same as a new file, whole or not at all. Throws OutputError.
void write_sweep_lines(const std::string& path, const SweepReport&);

}  // namespace cplab
