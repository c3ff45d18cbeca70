// A stream on a file descriptor that remembers why it failed, which std::ofstream does not.
#pragma once

#include <array>
#include <streambuf>

namespace cplab {

// For writing. Does not own the descriptor; what is not flushed when it ends is lost.
class DescriptorBuffer : public std::streambuf {
 public:
  explicit DescriptorBuffer(int descriptor);
  // The errno of the first write that failed, or 0. After it nothing more is written.
  int error() const { return error_; }

 protected:
  int_type overflow(int_type character) override;
  std::streamsize xsputn(const char* data, std::streamsize count) override;
  int sync() override;

 private:
  bool write_all(const char* data, std::streamsize count);
  bool write_held();

  int descriptor_;
  int error_ = 0;
  std::array<char, 1 << 16> held_ = {};
};

}  // namespace cplab
