// Framed messages over TCP for exec/rendezvous: sockets, and connections that never block.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace cplab::wire {

using Clock = std::chrono::steady_clock;
using Bytes = std::vector<std::byte>;

// The other side does not speak this protocol, or another version of it.
struct NotOurs : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Owns a file descriptor; -1 is none.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  ~Socket();
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;
  int get() const { return descriptor_; }
  explicit operator bool() const { return descriptor_ >= 0; }

 private:
  int descriptor_ = -1;
};

// Listens at `port` of this host: of its loopback interface if `address` is loopback, else of all, because
// what a host calls itself need not be what others reach it by. Throws std::system_error (EADDRINUSE).
Socket listen_at(const std::string& address, int port, int backlog);
// The next connection that is waiting, or none.
Socket accept_from(const Socket& listener);
// Tries once, until the deadline; none, and `why`, if nobody answers.
Socket connect_to(const std::string& address, int port, Clock::time_point deadline, std::string& why);
// Waits until the connection can be read (or written, if asked), the deadline or a signal.
void wait_for(const Socket& socket, bool to_write, Clock::time_point deadline);

enum class Kind : std::uint32_t { hello, refuse, joined, gather, barrier, failure, leave };

// `payload` is shared, so that one contribution waits in the queues of many connections at once.
struct Frame {
  Kind kind = Kind::hello;
  int rank = 0;              // whom it is about
  std::uint32_t detail = 0;  // by kind
  std::uint64_t sequence = 0;
  std::shared_ptr<Bytes> payload = std::make_shared<Bytes>();
};

// What stands before each payload. Bytes in the host's order: another order shows in the magic. Magic and
// version stay where they are in every version.
struct Header {
  std::uint64_t magic;
  std::uint32_t version;
  Kind kind;
  std::int32_t rank;
  std::uint32_t detail;
  std::uint64_t sequence;
  std::uint64_t bytes;
};
static_assert(sizeof(Header) == 40);
constexpr std::uint64_t magic = 0x767a6442414c5043;  // "CPLABdzv" in memory
constexpr std::uint32_t version = 1;
constexpr std::uint64_t max_payload_bytes = std::uint64_t{1} << 36;
constexpr std::uint64_t max_greeting_bytes = 4096;  // of a peer that has not yet said who it is

// One connection, used by one thread at a time. After end_output it still reads.
class Connection {
 public:
  explicit Connection(Socket socket) : socket_(std::move(socket)) {}

  const Socket& socket() const { return socket_; }
  void send(Frame frame) { queue_.push_back({std::move(frame), 0}); }
  // Before all that is queued, save a frame of which a part is under way.
  void send_next(Frame frame);
  // Closes this direction once the queue is empty.
  void end_output() { ending_ = true; }
  void trust() { max_bytes_ = max_payload_bytes; }

  // Writes what the kernel takes. What breaks here is reported by read: a last word may be waiting there.
  void write();
  bool idle() const { return queue_.empty(); }
  // Appends the frames that are complete; false once the peer has ended or is gone. Reads a few MiB at
  // most, so that other connections get their turn. Throws NotOurs.
  bool read(std::vector<Frame>& frames);

 private:
  struct Outgoing {
    Frame frame;
    std::size_t sent = 0;  // of header and payload
  };
  void check_header();

  Socket socket_;
  std::deque<Outgoing> queue_;
  bool ending_ = false;
  bool ended_ = false;
  std::array<std::byte, sizeof(Header)> header_bytes_ = {};
  std::size_t header_got_ = 0;
  Frame incoming_;
  std::size_t payload_got_ = 0;
  std::uint64_t max_bytes_ = max_greeting_bytes;
};

}  // namespace cplab::wire
