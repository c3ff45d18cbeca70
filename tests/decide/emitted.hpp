// What an emitter wrote, taken apart again; and models and layouts to write.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "decide/emit/emit.hpp"

namespace cplab {

struct Emitted {
  std::string launch;  // the first comment
  // A flag and its words, quotes removed; of DeepSpeed a dotted key and its JSON.
  std::map<std::string, std::vector<std::string>> flags;
  std::vector<std::string> comments;  // the others, without "# "

  bool has(const std::string& flag) const { return flags.contains(flag); }
  std::string value(
      const std::string& flag) const;  // its words joined by spaces; "(none)" if it is not there
  std::int64_t count(const std::string& flag) const;
  // How many comments contain it.
  int says(const std::string& text) const;
};
Emitted taken_apart(Framework, const std::string& text);

struct Case {
  Model model;
  Training training;
  ModelLayout layout;
  std::string text(Framework framework) const { return emit(framework, model, training, layout); }
  Emitted emitted(Framework framework) const { return taken_apart(framework, text(framework)); }
};
// 80 layers of 64 heads, 8 of keys; 131072 tokens; tp 2, cp 4, dp 2, a step of 16 sequences, ring in zigzag.
Case dense();
// 48 layers of 32 heads, 4 of keys, 128 experts of which each token takes 8; ep 4.
Case experts();
// 12 layers, each sixth global, the others with a window of 1024; 32 heads, 16 of keys.
Case windows();

}  // namespace cplab
