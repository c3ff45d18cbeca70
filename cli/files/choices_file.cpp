// Measured choices as JSON; see choices_file.hpp.
#include "cli/files/choices_file.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string_view>
#include <utility>

#include "cli/console.hpp"
#include "cli/files/text_file.hpp"
#include "report/json_parts.hpp"
#include "report/json_reader.hpp"
#include "report/json_writer.hpp"
#include "report/output_file.hpp"

namespace cplab {
namespace {

using namespace kernels::tune;
using kernels::cuda::KernelBuild;

constexpr std::string_view schema = "cplab.choices.1";
constexpr Standing standings[] = {Standing::timed, Standing::wrong, Standing::refused, Standing::left_out};
constexpr KernelBuild every_kernel{.hopper = true, .full = true};

// The kernel's own name, which is valid for good; empty: no build has it.
std::string_view known_variant(const std::string& name) {
  for (const auto& variant : kernels::cuda::attend_variants(every_kernel))
    if (variant.name == name) return variant.name;
  for (const auto& variant : kernels::cuda::attend_backward_variants(every_kernel))
    if (variant.name == name) return variant.name;
  return {};
}

Machine read_machine(const JsonNode& node) {
  node.only({"gpu", "compute_capability", "sms", "driver", "runtime", "kernels"});
  return {.gpu = node.at("gpu").text(),
          .compute_capability = node.at("compute_capability").text(),
          .sms = static_cast<int>(node.at("sms").integer(1, 1 << 20)),
          .driver = node.at("driver").text(),
          .runtime = node.at("runtime").text(),
          .kernels = node.at("kernels").text()};
}

Tried read_tried(const JsonNode& node) {
  node.only({"variant", "standing", "reason", "of_table", "predicted_s", "samples"});
  Tried tried;
  tried.candidate.variant = known_variant(node.at("variant").text());
  if (tried.candidate.variant.empty()) node.at("variant").fail("no kernel of that name");
  tried.candidate.of_table = node.at("of_table").boolean();
  tried.candidate.predicted_s = node.at("predicted_s").number();
  tried.reason = node.at("reason").text();
  const std::string& standing = node.at("standing").text();
  const auto* const found = std::find_if(std::begin(standings), std::end(standings),
                                         [&](Standing each) { return name_of(each) == standing; });
  if (found == std::end(standings)) node.at("standing").fail("timed, wrong, refused or left out");
  tried.standing = *found;
  const JsonNode samples = node.at("samples");
  for (std::size_t n = 0; n < samples.size(); ++n) {
    const double seconds = samples.at(n).number();
    if (!(seconds > 0)) samples.at(n).fail("is a time, more than 0");
    tried.samples.push_back(seconds);
  }
  if (tried.samples.empty() != (tried.standing != Standing::timed))
    samples.fail("of a kernel that is timed alone");
  return tried;
}

Decision read_decision(const JsonNode& node) {
  node.only({"call", "variant", "tried"});
  Decision decision{.call = node.at("call").text(), .variant = node.at("variant").text()};
  if (decision.call.empty()) node.at("call").fail("is empty");
  if (std::any_of(decision.call.begin(), decision.call.end(), [](unsigned char c) { return c < ' '; }))
    node.at("call").fail("has control characters");  // it goes to other processes in a line
  const JsonNode tried = node.at("tried");
  for (std::size_t n = 0; n < tried.size(); ++n) decision.tried.push_back(read_tried(tried.at(n)));
  if (std::none_of(decision.tried.begin(), decision.tried.end(),
                   [&](const Tried& each) { return each.candidate.variant == decision.variant; }))
    node.at("variant").fail("is none of those that were tried");
  return decision;
}

}  // namespace

kernels::cuda::MeasuredChoices ChoicesFile::choices() const {
  kernels::cuda::MeasuredChoices all;
  for (const Decision& decision : decisions) all.set(decision.call, decision.variant);
  return all;
}

void ChoicesFile::add(const std::vector<Decision>& more) {
  for (const Decision& decision : more) {
    if (!decision.not_measured.empty()) continue;
    std::erase_if(decisions, [&](const Decision& old) { return old.call == decision.call; });
    decisions.push_back(decision);
  }
}

ChoicesFile read_choices(const std::string& path) {
  return parse_choices(read_text_file(path), path);
}

ChoicesFile parse_choices(const std::string& text, const std::string& file_name) {
  const JsonDocument document(text, file_name);
  const JsonNode root = document.root();
  root.only({"schema", "command", "versions", "machine", "choices"});
  if (root.at("schema").text() != schema) root.at("schema").fail("must be " + std::string(schema));
  ChoicesFile file{.machine = read_machine(root.at("machine")), .decisions = {}};
  const JsonNode all = root.at("choices");
  std::set<std::string> calls;
  for (std::size_t n = 0; n < all.size(); ++n) {
    file.decisions.push_back(read_decision(all.at(n)));
    if (!calls.insert(file.decisions.back().call).second) all.at(n).at("call").fail("is there twice");
  }
  return file;
}

void write_machine(JsonWriter& json, const Machine& machine) {
  json.key("machine").begin_object(JsonWriter::Style::line);
  json.field("gpu", machine.gpu);
  json.field("compute_capability", machine.compute_capability);
  json.field("sms", machine.sms);
  json.field("driver", machine.driver);
  json.field("runtime", machine.runtime);
  json.field("kernels", machine.kernels);
  json.end_object();
}

void write_choices(const std::string& path, const ChoicesFile& file) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  if (!folder.empty()) make_output_folder(folder);
  OutputFile output(path);
  {
    JsonWriter json(output.stream());
    begin_result(json, "choices", "tune", versions_of_build());
    write_machine(json, file.machine);
    json.key("choices").begin_array();
    for (const Decision& decision : file.decisions) {
      json.begin_object();
      json.field("call", decision.call);
      json.field("variant", decision.variant);
      json.objects("tried", decision.tried, [&](const Tried& tried) {
        json.field("variant", tried.candidate.variant);
        json.field("standing", name_of(tried.standing));
        json.field("reason", tried.reason);
        json.field("of_table", tried.candidate.of_table);
        json.field("predicted_s", tried.candidate.predicted_s);
        json.list("samples", tried.samples);
      });
      json.end_object();
    }
    json.end_array();
    json.end_object();
  }
  output.finish();
  output.commit();
}

std::vector<std::string> contradictions(const ChoicesFile& file) {
  std::vector<std::string> all;
  for (const Decision& decision : file.decisions) {
    const Tried* taken = nullptr;
    const Tried* fastest = nullptr;
    for (const Tried& each : decision.tried) {
      if (each.candidate.variant == decision.variant) taken = &each;
      if (each.standing == Standing::timed && (fastest == nullptr || each.median_s() < fastest->median_s()))
        fastest = &each;
    }
    const std::string what = decision.call + ": " + decision.variant;
    if (taken == nullptr || taken->standing != Standing::timed)
      all.push_back(what + " was taken and is " +
                    (taken ? std::string(name_of(taken->standing)) : "not there"));
    else if (taken->median_s() > TuneOptions{}.least_advantage * fastest->median_s())
      all.push_back(what + " was taken and " + std::string(fastest->candidate.variant) + " is faster");
  }
  return all;
}

std::string default_choices_path() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value ? value : "");
  };
  std::string cache = variable("XDG_CACHE_HOME");
  if (cache.empty() && !variable("HOME").empty()) cache = variable("HOME") + "/.cache";
  return cache.empty() ? cache : cache + "/cplab/choices.json";
}

}  // namespace cplab
