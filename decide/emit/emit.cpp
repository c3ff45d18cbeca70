// Which emitter writes for which framework.
#include "decide/emit/emit.hpp"

#include <algorithm>

#include "decide/emit/frameworks.hpp"

namespace cplab {

std::string_view name(Framework framework) {
  switch (framework) {
    case Framework::megatron: return "megatron";
    case Framework::torchtitan: return "torchtitan";
    case Framework::verl: return "verl";
    case Framework::ms_swift: return "ms-swift";
    case Framework::deepspeed: return "deepspeed";
    case Framework::vllm: return "vllm";
    case Framework::sglang: return "sglang";
  }
  return "";
}

const std::vector<Framework>& frameworks() {
  static const std::vector<Framework> all = {Framework::megatron, Framework::torchtitan, Framework::verl,
                                             Framework::ms_swift, Framework::deepspeed,  Framework::vllm,
                                             Framework::sglang};
  return all;
}

std::optional<Framework> framework_of(std::string_view word) {
  for (const Framework framework : frameworks())
    if (name(framework) == word) return framework;
  return std::nullopt;
}

std::string emit(Framework framework, const Model& model, const Training& training,
                 const ModelLayout& layout) {
  const emitting::Request request{model, training, layout, emitting::asked(model, layout)};
  switch (framework) {
    case Framework::megatron: return emitting::megatron(request);
    case Framework::torchtitan: return emitting::torchtitan(request);
    case Framework::verl: return emitting::verl(request);
    case Framework::ms_swift: return emitting::ms_swift(request);
    case Framework::deepspeed: return emitting::deepspeed(request);
    case Framework::vllm: return emitting::vllm(request);
    case Framework::sglang: return emitting::sglang(request);
  }
  return {};
}

}  // namespace cplab
