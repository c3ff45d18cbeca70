// Finds and loads the module with SimGrid; see simgrid_flows.hpp.
#include <dlfcn.h>

#include <stdexcept>

#include "sim/simgrid_flows.hpp"

namespace cplab {
namespace {

// By the search path that the program was linked with: the build folder, then the program's own.
const SimGridModule& module() {
  static const SimGridModule* const loaded = [] {
    void* handle = dlopen("libcplab_simgrid.so", RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) throw std::runtime_error(std::string("SimGrid cannot be loaded: ") + dlerror());
    const auto* found = static_cast<const SimGridModule*>(dlsym(handle, simgrid_module_symbol));
    if (found == nullptr) throw std::runtime_error(std::string("SimGrid cannot be loaded: ") + dlerror());
    return found;
  }();
  return *loaded;
}

}  // namespace

void load_simgrid() {
  (void)module();
}

std::unique_ptr<FlowEngine> make_simgrid_flows(const Fabric& fabric, FlowEngine::Handler on_timer,
                                               FlowEngine::Handler on_flow_end) {
  return std::unique_ptr<FlowEngine>(module().make(fabric, std::move(on_timer), std::move(on_flow_end)));
}

SimGridSettings simgrid_settings() {
  return module().settings();
}

}  // namespace cplab
