// What is being done, how much of it, for how long. On a terminal one live line for what takes longer than
// two seconds; elsewhere, in files and pipes, a line every ten seconds. Nothing with --quiet. Here too a
// command ends that its caller no longer wants (cli/caller.hpp): what counts throws Interrupted then.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "cli/console.hpp"

namespace cplab {

class Progress {
 public:
  // (done, all), as the libraries count them. May be called often, by the thread that computes.
  using Count = std::function<void(std::int64_t done, std::int64_t all)>;

  // Begins with the stage `what` ("building the plan"). With --quiet, or if `speaks` is false (other
  // ranks of one job), nothing is ever written and no thread is started. The console outlives it.
  Progress(Console& console, const std::string& what, bool speaks = true);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // The next stage. With `unit` ("operations") the line says how many of `all` are done; of things that take
  // about as long as one another also how long the rest will take.
  enum class Alike : bool { no, yes };
  void stage(const std::string& what, std::int64_t all = 0, const std::string& unit = {},
             Alike alike = Alike::no);
  void set_done(std::int64_t done, std::int64_t all);
  // set_done as what a library takes; empty if nothing is shown and nobody can stop the command. This
  // outlives the calls.
  Count counter();

  // ", about 12 s left", or ", about 3 min left"; empty where nothing is done yet or nothing is left.
  static std::string time_left(double elapsed_s, std::int64_t done, std::int64_t all);

  // Clears the line: to be called before the result is written. Nothing is shown afterwards.
  void end();

 private:
  using Clock = std::chrono::steady_clock;

  void watch();
  void show();               // with mutex_ held
  std::string line() const;  // with mutex_ held
  bool due() const { return Clock::now() - start_ >= after_; }

  Console& console_;
  const bool live_;      // anything is shown
  const bool terminal_;  // in one line that is written anew
  const Clock::time_point start_ = Clock::now();
  std::chrono::duration<double> after_;  // when something is shown first
  std::mutex mutex_;
  std::condition_variable ended_;
  bool over_ = false;
  std::string what_, unit_;
  Alike alike_ = Alike::no;
  Clock::time_point stage_start_ = start_;
  std::atomic<std::int64_t> done_{0}, all_{0};
  std::thread watcher_;
};

}  // namespace cplab
