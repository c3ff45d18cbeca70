// SimGrid (3.32, 4.0) as a flow engine: CM02 without factors, cross-traffic or TCP window, zero link latency
// (a start-up is a timer before the flow), microseconds as the unit of time. No actors, no Exec: timers of
// the kernel and host-to-host communications whose completion signal is the event.
// tests/sim/flow_engine_test.cpp pins these settings on closed forms.
#include "sim/simgrid_flows.hpp"

#include <xbt/log.h>
#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <simgrid/kernel/Timer.hpp>
#include <simgrid/s4u.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <xbt/config.hpp>

// Needs macros of the headers above.
#include <simgrid/version.h>

#include "sim/timer_queue.hpp"

namespace cplab {
namespace s4u = simgrid::s4u;

class SimGridFlows : public FlowEngine {
 public:
  SimGridFlows(const Fabric& fabric, Handler on_timer, Handler on_flow_end);
  ~SimGridFlows() override;

  void timer(double at_us, Token token) override;
  void alarm(int number, double at_us, Token token) override;
  void set_cap(int rank, int port, int level, double bytes_us) override;
  void flow(int from, int port, int to, int level, std::uint64_t bytes, Token token) override;
  void run() override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct SimGridFlows::State {
  // One port of one rank on one level: a host whose route up begins with a private link, the cap. SimGrid
  // ignores Comm::set_rate for host-to-host communications, so a cap has to be a link.
  // Level 0 has one cap, all levels of the network another.
  struct Port {
    s4u::Host* host = nullptr;
    s4u::Link* cap = nullptr;
    double cap_bytes_us = 0;  // of the cap that is set: levels 0 and 1
  };
  struct Running {
    s4u::CommPtr comm;
    Token token = 0;
  };

  SimGridFlows* owner;
  // SimGrid's own timers cost an allocation and a Fibonacci heap each; ours wait in a binary heap behind one
  // of SimGrid's, set for the earliest.
  TimerQueue timers;
  Handler on_timer, on_flow_end;
  simgrid::kernel::timer::Timer* armed = nullptr;  // ours among SimGrid's; it deletes those that fire
  double armed_us = std::numeric_limits<double>::infinity();
  bool firing = false;
  std::unique_ptr<s4u::Engine> engine;
  int ranks = 0, ports = 0;
  std::vector<Port> table;
  std::vector<Running> running;
  std::vector<std::size_t> free_slots;
  // The library still uses a communication after its completion callback: it is dropped at the next one.
  s4u::CommPtr last_ended;

  Port& port(int rank, int port_index, int level) {
    return table[static_cast<std::size_t>((level * ranks + rank) * ports + port_index)];
  }

  State(SimGridFlows* owner_, int alarms) : owner(owner_), timers(alarms) {}

  struct Zone;
  void build(const Fabric& fabric);
  void ended(const s4u::Activity& activity);
  void arm();
  void fire();
};

namespace {

// SimGrid 4 (Debian 13) names what a platform is built from differently and has no signal common to all
// activities.
#if SIMGRID_VERSION_MAJOR < 4
using Ended = s4u::Activity;
s4u::NetZone* make_root(s4u::Engine&) {
  return s4u::create_full_zone("fabric");
}
s4u::NetZone* make_star(s4u::NetZone* root, const std::string& name) {
  return s4u::create_star_zone(name)->set_parent(root);
}
s4u::Link* make_link(s4u::NetZone* zone, const std::string& name, double bytes_us) {
  return zone->create_link(name, bytes_us);
}
s4u::Host* make_host(s4u::NetZone* zone, const std::string& name) {
  return zone->create_host(name, 1.0);
}
void add_route(s4u::NetZone* zone, const s4u::Host* from, const s4u::Host* to,
               const std::vector<s4u::LinkInRoute>& links) {
  const auto point = [](const s4u::Host* host) { return host != nullptr ? host->get_netpoint() : nullptr; };
  zone->add_route(point(from), point(to), nullptr, nullptr, links, false);
}
#else
using Ended = s4u::Comm;
s4u::NetZone* make_root(s4u::Engine& engine) {
  return engine.get_netzone_root()->add_netzone_full("fabric");
}
s4u::NetZone* make_star(s4u::NetZone* root, const std::string& name) {
  return root->add_netzone_star(name);
}
s4u::Link* make_link(s4u::NetZone* zone, const std::string& name, double bytes_us) {
  return zone->add_link(name, bytes_us);
}
s4u::Host* make_host(s4u::NetZone* zone, const std::string& name) {
  return zone->add_host(name, 1.0);
}
void add_route(s4u::NetZone* zone, const s4u::Host* from, const s4u::Host* to,
               const std::vector<s4u::LinkInRoute>& links) {
  zone->add_route(from, to, links, false);
}
#endif

SimGridFlows* current = nullptr;

void configure() {
  xbt_log_control_set("xbt_cfg.thres:warning");
  s4u::Engine::set_config("network/model:CM02");
  s4u::Engine::set_config("network/crosstraffic:0");
  s4u::Engine::set_config("network/TCP-gamma:0");
}

}  // namespace

// A zone of up links, down links and ports of one kind of link; hosts of several levels may share the links.
struct SimGridFlows::State::Zone {
  s4u::NetZone* zone;
  std::string prefix;
  std::vector<s4u::Link*> up, down;

  Zone(s4u::NetZone* root, std::string prefix_) : zone(make_star(root, prefix_)), prefix(prefix_) {}
  s4u::Link* link(const char* what, int level, int i, double bytes_us) {
    const std::string name = prefix + what + std::to_string(level) + "_" + std::to_string(i);
    return make_link(zone, name, bytes_us)->set_latency(0)->seal();
  }
  void add_cap(Port& port, int index, double bytes_us) {
    port.cap = link("c", 0, index, bytes_us);
    port.cap_bytes_us = bytes_us;
  }
  // Needs port.cap.
  void add_host(Port& port, int level, int index, const std::vector<s4u::Link*>& ups,
                const std::vector<s4u::Link*>& downs) {
    const std::string name = prefix + "h" + std::to_string(level) + "_" + std::to_string(index);
    port.host = make_host(zone, name)->seal();
    std::vector<s4u::LinkInRoute> out{s4u::LinkInRoute(port.cap)}, in;
    for (const s4u::Link* l : ups) out.emplace_back(l);
    for (const s4u::Link* l : downs) in.emplace_back(l);
    add_route(zone, port.host, nullptr, out);
    add_route(zone, nullptr, port.host, in);
  }
};

void SimGridFlows::State::build(const Fabric& fabric) {
  ranks = fabric.ranks;
  ports = fabric.ports;
  const int levels = 2 + static_cast<int>(fabric.switches.size());
  table.resize(static_cast<std::size_t>(ranks) * ports * levels);
  s4u::NetZone* root = make_root(*engine);
  const int nodes = (ranks + fabric.ranks_per_node - 1) / fabric.ranks_per_node;

  if (fabric.ranks_per_node > 1 && ranks > 1) {
    Zone node(root, "node_");
    for (int rank = 0; rank < ranks; ++rank) {
      s4u::Link* up = node.link("u", 0, rank, fabric.link_bytes_us_of(rank));
      s4u::Link* down = node.link("d", 0, rank, fabric.link_bytes_us_of(rank));
      for (int p = 0; p < ports; ++p) {
        node.add_cap(port(rank, p, 0), rank * ports + p, fabric.link_bytes_us);
        node.add_host(port(rank, p, 0), 0, rank * ports + p, {up}, {down});
      }
    }
    node.zone->seal();
  }
  if (nodes > 1) {
    Zone net(root, "net_");
    const int nics = (fabric.ranks_per_node + fabric.ranks_per_nic - 1) / fabric.ranks_per_nic;
    std::vector<std::vector<s4u::Link*>> up(1 + fabric.switches.size()), down(1 + fabric.switches.size());
    const auto add_link = [&](std::size_t v, int i, double bytes_us) {
      up[v].push_back(net.link("u", static_cast<int>(v), i, bytes_us));
      down[v].push_back(net.link("d", static_cast<int>(v), i, bytes_us));
    };
    for (int i = 0; i < nodes * nics; ++i) add_link(0, i, fabric.nic_bytes_us_of(i));
    for (std::size_t v = 0; v < fabric.switches.size(); ++v) {
      int count = 0;
      for (int rank = 0; rank < ranks; ++rank)
        count = std::max(count, fabric.switches[v].switch_of(rank) + 1);
      for (int i = 0; i < count; ++i) add_link(v + 1, i, fabric.switches[v].up_bytes_us);
    }
    for (int rank = 0; rank < ranks; ++rank) {
      const int node = rank / fabric.ranks_per_node, local = rank % fabric.ranks_per_node;
      const auto nic = static_cast<std::size_t>(node * nics + local / fabric.ranks_per_nic);
      std::vector<s4u::Link*> ups{up[0][nic]}, downs{down[0][nic]};
      for (int level = 1; level < levels; ++level) {
        for (int p = 0; p < ports; ++p) {
          Port& at_level = port(rank, p, level);
          if (level == 1) net.add_cap(at_level, rank * ports + p, fabric.nic_bytes_us);
          at_level.cap = port(rank, p, 1).cap;
          net.add_host(at_level, level, rank * ports + p, ups, downs);
        }
        if (level + 1 == levels) break;
        const std::size_t v = static_cast<std::size_t>(level);
        const auto at = static_cast<std::size_t>(fabric.switches[v - 1].switch_of(rank));
        ups.push_back(up[v][at]);
        downs.push_back(down[v][at]);
      }
    }
    net.zone->seal();
  }
  root->seal();
}

SimGridFlows::SimGridFlows(const Fabric& fabric, Handler on_timer, Handler on_flow_end)
    : state_(std::make_unique<State>(this, fabric.ranks)) {
  if (current != nullptr || s4u::Engine::has_instance())
    throw std::logic_error("one flow engine per process: SimGrid's platform cannot be replaced");
  current = this;
  state_->on_timer = std::move(on_timer);
  state_->on_flow_end = std::move(on_flow_end);
  xbt_log_control_set("xbt_cfg.thres:warning");
  state_->engine = std::make_unique<s4u::Engine>("cplab");
  configure();
  state_->build(fabric);
  Ended::on_completion_cb([](const Ended& activity) { current->state_->ended(activity); });
}

SimGridFlows::~SimGridFlows() {
  // The engine lives until the process ends: destroying it would reset neither its clock nor its signals.
  (void)state_->engine.release();
}

void SimGridFlows::timer(double at_us, Token token) {
  state_->timers.timer(at_us, token);
  state_->arm();
}

void SimGridFlows::alarm(int number, double at_us, Token token) {
  state_->timers.alarm(number, at_us, token);
  state_->arm();
}

void SimGridFlows::State::arm() {
  if (firing) return;  // handlers set timers; one arming at the end will do
  const double next_us = timers.next_us();
  if (next_us == armed_us) return;
  if (armed != nullptr) armed->remove();
  armed = nullptr;
  armed_us = next_us;
  if (next_us < std::numeric_limits<double>::infinity())
    armed = simgrid::kernel::timer::Timer::set(next_us, [this] { fire(); });
}

void SimGridFlows::State::fire() {
  // The clock steps by differences and may lie an ulp beyond the time that was asked for, never before it.
  const double now_us = owner->now_us_ = s4u::Engine::get_clock();
  armed = nullptr;
  armed_us = std::numeric_limits<double>::infinity();
  firing = true;
  while (timers.next_us() <= now_us) on_timer(timers.take());
  firing = false;
  arm();
}

void SimGridFlows::set_cap(int rank, int port, int level, double bytes_us) {
  State::Port& p = state_->port(rank, port, level > 0 ? 1 : 0);
  if (p.cap_bytes_us == bytes_us) return;
  p.cap->set_bandwidth(bytes_us);
  p.cap_bytes_us = bytes_us;
}

void SimGridFlows::flow(int from, int port, int to, int level, std::uint64_t bytes, Token token) {
  std::size_t slot = state_->running.size();
  if (state_->free_slots.empty()) {
    state_->running.emplace_back();
  } else {
    slot = state_->free_slots.back();
    state_->free_slots.pop_back();
  }
  State::Running& running = state_->running[slot];
  running.token = token;
  running.comm = s4u::Comm::sendto_init();
  running.comm->set_payload_size(bytes);
  // Slot numbers travel in the activity's user data; 0 would read as none.
  running.comm->set_data(reinterpret_cast<void*>(slot + 1));
  running.comm->set_source(state_->port(from, port, level).host);
  running.comm->set_destination(state_->port(to, 0, level).host);
}

void SimGridFlows::State::ended(const s4u::Activity& activity) {
  const auto slot =
      reinterpret_cast<std::size_t>(static_cast<const s4u::Comm&>(activity).get_data<void>()) - 1;
  const Token token = running[slot].token;
  last_ended = std::move(running[slot].comm);
  free_slots.push_back(slot);
  owner->now_us_ = s4u::Engine::get_clock();
  on_flow_end(token);
}

void SimGridFlows::run() {
  state_->engine->run();
}

}  // namespace cplab

extern "C" [[gnu::visibility("default")]] const cplab::SimGridModule cplab_simgrid_module;
const cplab::SimGridModule cplab_simgrid_module{
    [](const cplab::Fabric& fabric, cplab::FlowEngine::Handler on_timer,
       cplab::FlowEngine::Handler on_flow_end) -> cplab::FlowEngine* {
      return new cplab::SimGridFlows(fabric, std::move(on_timer), std::move(on_flow_end));
    },
    []() -> cplab::SimGridSettings {
      namespace config = simgrid::config;
      return {config::get_value<std::string>("network/model"),
              config::get_value<bool>("network/crosstraffic"),
              config::get_value<double>("network/TCP-gamma")};
    }};
