// Where a command writes: results to stdout or the named file, talk and progress to stderr.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>

#include "cli/arguments.hpp"
#include "cli/caller.hpp"
#include "cli/picture.hpp"
#include "report/results.hpp"
#include "report/table.hpp"

namespace cplab {

// What the machine lacks (a GPU, ranks, memory): exit code 3.
struct EnvironmentError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Exit codes of the contract.
enum ExitCode : int {
  exit_fine = 0,
  exit_wrong = 1,
  exit_usage = 2,
  exit_environment = 3,
  exit_interrupted = 130
};

class Console {
 public:
  // `stop`, which outlives it: see cli/caller.hpp; null: nobody can stop the command.
  Console(std::ostream& out, std::ostream& err, const Arguments& arguments, const StopFlag* stop = nullptr);

  // The stream for the text a person reads: stdout, or nothing when --json - or --csv - have it.
  std::ostream& text() { return *text_; }
  bool color() const { return color_; }
  TextStyle style() const { return {color_, width_}; }
  // For pictures of characters, which only a terminal gets.
  PictureStyle picture() const { return {glyphs_, color_, width_}; }

  // A line of talk; not with --quiet.
  void say(const std::string& line);
  // Whether somebody sits there to answer; a question, in whose line the answer is typed.
  bool asks() const;
  void ask(const std::string& question);
  // A line that is rewritten on a terminal and not shown elsewhere, cut to its width. An empty one clears it.
  // For class Progress (cli/progress.hpp), from any thread.
  void progress(const std::string& line);
  bool shows_progress() const { return progress_; }
  bool talks() const { return !quiet_; }
  bool can_stop() const { return stop_ != nullptr; }
  // Throws Interrupted if the caller wants the command to end.
  void end_if_stopped() const {
    if (stop_ && stop_->load(std::memory_order_relaxed)) throw Interrupted{};
  }

  // Calls the writer with the stream that --json (--csv) names, if the option is there. Throws OutputError if
  // the file cannot be written.
  void write_json_to_option(const std::function<void(std::ostream&)>& writer);
  void write_csv_to_option(const std::function<void(std::ostream&)>& writer);

 private:
  void write_option(const std::optional<std::string>& target,
                    const std::function<void(std::ostream&)>& writer);

  std::ostream& out_;
  std::ostream& err_;
  const StopFlag* stop_ = nullptr;
  std::ostream* text_ = nullptr;
  std::optional<std::string> json_, csv_;
  bool quiet_ = false;
  bool color_ = false;
  std::size_t width_ = page_width;
  Glyphs glyphs_ = Glyphs::none;
  bool progress_ = false;
  bool line_shown_ = false;
  std::mutex err_mutex_;  // talk and the live line come from different threads
};

// The build's own versions and those of the libraries a command uses.
Versions versions_of_build();

}  // namespace cplab
