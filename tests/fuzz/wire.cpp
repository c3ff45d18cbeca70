// Fuzz target: what a stranger may send to the port of a launch. The first byte says how the rest is cut into
// pieces as they arrive, and whether the peer is one that has said who it is.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "exec/wire.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const std::size_t piece = std::size_t{1} << (data[0] & 15);
  const bool trusted = (data[0] & 16) != 0;
  ++data;
  --size;
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) return 0;
  const cplab::wire::Socket theirs(ends[0]);
  cplab::wire::Connection mine{cplab::wire::Socket(ends[1])};
  if (trusted) mine.trust();
  std::vector<cplab::wire::Frame> frames;
  std::size_t payload_bytes = 0;
  try {
    for (std::size_t at = 0; at < size;) {
      const ssize_t sent = ::send(theirs.get(), data + at, std::min(piece, size - at), MSG_NOSIGNAL);
      if (sent <= 0) break;
      at += static_cast<std::size_t>(sent);
      if (!mine.read(frames)) break;
    }
    ::shutdown(theirs.get(), SHUT_WR);
    while (mine.read(frames) && !frames.empty()) frames.pop_back();
  } catch (const cplab::wire::NotOurs&) {
    return 0;
  }
  for (const cplab::wire::Frame& frame : frames) payload_bytes += frame.payload->size();
  if (payload_bytes > size) std::abort();  // more than was ever sent
  return 0;
}
