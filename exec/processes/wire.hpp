// The messages of exec/processes/frame.hpp over TCP, for exec/processes/rendezvous: sockets, and connections
// that never block.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "exec/processes/frame.hpp"

namespace cplab::wire {

using Clock = std::chrono::steady_clock;

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

// Listens at `port` of this host: on its loopback interface if `address` is loopback, else on all interfaces,
// because the name a host has for itself need not be the address at which others reach it. Throws
// std::system_error (EADDRINUSE).
Socket listen_at(const std::string& address, int port, int backlog);
// The next connection that is waiting, or none. `starved`: one waits, but this process or the host has no
// descriptor or memory left for it; it stays in the queue, so polling the listener at once would spin.
Socket accept_from(const Socket& listener, bool& starved);
// Tries once, until the deadline; none, and `why`, if nobody answers.
Socket connect_to(const std::string& address, int port, Clock::time_point deadline, std::string& why);
// Waits until the connection can be read (or written, if asked), the deadline or a signal.
void wait_for(const Socket& socket, bool to_write, Clock::time_point deadline);

// One connection, used by one thread at a time. After end_output it still reads.
class Connection {
 public:
  // `gather_bytes`: see Decoder.
  explicit Connection(Socket socket, Sender other = Sender::stranger,
                      std::uint64_t gather_bytes = max_gather_bytes)
      : socket_(std::move(socket)), decoder_(other, gather_bytes) {}

  const Socket& socket() const { return socket_; }
  void send(Frame frame) { queue_.push_back({std::move(frame), 0}); }
  // Puts the frame before all that are queued, but behind one that has been sent in part.
  void send_next(Frame frame);
  // Closes this direction once the queue is empty.
  void end_output() { ending_ = true; }
  void trust() { decoder_.trust(); }

  // Writes what the kernel takes. Errors are left to read(): the peer's last message may still be waiting
  // there.
  void write();
  bool idle() const { return queue_.empty(); }
  // Appends the frames that are complete; false once the peer has ended or is gone. Reads a few MiB at
  // most, so that other connections get their turn. Throws NotOurs.
  bool read(std::vector<Frame>& frames);
  // Reads and discards; false once the peer has ended. For one that was refused: closing while it still sends
  // would reset the connection and could destroy the refusal on its way.
  bool drain();

 private:
  struct Outgoing {
    Frame frame;
    std::size_t sent = 0;  // of header and payload
  };

  Socket socket_;
  std::deque<Outgoing> queue_;
  bool ending_ = false;
  bool ended_ = false;
  Decoder decoder_;
};

}  // namespace cplab::wire
