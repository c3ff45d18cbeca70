// Reader of the published figures; see lasp_source.hpp.
#include "cli/studies/lasp_source.hpp"

#include <sstream>

namespace cplab::lasp {
namespace {

std::vector<Pass> read_passes(const Table& table, const std::string& key) {
  std::vector<Pass> passes;
  if (!table.has(key)) return passes;
  for (const std::string& text : table.texts(key)) {
    std::istringstream words(text);
    Pass pass;
    words >> pass.shape;
    if (pass.shape == "host") {
      pass.host = true;
      words >> pass.shape;
    }
    const bool tiny = pass.shape == "tiny";
    if (!tiny) words >> pass.bytes_each;
    if (words.fail() || (!tiny && pass.shape != "q" && pass.shape != "v" && pass.shape != "state"))
      table.fail(
          key,
          "\"" + text + "\": a pass is \"tiny\", or \"q\", \"v\" or \"state\" and bytes; before it \"host\"");
    passes.push_back(pass);
  }
  return passes;
}

constexpr std::array<const char*, 10> places{
    "forward_start",  "forward_kernels",  "forward_after",  "forward_combine",  "forward_end",
    "backward_start", "backward_kernels", "backward_after", "backward_combine", "backward_end"};

std::map<std::string, std::vector<Pass>> read_all_passes(const Table& table) {
  std::map<std::string, std::vector<Pass>> all;
  for (const char* place : places) all[place] = read_passes(table, place);
  return all;
}

}  // namespace

Source read_source(const Table& root) {
  Source source;
  const Table published = root.table("published"), parameters = published.table("parameter");
  std::size_t fitted = 0;
  for (const char* name : parameter_names) {
    const Table table = parameters.table(name);
    Parameter parameter{table.number("value"), table.text("origin"), table.text("source")};
    fitted += parameter.origin == "fitted";
    source.parameters[name] = std::move(parameter);
    table.finish();
  }
  if (fitted > most_fitted) parameters.fail("", "more than four parameters are fitted");
  parameters.finish();
  const auto common = read_all_passes(published.table("framework"));
  for (const Table& entry : published.tables("method")) {
    Method method{
        entry.text("name"), {"parallel.algorithm=" + entry.text("algorithm")}, {}, 0, read_all_passes(entry)};
    if (entry.has("fault")) {
      method.fault = entry.text("fault");
      method.fault_from_ranks = entry.integer("fault_from_ranks");
    }
    if (entry.has("schedule"))
      for (const std::string& set : entry.texts("schedule")) method.sets.push_back("schedule." + set);
    for (const auto& [place, passes] : common) {
      auto& own = method.passes[place];
      own.insert(place.ends_with("_start") ? own.begin() : own.end(), passes.begin(), passes.end());
    }
    source.methods.push_back(std::move(method));
  }
  for (const Table& entry : published.tables("table")) {
    PublishedTable table{entry.text("name"),       entry.text("hardware"),    entry.integer("batch"),
                         entry.integer("ranks"),   entry.integer("replicas"), entry.texts("methods"),
                         entry.numbers("forward"), entry.numbers("both"),     entry.flag("fitted_on", false)};
    if (table.forward.size() != table.methods.size() || table.both.size() != table.methods.size())
      entry.fail("methods", "forward and both must hold a number for each method");
    source.tables.push_back(std::move(table));
  }
  published.finish();
  return source;
}

}  // namespace cplab::lasp
