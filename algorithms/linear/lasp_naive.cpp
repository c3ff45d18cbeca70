// LASP (Sun et al. 2024, arXiv 2404.02882; OpenNLPLab/LASP, lasp_naive.py): receive, a serial kernel,
// framework operations for what was received, send. All of it is on the chain of P ranks.
//
// Every call makes its own buffers and tables of decays anew, by small framework operations, which are issued
// like kernels: an empty state, token numbers, the decays of queries (backward: and of keys), that of a
// chunk.
#include "algorithms/linear/lasp_serial.hpp"

namespace cplab {
namespace {

class Naive final : public LaspSerial {
 public:
  using LaspSerial::LaspSerial;

 private:
  void before_receive(bool reverse) override {
    const int tables = reverse ? 2 : 1;  // decays of queries, of keys: a product and an exponential each
    b.fill(linear_lane, s.states("fresh_state", s.stretches.states(), Category::workspace), 0);
    const auto table = [&](std::string_view name) {
      return s.scope.query_buffer(name, Role::wide, Category::workspace, 1, s.scope.rows, 1);
    };
    const Box numbers = table("token_numbers"), decays = table("decays");
    b.fill(linear_lane, numbers, 0);
    for (int i = 0; i < 2 * tables; ++i) b.fill(linear_lane, decays, 0);
    for (int i = 0; i < 2; ++i) b.fill(linear_lane, decays.first_rows(1), 0);
  }
};

}  // namespace

Algorithm lasp_naive_algorithm() {
  Algorithm a;
  a.name = "lasp_naive";
  a.aliases = {"lasp"};
  a.summary = "linear attention, a chain of ranks: receive, serial kernel, framework operations, send (LASP)";
  a.placements = {"contiguous", "stream"};
  a.options = {state_wire_option()};
  a.validate = [](const Scenario& s) { require_linear(s, {Transition::decay}); };
  a.build = run_linear_algorithm<Naive>;
  return a;
}

}  // namespace cplab
