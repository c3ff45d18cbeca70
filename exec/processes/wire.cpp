// BSD sockets. Every descriptor is closed on exec and non-blocking; SIGPIPE is never raised.
#include "exec/processes/wire.hpp"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <system_error>
#include <utility>

namespace cplab::wire {
namespace {

constexpr std::size_t turn_bytes = std::size_t{8} << 20;  // read from one connection before the next

struct Addresses {
  addrinfo* first = nullptr;
  ~Addresses() {
    if (first != nullptr) ::freeaddrinfo(first);
  }
};

template <class Value>
bool set_option(const Socket& socket, int level, int name, Value value) {
  return ::setsockopt(socket.get(), level, name, &value, sizeof(value)) == 0;
}

// Small messages at once; and a host that vanished without a word is noticed within about 15 s (30 s
// with data under way).
void tune(const Socket& socket) {
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, 5);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, 2);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, 5);
  set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, 30000U);
}

Socket open_socket(int family) {
  return Socket(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

bool is_loopback(const std::string& address) {
  return address == "localhost" || address == "::1" || address.starts_with("127.");
}

// Bound and listening, or none with errno set.
Socket try_listen(int family, bool loopback, int port, int backlog) {
  Socket socket = open_socket(family);
  if (!socket) return socket;
  set_option(socket, SOL_SOCKET, SO_REUSEADDR, 1);
  sockaddr_storage storage = {};
  socklen_t length = 0;
  if (family == AF_INET6) {
    set_option(socket, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    auto* at = reinterpret_cast<sockaddr_in6*>(&storage);
    at->sin6_family = AF_INET6;
    at->sin6_port = htons(static_cast<std::uint16_t>(port));
    at->sin6_addr = loopback ? in6addr_loopback : in6addr_any;
    length = sizeof(sockaddr_in6);
  } else {
    auto* at = reinterpret_cast<sockaddr_in*>(&storage);
    at->sin_family = AF_INET;
    at->sin_port = htons(static_cast<std::uint16_t>(port));
    at->sin_addr.s_addr = htonl(loopback ? INADDR_LOOPBACK : INADDR_ANY);
    length = sizeof(sockaddr_in);
  }
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&storage), length) != 0 ||
      ::listen(socket.get(), backlog) != 0) {
    const int error = errno;
    socket = Socket();
    errno = error;
  }
  return socket;
}

// A socket that tries a port of its own host from that same port connects to itself.
bool connected_to_itself(const Socket& socket) {
  sockaddr_storage mine = {};
  sockaddr_storage theirs = {};
  socklen_t mine_length = sizeof(mine);
  socklen_t theirs_length = sizeof(theirs);
  return ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&mine), &mine_length) == 0 &&
         ::getpeername(socket.get(), reinterpret_cast<sockaddr*>(&theirs), &theirs_length) == 0 &&
         mine_length == theirs_length && std::memcmp(&mine, &theirs, mine_length) == 0;
}

bool connect_one(const Socket& socket, const addrinfo& address, Clock::time_point deadline) {
  if (::connect(socket.get(), address.ai_addr, address.ai_addrlen) == 0) return true;
  if (errno != EINPROGRESS && errno != EINTR) return false;
  pollfd waiting = {socket.get(), POLLOUT, 0};
  do {
    wait_for(socket, true, deadline);
  } while (::poll(&waiting, 1, 0) <= 0 && Clock::now() < deadline);
  int error = ETIMEDOUT;
  socklen_t length = sizeof(error);
  if (waiting.revents != 0) ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  errno = error;
  return error == 0;
}

}  // namespace

Socket::~Socket() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Socket::Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

Socket& Socket::operator=(Socket&& other) noexcept {
  if (this != &other) {
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = std::exchange(other.descriptor_, -1);
  }
  return *this;
}

Socket listen_at(const std::string& address, int port, int backlog) {
  const bool loopback = is_loopback(address);
  Socket socket;
  if (!loopback || address == "::1") socket = try_listen(AF_INET6, loopback, port, backlog);
  if (!socket && address != "::1") socket = try_listen(AF_INET, loopback, port, backlog);
  if (!socket) throw std::system_error(errno, std::generic_category(), "port " + std::to_string(port));
  return socket;
}

Socket accept_from(const Socket& listener, bool& starved) {
  starved = false;
  while (true) {
    Socket socket(::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (socket) {
      tune(socket);
      return socket;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) return socket;
    // What is wrong with the connection itself (it was given up, its network is gone) takes it off the list.
    const bool next = errno == EINTR || errno == ECONNABORTED || errno == EPROTO || errno == ENETDOWN ||
                      errno == EHOSTUNREACH || errno == ENETUNREACH || errno == EPERM;
    starved = !next;
    if (!next) return socket;
  }
}

Socket connect_to(const std::string& address, int port, Clock::time_point deadline, std::string& why) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  Addresses addresses;
  if (const int error =
          ::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &addresses.first);
      error != 0) {
    why = ::gai_strerror(error);
    return Socket();
  }
  for (const addrinfo* at = addresses.first; at != nullptr; at = at->ai_next) {
    Socket socket = open_socket(at->ai_family);
    if (!socket || !connect_one(socket, *at, deadline)) {
      why = std::strerror(errno);
      continue;
    }
    if (connected_to_itself(socket)) {
      why = "nobody listens";
      continue;
    }
    tune(socket);
    return socket;
  }
  return Socket();
}

void wait_for(const Socket& socket, bool to_write, Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  const int events = to_write ? POLLIN | POLLOUT : POLLIN;
  pollfd waiting = {socket.get(), static_cast<short>(events), 0};
  ::poll(&waiting, 1, static_cast<int>(std::clamp<std::int64_t>(left, 0, 1000)));
}

void Connection::send_next(Frame frame) {
  const bool started = !queue_.empty() && queue_.front().sent > 0;
  queue_.insert(queue_.begin() + (started ? 1 : 0), {std::move(frame), 0});
}

void Connection::write() {
  while (!queue_.empty()) {
    Outgoing& out = queue_.front();
    Header header = header_of(out.frame);
    Bytes& payload = *out.frame.payload;
    const std::size_t header_sent = std::min(out.sent, sizeof(header));
    const std::size_t payload_sent = out.sent - header_sent;
    std::array<iovec, 2> pieces = {
        iovec{reinterpret_cast<std::byte*>(&header) + header_sent, sizeof(header) - header_sent},
        iovec{payload.data() + payload_sent, payload.size() - payload_sent}};
    msghdr message = {};
    message.msg_iov = pieces.data();
    message.msg_iovlen = pieces.size();
    const ssize_t sent = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return;
      queue_.clear();
      break;
    }
    out.sent += static_cast<std::size_t>(sent);
    if (out.sent == sizeof(header) + payload.size()) queue_.pop_front();
  }
  if (ending_ && !ended_) {
    ended_ = true;
    ::shutdown(socket_.get(), SHUT_WR);
  }
}

bool Connection::read(std::vector<Frame>& frames) {
  std::size_t budget = turn_bytes;
  while (budget > 0) {
    const std::span<std::byte> space = decoder_.space();
    const ssize_t got = ::recv(socket_.get(), space.data(), std::min(space.size(), budget), MSG_DONTWAIT);
    if (got == 0) return false;
    if (got < 0) {
      if (errno == EINTR) continue;
      return errno == EAGAIN || errno == EWOULDBLOCK;
    }
    budget -= static_cast<std::size_t>(got);
    decoder_.advance(static_cast<std::size_t>(got), frames);
  }
  return true;
}

bool Connection::drain() {
  std::array<std::byte, 4096> nowhere;
  for (std::size_t i = 0; i < turn_bytes / nowhere.size(); ++i) {
    const ssize_t got = ::recv(socket_.get(), nowhere.data(), nowhere.size(), MSG_DONTWAIT);
    if (got == 0) return false;
    if (got < 0 && errno != EINTR) return errno == EAGAIN || errno == EWOULDBLOCK;
  }
  return true;
}

}  // namespace cplab::wire
