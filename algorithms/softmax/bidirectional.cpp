// Bidirectional ring attention: half of K and V travel to the right and half to the left, so that a link of
// two directions carries half as much in each.
//
// Two rings over the two halves, of the key heads or of each rank's keys, the second with the ranks in
// reverse, take turns visit by visit. Halves of the heads give two results of half of the heads; halves of
// the keys lie together as they are, whatever the number of heads, and partial results of both directions are
// merged.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "algorithms/core/options.hpp"
#include "algorithms/softmax/ring_of_heads.hpp"

namespace cplab {
namespace {

class Bidirectional final : public SoftmaxAlgorithm {
 public:
  Bidirectional(const Scope& whole, const RingOptions& options) {
    const Team &right = whole.team, &left = whole.b.team("left");
    if (whole.b.scenario().schedule.is_word("halves", "keys")) {
      const auto sums = std::make_shared<RingSums>();
      const std::int64_t rows = whole.key_rows, half = (rows + 1) / 2;
      add<RingOfKeys>(whole, right, RowRange{0, half, 1}, options, 0, sums);
      sums_both = half < rows;
      if (sums_both) add<RingOfKeys>(whole, left, RowRange{half, rows - half, 1}, options, 1, sums);
      return;
    }
    const std::int64_t G = whole.b.problem().kv_heads, half = (G + 1) / 2;
    add<RingOfHeads>(whole, right, HeadRange{0, half}, options, 0);
    if (half < G) add<RingOfHeads>(whole, left, HeadRange{half, G}, options, 1);
  }

  void forward(const Forward& f) override {
    for (auto& one : rings) one->ring.begin_forward(one->forward_part(f));
    for (int i = 0; i < most(&RingAttention::forward_visits); ++i)
      for (auto& one : rings)
        if (i < one->ring.forward_visits()) one->ring.forward_visit(one->f, i);
    for (auto& one : rings) one->ring.end_forward();
  }
  void backward(const Backward& g) override {
    for (auto& one : rings) one->ring.begin_backward(one->backward_part(g));
    for (int v = 0; v < most(&RingAttention::backward_visits); ++v)
      for (auto& one : rings)
        if (v < one->ring.backward_visits()) one->ring.backward_visit(one->g, v);
    for (auto& one : rings) one->ring.end_backward(one->g), one->finish(g);
  }
  Lane comm() const override { return rings[0]->ring.comm(); }
  bool stores_dq_once() const override { return rings[0]->ring.stores_dq_once() && !sums_both; }
  bool rereads_kv() const override { return rings[0]->ring.rereads_kv(); }

 private:
  template <class Ring, class... Arguments>
  void add(Arguments&&... arguments) {
    rings.push_back(std::make_unique<Ring>(std::forward<Arguments>(arguments)...));
  }
  // Halves whose rows are not needed alike are visited so often as each needs.
  int most(int (RingAttention::*visits)() const) const {
    int count = 0;
    for (const auto& one : rings) count = std::max(count, (one->ring.*visits)());
    return count;
  }

  std::vector<std::unique_ptr<PartialRing>> rings;
  bool sums_both = false;  // into one dq
};

}  // namespace

Algorithm bidirectional_algorithm() {
  Algorithm a = algorithm_of_rings([](Builder& b) {
    const Scope whole(b);
    Bidirectional both(whole, ring_options(b.scenario().schedule));
    run_summed(whole, both);
  });
  a.name = "bidirectional";
  a.aliases = {"bidirectional_ring"};
  a.summary = "a ring of half of K and V to the right, one of the other half to the left";
  a.options.push_back(word_option("halves", {"heads", "keys"},
                                  "what is halved: the key heads, or the keys of each rank, whose partial "
                                  "results are merged"));
  a.validate = [](const Scenario& s) {
    validate_plain_rings(s);
    if (s.schedule.is_word("halves", "keys") && s.problem.sink)
      throw ScenarioError(
          "schedule.halves",
          "a sink counts in the tile in which a row sees a key, and with halves of the keys that may "
          "be either; legal with problem.sink: \"heads\"");
  };
  a.teams = [](const Scenario& s) { return std::vector{all_in_reverse("left", s.parallel.ranks)}; };
  return a;
}

}  // namespace cplab
