// Files that must not stay behind when a signal ends the program: those under a temporary name, and shared
// memory that others were to take over.
#pragma once

#include <string>

namespace cplab {

// While it lives, the file at `path` (absolute) is removed if a signal ends the program; see
// end_cleanly_on_signals. The destructor forgets the file, it does not remove it.
class Leftover {
 public:
  Leftover() = default;  // nothing
  explicit Leftover(const std::string& path);
  ~Leftover() { forget(); }
  Leftover(Leftover&& other) noexcept;
  Leftover& operator=(Leftover&& other) noexcept;
  void forget() noexcept;

 private:
  struct Entry;
  friend void remove_leftovers() noexcept;
  Entry* entry_ = nullptr;
};

// Removes what is there now. May be called in a signal handler.
void remove_leftovers() noexcept;

// SIGHUP, SIGINT, SIGQUIT, SIGTERM and SIGPIPE remove the leftovers and then do what they do by default, so
// that whoever started the program sees the signal: a shell shows 128 + its number. Signals that are ignored
// stay ignored. For main().
void end_cleanly_on_signals();

// While one lives, those signals wait: several files get their names, or none.
class HoldSignals {
 public:
  HoldSignals();
  ~HoldSignals();
  HoldSignals(const HoldSignals&) = delete;
  HoldSignals& operator=(const HoldSignals&) = delete;
};

}  // namespace cplab
