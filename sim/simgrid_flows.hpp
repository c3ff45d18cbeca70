// The reference among the flow engines: SimGrid. It lies in a module of its own, libcplab_simgrid.so, which
// is loaded when it is first asked for: SimGrid and what it brings along take longer to load than cplab takes
// to simulate small plans.
//
// SimGrid allows one engine per process and no change of platform once it has run: make one per process
// (simulate() runs each simulation with it in a child process of its own).
#pragma once

#include <memory>
#include <string>

#include "sim/flow_engine.hpp"

namespace cplab {

// Loads the module, if that has not been done. Throws std::runtime_error if it is not there.
void load_simgrid();

// Both load the module.
std::unique_ptr<FlowEngine> make_simgrid_flows(const Fabric& fabric, FlowEngine::Handler on_timer,
                                               FlowEngine::Handler on_flow_end);

// What SimGrid says it is configured with, once there is an engine.
struct SimGridSettings {
  std::string network_model;
  bool cross_traffic = true;
  double tcp_gamma = -1;
};
SimGridSettings simgrid_settings();

// The functions of the module, by the one symbol that it gives.
struct SimGridModule {
  FlowEngine* (*make)(const Fabric&, FlowEngine::Handler on_timer, FlowEngine::Handler on_flow_end);
  SimGridSettings (*settings)();
};
inline constexpr const char* simgrid_module_symbol = "cplab_simgrid_module";

}  // namespace cplab
