// Bidirectional ring attention: half of the key heads travel to the right and half to the left, so
// that a link of two directions carries half as much in each.
//
// Two rings over the two halves of the heads, the second with the ranks in reverse, take turns visit by
// visit.
#include <memory>

#include "algorithms/softmax/ring_of_heads.hpp"

namespace cplab {
namespace {

class Bidirectional final : public SoftmaxAlgorithm {
 public:
  Bidirectional(const Scope& whole, const RingOptions& options) {
    const std::int64_t G = whole.b.problem().kv_heads, right = (G + 1) / 2;
    rings.push_back(std::make_unique<RingOfHeads>(whole, whole.team, HeadRange{0, right}, options, 0));
    if (right < G)
      rings.push_back(
          std::make_unique<RingOfHeads>(whole, whole.b.team("left"), HeadRange{right, G}, options, 1));
  }

  void forward(const Forward& f) override {
    for (auto& one : rings) one->ring.begin_forward(one->forward_part(f));
    for (int i = 0; i < rings[0]->ring.forward_visits(); ++i)
      for (auto& one : rings) one->ring.forward_visit(one->f, i);
    for (auto& one : rings) one->ring.end_forward();
  }
  void backward(const Backward& g) override {
    for (auto& one : rings) one->ring.begin_backward(one->backward_part(g));
    for (int v = 0; v < rings[0]->ring.backward_visits(); ++v)
      for (auto& one : rings) one->ring.backward_visit(one->g, v);
    for (auto& one : rings) one->ring.end_backward(one->g), one->finish(g);
  }
  Lane comm() const override { return rings[0]->ring.comm(); }
  bool stores_dq_once() const override { return rings[0]->ring.stores_dq_once(); }
  bool rereads_kv() const override { return rings[0]->ring.rereads_kv(); }

 private:
  std::vector<std::unique_ptr<RingOfHeads>> rings;
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
  a.summary = "a ring of half of the heads to the right, one of the others to the left";
  a.teams = [](const Scenario& s) { return std::vector{all_in_reverse("left", s.parallel.ranks)}; };
  return a;
}

}  // namespace cplab
