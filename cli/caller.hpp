// What a caller in the same process shares with a command that runs: whether it still wants the answer.
#pragma once

#include <atomic>

namespace cplab {

// Set from another thread, at any time: the command ends at the next place where it counts what it has done.
using StopFlag = std::atomic<bool>;

// Thrown at such a place. No std::exception, so that nobody on the way takes it for an error of a point, of a
// rank or of a file and goes on.
struct Interrupted {};

}  // namespace cplab
