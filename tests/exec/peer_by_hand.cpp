// Sockets and frames; see peer_by_hand.hpp.
#include "tests/exec/peer_by_hand.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "tests/exec/processes.hpp"

namespace cplab::by_hand {

Launch with_token(int rank, int world, int port, const std::string& secret) {
  Launch launch = processes::launch_of(rank, world, port);
  launch.token = secret;
  launch.job = "job";
  return launch;
}

wire::Socket knock(int port) {
  const auto deadline = wire::Clock::now() + std::chrono::seconds(5);
  while (wire::Clock::now() < deadline) {
    std::string why;
    wire::Socket socket = wire::connect_to("127.0.0.1", port, deadline, why);
    if (socket) return socket;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  throw std::runtime_error("nobody listens");
}

void say(const wire::Socket& socket, const wire::Bytes& bytes) {
  [[maybe_unused]] const ssize_t written = ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

wire::Bytes hello(const wire::Greeting& greeting) {
  return wire::encode(wire::greeting_frame(greeting));
}

std::vector<wire::Frame> hear(wire::Connection& connection) {
  std::vector<wire::Frame> frames;
  const auto deadline = wire::Clock::now() + std::chrono::seconds(15);
  bool open = true;
  while (open && wire::Clock::now() < deadline) {
    wire::wait_for(connection.socket(), false, deadline);
    open = connection.read(frames);
  }
  if (open) throw std::logic_error("the connection was left open");
  return frames;
}

void wait_until_joined(wire::Connection& connection, int world) {
  std::vector<wire::Frame> frames;
  const auto deadline = wire::Clock::now() + std::chrono::seconds(10);
  const auto joined = [&] {
    return std::count_if(frames.begin(), frames.end(),
                         [](const wire::Frame& frame) { return frame.kind == wire::Kind::joined; });
  };
  while (joined() < world && wire::Clock::now() < deadline) {
    wire::wait_for(connection.socket(), false, deadline);
    if (!connection.read(frames)) throw std::logic_error("turned away");
  }
}

}  // namespace cplab::by_hand
