// The launch token of processes on one host that were given none: rank 0 makes one up and leaves it in shared
// memory that only its own user can read.
#pragma once

#include <optional>
#include <string>

#include "report/leftovers.hpp"

namespace cplab::rendezvous {

class SharedToken {
 public:
  // Of the launch that listens at `port`. Throws std::runtime_error, which says what to do instead.
  explicit SharedToken(int port);
  ~SharedToken() { remove(); }
  SharedToken(const SharedToken&) = delete;
  SharedToken& operator=(const SharedToken&) = delete;

  const std::string& text() const { return text_; }
  // To be called once all have joined: no process needs to read it again. Does nothing the second time.
  void remove() noexcept;

 private:
  std::string name_, text_;
  Leftover leftover_;
};

// What rank 0 of the launch at `port` has left, or nothing, and `why`.
std::optional<std::string> read_shared_token(int port, std::string& why);

}  // namespace cplab::rendezvous
