// Tables of linear attention in hardware files; see hardware_table.hpp.
#include <algorithm>

#include "cli/files/hardware_table.hpp"

namespace cplab {
namespace {

// What states of a class of linear attention a table may have.
std::vector<Operand> legal_states(OpKind kind) {
  using enum Operand;
  if (kind == OpKind::local) return {state, carry, final_state};
  if (kind == OpKind::local_backward) return {state, carry, dstate, dcarry, final_state};
  if (kind == OpKind::state) return {state, dstate};
  if (kind == OpKind::scan) return {state, dstate, final_state};
  return {state, carry, dstate, dcarry};
}

// One of out, dq, dk and dv, or the three gradients; each reads states of its side.
void read_results(const Table& table, KernelTable& kernel) {
  using enum Operand;
  if (!table.has("results")) return;
  const std::vector<Operand> legal{out, dq, dk, dv};
  for (const std::string& word : table.texts("results"))
    kernel.results.push_back(choice(table, "results", word, legal, [](Operand o) { return name(o); }));
  std::sort(kernel.results.begin(), kernel.results.end());
  const std::vector<Operand>& results = kernel.results;
  if (results.empty()) return;
  if (results.size() != 1 && results != std::vector{dq, dk, dv})
    table.fail("results", "are one of \"out\", \"dq\", \"dk\", \"dv\", or the last three");
  const auto any = [&](Operand a, Operand b) {
    return std::find_if(kernel.states.begin(), kernel.states.end(),
                        [&](Operand o) { return o == a || o == b; }) != kernel.states.end();
  };
  const bool before = results.front() == out || results.front() == dq,
             behind = results.back() != out && results.back() != dq;
  if ((before && !any(state, carry)) || (behind && !any(dstate, dcarry)))
    table.fail("results",
               "out and dq need \"state\" or \"carry\" among the states, dk and dv \"dstate\" or \"dcarry\"");
}

}  // namespace

void read_chunk_points(const Table& table, KernelTable& kernel) {
  kernel.cut = choice(table, "cut", table.text("cut", "blocked"),
                      std::vector{ChunkWork::blocked, ChunkWork::serial, ChunkWork::sliced},
                      [](ChunkWork cut) { return name(cut); });
  kernel.chunk = table.integer("chunk", 0);
  kernel.sequences = table.integer("sequences", 1);
  if (table.has("states")) {
    const std::vector<Operand> legal = legal_states(kernel.kind);
    for (const std::string& word : table.texts("states"))
      kernel.states.push_back(choice(table, "states", word, legal, [](Operand o) { return name(o); }));
    std::sort(kernel.states.begin(), kernel.states.end());
  }
  const bool of_states =
      kernel.kind == OpKind::state || kernel.kind == OpKind::scan || kernel.kind == OpKind::inter;
  if (of_states && kernel.states.empty())
    table.fail("states", "names the states that the class " + std::string(name(kernel.kind)) + " has");
  if (kernel.kind == OpKind::scan && kernel.states.front() == Operand::final_state)
    table.fail("states", "names \"state\" or \"dstate\", which a scan works on");
  if (kernel.kind == OpKind::inter) read_results(table, kernel);
  const auto tokens = table.integers("tokens"), heads = table.integers("heads");
  const std::vector<double> seconds = table.numbers("seconds");
  if (tokens.size() != seconds.size() || heads.size() != seconds.size())
    table.fail("seconds", "tokens, heads and seconds must have equally many entries");
  for (std::size_t i = 0; i < seconds.size(); ++i)
    kernel.points.push_back({1, tokens[i], heads[i], seconds[i]});
}

}  // namespace cplab
