// What a layout asks of each kind of attention layer, in words that all frameworks share, and the comments
// that are the same for several of them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "decide/emit/output.hpp"

namespace cplab::emitting {

// How the ranks of a CP group share a layer. none: one rank. heads: they trade heads for tokens. two_level:
// heads inside teams, a ring across them. strided_gather: a few heads at a time. scan: states of linear
// attention pass from rank to rank.
// other: softmax attention by a route that no framework has (double_ring, mesh).
enum class Exchange : std::uint8_t { none, ring, gather, strided_gather, heads, two_level, scan, other };

struct Asked {
  const AttentionKind* kind;
  const AttentionChoice* choice;
  Exchange exchange;
  std::string_view name() const;  // the algorithm's own name, whichever of its names the choice has
  std::int64_t inner = 1;         // ranks that trade heads: P of heads, of two_level its teams, else 1
  // "ring of global layers"
  std::string words() const { return choice->algorithm + " of " + kind->name + " layers"; }
  bool windowed() const { return kind->window >= 0; }
};
// One for each kind of Model::attention. A two_level whose inner ranks are not given has the most that divide
// P and the heads of a TP rank, as the algorithm takes them.
std::vector<Asked> asked(const Model&, const ModelLayout&);

struct Request {
  const Model& model;
  const Training& training;
  const ModelLayout& layout;
  std::vector<Asked> attention;

  std::int64_t longest() const;  // tokens of the longest sequence
  std::int64_t global_batch() const { return layout.micro_batch * layout.micro_batches * layout.dp; }
  bool has_experts() const;
  bool uses_lora() const { return training.lora_rank > 0; }
  // Every kind of layer whose tokens are exchanged is exchanged so.
  bool all(Exchange) const;
};

// "16 GPUs = tp 2 x cp 4 x pp 1 x dp 2"
std::string gpus_in_words(const ModelLayout&);
// Tokens of a step; a mode that the framework does not run; lengths that it cannot be told; degrees that do
// not divide what they cut.
void say_step(Output&, const Request&, Mode theirs);
void say_balance(Output&);  // that there is no flag for Training::balanced; say_step has said it, of most
// Of each kind: a placement that is not `theirs`, and options of the algorithm but those in `expressed`.
void say_choices(Output&, const Request&, std::string_view theirs,
                 const std::vector<std::string_view>& expressed);
// Bytes of parameters, gradients, master weights and moments that are not those of mixed precision with Adam.
void say_state_bytes(Output&, const Training&);
// Query and key/value heads of a TP rank that `ranks` cannot share; `repeats`: fewer key/value heads than
// ranks are repeated.
void say_heads(Output&, const Request&, const Asked&, std::int64_t ranks, bool repeats);

}  // namespace cplab::emitting
