// Statics of functions, made under one lock that a fork waits for. A sweep and an engine of the simulator
// work in processes that they fork, and beside them other threads of a Python program may be in calls of this
// module. A forked process has only the thread that forked. Had another been making a static at that moment,
// the process would find it half made, and wait for that thread for ever. So the three functions that the
// compiler calls around the making of a static are the module's own here: one thread at a time makes any, and
// pthread_atfork takes their lock. No other library sees them, and the program does not have them: it is
// alone where it forks.
#include <pthread.h>

#include <cstdint>

namespace {

// Recursive: making one static may need another.
pthread_mutex_t making = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

void lock() {
  pthread_mutex_lock(&making);
}
void unlock() {
  pthread_mutex_unlock(&making);
}
// In the new process the thread has another number, by which a recursive lock knows its owner.
void make_anew() {
  making = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
}

[[gnu::constructor]] void wait_at_forks() {
  pthread_atfork(lock, unlock, make_anew);
}

}  // namespace

// The names and what they mean are those of the Itanium C++ ABI, 3.3.3: the first byte of a guard is 0 until
// its static is made, and the compiler looks at it before it calls.
#define CPLAB_OF_THIS_MODULE extern "C" [[gnu::visibility("hidden")]]

// 1: the caller makes it, and then releases or aborts; 0: it is made.
CPLAB_OF_THIS_MODULE int __cxa_guard_acquire(std::uint64_t* guard) {
  lock();
  if (__atomic_load_n(reinterpret_cast<char*>(guard), __ATOMIC_ACQUIRE) == 0) return 1;
  unlock();
  return 0;
}

CPLAB_OF_THIS_MODULE void __cxa_guard_release(std::uint64_t* guard) {
  __atomic_store_n(reinterpret_cast<char*>(guard), char{1}, __ATOMIC_RELEASE);
  unlock();
}

CPLAB_OF_THIS_MODULE void __cxa_guard_abort(std::uint64_t* /*guard*/) {
  unlock();
}
