// The file of JSON lines that a sweep writes while it goes: a header, then a line for each point in the order
// in which they end. What is there already is taken over; at the end the lines stand in the study's order.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "report/sweep.hpp"

namespace cplab {

struct SweepLines {
  SweepHeader header;
  std::vector<SweepPoint> points;  // in the order of the file
  std::vector<SweepRefusal> refused;
  bool has_header = false;      // else the file is empty, or its header is torn
  std::string torn;             // the last line, if it has no end
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

  std::vector<SweepPoint> points;     // taken over
  std::vector<SweepRefusal> refused;  // the same
  const std::string& path() const { return path_; }

  // Each line is in the file when this returns. Throws OutputError.
  void add(const std::string& line);
  // In a process that was made of this one: the file is this one's alone, and free when it ends.
  void leave() { descriptor_.close(); }
  // The whole file anew, in the order of the numbers, if it is in another order. Throws OutputError.
  void end(const SweepReport&);

 private:
  class Descriptor {
   public:
    Descriptor() = default;
    explicit Descriptor(int number) : number_(number) {}
    Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
    Descriptor& operator=(Descriptor&& other) noexcept {
      std::swap(number_, other.number_);
      return *this;
    }
    ~Descriptor() { close(); }
    void close();
    int number() const { return number_; }

   private:
    int number_ = -1;
  };

  void lock() const;
  // Throws InputError if what the file holds is not of this sweep.
  void require_same(const SweepLines& there, const SweepHeader&) const;
  void take_over(SweepLines there);
  void write(const std::string& text);

  std::string path_;
  Descriptor descriptor_;
  bool regular_ = false;
  std::vector<std::string> lines_;  // what it holds now
};

// The same as a new file, whole or not at all. Throws OutputError.
void write_sweep_lines(const std::string& path, const SweepReport&);

}  // namespace cplab
