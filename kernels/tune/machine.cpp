// See machine.hpp.
#include "kernels/tune/machine.hpp"

#include "kernels/compiled.hpp"

namespace cplab::kernels::tune {

std::string difference(const Machine& there, const Machine& here) {
  const auto differ = [](const char* what, const std::string& a, const std::string& b) {
    return a == b ? std::string() : std::string(what) + " is " + a + ", here " + b;
  };
  for (const std::string& text :
       {differ("gpu", there.gpu, here.gpu),
        differ("compute_capability", there.compute_capability, here.compute_capability),
        differ("sms", std::to_string(there.sms), std::to_string(here.sms)),
        differ("driver", there.driver, here.driver), differ("runtime", there.runtime, here.runtime),
        differ("kernels", there.kernels, here.kernels)})
    if (!text.empty()) return text;
  return {};
}

std::string build_of_kernels() {
  const cuda::CompiledKernels* compiled = cuda::compiled_kernels();
  return compiled ? compiled->build_hash : std::string();
}

}  // namespace cplab::kernels::tune
