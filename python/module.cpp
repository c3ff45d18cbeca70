// The Python module cplab._cplab: a function that runs a command of cplab in this process, and what a plan
// written in Python stands on. All that a user of the package sees is written in Python, in python/cplab/.
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cli/program.hpp"
#include "python/plan_frame.hpp"
#include "python/tensor_run.hpp"

namespace nb = nanobind;

namespace cplab {
namespace {

// One command, under way in a thread of its own or in the caller's.
struct Call {
  std::vector<std::string> words;
  Caller caller;
  int code = 0;
  std::ostringstream out, err;
  std::mutex mutex;
  std::condition_variable ended;
  bool over = false;

  void run() {
    std::vector<const char*> argv{"cplab"};
    for (const std::string& word : words) argv.push_back(word.c_str());
    code = run_program(static_cast<int>(argv.size()), argv.data(), out, err, &caller);
    const std::lock_guard lock(mutex);
    over = true;
    ended.notify_all();
  }
  bool wait(std::chrono::milliseconds most) {
    std::unique_lock lock(mutex);
    return ended.wait_for(lock, most, [this] { return over; });
  }
};

// Threads of commands that nobody waits for any more. The process does not end before them: they use what its
// end destroys.
struct Left {
  std::mutex mutex;
  std::vector<std::thread> threads;

  void add(std::thread thread) {
    const std::lock_guard lock(mutex);
    threads.push_back(std::move(thread));
  }
  void join() {
    const std::lock_guard lock(mutex);
    for (std::thread& thread : threads) thread.join();
    threads.clear();
  }
};

Left& left() {
  static Left threads;
  return threads;
}

// In a thread of its own, while this one looks for signals, which Python's main thread alone takes. A command
// that counts what it has done ends within a second of Ctrl-C; what else it does (a proof, a dense reference)
// goes on unseen to its end.
bool run_watched(const std::shared_ptr<Call>& call) {
  constexpr std::chrono::milliseconds pause{50}, grace{1000};
  std::thread thread([call] { call->run(); });
  for (;;) {
    bool over = false;
    {
      const nb::gil_scoped_release released;
      over = call->wait(pause);
      if (over) thread.join();
    }
    if (over) return true;
    if (PyErr_CheckSignals() == 0) continue;
    call->caller.stop = true;
    const nb::gil_scoped_release released;
    if (call->wait(grace))
      thread.join();
    else
      left().add(std::move(thread));
    return false;
  }
}

// (exit code, standard output, standard error) of the command line `words`; `texts` are read in place of
// files of their names. `signals`: the caller is Python's main thread.
nb::tuple run_command(std::vector<std::string> words, std::map<std::string, std::string> texts,
                      bool signals) {
  const auto call = std::make_shared<Call>();
  call->words = std::move(words);
  for (auto& [name, text] : texts) call->caller.texts.emplace(name, std::move(text));
  if (!signals) {
    const nb::gil_scoped_release released;
    call->run();
  } else if (!run_watched(call)) {
    throw nb::python_error();
  }
  const std::string out = std::move(call->out).str(), err = std::move(call->err).str();
  return nb::make_tuple(call->code, nb::bytes(out.data(), out.size()), nb::bytes(err.data(), err.size()));
}

void join_left() {
  const nb::gil_scoped_release released;
  left().join();
}

}  // namespace
}  // namespace cplab

NB_MODULE(_cplab, module) {
  nb::set_leak_warnings(false);  // a plan that is alive when the process ends is nobody's mistake
  module.def("run_command", &cplab::run_command, nb::arg("words"), nb::arg("texts"), nb::arg("signals"));
  module.def("join_left", &cplab::join_left);
  cplab::add_plan_frame(module);
  cplab::add_tensor_run(module);
}
