// Models and a machine whose numbers are small enough to follow by hand.
#pragma once

#include "decide/layout.hpp"
#include "decide/model.hpp"
#include "sim/hardware.hpp"

namespace cplab::by_hand {

// Twelve layers of Llama-3 70B: 64 query and 8 key heads of 128, hidden 8192, feed-forward 28672, 128256
// words.
inline Model twelve_layers() {
  Model model;
  model.name = "twelve layers of 70B";
  model.hidden = 8192;
  model.vocabulary = 128256;
  AttentionKind kind;
  kind.name = "global";
  kind.heads = 64, kind.kv_heads = 8, kind.head_size = 128, kind.value_size = 128;
  model.attention = {kind};
  FeedForwardKind dense;
  dense.name = "dense";
  dense.width = 28672;
  model.feed_forward = {dense};
  model.layers = {{0, 0, 12}};
  return model;
}

inline Training rows_of(std::int64_t tokens, std::int64_t gpus) {
  Training training;
  training.gpus = gpus;
  training.sequence = tokens;
  return training;
}

}  // namespace cplab::by_hand
