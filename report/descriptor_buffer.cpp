// write(2) until all is out; see descriptor_buffer.hpp.
#include "report/descriptor_buffer.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace cplab {

DescriptorBuffer::DescriptorBuffer(int descriptor) : descriptor_(descriptor) {
  setp(held_.data(), held_.data() + held_.size());
}

bool DescriptorBuffer::write_all(const char* data, std::streamsize count) {
  while (error_ == 0 && count > 0) {
    const ssize_t written = ::write(descriptor_, data, static_cast<std::size_t>(count));
    if (written < 0) {
      if (errno != EINTR) error_ = errno;
      continue;
    }
    data += written;
    count -= written;
  }
  return error_ == 0;
}

bool DescriptorBuffer::write_held() {
  const bool fine = write_all(pbase(), pptr() - pbase());
  setp(held_.data(), held_.data() + held_.size());
  return fine;
}

DescriptorBuffer::int_type DescriptorBuffer::overflow(int_type character) {
  if (!write_held()) return traits_type::eof();
  if (!traits_type::eq_int_type(character, traits_type::eof())) sputc(traits_type::to_char_type(character));
  return traits_type::not_eof(character);
}

std::streamsize DescriptorBuffer::xsputn(const char* data, std::streamsize count) {
  if (count > epptr() - pptr()) {
    if (!write_held()) return 0;
    if (count >= epptr() - pptr()) return write_all(data, count) ? count : 0;
  }
  std::memcpy(pptr(), data, static_cast<std::size_t>(count));
  pbump(static_cast<int>(count));
  return count;
}

int DescriptorBuffer::sync() {
  return write_held() ? 0 : -1;
}

}  // namespace cplab
