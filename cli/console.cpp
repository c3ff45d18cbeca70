// Streams of a command, and what this build is made of.
#include "cli/console.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <iostream>

#include "cli/files/toml_table.hpp"
#include "cli/outputs.hpp"
#include "cmake/version.hpp"
#include "report/output_file.hpp"
#include "report/printable.hpp"

namespace cplab {

namespace {

std::ostream& nowhere() {
  static std::ostream stream(nullptr);  // without a buffer: swallows everything
  return stream;
}

std::optional<std::string> target_of(const Arguments& arguments, const char* option) {
  if (!arguments.has(option)) return std::nullopt;
  std::string file = arguments.text(option, "");
  if (file.empty()) throw InputError(std::string("--") + option + ": needs a file name, or - for stdout");
  return is_stdout(file) ? "-" : file;
}

}  // namespace

Console::Console(std::ostream& out, std::ostream& err, const Arguments& arguments, const StopFlag* stop)
    : out_(out),
      err_(err),
      stop_(stop),
      json_(target_of(arguments, "json")),
      csv_(target_of(arguments, "csv")),
      quiet_(arguments.has("quiet")) {
  const std::string mode = arguments.word("color", "auto");
  if (json_ == "-" && csv_ == "-") throw InputError("--csv -: --json has stdout already");
  text_ = json_ == "-" || csv_ == "-" ? &nowhere() : &out_;
  // Tests hand in streams of their own: no terminal then.
  ColorEnvironment environment = color_environment(1);
  environment.terminal = environment.terminal && &out == &std::cout;
  if (environment.terminal && text_ == &out_) glyphs_ = glyphs_of_environment();
  color_ = use_color(*parse_color_mode(mode), environment);
  width_ = width_of_output(&out == &std::cout ? 1 : -1);
  progress_ = !quiet_ && &err == &std::cerr && isatty(2) == 1;
}

void Console::say(const std::string& line) {
  if (quiet_) return;
  const std::lock_guard lock(err_mutex_);
  if (line_shown_) write_control(err_, "\r\033[K");
  line_shown_ = false;
  // On a terminal by words; elsewhere a line stays one, for who looks for it.
  if (&err_ == &std::cerr && isatty(2) == 1)
    write_folded(err_, printable(line), width_of_output(2), "  ");
  else
    err_ << printable(line) << '\n';
}

bool Console::asks() const {
  return &err_ == &std::cerr && isatty(0) == 1 && isatty(2) == 1;
}

void Console::ask(const std::string& question) {
  const std::lock_guard lock(err_mutex_);
  err_ << question << std::flush;
}

void Console::progress(const std::string& line) {
  if (!progress_) return;
  const std::lock_guard lock(err_mutex_);
  if (line.empty() && !line_shown_) return;
  winsize size{};
  const std::size_t width = ioctl(2, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col - 1U : 79U;
  write_control(err_, "\r\033[K");
  err_ << printable(line).substr(0, width) << std::flush;
  line_shown_ = !line.empty();
}

void Console::write_option(const std::optional<std::string>& target,
                           const std::function<void(std::ostream&)>& writer) {
  if (!target) return;
  if (*target == "-") {
    writer(out_);
    out_.flush();
    return;
  }
  OutputFile file(*target);
  writer(file.stream());
  file.commit();
}

void Console::write_json_to_option(const std::function<void(std::ostream&)>& writer) {
  write_option(json_, writer);
}
void Console::write_csv_to_option(const std::function<void(std::ostream&)>& writer) {
  write_option(csv_, writer);
}

Versions versions_of_build() {
  return {{"cplab", version()},
          {"commit", commit()},
          {"compiler", CPLAB_COMPILER},
          {"simgrid", CPLAB_SIMGRID_VERSION},
          {"eigen", CPLAB_EIGEN_VERSION}};
}

}  // namespace cplab
