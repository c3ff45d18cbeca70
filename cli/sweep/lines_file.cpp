// Reading, taking over and writing JSON lines; see lines_file.hpp.
#include "cli/sweep/lines_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <thread>
#include <utility>

#include "cli/console.hpp"
#include "cli/files/text_file.hpp"
#include "cli/files/toml_table.hpp"
#include "report/output_file.hpp"

namespace cplab {

namespace {

// All lines of a report, in the order of the numbers.
std::vector<std::string> lines_of(const SweepReport& report) {
  std::map<std::int64_t, std::string> by_number;
  for (const SweepPoint& point : report.points) by_number.emplace(point.number, line_of(point));
  for (const SweepRefusal& refusal : report.refused) by_number.emplace(refusal.number, line_of(refusal));
  std::vector<std::string> lines{line_of(report.header)};
  for (auto& [number, line] : by_number) lines.push_back(std::move(line));
  return lines;
}

// Of results kept by number: the one already there is another.
void require_once(const std::map<std::int64_t, std::string>& known, std::int64_t number,
                  const std::string& line, const std::string& path) {
  const auto found = known.find(number);
  if (found != known.end() && found->second != line)
    throw InputError(fmt::format("{}: point {} is there twice, with other figures", path, number));
}

}  // namespace

SweepLines read_sweep_lines(const std::string& path) {
  const std::string text = read_text_file(path, most_result_bytes);
  SweepLines lines;
  std::int64_t line = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    if (end == std::string::npos) {
      lines.torn = text.substr(at);
      break;
    }
    const JsonDocument document(text.substr(at, end - at), fmt::format("{}: line {}", path, ++line));
    const JsonNode node = document.root();
    at = lines.whole_bytes = end + 1;
    if (!lines.has_header) {
      lines.header = read_sweep_header(node);
      lines.has_header = true;
      continue;
    }
    const std::int64_t number = node.at("number").integer(0);
    if (number >= lines.header.study.points)
      node.fail(fmt::format("point {} of a study of {}", number, lines.header.study.points));
    if (is_refusal(node))
      lines.refused.push_back(read_sweep_refusal(node));
    else
      lines.points.push_back(read_sweep_point(node));
  }
  return lines;
}

void LinesFile::Descriptor::close() {
  if (number_ >= 0) ::close(number_);
  number_ = -1;
}

LinesFile::LinesFile(std::string path, const SweepHeader& header, std::vector<std::string>& notes)
    : path_(std::move(path)),
      descriptor_(::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666)) {
  if (descriptor_.number() < 0) throw InputError(path_ + ": cannot be written: " + std::strerror(errno));
  struct stat status = {};
  regular_ = ::fstat(descriptor_.number(), &status) == 0 && S_ISREG(status.st_mode);
  if (!regular_) {
    write(line_of(header) + "\n");
    return;
  }
  lock();
  SweepLines there = read_sweep_lines(path_);
  require_same(there, header);
  if (!there.torn.empty()) {
    notes.push_back(fmt::format("{}: its last line was torn ({} bytes without an end) and is dropped", path_,
                                there.torn.size()));
    if (::ftruncate(descriptor_.number(), static_cast<off_t>(there.whole_bytes)) != 0)
      throw OutputError(path_ + ": cannot be written: " + std::strerror(errno));
  }
  if (there.has_header)
    take_over(std::move(there));
  else
    add(line_of(header));
}

void LinesFile::lock() const {
  // One that was just ended may take a moment to go.
  constexpr int tries = 20;
  constexpr std::chrono::milliseconds pause{50};
  for (int i = 0; ::flock(descriptor_.number(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK; ++i) {
    if (i == tries) throw EnvironmentError(path_ + ": another process writes it");
    std::this_thread::sleep_for(pause);
  }
}

void LinesFile::require_same(const SweepLines& there, const SweepHeader& header) const {
  if (!there.has_header) {
    if (!line_of(header).starts_with(there.torn))
      throw InputError(path_ + ": holds something else than points of a sweep, and is not written over");
    return;
  }
  std::vector<std::string> differ = differences(there.header, header);
  const auto shard = [](const SweepHeader& of) { return of.shard.empty() ? std::string("1/1") : of.shard; };
  if (shard(there.header) != shard(header))
    differ.push_back("it is of shard " + shard(there.header) + ", this is shard " + shard(header));
  if (!differ.empty())
    throw InputError(fmt::format("{}: holds points of another sweep: {}; legal: another file, or none there",
                                 path_, fmt::join(differ, "; ")));
}

void LinesFile::take_over(SweepLines there) {
  lines_.push_back(line_of(there.header));
  std::map<std::int64_t, std::string> known;
  for (SweepPoint& point : there.points) {
    std::string line = line_of(point);
    require_once(known, point.number, line, path_);
    lines_.push_back(line);
    if (known.emplace(point.number, std::move(line)).second) points.push_back(std::move(point));
  }
  for (SweepRefusal& refusal : there.refused) {
    std::string line = line_of(refusal);
    lines_.push_back(line);
    if (refusal.kind != RefusalKind::input) continue;
    require_once(known, refusal.number, line, path_);
    if (known.emplace(refusal.number, std::move(line)).second) refused.push_back(std::move(refusal));
  }
}

void LinesFile::write(const std::string& text) {
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t n = ::write(descriptor_.number(), text.data() + at, text.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw OutputError(path_ + ": cannot be written: " + std::strerror(errno));
    at += static_cast<std::size_t>(n);
  }
}

void LinesFile::add(const std::string& line) {
  if (descriptor_.number() < 0) return;
  write(line + "\n");
  if (regular_) lines_.push_back(line);
}

void LinesFile::end(const SweepReport& report) {
  if (!regular_) return;
  std::vector<std::string> now = lines_of(report);
  if (now == lines_) return;
  write_sweep_lines(path_, report);
  lines_ = std::move(now);
}

void write_sweep_lines(const std::string& path, const SweepReport& report) {
  OutputFile file(path);
  for (const std::string& line : lines_of(report)) file.stream() << line << '\n';
  file.commit();
}

}  // namespace cplab
