// What scenarios/published/lasp-throughput.toml says beside its scenario: tables, methods, parameters.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cli/files/toml_table.hpp"

namespace cplab::lasp {

inline constexpr std::array<const char*, 5> parameter_names{"iteration_s", "launch_s", "communication_s",
                                                            "host_bytes_s", "floor_s"};
inline constexpr std::size_t most_fitted = 4;

struct Parameter {
  double value = 0;
  std::string origin, source;
};

// A pass as the file writes it: "q 6", "host state 4", "tiny".
struct Pass {
  bool host = false;
  std::string shape;
  double bytes_each = 0;
};

struct Method {
  std::string name;
  std::vector<std::string> sets;  // as of --set
  std::string fault;              // of the published program, from so many ranks on; empty: none
  std::int64_t fault_from_ranks = 0;
  std::map<std::string, std::vector<Pass>> passes;
};

struct PublishedTable {
  std::string name, hardware;
  std::int64_t batch = 0, ranks = 0, replicas = 0;
  std::vector<std::string> methods;
  std::vector<double> forward, both;  // million tokens/s
  bool fitted_on = false;
};

struct Source {
  std::map<std::string, Parameter> parameters;
  std::vector<PublishedTable> tables;
  std::vector<Method> methods;
  double value(const char* name) const { return parameters.at(name).value; }
};

// Of the whole file. Throws InputError, also if more parameters are fitted than may be.
Source read_source(const Table& root);

}  // namespace cplab::lasp
