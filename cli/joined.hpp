// Words as a list in a sentence: "ring, all_gather, usp".
#pragma once

#include <string>

namespace cplab {

template <class Words>
std::string joined(const Words& words) {
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "" : ", ") + std::string(word);
  return text;
}

}  // namespace cplab
