// measure [--only kernels,linear,messages,host,interference] [--gpus N] [--kernel-budget SECONDS]
//         [--linear-budget SECONDS] [--seed N]     kernels: those of linear attention (linear) too
// Measures this machine; JSON on stdout (scripts/hardware_file.py makes a hardware file of it), talk on
// stderr. Exit: 0 measured, 2 usage, 3 no GPU or a failed call.
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string>

#include "calibrate/machine.hpp"

namespace {

using nlohmann::ordered_json;
namespace measure = cplab::measure;

ordered_json json_of(const measure::AttentionTable& table) {
  ordered_json json = {{"class", table.kind},
                       {"variant", table.variant},
                       {"dtype", "bf16"},
                       {"head_size", table.head_size},
                       {"mask", table.causal ? "causal" : "full"},
                       {"tile_rows", table.tile_rows},
                       {"points", ordered_json::array()}};
  for (const measure::AttentionPoint& p : table.points)
    json["points"].push_back({{"batch", p.batch},
                              {"sequence", p.sequence},
                              {"heads", p.heads},
                              {"seconds", p.seconds},
                              {"settled", p.settled}});
  return json;
}

ordered_json json_of(const std::vector<measure::CurvePoint>& points) {
  ordered_json json = ordered_json::array();
  for (const measure::CurvePoint& p : points) json.push_back({{"bytes", p.bytes}, {"seconds", p.seconds}});
  return json;
}

ordered_json json_of(const measure::CurveTable& table) {
  return {{"class", table.kind},
          {"variant", table.variant},
          {"operands", table.operands},
          {"points", json_of(table.points)}};
}

const char* name_of(cplab::kernels::ChunkWork cut) {
  using enum cplab::kernels::ChunkWork;
  return cut == blocked ? "blocked" : cut == serial ? "serial" : "sliced";
}

ordered_json json_of(const measure::ChunkTable& table) {
  ordered_json json = {{"class", table.kind},
                       {"variant", table.variant},
                       {"dtype", "bf16"},
                       {"head_size", table.key_size},
                       {"value_size", table.value_size},
                       {"chunk", table.chunk},
                       {"cut", name_of(table.cut)},
                       {"states", table.states},
                       {"results", table.results},
                       {"points", ordered_json::array()}};
  for (const measure::ChunkPoint& p : table.points)
    json["points"].push_back({{"tokens", p.tokens}, {"heads", p.heads}, {"seconds", p.seconds}});
  return json;
}

ordered_json json_of(const measure::MessageTable& table) {
  ordered_json probes = ordered_json::array();
  for (const auto& [bytes, channels] : table.channels_by_bytes)
    probes.push_back({{"bytes", bytes}, {"channels", channels}});
  return {{"kind", table.kind},   {"transport", table.transport},   {"path", "intra"},
          {"group", table.group}, {"channels", table.channels},     {"channels_by_bytes", probes},
          {"busy", "all"},        {"points", json_of(table.points)}};
}

ordered_json json_of(const measure::Host& host) {
  return {{"kernel_launch_s", host.kernel_launch_s},
          {"tiny_kernel_launch_s", host.tiny_kernel_launch_s},
          {"communication_launch_s", host.communication_launch_s},
          {"copy_launch_s", host.copy_launch_s},
          {"launch_latency_s", host.launch_latency_s},
          {"sync_s", host.sync_s},
          {"back_to_back_s", host.back_to_back_s},
          {"dependency_s", host.dependency_s},
          {"graph_launch_s", host.graph_launch_s},
          {"graph_call_s", host.graph_call_s},
          {"graph_step_s", host.graph_step_s},
          {"graph_node_s", host.graph_node_s}};
}

ordered_json json_of(const measure::Interference& row) {
  return {{"class", row.kind},        {"beside", row.beside},     {"alone_s", row.alone_s},
          {"beside_s", row.beside_s}, {"slowdown", row.slowdown}, {"channels", row.channels}};
}

template <class Table>
ordered_json list_of(const std::vector<Table>& tables) {
  ordered_json json = ordered_json::array();
  for (const Table& table : tables) json.push_back(json_of(table));
  return json;
}

ordered_json json_of(const measure::Measurement& m) {
  ordered_json json = {
      {"schema", "cplab.measurement.1"}, {"date", m.date}, {"gpu", m.gpu}, {"gpus", m.gpus}, {"sms", m.sms}};
  json["capacity_bytes"] = m.capacity_bytes;
  json["l2_bytes"] = m.l2_bytes;
  json["environment"] = ordered_json::object();
  for (const auto& [key, value] : m.environment) json["environment"][key] = value;
  json["fixed"] = {{"context_bytes", m.context_bytes},
                   {"context_source", m.context_source},
                   {"communicator_bytes", m.communicator_bytes}};
  json["copy_bytes_s"] = m.copy_bytes_s;
  json["attention"] = list_of(m.attention);
  json["chunks"] = list_of(m.chunks);
  json["curves"] = list_of(m.curves);
  json["messages"] = list_of(m.messages);
  json["host"] = m.host.empty() ? ordered_json() : json_of(m.host.front());
  json["interference"] = list_of(m.interference);
  json["left_out"] = m.left_out;
  return json;
}

struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

void choose_parts(const std::string& list, measure::Options& options) {
  options.kernels = options.linear = options.messages = options.host = options.interference = false;
  std::istringstream words(list);
  for (std::string word; std::getline(words, word, ',');) {
    if (word == "kernels")
      options.kernels = options.linear = true;
    else if (word == "linear")
      options.linear = true;
    else if (word == "messages")
      options.messages = true;
    else if (word == "host")
      options.host = true;
    else if (word == "interference")
      options.interference = true;
    else
      throw UsageError("--only: \"" + word + "\" is none of kernels, linear, messages, host, interference");
  }
}

measure::Options options_of(int count, char** arguments) {
  measure::Options options;
  for (int i = 1; i < count; i += 2) {
    const std::string key = arguments[i];
    if (i + 1 >= count) throw UsageError(key + " needs a value");
    const std::string value = arguments[i + 1];
    try {
      if (key == "--only")
        choose_parts(value, options);
      else if (key == "--gpus")
        options.gpus = std::stoi(value);
      else if (key == "--kernel-budget")
        options.kernel_budget_s = std::stod(value);
      else if (key == "--linear-budget")
        options.linear_budget_s = std::stod(value);
      else if (key == "--seed")
        options.seed = std::stoull(value);
      else
        throw UsageError(key +
                         ": unknown; known are --only, --gpus, --kernel-budget, --linear-budget, --seed");
    } catch (const std::logic_error&) {  // of stoi and its kin
      throw UsageError(key + ": \"" + value + "\" is no number");
    }
  }
  return options;
}

}  // namespace

int main(int count, char** arguments) {
  try {
    const measure::Options options = options_of(count, arguments);
    const auto progress = [](const std::string& text) { std::cerr << "measure: " << text << std::endl; };
    std::cout << json_of(measure::machine(options, progress)).dump(1) << "\n";
    return std::cout.flush() ? 0 : 3;
  } catch (const UsageError& error) {
    std::cerr << "measure: " << error.what() << "\n";
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "measure: " << error.what() << "\n";
    return 3;
  }
}
