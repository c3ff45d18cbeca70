// Sides of a window without effect; see window_notes.hpp.
#include "cli/files/window_notes.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace cplab {

void note_window(const Problem& problem, std::vector<std::string>& notes) {
  const Window& window = problem.window;
  const std::int64_t longest = problem.lengths.empty()
                                   ? problem.sequence
                                   : *std::max_element(problem.lengths.begin(), problem.lengths.end());
  const std::string given = fmt::format("problem.window = [{}, {}]", window.left, window.right);
  const auto note_side = [&](const char* side) {
    notes.push_back(fmt::format("{}: the {} side cuts nothing off, the longest sequence has {} tokens", given,
                                side, longest));
  };
  if (window.left >= 0 && window.left >= longest - 1) note_side("left");
  if (problem.causal && window.right > 0)
    notes.push_back(given + ": the right side changes nothing, the causal mask ends there; [" +
                    std::to_string(window.left) + ", 0] is the same");
  else if (!problem.causal && window.right >= 0 && window.right >= longest - 1)
    note_side("right");
}

}  // namespace cplab
