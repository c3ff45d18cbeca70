// Plans checked in a child process; see proofs.hpp.
#include "cli/advise/proofs.hpp"

#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <thread>

#include "check/check.hpp"
#include "plan/finding.hpp"

namespace cplab {

namespace {

// What the child writes: one finding, or nothing.
std::string first_finding(const Plan& plan) {
  const CheckResult result = check(plan, 1);
  if (result.findings.empty()) return {};
  const Finding& finding = result.findings.front();
  return std::string(name(finding.kind)) + ": " + finding.message;
}

struct Child {
  pid_t pid = -1;
  int read_end = -1;
};

Child check_in_child(const AttentionCase& of, const AttentionChoice& choice, StepModel& steps) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) return {};
  const pid_t pid = fork();
  if (pid < 0) {
    close(ends[0]);
    close(ends[1]);
    return {};
  }
  if (pid == 0) {
    close(ends[0]);
    int code = 0;
    try {
      const std::string finding = first_finding(steps.attention().plan(of, choice));
      if (!finding.empty()) code = 1;
      if (write(ends[1], finding.data(), finding.size()) < 0) code = 2;
    } catch (...) {
      code = 2;
    }
    _exit(code);
  }
  close(ends[1]);
  return {pid, ends[0]};
}

std::string read_all(int end) {
  std::string text;
  std::array<char, 512> part{};
  for (ssize_t n = read(end, part.data(), part.size()); n > 0; n = read(end, part.data(), part.size()))
    text.append(part.data(), static_cast<std::size_t>(n));
  close(end);
  return text;
}

std::string outcome(const Child& child, double most_s) {
  using Clock = std::chrono::steady_clock;
  if (child.pid < 0) return "not checked";
  const auto end = Clock::now() + std::chrono::duration<double>(most_s);
  int status = 0;
  while (waitpid(child.pid, &status, WNOHANG) == 0) {
    if (Clock::now() > end) {
      kill(child.pid, SIGKILL);
      waitpid(child.pid, &status, 0);
      close(child.read_end);
      return "not checked";
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  const std::string finding = read_all(child.read_end);
  if (!WIFEXITED(status) || WEXITSTATUS(status) == 2) return "not checked";
  return finding.empty() ? "yes" : "NO: " + finding;
}

}  // namespace

std::string proof_of(StepModel& steps, const ModelLayout& layout, double most_s) {
  const Model& model = steps.model();
  for (std::size_t kind = 0; kind < model.attention.size(); ++kind)
    for (const auto& [document, share] : documents_of(steps.training())) {
      const std::string found = outcome(
          check_in_child(steps.case_of(kind, layout, document), layout.attention[kind], steps), most_s);
      if (found != "yes") return found;
    }
  return "yes";
}

}  // namespace cplab
