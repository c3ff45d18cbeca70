// The choices of all-gather attention, their defaults and what is legal; see all_gather_options.hpp.
#include "algorithms/softmax/all_gather_options.hpp"

#include <algorithm>
#include <string>

#include "algorithms/core/options.hpp"
#include "algorithms/core/pieces.hpp"
#include "algorithms/softmax/softmax.hpp"

namespace cplab {
namespace {

OptionInfo gather_option() {
  OptionInfo option =
      word_option("gather", {"all", "needed"}, "K, V of all tokens, or of those that queries here see");
  option.default_rule = "all; needed with placements balanced and dynamic, and with travels=latent";
  return option;
}

// Placements in pieces gather what is needed, and a fourth of the key heads at a time: what comes hides
// behind the tiles of those before, and gradients that come from many ranks are not all there at once.
// Latents that no query here sees are not gathered either: nobody would project them.
void resolve_all_gather_defaults(Scenario& s) {
  if (s.schedule.is_word("travels", "latent") && !s.schedule.find("gather"))
    s.schedule.set("gather", std::string("needed"));
  if (!in_pieces(s.placement)) return;
  if (!s.schedule.find("gather")) s.schedule.set("gather", std::string("needed"));
  if (s.schedule.find("gather_head_chunk")) return;
  std::int64_t heads = std::max<std::int64_t>(1, (s.problem.kv_heads + 3) / 4);
  while (s.problem.kv_heads % heads != 0) ++heads;
  s.schedule.set("gather_head_chunk", heads);
}

OptionInfo gather_head_chunk_option() {
  OptionInfo option = least_option("gather_head_chunk", 0, 0, "key heads gathered at a time; 0: all at once");
  option.default_rule = "0; a fourth of kv_heads with placements balanced and dynamic";
  return option;
}

void validate_all_gather(const Scenario& s) {
  require_softmax(s);
  if (s.schedule.is_word("travels", "latent") && s.schedule.is_word("gather", "all"))
    throw ScenarioError(
        "schedule.gather",
        "travels=\"latent\" gathers the rows that are projected here; legal here: \"needed\"");
  const std::int64_t chunk = s.schedule.count("gather_head_chunk");
  if (chunk != 0 && s.problem.kv_heads % chunk != 0)
    throw ScenarioError("schedule.gather_head_chunk", std::to_string(chunk) + " does not divide kv_heads (" +
                                                          std::to_string(s.problem.kv_heads) +
                                                          "); legal: a divisor, or 0 for all at once");
}

}  // namespace

Algorithm all_gather_choices() {
  Algorithm a;
  a.placements = {"zigzag", "contiguous", "striped", "stream", "balanced", "dynamic"};
  a.dynamic_masks = true;
  a.keys_everywhere = true;
  a.options = {
      count_option("compute_lanes", {1, 2}, "lanes that the chunks of a rank's queries alternate on"),
      word_option("backward_gather", {"again", "keep"}, "backward: gather again, or forward keeps all"),
      gather_head_chunk_option(),
      gather_option(),
      gradient_wire_option(),
      accumulator_option(),
      row_dot_option(),
      travels_option(),
      pack_above_option(),
      least_option("balance_chunk", 0, 0, "placement balanced: rows of a chunk; 0: 8 chunks for each rank")};
  a.resolve_defaults = resolve_all_gather_defaults;
  a.validate = validate_all_gather;
  return a;
}

}  // namespace cplab
